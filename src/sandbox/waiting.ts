/**
 * Those who wait for a mail to come into a sandbox's inbox. All who wait in one account follow its log of events together: a
 * mail that comes is read once and compared with what each of them waits for, however many they are, and whichever node has
 * taken it.
 */
import { asciiLower } from '../base/ascii-lower.ts';
import {
  type EventPlace,
  type EventRow,
  type Followers,
  latestPlacesOperation,
  readEventsOperation,
} from '../events/events.ts';
import { addressSpellings } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';

const PAGE = 100;

export interface Wanted {
  /** The whole address, in any of its spellings. */
  to: string | null;
  /** A part of the subject, without (ASCII) case. */
  subject: string | null;
  /** Exactly one of the tags. */
  tag: string | null;
}

export interface InboxWait {
  accountId: string;
  wanted: Wanted;
  signal: AbortSignal;
  timeoutMs: number;
  /** Looks for what is there already; asked once nothing that comes can be missed any more. */
  look(): Promise<string | undefined>;
}

/** Answers the id of a message, or undefined when none came in time or nobody waits any more. */
export type WaitForMail = (wait: InboxWait) => Promise<string | undefined>;

interface Waiter {
  matches(row: EventRow): boolean;
  found(messageId: string): void;
}

interface Room {
  waiters: Set<Waiter>;
  /** Where the log was read to; known once it is open. */
  place: EventPlace | undefined;
  open: Promise<void>;
  leave(): void;
}

function matcher({ to, subject, tag }: Wanted): (row: EventRow) => boolean {
  const spellings = to === null ? null : new Set(addressSpellings(to).map(asciiLower));
  const part = asciiLower(subject);
  return (row) => {
    if (spellings !== null && !spellings.has(asciiLower(row.recipient))) return false;
    if (part !== null && !asciiLower(row.subject)!.includes(part)) return false;
    return tag === null || (JSON.parse(row.tags) as string[]).includes(tag);
  };
}

export function createWaitForMail({ database, followers }: { database: Database; followers: Followers }): WaitForMail {
  const rooms = new Map<string, Room>();

  /** Reads what has come and gives it to those who wait for it; one reading of a room at a time. */
  const reader = (accountId: string, room: Room): (() => void) => {
    let reading = false;
    let again = false;
    const read = async (): Promise<void> => {
      for (let rows: EventRow[] = []; room.waiters.size > 0 && room.place !== undefined; ) {
        const owner = { accountId, mode: 'sandbox' as const };
        const filters = { messageId: null, eventType: 'Send' as const, sinceMs: null, untilMs: null };
        rows = await database.execute(readEventsOperation, {
          ...{ ...owner, ...filters, order: 'asc', after: room.place, limit: PAGE },
        });
        const last = rows.at(-1);
        if (!last) return;
        room.place = { position: last.position ?? last.seq, seq: last.seq };
        for (const row of rows) {
          for (const waiter of [...room.waiters]) if (waiter.matches(row)) waiter.found(row.message_id);
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
          // What the storage does not answer now is read when the log is next looked at.
          await read().catch(() => undefined);
        }
        reading = false;
      })();
    };
  };

  const enter = (accountId: string): Room => {
    const known = rooms.get(accountId);
    if (known) return known;
    const owner = { accountId, mode: 'sandbox' as const };
    const room: Room = { waiters: new Set(), place: undefined, open: Promise.resolve(), leave: () => undefined };
    rooms.set(accountId, room);
    const changed = reader(accountId, room);
    room.leave = followers.follow(owner, changed);
    room.open = database.execute(latestPlacesOperation, [owner]).then(([end]) => {
      room.place = end!;
      // What came before this answer did was not read yet.
      changed();
    });
    return room;
  };

  return async ({ accountId, wanted, signal, timeoutMs, look }) => {
    const room = enter(accountId);
    let waiter: Waiter | undefined;
    const came = new Promise<string>((resolve) => {
      waiter = { matches: matcher(wanted), found: resolve };
      room.waiters.add(waiter);
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
      await room.open;
      return (await look()) ?? (await Promise.race([came, ended]));
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort!);
      room.waiters.delete(waiter!);
      if (room.waiters.size === 0 && rooms.get(accountId) === room) {
        rooms.delete(accountId);
        room.leave();
      }
    }
  };
}
