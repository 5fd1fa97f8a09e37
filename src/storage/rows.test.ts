/** Rows of tables and lists of rows within statements, the same on both databases. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, test } from 'node:test';
import { DIALECTS, tempDatabase } from '../../test/kit/temp-database.ts';
import type { Database } from './database.ts';
import { eachCall, type Transaction } from './operation.ts';
import { insertMany, rowset, table, takeNumbers } from './rows.ts';
import { openDirect } from './sqlite/connection.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** Runs without the thread, which knows only registered operations. */
async function open(
  dialect: Database['dialect'],
): Promise<<R>(run: (tx: Transaction) => Promise<R> | R) => Promise<R>> {
  let database: Database;
  if (dialect === 'sqlite') {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-rows-'));
    database = openDirect(path.join(folder, 'rows.db'));
    closers.push(async () => {
      await database.close();
      rmSync(folder, { recursive: true, force: true });
    });
  } else {
    const temp = await tempDatabase(dialect);
    closers.push(temp.close);
    database = temp.database;
  }
  return (run) => database.execute({ name: 'test.rows', mode: 'write', run: eachCall(run) }, null);
}

const THING = table('thing', { seq: 'int', itsName: 'text', size: 'int?', content: 'bytes?' });
const at = (index: number) => ({
  itsName: `n "${index}" ü`,
  size: index % 3 === 0 ? null : index,
  content: index % 2 === 0 ? null : Buffer.from([0, index]),
});

for (const dialect of DIALECTS) {
  const make =
    dialect === 'sqlite'
      ? 'CREATE TABLE thing (seq INTEGER PRIMARY KEY AUTOINCREMENT, its_name TEXT, size INTEGER, content BLOB)'
      : 'CREATE TABLE thing (seq BIGINT PRIMARY KEY, its_name TEXT, size BIGINT, content BYTEA)';

  test(`any number of rows keep their order and get consecutive numbers (${dialect})`, async () => {
    const write = await open(dialect);
    await write((tx) => tx.run(make));
    let last = 0;
    for (const count of [0, 1, 2, 3, 15, 16, 17, 31, 40]) {
      await write(async (tx) => {
        const [numbers, none] = await takeNumbers(tx, [THING, count], [THING, 0]);
        assert.deepEqual([numbers!.length, none!.length], [count, 0]);
        assert.ok(numbers!.every((seq, index) => seq > (numbers![index - 1] ?? last)));
        last = numbers!.at(-1) ?? last;
        const rows = numbers!.map((seq, index) => ({ seq, ...at(index) }));
        await insertMany(tx, THING, rows);
        const found = await tx.all<{ seq: number; its_name: string; size: number; content: Uint8Array | null }>(
          'SELECT seq, its_name, size, content FROM thing ORDER BY seq',
        );
        assert.deepEqual(
          found.map(({ seq, its_name: itsName, size, content }) => ({
            seq,
            itsName,
            size,
            content: content && Buffer.from(content),
          })),
          rows,
        );
        // A number is not reused after its row is deleted.
        await tx.run('DELETE FROM thing');
      });
    }
  });

  test(`a list of rows can be used in joins, updates, and exclusions (${dialect})`, async () => {
    const write = await open(dialect);
    await write((tx) => tx.run(make));
    const rows = [1, 2, 3].map((seq) => ({ seq, ...at(seq) }));
    await write(async (tx) => {
      await insertMany(tx, THING, rows);
      await insertMany(tx, THING, [{ ...rows[0]!, size: 9 }], 'ON CONFLICT (seq) DO UPDATE SET size = excluded.size');
    });
    const columns = { seq: 'int', itsName: 'text', size: 'int?' } as const;
    const asked = [
      { seq: 1, itsName: 'it is "new" \u{1d11e} \\', size: null },
      { seq: 2, itsName: '', size: -5 },
      { seq: 7, itsName: 'x', size: 1 },
    ];
    const changed = await write(async (tx) => {
      const one = rowset(tx, 'one', columns, asked);
      return tx.all<{ seq: number }>(
        `UPDATE thing SET its_name = one.its_name, size = one.size FROM ${one.sql} WHERE thing.seq = one.seq
         RETURNING thing.seq`,
        ...one.params,
      );
    });
    assert.deepEqual(changed.map(({ seq }) => seq).sort(), [1, 2]);
    const read = (): Promise<{ seq: number; name: string; size: number | null }[]> =>
      write(async (tx) => {
        const found = await tx.all<{ seq: number; name: string; size: number | null }>(
          'SELECT seq, its_name AS name, size FROM thing ORDER BY seq',
        );
        return found.map((row) => ({ ...row }));
      });
    assert.deepEqual(await read(), [
      { seq: 1, name: 'it is "new" \u{1d11e} \\', size: null },
      { seq: 2, name: '', size: -5 },
      { seq: 3, name: 'n "3" ü', size: null },
    ]);
    const removed = await write((tx) => {
      const one = rowset(tx, 'one', { seq: 'int' }, asked);
      return tx.run(`DELETE FROM thing WHERE seq IN (SELECT one.seq FROM ${one.sql})`, ...one.params);
    });
    assert.equal(removed, 2);
    assert.equal((await read()).length, 1);
    const none = await write((tx) => {
      const empty = rowset(tx, 'one', { seq: 'int' }, []);
      return tx.all(`SELECT thing.seq FROM thing JOIN ${empty.sql} ON thing.seq = one.seq`, ...empty.params);
    });
    assert.deepEqual(none, []);
  });
}
