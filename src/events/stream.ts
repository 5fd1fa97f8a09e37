/**
 * The log as server-sent events (WHATWG HTML §9.2). Each event is one message whose id is its place in the log; who comes
 * back with that id as Last-Event-ID gets what came behind it, nothing twice and nothing left out. A reader takes what it
 * can: its next page is read when it has taken the one before, so that a slow one costs no memory, and one that takes nothing
 * for a while is cut, to come back where it was. Ends when the service stops, and when its key is no longer good.
 */
import { Readable } from 'node:stream';
import type { Database } from '../storage/database.ts';
import type { EventCursors } from './cursor.ts';
import { eventBody } from './event.ts';
import type { Followers } from './follow.ts';
import { type EventPage, type EventPlace, readEventsOperation } from './read-store.ts';

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
  page: Pick<EventPage, 'accountId' | 'mode' | 'messageId' | 'eventType'>;
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

export function eventStream(options: StreamOptions): Readable {
  const { database, followers, cursors, page, signal } = options;
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
      const query = { ...page, order: 'asc' as const, after: place, limit: PAGE, sinceMs: null, untilMs: null };
      const rows = await database.execute(readEventsOperation, query);
      const last = rows.at(-1);
      if (last) {
        place = { position: last.position ?? last.seq, seq: last.seq };
        yield rows
          .map((row) => {
            const id = cursors.textOf({ position: row.position ?? row.seq, seq: row.seq });
            return `id: ${id}\ndata: ${JSON.stringify(eventBody(row))}\n\n`;
          })
          .join('');
        sentAtMs = performance.now();
      }
      if (rows.length === PAGE || isOver) continue;
      // Since the last byte, not since the last ring: events that this reader does not want ring too.
      const leftMs = (options.heartbeatMs ?? HEARTBEAT_MS) - (performance.now() - sentAtMs);
      if (leftMs > 0 && (await bell.wait(leftMs))) continue;
      yield ': nothing new\n\n';
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
