/** Waking followers of the log when the last one leaves during a query. */
import { test } from 'node:test';
import { waitUntil } from '../../test/kit/wait-until.ts';
import type { Database } from '../storage/database.ts';
import { createFollowers } from './stream.ts';

test('a follower that subscribes while a query without followers is running is woken', async (t) => {
  const owner = { accountId: 'acc_1', mode: 'live' } as const;
  let seq = 0;
  let looks = 0;
  let release: (() => void) | undefined;
  const database = {
    dialect: 'sqlite',
    execute: async (_operation: unknown, owners: unknown[]) => {
      looks += 1;
      if (looks === 2) {
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      }
      return owners.map(() => ({ position: seq, seq }));
    },
  } as unknown as Database;
  const followers = createFollowers({ database, pollMs: 5 });
  t.after(() => followers.stop());
  const leave = followers.follow(owner, () => undefined);
  await waitUntil('the second query', () => release);
  seq = 1;
  followers.nudge();
  leave();
  release!();
  await new Promise((resolve) => setImmediate(resolve));
  let woken = 0;
  followers.follow(owner, () => {
    woken += 1;
  });
  await waitUntil('the first wakeup', () => woken > 0);
  seq = 2;
  followers.nudge();
  await waitUntil('the next wakeup', () => woken > 1);
});
