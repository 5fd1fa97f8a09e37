/** The settler while the storage refuses: what it keeps, and how soon it goes on. */

import assert from 'node:assert/strict';
import test from 'node:test';
import { runningMs } from '../../test/kit/running-time.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { Unavailable } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import type { Settlement } from './settle.ts';
import { startSettler } from './settler.ts';

const remover = { add: () => undefined };
const SETTLEMENT = { seq: 1, fence: 1, messageId: 'msg_1', to: 'delivered' } as Settlement;

test('a database that comes back is told at once, however long the pause has grown', async () => {
  let ready = true;
  const triesMs: number[] = [];
  const database = {
    state: () => ({ ready }),
    execute: async () => {
      triesMs.push(performance.now());
      if (!ready) throw new Unavailable('away');
      return { lost: [], blobKeys: [] };
    },
  } as unknown as Database;
  let recordedMs = 0;
  const settler = startSettler({
    ...{ database, remover, log: silentLog },
    onRecorded: () => {
      recordedMs = runningMs();
    },
    onDone: () => undefined,
    onPaused: () => undefined,
  });
  ready = false;
  settler.add(SETTLEMENT);
  // 100, 200, 400, 800 ms: the next pause takes 1,600.
  await waitUntil('the pause to grow', () => triesMs.length === 5);
  const backMs = runningMs();
  ready = true;
  await settler.drained();
  assert.equal(triesMs.length, 6);
  assert.ok(recordedMs - backMs < 500, `${Math.round(recordedMs - backMs)} ms after it was back`);
});

test('a storage that refuses without being away is not asked more often for it', async () => {
  const triesMs: number[] = [];
  const database = {
    state: () => ({ ready: true }),
    execute: async () => {
      triesMs.push(performance.now());
      if (triesMs.length < 5) throw new Unavailable('locked');
      return { lost: [], blobKeys: [] };
    },
  } as unknown as Database;
  const nothing = (): void => undefined;
  const settler = startSettler({
    ...{ database, remover, log: silentLog, onRecorded: nothing, onDone: nothing, onPaused: nothing },
  });
  settler.add(SETTLEMENT);
  await settler.drained();
  assert.ok(triesMs.at(-1)! - triesMs[0]! >= 1_400, 'pauses grow');
});
