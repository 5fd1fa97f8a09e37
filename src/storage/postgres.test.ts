/** PostgreSQL as a database: what is kept of a transaction, what a lost server means, and what is refused at the door. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { countOperation, failOperation, writeOperation } from '../../test/kit/storage-operations.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';

test('an operation that throws leaves nothing behind, and others are not touched', async (t) => {
  const temp = await tempDatabase('postgres');
  t.after(temp.close);
  const { database } = temp;
  const results = await Promise.allSettled([
    database.execute(writeOperation, 'a1'),
    database.execute(failOperation, 'a2'),
    database.execute(writeOperation, 'a3'),
    database.execute(writeOperation, 'a4'),
  ]);
  assert.deepEqual(
    results.map((one) => one.status),
    ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  );
  assert.equal((await database.execute(countOperation, 'a'))?.n, 3);
  await assert.rejects(database.execute(writeOperation, 'a1'), /test\.write: duplicate key/);
});
