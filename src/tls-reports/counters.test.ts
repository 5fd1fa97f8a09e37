/** Counting in memory, and what happens to the counts if the database does not accept them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { OutcomeUnknown, Unavailable } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import type { TlsSession } from '../tls-policy/tls-policy.ts';
import { openTlsCounters } from './counters.ts';
import type { CountRow } from './store.ts';

const session = (host: string, failure?: TlsSession['failure']): TlsSession => ({
  domain: 'a.example',
  host,
  ...(failure && { failure }),
  policy: { type: 'no-policy-found', domain: 'a.example', lines: [], mx: [] },
});
const stalled = { type: 'validation-failure', message: 'it stalled' } as const;

function counting(error?: () => Error | undefined) {
  const writes: CountRow[][] = [];
  const execute = async (_: unknown, rows: CountRow[]): Promise<void> => {
    const failed = error?.();
    if (failed) throw failed;
    writes.push(rows);
  };
  const database = { execute } as unknown as Database;
  const counters = openTlsCounters({ database, clock: fakeClock(), log: silentLog, flushMs: 1e9 });
  const sessions = (): number => writes.flat().reduce((sum, row) => sum + row.sessions, 0);
  return { counters, writes, sessions };
}

test('successful sessions share one counter, failures have one per host, with ordered unique IDs', async () => {
  const { counters, writes, sessions } = counting();
  for (let host = 0; host < 100; host += 1) {
    counters.count(session(`mx${host}.a.example`));
    counters.count(session(`mx${host}.a.example`, stalled));
  }
  await counters.stop();
  const ids = writes.flat().map(({ id }) => id);
  assert.deepEqual([ids.length, sessions()], [101, 200]);
  assert.deepEqual(ids, [...new Set(ids)].sort());
  assert.deepEqual(
    writes
      .flat()
      .map(({ sessions: count }) => count)
      .sort((a, b) => b - a)[0],
    100,
  );
});

test('a database outage loses no counts, and an unknown outcome never counts twice', async () => {
  let error: Error | undefined = new Unavailable('away');
  const { counters, sessions } = counting(() => error);
  counters.count(session('mx.a.example'));
  await counters.run();
  counters.count(session('mx.a.example'));
  error = undefined;
  await counters.run();
  assert.equal(sessions(), 2);
  counters.count(session('mx.a.example'));
  error = new OutcomeUnknown('lost');
  await counters.run();
  error = undefined;
  await counters.stop();
  assert.equal(sessions(), 2);
});

test('memory is bounded for any kinds of failures, and known ones are still counted', async () => {
  const { counters, writes, sessions } = counting();
  for (let host = 0; host < 30_000; host += 1) counters.count(session(`mx${host}.a.example`, stalled));
  counters.count(session('mx0.a.example', stalled));
  await counters.stop();
  assert.deepEqual([writes.flat().length, sessions()], [10_000, 10_001]);
  assert.ok(writes.every((rows) => rows.length <= 500));
});
