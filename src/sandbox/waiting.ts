/**
 * Waits for a message to arrive in a sandbox inbox. All waiting calls of one account follow its event log together: a new message is read
 * once and compared with all of them, whichever node accepted it.
 */
import {
  type EventPlace,
  type EventRow,
  type Followers,
  latestPlacesOperation,
  readEventsOperation,
} from '../events/events.ts';
import type { Database } from '../storage/database.ts';
import { addressFilter, partFilter } from '../storage/text-filter.ts';

const PAGE = 100;

export interface InboxFilter {
  /** The complete address, in any spelling. */
  to: string | null;
  /** Part of the subject, without case. */
  subject: string | null;
  /** One exact tag. */
  tag: string | null;
  /** Unix ms by the clock of the sandbox, inclusive. */
  sinceMs: number | null;
}

export interface InboxWait {
  accountId: string;
  filter: InboxFilter;
  signal: AbortSignal;
  timeoutMs: number;
  /** Searches existing mail; called once no new mail can be missed. */
  look(): Promise<string | undefined>;
}

/** Returns the id of a message, or undefined if none arrived in time or the caller is gone. */
export type WaitForMail = (wait: InboxWait) => Promise<string | undefined>;

interface Waiter {
  matches(row: EventRow): boolean;
  found(messageId: string): void;
}

interface Channel {
  waiters: Set<Waiter>;
  /** Where the log was read to; set once it is open. */
  place: EventPlace | undefined;
  open: Promise<void>;
  leave(): void;
}

function matcher({ to, subject, tag, sinceMs }: InboxFilter): (row: EventRow) => boolean {
  const recipient = to === null ? undefined : addressFilter(to);
  const part = subject === null ? undefined : partFilter(subject);
  return (row) => {
    if (row.recipient === null || row.subject === null) return false;
    if (sinceMs !== null && row.at < sinceMs) return false;
    if (recipient?.matches(row.recipient) === false) return false;
    if (part?.matches(row.subject) === false) return false;
    return tag === null || (JSON.parse(row.tags ?? '[]') as string[]).includes(tag);
  };
}

export function createWaitForMail({ database, followers }: { database: Database; followers: Followers }): WaitForMail {
  const channels = new Map<string, Channel>();

  /** Reads new events and passes them to the waiting calls; one read per channel at a time. */
  const reader = (accountId: string, channel: Channel): (() => void) => {
    let reading = false;
    let again = false;
    const read = async (): Promise<void> => {
      for (let rows: EventRow[] = []; channel.waiters.size > 0 && channel.place !== undefined; ) {
        const owner = { accountId, mode: 'sandbox' as const };
        const filters = { messageId: null, eventTypes: ['Send'] as const, sinceMs: null, untilMs: null };
        rows = await database.execute(readEventsOperation, {
          ...owner,
          ...filters,
          order: 'asc',
          after: channel.place,
          limit: PAGE,
        });
        const last = rows.at(-1);
        if (!last) return;
        channel.place = { position: last.position ?? last.seq, seq: last.seq };
        for (const row of rows) {
          for (const waiter of [...channel.waiters]) if (waiter.matches(row)) waiter.found(row.message_id);
        }
        if (rows.length < PAGE) return;
      }
    };
    return () => {
      again = true;
      if (reading) return;
      reading = true;
      void (async () => {
        while (again) {
          again = false;
          // What storage does not return now is read at the next check.
          await read().catch(() => undefined);
        }
        reading = false;
      })();
    };
  };

  const enter = (accountId: string): Channel => {
    const known = channels.get(accountId);
    if (known) return known;
    const owner = { accountId, mode: 'sandbox' as const };
    const channel: Channel = { waiters: new Set(), place: undefined, open: Promise.resolve(), leave: () => undefined };
    channels.set(accountId, channel);
    const changed = reader(accountId, channel);
    channel.leave = followers.follow(owner, changed);
    channel.open = database.execute(latestPlacesOperation, [owner]).then(([end]) => {
      channel.place = end!;
      // Events before this result have not been read yet.
      changed();
    });
    return channel;
  };

  return async ({ accountId, filter, signal, timeoutMs, look }) => {
    const channel = enter(accountId);
    let waiter: Waiter | undefined;
    const came = new Promise<string>((resolve) => {
      waiter = { matches: matcher(filter), found: resolve };
      channel.waiters.add(waiter);
    });
    let timer: NodeJS.Timeout | undefined;
    let onAbort: (() => void) | undefined;
    const ended = new Promise<undefined>((resolve) => {
      onAbort = () => resolve(undefined);
      timer = setTimeout(onAbort, timeoutMs);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
    });
    try {
      await channel.open;
      return (await look()) ?? (await Promise.race([came, ended]));
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort!);
      channel.waiters.delete(waiter!);
      if (channel.waiters.size === 0 && channels.get(accountId) === channel) {
        channels.delete(accountId);
        channel.leave();
      }
    }
  };
}
