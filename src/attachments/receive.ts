/**
 * Streams the bytes of an upload to blob storage, hashing and counting them. It ends without an error only if exactly the manifest's bytes
 * arrived, so that the consumer stores nothing else.
 *
 * An upload is aborted if its client sends nothing for a while or falls below a minimum rate. Only the time spent waiting for the client
 * counts, not that of the storage. Few uploads write at the same time and each uses little memory; an idle client holds no permit.
 *
 * The number of simultaneous uploads in this process is limited per file (several connections can use one URL), per account (stalled
 * connections of one account must not block others), and in total (other requests keep their share of the service).
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
  /** Time that every upload has, regardless of its progress. */
  graceMs: number;
  /** Minimum average rate since the start, after the grace period. */
  bytesPerSecond: number;
}

/** 29 MB within 10 minutes: below the limit of 15 minutes that every request has. */
export const UPLOAD_RATE: LeastRate = { stallMs: 30_000, graceMs: 30_000, bytesPerSecond: 50_000 };

/** Maximum bytes that one upload buffers in memory. */
const WAITING_BYTES = 256 * 1024;

/** Reads a body piece by piece while its client keeps the minimum rate. Listens from the moment it is created. */
export class UploadReader {
  readonly #body: Readable;
  readonly #rate: LeastRate;
  #state: 'open' | 'ended' | 'broken';
  /** Received bytes that were not requested yet. The body flows while they are few: pausing it for each piece would halve the rate. */
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #arrivedBytes = 0;
  #waitedMs = 0;
  #wake = (): void => undefined;

  constructor(body: Readable, rate: LeastRate) {
    this.#body = body;
    this.#rate = rate;
    this.#state = body.destroyed && !body.readableEnded ? 'broken' : 'open';
    body.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#onBroken).on('close', this.#onBroken);
  }

  /** Returns the next piece, or undefined at the end. Rejects with UploadError. Only one call at a time. */
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

  /** Stops reading; the remaining body stays unread. */
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
    // Reads bytes that arrived while this process was busy before the client is given up.
    const giveUp = (): void => void setImmediate(resolve, false);
    const timer = setTimeout(giveUp, Math.max(0, Math.min(stallMs, leftMs)));
    const isInTime = await promise;
    clearTimeout(timer);
    if (!isInTime) throw new UploadError('too-slow');
    this.#waitedMs += performance.now() - sinceMs;
  }
}

interface ReceiveOptions {
  sizeBytes: number;
  sha256: Uint8Array;
  /** One permit is held while the consumer processes a piece. */
  writers: Semaphore;
}

/** Yields the body piece by piece; throws UploadError unless it is exactly the expected content. */
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

/** In total, half of the requests that the service processes at the same time. */
export const UPLOAD_LIMITS: UploadLimits = { perFile: 8, perAccount: 100, total: 500 };
const RETRY_AFTER_SECONDS = 5;

export interface UploadKey {
  accountId: string;
  submissionId: string;
  number: number;
}

interface UploadLimiter {
  /** Admits one more upload of this file, or returns OVERLOADED. Call the returned function once to release it. */
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
          `${perFile} uploads of this file are in progress. Wait for one of them to end.`,
        ],
        [
          accountId,
          perAccount,
          `${perAccount} uploads of this account are in progress. Retry when one of them has ended.`,
        ],
        ['all', total, 'Too many uploads are in progress. Nothing was stored. Upload the file again.'],
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
