import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { insertRows, rowsOf } from './insert-rows.ts';
import { openSqlite } from './sqlite/connection.ts';

test('any number of rows keep their order and get numbers without a gap', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-rows-'));
  const connection = openSqlite(path.join(folder, 'rows.db'), { readOnly: false });
  try {
    connection.raw.exec('CREATE TABLE thing (seq INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, size INTEGER)');
    const things = rowsOf('thing', 'name, size', '?, ?');
    let made = 0;
    for (let count = 0; count <= 40; count += 1) {
      const rows = Array.from({ length: count }, (_, index) => [`${count}/${index}`, made + index]);
      const last = insertRows(connection, things, rows);
      assert.equal(last, count === 0 ? 0 : made + count);
      const found = connection.all<{ name: string; size: number; seq: number }>(
        'SELECT seq, name, size FROM thing WHERE seq > ? ORDER BY seq',
        made,
      );
      assert.deepEqual(
        found.map((row) => [row.name, row.size, row.seq]),
        rows.map((row, index) => [...row, made + index + 1]),
      );
      made += count;
      // A number is not given twice, though its row is gone.
      connection.run('DELETE FROM thing');
    }
  } finally {
    connection.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
