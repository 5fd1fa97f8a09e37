/**
 * Notifies the operators by mail that a destination refuses our host: at the first refusal, and once a day while it lasts. Whichever node
 * sees it does so; the key of the notice makes that one mail. What could not be given is tried again a minute later.
 */
import { hash } from 'node:crypto';
import { type Clock, iso } from '../../base/clock.ts';
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
    ? 'After 15 minutes its mail goes by POSTRIDER_FALLBACK_ROUTE until it takes ours again.'
    : 'Its mail waits until then. Nothing bounces before its lifetime is over, and nobody is suppressed.';
  return {
    key: `blocked:${key}`,
    subject: `Our host is refused by ${destination.slice(0, 200)}`,
    text: [
      'A mail server refuses mail from this host.',
      '',
      `Destination:  ${destination}`,
      `Server:       ${host ?? 'not known'}`,
      `Since:        ${iso(blockedSince)}`,
      `It says:      ${reply ?? 'nothing'}`,
      '',
      'Look the address of this host up on block lists, set its reverse DNS, and ask to be removed.',
      `One mail an hour asks again. ${meanwhile}`,
      'GET /operator/destinations shows when it is over.',
      '',
    ].join('\n'),
  };
}

/** Sends the notices that are due, at most once a minute unless asked to `hurry`; never rejects. */
export type BlockedNotices = (options: { hurry: boolean }) => Promise<void>;

export function createBlockedNotices(deps: BlockedNoticeDeps): BlockedNotices {
  const { database, clock, log, hasFallback, notifyOperators } = deps;
  let againMs = 0;
  return async ({ hurry }) => {
    if (!hurry && performance.now() < againMs) return;
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
