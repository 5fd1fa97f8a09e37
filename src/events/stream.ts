/**
 * Streams the event log as server-sent events (WHATWG HTML §9.2). Each event is one message whose id is its place in the log. A client that
 * reconnects with this id as Last-Event-ID gets the events after it, without duplicates or gaps. The next page is read when the client has
 * received the previous one, so slow clients use no memory. A client that reads nothing for STALLED_MS is disconnected and can resume. The
 * stream ends when the service stops and when its key becomes invalid.
 *
 * Clients see places only encrypted, as one block of AES with a key that all nodes share. Places are numbered across all accounts and would
 * otherwise reveal how much mail the service sends. Invalid cursors are rejected, except that one in four million decrypts to two small
 * numbers by chance.
 *
 * All followers share one query for the ends of their logs. It runs twice a second, and shortly after this process has written events.
 * Followers without new events are not woken. A wake-up is only a hint: each follower reads from its own place.
 */

import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Running } from '../base/lifecycle.ts';
import type { Owner } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import type { Found } from '../storage/searches.ts';
import { type EventRow, eventBody } from './event.ts';
import { type EventPage, type EventPlace, latestPlacesOperation } from './read-store.ts';

const BLOCK_BYTES = 16;
/** 16 bytes in base64url without padding. */
const TEXT = /^[A-Za-z0-9_-]{21}[AQgw]$/;

export interface EventCursors {
  textOf(place: EventPlace): string;
  /** Returns undefined for a text that textOf did not create. */
  read(text: string): EventPlace | undefined;
}

export function createEventCursors(secretKey: Uint8Array): EventCursors {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', 'postrider event cursors', 32));
  return {
    textOf: ({ position, seq }) => {
      const block = Buffer.alloc(BLOCK_BYTES);
      block.writeBigUInt64BE(BigInt(position), 0);
      block.writeBigUInt64BE(BigInt(seq), 8);
      // A single block needs no chaining mode: each place has exactly one ciphertext.
      return createCipheriv('aes-256-ecb', key, null).setAutoPadding(false).update(block).toString('base64url');
    },
    read: (text) => {
      if (!TEXT.test(text)) return undefined;
      const block = createDecipheriv('aes-256-ecb', key, null)
        .setAutoPadding(false)
        .update(Buffer.from(text, 'base64url'));
      const position = Number(block.readBigUInt64BE(0));
      const seq = Number(block.readBigUInt64BE(8));
      return Number.isSafeInteger(position) && Number.isSafeInteger(seq) ? { position, seq } : undefined;
    },
  };
}

const POLL_MS = 500;
/** Delay between a write and the query for it, so that events written in quick succession are found by one query. */
const GAP_MS = 15;
const OWNERS_PER_QUERY = 500;

export interface Followers extends Running {
  /** Signals that events may have been written; cheap without followers. */
  nudge(): void;
  /** Calls `changed` when the owner's log has grown, until the returned function is called. */
  follow(owner: Owner, changed: () => void): () => void;
}

interface Log {
  owner: Owner;
  listeners: Set<() => void>;
  /** Number of the last event seen; undefined before the first query. */
  lastSeq: number | undefined;
}

