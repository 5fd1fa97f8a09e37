/** Replays of a period: read-only until the events are selected, no duplicates, and no more than may wait. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { DIALECTS, type TempDatabase, tempDatabase } from '../../test/kit/temp-database.ts';
import { systemClock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import { countReplay, createReplay, type Replay } from './replay.ts';

const NOW_MS = Date.UTC(2026, 0, 1);
const whole = (accountId: string): Replay => ({
  accountId,
  mode: 'live',
  webhookId: `whk_${accountId}`,
  eventTypes: ['Send'],
  sinceMs: NOW_MS,
  untilMs: NOW_MS + 1_000,
});

for (const dialect of DIALECTS)
  describe(dialect, () => {
    let temp: TempDatabase;
    let calls: string[] = [];
    let database: Database;
    before(async () => {
      temp = await tempDatabase(dialect);
      const execute: Database['execute'] = (operation, args) => {
        calls.push(operation.name);
        return temp.database.execute(operation, args);
      };
      database = { ...temp.database, execute };
    });
    after(() => temp.close());

    async function seed(accountId: string, count: number, nowMs = NOW_MS): Promise<void> {
      for (let i = 0; i < count; i += 1) await seedMail(temp.database, { accountId, nowMs });
    }

    test('only events that are not already waiting are queued', async () => {
      const replay = createReplay({ database, clock: systemClock });
      await seed('acc_1', 3);
      await seed('acc_1', 1, NOW_MS - 1);
      await seed('acc_2', 1);
      assert.deepEqual(await replay(whole('acc_1')), { ok: true, value: 3 });
      assert.deepEqual(await replay(whole('acc_1')), { ok: true, value: 0 });
      await seed('acc_1', 2);
      assert.deepEqual(await replay(whole('acc_1')), { ok: true, value: 2 });
    });

    test('a replay without matching events writes nothing', async () => {
      calls = [];
      const replay = createReplay({ database, clock: systemClock });
      assert.deepEqual(await replay({ ...whole('acc_1'), untilMs: NOW_MS - 5, sinceMs: 0 }), { ok: true, value: 0 });
      assert.equal(calls.includes('webhooks.replay'), false, calls.join());
    });

    test('a replay over the limit is rejected, and so are concurrent ones of an endpoint', async () => {
      const replay = createReplay({ database, clock: systemClock, mostWaiting: 5 });
      await seed('acc_3', 6);
      const tooMany = await replay(whole('acc_3'));
      assert.ok(!tooMany.ok);
      assert.equal(tooMany.failure.code, 'CONFLICT');
      assert.match(tooMany.failure.message, /More than 5 events would be queued/);
      await seed('acc_4', 5);
      const both = await Promise.all([replay(whole('acc_4')), replay(whole('acc_4'))]);
      assert.deepEqual(
        both.map((one) => (one.ok ? one.value : one.failure.code)),
        [5, 'CONFLICT'],
      );
      assert.deepEqual(await replay(whole('acc_4')), { ok: true, value: 0 }, 'nothing new, so nothing is refused');
    });

    test('a dry run returns what a replay would queue, and writes nothing', async () => {
      const deps = { database, clock: systemClock, mostWaiting: 4 };
      await seed('acc_5', 3);
      calls = [];
      assert.deepEqual(await countReplay(deps, whole('acc_5')), { ok: true, value: 3 });
      assert.equal(calls.includes('webhooks.replay'), false, calls.join());
      assert.deepEqual(await createReplay(deps)(whole('acc_5')), { ok: true, value: 3 });
      assert.deepEqual(await countReplay(deps, whole('acc_5')), { ok: true, value: 0 }, 'they wait already');
      await seed('acc_5', 2);
      const tooMany = await countReplay(deps, whole('acc_5'));
      assert.ok(!tooMany.ok && /More than 4 events would be queued/.test(tooMany.failure.message));
    });
  });
