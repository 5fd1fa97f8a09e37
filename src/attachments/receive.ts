/**
 * The bytes of an upload on their way into blob storage, hashed as they pass. Ends without an error only if exactly the
 * manifest's bytes came, so that whatever consumes it keeps nothing else. Bytes move only while the upload has a place; the
 * last place is kept, for whoever stores the bytes to give up.
 */
import { createHash } from 'node:crypto';
import { type Inflow, UploadError } from './inflow.ts';
import type { Seat } from './upload-turns.ts';

export interface Expected {
  sizeBytes: number;
  sha256: Uint8Array;
}

/**
 * Yields the body in large pieces, each of which is overwritten as soon as the one after the next is asked for; throws
 * UploadError unless it is what is expected.
 */
export async function* receive(inflow: Inflow, expected: Expected, seat: Seat): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  let receivedBytes = 0;
  while (!inflow.isOver()) {
    await inflow.arrival();
    let [present, next] = await seat.take();
    let filling: Promise<number> | undefined = inflow.fill(present);
    while (filling) {
      const bytes: Buffer = present.subarray(0, await filling);
      const isSlow = bytes.length < present.length;
      filling = isSlow || inflow.isOver() || seat.isTurnOver() ? undefined : readAhead(inflow, next);
      hash.update(bytes);
      receivedBytes += bytes.length;
      if (bytes.length > 0) yield bytes;
      [present, next] = [next, present];
    }
    if (inflow.isOver()) break;
    seat.leave();
  }
  if (receivedBytes !== expected.sizeBytes) throw new UploadError('other-size');
  if (!hash.digest().equals(expected.sha256)) throw new UploadError('other-digest');
}

/** A failure shows when the bytes are asked for; nobody may be asking when it happens. */
function readAhead(inflow: Inflow, into: Buffer): Promise<number> {
  const filling = inflow.fill(into);
  filling.catch(() => undefined);
  return filling;
}