export function createFollowers({ database, pollMs = POLL_MS }: { database: Database; pollMs?: number }): Followers {
  const logs = new Map<string, Log>();
  let isQuerying = false;
  let isNudged = false;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;

  const compare = async (part: Log[]): Promise<void> => {
    const places = await database.execute(
      latestPlacesOperation,
      part.map((log) => log.owner),
    );
    for (const [index, log] of part.entries()) {
      const { seq } = places[index]!;
      // Before the first query there may be events that the follower has not seen.
      if (log.lastSeq === seq) continue;
      log.lastSeq = seq;
      for (const listener of [...log.listeners]) listener();
    }
  };

  const query = async (): Promise<void> => {
    isQuerying = true;
    isNudged = false;
    try {
      const all = [...logs.values()];
      for (let at = 0; at < all.length; at += OWNERS_PER_QUERY) await compare(all.slice(at, at + OWNERS_PER_QUERY));
    } catch {
      // The storage is unavailable; the next query finds the missed events.
    }
    isQuerying = false;
    if (!stopped && logs.size > 0) schedule(isNudged ? GAP_MS : pollMs);
    // The next subscriber starts a new query.
    else isNudged = false;
  };

  const schedule = (waitMs: number): void => {
    clearTimeout(timer);
    timer = setTimeout(() => void query(), waitMs);
    timer.unref();
  };

  const nudge = (): void => {
    if (stopped || logs.size === 0 || isNudged) return;
    isNudged = true;
    if (!isQuerying) schedule(GAP_MS);
  };

  return {
    nudge,
    follow: (owner, changed) => {
      const name = `${owner.accountId} ${owner.mode}`;
      let log = logs.get(name);
      if (!log) {
        log = { owner, listeners: new Set(), lastSeq: undefined };
        logs.set(name, log);
      }
      log.listeners.add(changed);
      nudge();
      const { listeners } = log;
      return () => {
        listeners.delete(changed);
        if (listeners.size === 0 && logs.get(name)?.listeners === listeners) logs.delete(name);
      };
    },
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

const PAGE = 100;
/** Delay before the client reconnects, normally and while the service stops. */
const RETRY_MS = 2_000;
const STOPPING_RETRY_MS = 500;
const HEARTBEAT_MS = 15_000;
/** Interval at which the key and the reader's progress are checked. */
const CHECK_MS = 1_000;
const STALLED_MS = 60_000;

export interface StreamOptions {
  database: Database;
  followers: Followers;
  cursors: EventCursors;
  page: Pick<EventPage, 'accountId' | 'mode' | 'messageId' | 'eventTypes' | 'tags'>;
  /** Reads a page, and returns the place where a search stopped before its end. */
  read(page: EventPage): Promise<Found<EventRow, EventPlace>>;
  /** Only events strictly after this place are sent. */
  after: EventPlace;
  /** Aborted if the client disconnects or the service stops. */
  signal: AbortSignal;
  /** Returns whether the caller's key is still valid. */
  isAllowed(): Promise<boolean>;
  /** Shorter times for tests. */
  heartbeatMs?: number;
  checkMs?: number;
  stalledMs?: number;
}

/** Creates a signal to wait for. If it rings while no one waits, the next wait ends immediately. */
function createBell(): { ring(): void; wait(ms: number): Promise<boolean> } {
  let rung = false;
  let wake: (() => void) | undefined;
  return {
    ring: () => {
      rung = true;
      wake?.();
    },
    wait: async (ms) => {
      if (!rung) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        wake = undefined;
      }
      const wasRung = rung;
      rung = false;
      return wasRung;
    },
  };
}

const isBefore = (one: EventPlace, other: EventPlace): boolean =>
  one.position < other.position || (one.position === other.position && one.seq < other.seq);

/**
 * Returns the next page after a place, and the place to continue from. With a filter, that is the end of the log before the page was read,
 * so that skipped events are not read again by this stream or the one that resumes it.
 */
async function readOn(
  { database, page, read }: StreamOptions,
  after: EventPlace,
): Promise<{ rows: EventRow[]; place: EventPlace; isAtEnd: boolean }> {
  const isFiltered = page.messageId !== null || page.eventTypes?.length || page.tags?.length;
  const through = isFiltered ? (await database.execute(latestPlacesOperation, [page]))[0]! : null;
  if (through && !isBefore(after, through)) return { rows: [], place: after, isAtEnd: true };
  const requested = { ...page, order: 'asc' as const, after, through, limit: PAGE, sinceMs: null, untilMs: null };
  const { rows, stoppedAt } = await read(requested);
  const last = rows.at(-1);
  const lastPlace = last && { position: last.position ?? last.seq, seq: last.seq };
  if (lastPlace && rows.length === PAGE) return { rows, place: lastPlace, isAtEnd: false };
  if (stoppedAt) return { rows, place: stoppedAt, isAtEnd: false };
  return { rows, place: through ?? lastPlace ?? after, isAtEnd: true };
}

export function eventStream(options: StreamOptions): Readable {
  const { followers, cursors, page, signal } = options;
  const bell = createBell();
  let place = options.after;
  let isEnded = false;
  /** When the client was sent data that it has not read yet; undefined if it has read everything. */
  let unreadSinceMs: number | undefined;
  const unfollow = followers.follow(page, bell.ring);
  const end = (): void => {
    isEnded = true;
    bell.ring();
  };

  async function* frames(): AsyncGenerator<string> {
    yield `retry: ${RETRY_MS}\nid: ${cursors.textOf(place)}\n\n`;
    let sentAtMs = performance.now();
    while (!isEnded) {
      const { rows, isAtEnd, ...read } = await readOn(options, place);
      place = read.place;
      if (rows.length > 0) {
        yield rows
          .map((row) => {
            const id = cursors.textOf({ position: row.position ?? row.seq, seq: row.seq });
            return `id: ${id}\ndata: ${JSON.stringify(eventBody(row))}\n\n`;
          })
          .join('');
        sentAtMs = performance.now();
      }
      if (isEnded) continue;
      // The time counts from the last byte, not from the last ring: events that do not match the filter also ring.
      const leftMs = (options.heartbeatMs ?? HEARTBEAT_MS) - (performance.now() - sentAtMs);
      if (leftMs > 0 && (!isAtEnd || (await bell.wait(leftMs)))) continue;
      yield `id: ${cursors.textOf(place)}\n: nothing new\n\n`;
      sentAtMs = performance.now();
    }
    if (signal.aborted) yield `retry: ${STOPPING_RETRY_MS}\n\n`;
  }

  const source = frames();
  const stream = new Readable({
    objectMode: true,
    highWaterMark: 1,
    read: () => {
      unreadSinceMs = undefined;
      source.next().then(
        ({ value, done }) => {
          unreadSinceMs = performance.now();
          stream.push(done ? null : value);
        },
        (error: Error) => stream.destroy(error),
      );
    },
    destroy: (error, done) => {
      end();
      unfollow();
      clearInterval(watch);
      signal.removeEventListener('abort', end);
      done(error);
    },
  });
  const watch = setInterval(() => {
    const isStalled =
      unreadSinceMs !== undefined && performance.now() - unreadSinceMs > (options.stalledMs ?? STALLED_MS);
    if (isStalled) stream.destroy();
    else if (isEnded && unreadSinceMs !== undefined) stream.destroy();
    else void checkKey();
  }, options.checkMs ?? CHECK_MS);
  watch.unref();
  const checkKey = async (): Promise<void> => {
    // If the storage is unavailable, the stream continues.
    const isAllowed = await options.isAllowed().catch(() => true);
    if (!isAllowed) end();
  };
  if (signal.aborted) end();
  signal.addEventListener('abort', end, { once: true });
  return stream;
}
