/**
 * Notifies operators by email that a destination blocks this host: at the first refusal, and once a day while it lasts. Any node may send
 * it; the key of the notice prevents duplicates. A failed notice is retried after a minute.
 */
import { hash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { Notify, OperatorNotice } from '../../base/notice.ts';
import type { Database } from '../../storage/database.ts';
import type { Outcome } from '../outcome/outcome.ts';
import { type BlockedDestination, blockedToNotifyOperation, blockNotifiedOperation } from './pause-store.ts';

const DAY_MS = 86_400_000;
const EVERY_MS = 60_000;
const KEY_CHARACTERS = 32;

export interface BlockedNoticeDeps {
  database: Database;
  clock: Clock;
  log: Log;
  hasFallback: boolean;
  notifyOperators: Notify<OperatorNotice>;
}

export function blockedNoticeOf(
  { destination, blockedSince, host, outcome }: BlockedDestination,
  { nowMs, hasFallback }: { nowMs: number; hasFallback: boolean },
): OperatorNotice {
  const day = Math.floor((nowMs - blockedSince) / DAY_MS);
  const key = hash('sha256', JSON.stringify([destination, blockedSince, day])).slice(0, KEY_CHARACTERS);
  const { reply } = JSON.parse(outcome) as Outcome;
  const meanwhile = hasFallback
    ? 'After 15 minutes, messages use POSTRIDER_FALLBACK_ROUTE until the destination accepts mail from this host again.'
    : 'Until then, messages are deferred. They bounce only when they expire, and no recipient is suppressed.';
  return {
    key: `blocked:${key}`,
    subject: `${destination.slice(0, 200)} blocks this host`,
    parts: [
      'A receiving server blocks mail from this host.',
      {
        facts: [
          ['Destination', destination],
          ['Server', host ?? 'unknown'],
          ['Since', { atMs: blockedSince }],
          ['Reply', reply ?? 'none'],
        ],
      },
      'Check the IP address of this host against blocklists, set its reverse DNS, and request removal.',
      `Postrider retries one message per hour. ${meanwhile}`,
      'The queue page of the operator console and GET /operator/destinations show when the block ends.',
    ],
  };
}

/** Sends the notices that are due; never rejects. Runs at most once a minute, unless `immediately` is true. */
export type BlockedNotices = (options: { immediately: boolean }) => Promise<void>;

export function createBlockedNotices(deps: BlockedNoticeDeps): BlockedNotices {
  const { database, clock, log, hasFallback, notifyOperators } = deps;
  let againMs = 0;
  return async ({ immediately }) => {
    if (!immediately && performance.now() < againMs) return;
    againMs = performance.now() + EVERY_MS;
    try {
      const nowMs = clock.now();
      for (const blocked of await database.execute(blockedToNotifyOperation, nowMs)) {
        await notifyOperators(blockedNoticeOf(blocked, { nowMs, hasFallback }));
        await database.execute(blockNotifiedOperation, { destination: blocked.destination, nowMs });
      }
    } catch (error) {
      log.warn({ error: (error as Error).message }, 'operator notification of a block failed');
    }
  };
}
