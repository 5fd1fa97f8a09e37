/**
 * The log as server-sent events (WHATWG HTML §9.2). Each event is one message whose id is its place in the log; who comes back
 * with that id as Last-Event-ID gets what came behind it, nothing twice and nothing left out. A reader takes what it can: its
 * next page is read when it has taken the one before, so that a slow one costs no memory, and one that takes nothing for a
 * while is cut, to come back where it was. Ends when the service stops, and when its key is no longer good.
 *
 * The places of events as callers see them: one block of AES under a key of the service's own, the same on all nodes. Places
 * are counted for all accounts together; in the open they would tell everybody how much the whole service sends. A text that
 * was not made here is refused: it would have to decrypt to two small numbers by chance, one in four million.
 *
 * Wakes those who follow the log. All of them share one look at the ends of their logs, twice a second, and at once when this
 * process has written something; who has nothing new is not woken. Waking is a hint: each reads from where it is.
 */
import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Running } from '../base/lifecycle.ts';
import type { Database } from '../storage/database.ts';
import type { Found } from '../storage/searches.ts';
import { type EventRow, eventBody } from './event.ts';
import { type EventPage, type EventPlace, type LogOwner, latestPlacesOperation } from './read-store.ts';

const BLOCK_BYTES = 16;
/** Of 16 bytes in base64url without padding. */
const TEXT = /^[A-Za-z0-9_-]{21}[AQgw]$/;

export interface EventCursors {
  textOf(place: EventPlace): string;
  /** Undefined for whatever textOf did not make. */
  read(text: string): EventPlace | undefined;
}

