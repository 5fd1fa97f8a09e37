/**
 * The bytes of an upload on their way into blob storage, hashed and counted as they pass. Ends without an error only if exactly
 * the manifest's bytes came, so that whatever consumes it keeps nothing else.
 *
 * A client that is slow for its own reasons is given up: when nothing comes for a while, and when it falls behind a least rate.
 * Only the time in which we wait for the client counts, not that of the storage. However many uploads are under way, few write
 * at the same time, and each holds little; a client that brings nothing holds no permit.
 *
 * How many uploads may be under way in this process: a few for each file, since one URL may be used by many connections at
 * once; a part of all for each account, so that an account that lets connections stall takes the service from nobody else; and
 * so many in all that other requests keep their share of it.
 */
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { discardSoon } from '../base/collector.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import type { Semaphore } from '../base/semaphore.ts';

/** Why an upload ended without its bytes. */
export type UploadErrorReason = 'too-long' | 'other-size' | 'other-digest' | 'too-slow' | 'broken-off';

export class UploadError extends Error {
  override name = 'UploadError';
  readonly reason: UploadErrorReason;

  constructor(reason: UploadErrorReason) {
    super(`the upload ended: ${reason}`);
    this.reason = reason;
  }
}

export interface LeastRate {
  /** Longest time without a byte. */
  stallMs: number;
  /** Time that every upload has, however few bytes have come. */
  graceMs: number;
  /** What must have come beyond that, on average since the beginning. */
  bytesPerSecond: number;
}

/** 29 MB within 10 minutes: below the limit of 15 minutes that every request has. */
export const UPLOAD_RATE: LeastRate = { stallMs: 30_000, graceMs: 30_000, bytesPerSecond: 50_000 };

/** What one upload may hold in memory. */
const WAITING_BYTES = 256 * 1024;

/** A body that is read piece by piece, for as long as its client keeps to the least rate. Listens from the moment it is made. */
export class UploadReader {
  readonly #body: Readable;
  readonly #rate: LeastRate;
  #state: 'open' | 'ended' | 'broken';
  /** What came and was not asked for. The body flows as long as this is little: stopping it for each piece costs half the rate. */
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #arrivedBytes = 0;
  /** How long the client was waited for. */
  #waitedMs = 0;
  #wake = (): void => undefined;

  constructor(body: Readable, rate: LeastRate) {
    this.#body = body;
    this.#rate = rate;
    this.#state = body.destroyed && !body.readableEnded ? 'broken' : 'open';
    body.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#onBroken).on('close', this.#onBroken);
  }

  /** The next piece, or undefined at the end. Rejects with UploadError. One call at a time. */
  async next(): Promise<Buffer | undefined> {
    while (this.#state !== 'broken') {
      const piece = this.#waiting.shift();
      if (piece !== undefined) {
        this.#waitingBytes -= piece.length;
        if (this.#waitingBytes < WAITING_BYTES / 2) this.#body.resume();
        return piece;
      }
      if (this.#state === 'ended') return undefined;
      await this.#waitForChange();
    }
    throw new UploadError('broken-off');
  }

  /** The rest of the body stays where it is. */
  close(): void {
    const body = this.#body.pause();
    this.#waiting = [];
    body.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#onBroken).off('close', this.#onBroken);
  }

  #onData = (piece: Buffer): void => {
    this.#arrivedBytes += piece.length;
    discardSoon(piece.length);
    this.#waitingBytes += piece.length;
    this.#waiting.push(piece);
    if (this.#waitingBytes >= WAITING_BYTES) this.#body.pause();
    this.#wake();
  };

  #onEnd = (): void => {
    this.#state = 'ended';
    this.#wake();
  };

  #onBroken = (): void => {
    if (this.#state === 'open') this.#state = 'broken';
    this.#wake();
  };

  async #waitForChange(): Promise<void> {
    const { stallMs, graceMs, bytesPerSecond } = this.#rate;
    const sinceMs = performance.now();
    const leftMs = graceMs + (this.#arrivedBytes / bytesPerSecond) * 1000 - this.#waitedMs;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#wake = () => resolve(true);
    // What came while this process was busy is read before the client is given up.
    const giveUp = (): void => void setImmediate(resolve, false);
    const timer = setTimeout(giveUp, Math.max(0, Math.min(stallMs, leftMs)));
    const isInTime = await promise;
    clearTimeout(timer);
    if (!isInTime) throw new UploadError('too-slow');
    this.#waitedMs += performance.now() - sinceMs;
  }
}

interface ReceiveOptions {
  /** What has to come. */
  sizeBytes: number;
  sha256: Uint8Array;
  /** One permit is held while the consumer works on a piece. */
  writers: Semaphore;
}

/** Yields the body piece by piece; throws UploadError unless it is what has to come. */
export async function* receive(
  reader: UploadReader,
  { sizeBytes, sha256, writers }: ReceiveOptions,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  let receivedBytes = 0;
  for (let piece = await reader.next(); piece !== undefined; piece = await reader.next()) {
    receivedBytes += piece.length;
    if (receivedBytes > sizeBytes) throw new UploadError('too-long');
    hash.update(piece);
    await writers.acquire();
    try {
      yield piece;
    } finally {
      writers.release();
    }
  }
  if (receivedBytes !== sizeBytes) throw new UploadError('other-size');
  if (!hash.digest().equals(sha256)) throw new UploadError('other-digest');
}

export interface UploadLimits {
  perFile: number;
  /** Both modes of an account together. */
  perAccount: number;
  total: number;
}

/** In all, half of the requests that the service works on at once. */
export const UPLOAD_LIMITS: UploadLimits = { perFile: 8, perAccount: 100, total: 500 };
const RETRY_AFTER_SECONDS = 5;

export interface UploadKey {
  accountId: string;
  submissionId: string;
  number: number;
}

interface UploadLimiter {
  /** Admits one more upload of this file; the value releases it again, and is to be called once. OVERLOADED otherwise. */
  acquire(key: UploadKey): Result<() => void>;
}

export function createUploadLimiter(limits: UploadLimits = UPLOAD_LIMITS): UploadLimiter {
  const { perFile, perAccount, total } = limits;
  const counts = new Map<string, number>();
  const countOf = (name: string): number => counts.get(name) ?? 0;
  const add = (name: string, change: number): void => {
    const count = countOf(name) + change;
    if (count === 0) counts.delete(name);
    else counts.set(name, count);
  };
  return {
    acquire: ({ accountId, submissionId, number }) => {
      const bounds: [name: string, most: number, message: string][] = [
        [
          `${submissionId} ${number}`,
          perFile,
          `This file is being uploaded ${perFile} times at this moment; wait for one of the uploads to end.`,
        ],
        [
          accountId,
          perAccount,
          `${perAccount} files of this account are being uploaded at this moment; upload this one when one of them has ended.`,
        ],
        [
          'all',
          total,
          'The service is at work on as many uploads as it takes at once, and has kept nothing; upload the file again.',
        ],
      ];
      for (const [name, most, message] of bounds) {
        if (countOf(name) >= most)
          return refuse(failure('OVERLOADED', { message, retryAfterSeconds: RETRY_AFTER_SECONDS }));
      }
      for (const [name] of bounds) add(name, 1);
      return ok(() => {
        for (const [name] of bounds) add(name, -1);
      });
    },
  };
}
