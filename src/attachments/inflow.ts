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

export interface InflowOptions {
  /** The announced size. */
  sizeBytes: number;
  pace: UploadPace;
  /** Whether others wait for the place of this upload. */
  isWanted(): boolean;
  /** Told of all bytes that the socket has made. */
  onArrived(bytes: number): void;
}

/** Listens from the moment it is made; one call of arrival() or fill() at a time. */
export class Inflow {
  readonly #body: Readable;
  readonly #options: InflowOptions;
  #fault: UploadError | undefined;
  #isEnded = false;
  #arrivedBytes = 0;
  /** What came and was not asked for. */
  #rest: Buffer[] = [];
  /** The memory that is to be filled, how much of it is, and how many there were so far. */
  #target: Buffer | undefined;
  #filled = 0;
  #fills = 0;
  /** Ends the wait that is under way. */
  #settle: (() => void) | undefined;
  /** How long something was asked of the client, and until when that is counted. */
  #waitedMs = 0;
  #countedMs = 0;
  #deadline: NodeJS.Timeout | undefined;
  #look: NodeJS.Timeout | undefined;
  #gathering: NodeJS.Timeout | undefined;

  constructor(body: Readable, options: InflowOptions) {
    this.#body = body;
    this.#options = options;
    body.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#onBroken).on('close', this.#onBroken);
    body.pause();
    if (body.destroyed && !body.readableEnded) this.#onBroken();
  }

  /** Resolves once there is something to fill memory with, and some time for it, or nothing will come any more. */
  async arrival(): Promise<void> {
    if (this.#rest.length === 0 && !this.#isEnded && !this.#fault) await this.#wait();
  }

  /**
   * Fills `into` from its start, and answers how many bytes it has got: less than all at the end, or when the client is slow
   * while others wait for the place. Rejects with UploadError.
   */
  async fill(into: Buffer): Promise<number> {
    this.#target = into;
    this.#filled = 0;
    this.#fills += 1;
    const held = this.#rest;
    this.#rest = [];
    for (const chunk of held) this.#put(chunk);
    if (this.#filled < into.length && !this.#isEnded && !this.#fault) {
      this.#watchFor(0, 0);
      await this.#wait();
    }
    this.#target = undefined;
    if (this.#fault) throw this.#fault;
    return this.#filled;
  }

  /** Whether the body has ended and all of it was given out. */
  isOver(): boolean {
    return this.#isEnded && this.#rest.length === 0 && !this.#fault;
  }

  /** Ends what is under way; the rest of the body stays where it is. */
  close(): void {
    this.#stop();
    this.#rest = [];
    const body = this.#body;
    body.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#onBroken).off('close', this.#onBroken);
  }

  #wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#settle = resolve;
      this.#countedMs = performance.now();
      this.#watchPace();
      if (!this.#fault) this.#body.resume();
    });
  }

  #stop = (): void => {
    this.#body.pause();
    const done = this.#settle;
    if (!done) return;
    this.#settle = undefined;
    this.#countTime();
    clearTimeout(this.#deadline);
    clearTimeout(this.#look);
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    done();
  };

  #fail(why: UploadFault): void {
    this.#fault ??= new UploadError(why);
    this.#stop();
  }

  #onData = (chunk: Buffer): void => {
    if (this.#settle) this.#countTime();
    this.#arrivedBytes += chunk.length;
    this.#options.onArrived(chunk.length);
    if (this.#arrivedBytes > this.#options.sizeBytes) this.#fail('too-long');
    else this.#put(chunk);
    if (this.#target === undefined) this.#gather();
    else if (this.#filled === this.#target.length) this.#stop();
  };

  #onEnd = (): void => {
    this.#isEnded = true;
    this.#stop();
  };

  #onBroken = (): void => {
    if (!this.#isEnded) this.#fail('broken-off');
  };

  /** Copies into the memory that is to be filled, and keeps what has no room. */
  #put(chunk: Buffer): void {
    const room = this.#target === undefined ? 0 : this.#target.length - this.#filled;
    if (room >= chunk.length) this.#target?.set(chunk, this.#filled);
    else if (room > 0) this.#target?.set(chunk.subarray(0, room), this.#filled);
    this.#filled += Math.min(room, chunk.length);
    if (chunk.length > room) this.#rest.push(room > 0 ? chunk.subarray(room) : chunk);
  }

  /** What comes between two turns is little where the client is slow; all of it waits for the next one. */
  #gather(): void {
    const restBytes = this.#rest.reduce((sum, chunk) => sum + chunk.length, 0);
    if (this.#fault || restBytes >= BUSY_BYTES) this.#stop();
    else if (this.#settle) this.#gathering ??= setTimeout(this.#stop, GATHER_MS);
  }

  #countTime(): void {
    const nowMs = performance.now();
    this.#waitedMs += nowMs - this.#countedMs;
    this.#countedMs = nowMs;
  }

  #watchPace = (): void => {
    const { stallMs, graceMs, bytesPerSecond } = this.#options.pace;
    const silentMs = performance.now() - this.#countedMs;
    const allowedMs = graceMs + (this.#arrivedBytes / bytesPerSecond) * 1000 - this.#waitedMs;
    const leftMs = Math.min(stallMs, allowedMs) - silentMs;
    if (leftMs <= 0) this.#fail('too-slow');
    else this.#deadline = setTimeout(this.#watchPace, Math.ceil(leftMs));
  };

  /** Gives up the wait for a client that is slow. What has come while this process was busy is taken in before it is judged. */
  #watchFor(seenBytes: number, delayMs: number): void {
    const fill = this.#fills;
    const judge = (): void => {
      if (!this.#settle || this.#fills !== fill) return;
      if (this.#options.isWanted() && this.#filled - seenBytes < BUSY_BYTES) this.#stop();
      else this.#watchFor(this.#filled, LOOK_MS);
    };
    // The first turn of the event loop asks the socket, the second one has heard it.
    this.#look = setTimeout(() => setImmediate(() => setImmediate(judge)), delayMs);
  }
}