export function createEventCursors(secretKey: Uint8Array): EventCursors {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', 'postrider event cursors', 32));
  return {
    textOf: ({ position, seq }) => {
      const block = Buffer.alloc(BLOCK_BYTES);
      block.writeBigUInt64BE(BigInt(position), 0);
      block.writeBigUInt64BE(BigInt(seq), 8);
      // A single block that never repeats needs no mode: it is a permutation of places.
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
/** Between two looks: what is written in one moment is seen together. */
const GAP_MS = 15;
/** Owners of one look. */
const AT_ONCE = 500;

export interface Followers extends Running {
  /** Something may have been written; cheap while nobody follows. */
  nudge(): void;
  /** Calls `changed` when the owner's log has grown, until what is answered is called. */
  follow(owner: LogOwner, changed: () => void): () => void;
}

interface Log {
  owner: LogOwner;
  listeners: Set<() => void>;
  /** Number of the last event seen; undefined before the first look. */
  lastSeq: number | undefined;
}

export function createFollowers({ database, pollMs = POLL_MS }: { database: Database; pollMs?: number }): Followers {
  const logs = new Map<string, Log>();
  let looking = false;
  let again = false;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;

  const compare = async (part: Log[]): Promise<void> => {
    const places = await database.execute(
      latestPlacesOperation,
      part.map((log) => log.owner),
    );
    for (const [index, log] of part.entries()) {
      const { seq } = places[index]!;
      // Before the first look something may have been written that its follower has not seen.
      if (log.lastSeq === seq) continue;
      log.lastSeq = seq;
      for (const listener of [...log.listeners]) listener();
    }
  };

  const look = async (): Promise<void> => {
    looking = true;
    again = false;
    try {
      const all = [...logs.values()];
      for (let at = 0; at < all.length; at += AT_ONCE) await compare(all.slice(at, at + AT_ONCE));
    } catch {
      // The storage refuses for now; the next look tells what was missed.
    }
    looking = false;
    if (!stopped && logs.size > 0) plan(again ? GAP_MS : pollMs);
    // The next subscriber starts a new look.
    else again = false;
  };

  const plan = (waitMs: number): void => {
    clearTimeout(timer);
    timer = setTimeout(() => void look(), waitMs);
    timer.unref();
  };

  const nudge = (): void => {
    if (stopped || logs.size === 0 || again) return;
    again = true;
    if (!looking) plan(GAP_MS);
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
/** For the client: how long to wait before it comes back, in usual times and when we are stopping. */
const RETRY_MS = 2_000;
const STOPPING_RETRY_MS = 500;
const HEARTBEAT_MS = 15_000;
/** How often it is looked whether the key is good, and whether the reader still reads. */
const LOOK_MS = 1_000;
const STALLED_MS = 60_000;

export interface StreamOptions {
  database: Database;
  followers: Followers;
  cursors: EventCursors;
  page: Pick<EventPage, 'accountId' | 'mode' | 'messageId' | 'eventTypes' | 'tags'>;
  /** What the page holds, and where a search for it stopped before its end. */
  read(page: EventPage): Promise<Found<EventRow, EventPlace>>;
  /** Events strictly behind this place are sent. */
  after: EventPlace;
  /** The client has gone, or the service stops. */
  signal: AbortSignal;
  /** Whether the caller's key is still good. */
  isAllowed(): Promise<boolean>;
  /** Narrower times, for tests. */
  heartbeatMs?: number;
  lookMs?: number;
  stalledMs?: number;
}

/** Something to wait for: one wake is kept until somebody waits. */
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
      const was = rung;
      rung = false;
      return was;
    },
  };
}

const isBefore = (one: EventPlace, other: EventPlace): boolean =>
  one.position < other.position || (one.position === other.position && one.seq < other.seq);

/**
 * The next page behind a place, and the place to read on from. With a filter that is the end of the log as it was before the page
 * was read: what was passed over is not read again, by this stream or the one that resumes it.
 */
async function readOn(
  { database, page, read }: StreamOptions,
  after: EventPlace,
): Promise<{ rows: EventRow[]; place: EventPlace; isAtEnd: boolean }> {
  const isFiltered = page.messageId !== null || page.eventTypes?.length || page.tags?.length;
  const through = isFiltered ? (await database.execute(latestPlacesOperation, [page]))[0]! : null;
  if (through && !isBefore(after, through)) return { rows: [], place: after, isAtEnd: true };
  const asked = { ...page, order: 'asc' as const, after, through, limit: PAGE, sinceMs: null, untilMs: null };
  const { rows, stoppedAt } = await read(asked);
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
  let isOver = false;
  /** Since when the reader has what was given to it; undefined while it waits for us. */
  let givenAtMs: number | undefined;
  const unfollow = followers.follow(page, bell.ring);
  const over = (): void => {
    isOver = true;
    bell.ring();
  };

  async function* frames(): AsyncGenerator<string> {
    yield `retry: ${RETRY_MS}\nid: ${cursors.textOf(place)}\n\n`;
    let sentAtMs = performance.now();
    while (!isOver) {
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
      if (isOver) continue;
      // Since the last byte, not since the last ring: events that this reader does not want ring too.
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
      givenAtMs = undefined;
      source.next().then(
        ({ value, done }) => {
          givenAtMs = performance.now();
          stream.push(done ? null : value);
        },
        (error: Error) => stream.destroy(error),
      );
    },
    destroy: (error, done) => {
      over();
      unfollow();
      clearInterval(watch);
      signal.removeEventListener('abort', over);
      done(error);
    },
  });
  const watch = setInterval(() => {
    const isStalled = givenAtMs !== undefined && performance.now() - givenAtMs > (options.stalledMs ?? STALLED_MS);
    if (isStalled) stream.destroy();
    else if (isOver && givenAtMs !== undefined) stream.destroy();
    else void look();
  }, options.lookMs ?? LOOK_MS);
  watch.unref();
  const look = async (): Promise<void> => {
    // While the storage cannot say, the stream goes on.
    const isAllowed = await options.isAllowed().catch(() => true);
    if (!isAllowed) over();
  };
  if (signal.aborted) over();
  signal.addEventListener('abort', over, { once: true });
  return stream;
}
