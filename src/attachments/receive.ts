/**
 * The bytes of an upload on their way into blob storage: counted, hashed, and cut off one byte beyond the announced size.
 * Ends without an error only if exactly the manifest's bytes came, so that whatever consumes it keeps nothing else.
 *
 * A client that is slow for its own reasons is given up: when nothing comes for a while, and when it falls behind a minimum
 * rate. Time during which the storage is what is waited for does not count.
 */
import { createHash } from 'node:crypto';
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

export interface Expected {
  sizeBytes: number;
  sha256: Uint8Array;
}

/** Yields the body; throws UploadError unless it is what is expected. */
export async function* receive(body: Readable, expected: Expected, pace: UploadPace): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  const chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let sizeBytes = 0;
  let waitedMs = 0;
  try {
    for (;;) {
      const allowedMs = Math.min(pace.stallMs, pace.graceMs + (sizeBytes / pace.bytesPerSecond) * 1000 - waitedMs);
      const began = performance.now();
      const chunk = await nextWithin(chunks, allowedMs);
      waitedMs += performance.now() - began;
      if (chunk === undefined) break;
      sizeBytes += chunk.length;
      if (sizeBytes > expected.sizeBytes) throw new UploadError('too-long');
      hash.update(chunk);
      yield chunk;
    }
  } finally {
    body.destroy();
  }
  if (sizeBytes !== expected.sizeBytes) throw new UploadError('other-size');
  if (!hash.digest().equals(expected.sha256)) throw new UploadError('other-digest');
}

/** The next piece of the body, undefined at its end. */
async function nextWithin(chunks: AsyncIterator<Buffer>, timeoutMs: number): Promise<Buffer | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new UploadError('too-slow')), Math.max(0, timeoutMs));
  });
  const next = chunks.next().catch(() => {
    // The client went away, or what it sent is not HTTP any more.
    throw new UploadError('broken-off');
  });
  try {
    const result = await Promise.race([next, deadline]);
    return result.done === true ? undefined : result.value;
  } finally {
    clearTimeout(timer);
    // After the deadline nobody waits for it any more.
    next.catch(() => undefined);
  }
}
