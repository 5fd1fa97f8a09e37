/** When scheduled backups run, and what happens if one fails. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { silentLog } from '../base/log.ts';
import { recordScheduledBackup } from '../storage/kept-elsewhere.ts';
import { startScheduledBackups } from './scheduled-backups.ts';

const HOUR_MS = 3_600_000;

async function setup(t: TestContext) {
  const { database, close } = await tempDatabase('sqlite');
  t.after(close);
  const clock = fakeClock(Date.UTC(2026, 10, 28, 9));
  let runs = 0;
  const state = { isBroken: false };
  let gauge: () => { value: number }[] = () => [];
  const age = (): number | undefined => gauge()[0]?.value;
  const results: string[] = [];
  const counted = (result: string) => ({ inc: () => void results.push(result) });
  const start = () =>
    startScheduledBackups({
      everyHours: 6,
      database,
      clock,
      log: silentLog,
      metrics: {
        readGaugeFrom: (_, read) => {
          gauge = read;
        },
        backups: { succeeded: counted('succeeded'), failed: counted('failed') },
      },
      run: async () => {
        runs += 1;
        if (state.isBroken) throw new Error('no space left on device');
        await recordScheduledBackup(database, clock.now());
      },
    });
  const backups = start();
  t.after(() => backups.stop());
  /** Number of runs after this time. */
  const after = async (hours: number): Promise<number> => {
    clock.advance(hours * HOUR_MS);
    await backups.backUpIfDue();
    return runs;
  };
  return { clock, start, backups, after, age, results, state, countRuns: () => runs };
}

test('a backup runs when it is due, and a failed one is retried after an hour', async (t) => {
  const { start, backups, after, age, results, state, countRuns } = await setup(t);
  assert.equal(await after(0), 1, 'the first backup runs immediately');
  assert.equal(age(), 0);
  assert.equal(await after(5.9), 1);
  assert.equal(await after(0.1), 2);
  state.isBroken = true;
  assert.equal(await after(6), 3);
  assert.equal(await after(0.9), 3, 'the failure is less than an hour old');
  assert.equal(age(), 6.9 * 3_600);
  state.isBroken = false;
  assert.equal(await after(0.1), 4);
  assert.equal(age(), 0);
  assert.deepEqual(results, ['succeeded', 'succeeded', 'failed', 'succeeded']);
  await backups.stop();

  const again = start();
  t.after(() => again.stop());
  await again.backUpIfDue();
  assert.equal(countRuns(), 4, 'a restart does not run a backup early');
});

test('a time that was recorded while the clock was ahead delays no backup', async (t) => {
  const { clock, after, age, state } = await setup(t);
  const aheadHours = 10 * 365 * 24;
  assert.equal(await after(aheadHours), 1);
  clock.advance(-aheadHours * HOUR_MS);
  assert.equal(age(), undefined, 'its age is unknown');
  assert.equal(await after(0), 2);
  assert.equal(age(), 0);
  clock.advance(-30_000);
  assert.equal(await after(0), 2, 'a small correction of the clock is ignored');
  assert.equal(age(), 0);

  state.isBroken = true;
  assert.equal(await after(aheadHours), 3);
  clock.advance(-aheadHours * HOUR_MS);
  assert.equal(await after(7), 4, 'the time of a failure is ignored too');
});
