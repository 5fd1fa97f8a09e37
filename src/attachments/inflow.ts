/**
 * The body of an upload as a source that fills memory of the caller's: what arrives is copied there at once, so that the
 * pieces which the socket makes die young, and it is held back while nobody asks. Counts the bytes and ends the upload at the
 * first one beyond the announced size.
 *
 * A client that is slow for its own reasons is given up: when nothing comes for a while, and when it falls behind a minimum
 * rate. Only time in which something is asked of it counts: not that of the storage, nor of the wait for a turn.
 */
import type { Readable } from 'node:stream';

/** Why an upload ended without its bytes. */
export type UploadFault = 'too-long' | 'other-size' | 'other-digest' | 'too-slow' | 'broken-off';

export class UploadError extends Error {
  override name = 'UploadError';
  readonly fault: UploadFault;

  constructor(fault: UploadFault) {
    super(`the upload ended: ${fault}`);
    this.fault = fault;
  }
}

export interface UploadPace {
  /** Longest time without a byte. */
  stallMs: number;
  /** Time that every upload has, however few bytes have come. */
  graceMs: number;
  /** What must have come beyond that, on average since the beginning. */
  bytesPerSecond: number;
}

/** 29 MB within 10 minutes: below the limit of 15 minutes that every request has. */
export const UPLOAD_PACE: UploadPace = { stallMs: 30_000, graceMs: 30_000, bytesPerSecond: 50_000 };

/** A client that brings less than so many bytes in such a time is waited for, and not worked for. */
const BUSY_BYTES = 64 * 1024;
const LOOK_MS = 5;
/** How long less than that may be gathered before it is worth a place. */
const GATHER_MS = 500;

export interface Inflow {
  /** Resolves once there is something to fill memory with, and some time for it, or nothing will come any more. */
  arrival(): Promise<void>;
  /**
   * Fills `into` from its start, and answers how many bytes it has got: less than all at the end, or when the client is slow
   * while others wait for the place. Rejects with UploadError. One call at a time.
   */
  fill(into: Buffer): Promise<number>;
  /** Whether the body has ended and all of it was given out. */
  isOver(): boolean;
  /** Ends what is under way; the rest of the body stays where it is. */
  close(): void;
}

export interface InflowOptions {
  /** The announced size. */
  sizeBytes: number;
  pace: UploadPace;
  /** Whether others wait for the place of this upload. */
  isWanted(): boolean;
  /** Told of all bytes that the socket has made. */
  onArrived(bytes: number): void;
}

export function openInflow(body: Readable, { sizeBytes, pace, isWanted, onArrived }: InflowOptions): Inflow {
  let fault: UploadError | undefined;
  let isEnded = false;
  let arrivedBytes = 0;
  /** What came and was not asked for. */
  let rest: Buffer[] = [];
  let target: Buffer | undefined;
  let filled = 0;
  /** How many pieces of memory were to be filled so far. */
  let fills = 0;
  /** Ends the wait that is under way. */
  let settle: (() => void) | undefined;
  let waitedMs = 0;
  let lastMs = 0;
  let deadline: NodeJS.Timeout | undefined;
  let look: NodeJS.Timeout | undefined;
  let gathering: NodeJS.Timeout | undefined;

  const tookTime = (): void => {
    const nowMs = performance.now();
    waitedMs += nowMs - lastMs;
    lastMs = nowMs;
  };
  const stop = (): void => {
    body.pause();
    if (!settle) return;
    tookTime();
    clearTimeout(deadline);
    clearTimeout(look);
    clearTimeout(gathering);
    gathering = undefined;
    const done = settle;
    settle = undefined;
    done();
  };
  const fail = (why: UploadFault): void => {
    fault ??= new UploadError(why);
    stop();
  };
  /** Copies into the memory that is to be filled, and keeps what has no room. */
  const put = (chunk: Buffer): void => {
    const room = target === undefined ? 0 : target.length - filled;
    if (room >= chunk.length) target?.set(chunk, filled);
    else if (room > 0) target?.set(chunk.subarray(0, room), filled);
    filled += Math.min(room, chunk.length);
    if (chunk.length > room) rest.push(room > 0 ? chunk.subarray(room) : chunk);
  };

  /** What comes between two turns is little where the client is slow; all of it waits for the next one. */
  const gather = (): void => {
    const restBytes = rest.reduce((sum, chunk) => sum + chunk.length, 0);
    if (fault || restBytes >= BUSY_BYTES) stop();
    else if (settle) gathering ??= setTimeout(stop, GATHER_MS);
  };
  const onData = (chunk: Buffer): void => {
    if (settle) tookTime();
    arrivedBytes += chunk.length;
    onArrived(chunk.length);
    if (arrivedBytes > sizeBytes) fail('too-long');
    else put(chunk);
    if (target === undefined) gather();
    else if (filled === target.length) stop();
  };
  const onEnd = (): void => {
    isEnded = true;
    stop();
  };
  const onBroken = (): void => {
    if (!isEnded) fail('broken-off');
  };
  body.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken);
  body.pause();
  if (body.destroyed && !body.readableEnded) onBroken();

  const watchPace = (): void => {
    const silentMs = performance.now() - lastMs;
    const allowedMs = pace.graceMs + (arrivedBytes / pace.bytesPerSecond) * 1000 - waitedMs;
    const leftMs = Math.min(pace.stallMs, allowedMs) - silentMs;
    if (leftMs <= 0) fail('too-slow');
    else deadline = setTimeout(watchPace, Math.ceil(leftMs));
  };
  const wait = (): Promise<void> =>
    new Promise((resolve) => {
      settle = resolve;
      lastMs = performance.now();
      watchPace();
      if (!fault) body.resume();
    });
  /** Gives up the wait for a client that is slow. What has come while this process was busy is taken in before it is judged. */
  const watchFor = (seenBytes: number, delayMs: number): void => {
    const fill = fills;
    const judge = (): void => {
      if (!settle || fills !== fill) return;
      if (isWanted() && filled - seenBytes < BUSY_BYTES) stop();
      else watchFor(filled, LOOK_MS);
    };
    // The first turn of the event loop asks the socket, the second one has heard it.
    look = setTimeout(() => setImmediate(() => setImmediate(judge)), delayMs);
  };

  return {
    arrival: async () => {
      if (rest.length === 0 && !isEnded && !fault) await wait();
    },
    fill: async (into) => {
      target = into;
      filled = 0;
      fills += 1;
      const held = rest;
      rest = [];
      for (const chunk of held) put(chunk);
      if (filled < into.length && !isEnded && !fault) {
        watchFor(0, 0);
        await wait();
      }
      target = undefined;
      if (fault) throw fault;
      return filled;
    },
    isOver: () => isEnded && rest.length === 0 && !fault,
    close: () => {
      stop();
      rest = [];
      body.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken);
    },
  };
}
