/** Sends stored notices in rounds. A notice that cannot be sent does not delay others, and is tried again in the next round. */
import { Unavailable } from './failure.ts';
import type { Log } from './log.ts';
import type { Notice, Notify } from './notice.ts';
import { type Rounds, startRounds } from './rounds.ts';

export interface NoticeRoundOptions {
  log: Log;
  notify: Notify;
  /** Whether this process sends the notices. */
  isChosen?: () => boolean;
  /** Milliseconds between two rounds. */
  roundMs?: number;
}

interface StoredNotices<T> {
  name: string;
  everyMs: number;
  /** Returns the notices that are not sent. */
  due(): AsyncIterable<T>;
  noticeOf(one: T): Notice;
  /** Records that a notice was sent. */
  sent(one: T): Promise<unknown>;
}

export function startNoticeRounds<T>(
  { log, notify, isChosen = () => true, roundMs }: NoticeRoundOptions,
  { name, everyMs, due, noticeOf, sent }: StoredNotices<T>,
): Rounds {
  return startRounds({
    name,
    everyMs: roundMs ?? everyMs,
    log,
    round: async (isStopping) => {
      if (!isChosen()) return;
      for await (const one of due()) {
        if (isStopping()) return;
        const notice = noticeOf(one);
        try {
          await notify(notice);
        } catch (error) {
          if (error instanceof Unavailable) throw error;
          const { accountId } = notice;
          log.warn({ accountId, error: (error as Error).message }, 'account notification failed');
          continue;
        }
        await sent(one);
      }
    },
  });
}
