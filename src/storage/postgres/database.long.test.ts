/** PostgreSQL that responds late or not at all: nothing waits forever, and everything continues when it responds again. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import pg from 'pg';
import { runningMs } from '../../../test/kit/running-time.ts';
import { countOperation, writeOperation } from '../../../test/kit/storage-operations.ts';
import { tempDatabase } from '../../../test/kit/temp-database.ts';
import { ownPostgresServer, postgresServer, serverIsOurs } from '../../../test/kit/temp-postgres.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { Unavailable } from '../../base/failure.ts';

ownPostgresServer();

test('an operation on a row locked by another session waits some seconds and is then rejected', async (t) => {
  const { database, url, close } = await tempDatabase('postgres');
  t.after(close);
  const other = new pg.Client({ connectionString: url });
  other.on('error', () => undefined);
  await other.connect();
  t.after(() => other.end());
  await other.query("BEGIN; INSERT INTO meta (key, value) VALUES ('held', '')");
  const [began, ranMs] = [performance.now(), runningMs()];
  await assert.rejects(database.execute(writeOperation, 'held'), (error: Error) => {
    return error instanceof Unavailable && /lock timeout/.test(error.message);
  });
  const tookMs = performance.now() - began;
  assert.ok(tookMs > 4_000 && runningMs() - ranMs < 8_000, `${tookMs} ms`);
  assert.equal(database.state().ready, true, 'not caused by the server');
  await other.query('ROLLBACK');
  await database.execute(writeOperation, 'held');
});

test('a stalled server is detected, and operations continue when it recovers', {
  skip: !serverIsOurs,
}, async (t) => {
  const { database, close } = await tempDatabase('postgres');
  t.after(close);
  await database.execute(writeOperation, 'z1');
  const { pid } = await postgresServer();
  const signal = (name: string): void => {
    const children = execFileSync('ps', ['-o', 'pid=', '--ppid', String(pid())], { encoding: 'utf8' });
    for (const one of [pid(), ...children.split(/\s+/).filter(Boolean).map(Number)]) process.kill(one, name);
  };
  signal('SIGSTOP');
  t.after(() => signal('SIGCONT'));
  const began = runningMs();
  await assert.rejects(database.execute(writeOperation, 'z2'), Unavailable);
  assert.ok(runningMs() - began < 40_000);
  await waitUntil('the outage to be noticed', () => !database.state().ready);
  const again = runningMs();
  await assert.rejects(database.execute(countOperation, 'z'), Unavailable);
  assert.ok(runningMs() - again < 1_000, 'operations no longer wait for it');
  signal('SIGCONT');
  await waitUntil('the database to be ready', () => database.state().ready);
  await database.execute(writeOperation, 'z3');
});
