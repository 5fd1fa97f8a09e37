/**
 * Where the content of a mail goes while it comes in: small content stays in memory, and content beyond 64 KB streams into a blob, so
 * that memory stays flat whatever the size. The writer is told when to pause. A blob whose mail is not accepted is removed;
 * content that storage does not take makes finish() reject with its error, and what still comes is thrown away.
 */
import { createSubmissionDigest, type SubmittedContent } from '../send/send.ts';
import type { Blobs } from '../storage/blobs.ts';

/** As much as the intake keeps in the database. */
const INLINE_BYTES = 64 * 1024;
/** What may wait for the blob storage before the client is paused. */
const WAITING_BYTES = 256 * 1024;

export interface FinishedContent {
  content: SubmittedContent;
  /** Of the content without what a repeated submission may change; see createSubmissionDigest. */
  digest(): Buffer;
}

export interface ContentSink {
  write(chunk: Buffer): void;
  /** Resolves when there is room again; undefined while there is. */
  room(): Promise<void> | undefined;
  /** What was stored is the caller's from here on. */
  finish(): FinishedContent | Promise<FinishedContent>;
  /** Removes what was stored, unless it was given away. */
  discard(): void;
}

export function createContentSink(blobs: Blobs): ContentSink {
  let chunks: Buffer[] = [];
  let sizeBytes = 0;
  let stream: BlobStream | undefined;

  return {
    write: (chunk) => {
      sizeBytes += chunk.length;
      if (stream) {
        stream.push(chunk);
        return;
      }
      chunks.push(chunk);
      if (sizeBytes <= INLINE_BYTES) return;
      stream = streamToBlob(blobs, chunks);
      chunks = [];
    },
    room: () => stream?.room(),
    finish: () => {
      if (stream) return stream.finish();
      const content = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, sizeBytes);
      return { content, digest: () => digestOf(content) };
    },
    discard: () => {
      chunks = [];
      stream?.discard();
    },
  };
}

function digestOf(content: Buffer): Buffer {
  const digest = createSubmissionDigest();
  digest.update(content);
  return digest.digest();
}

interface BlobStream {
  push(chunk: Buffer): void;
  room(): Promise<void> | undefined;
  finish(): Promise<FinishedContent>;
  discard(): void;
}

class Discarded extends Error {
  override name = 'Discarded';
}

/** A queue between the connection, which pushes, and the blob storage, which pulls. */
function streamToBlob(blobs: Blobs, first: Buffer[]): BlobStream {
  const digest = createSubmissionDigest();
  let queue: Buffer[] = [];
  let waitingBytes = 0;
  let sizeBytes = 0;
  let state: 'open' | 'ended' | 'given' | 'discarded' | 'broken' = 'open';
  let wakeReader: () => void = () => undefined;
  let drained: { promise: Promise<void>; resolve: () => void } | undefined;

  const drain = (): void => {
    drained?.resolve();
    drained = undefined;
  };

  // Asked anew behind every yield.
  const isDiscarded = (): boolean => state === 'discarded';

  async function* source(): AsyncGenerator<Buffer> {
    for (;;) {
      if (isDiscarded()) throw new Discarded('the mail was not accepted');
      const taken = queue;
      queue = [];
      for (const chunk of taken) {
        yield chunk;
        waitingBytes -= chunk.length;
        if (waitingBytes < WAITING_BYTES / 2) drain();
      }
      if (queue.length > 0 || isDiscarded()) continue;
      if (state === 'ended') return;
      await new Promise<void>((resolve) => {
        wakeReader = resolve;
      });
    }
  }

  const push = (chunk: Buffer): void => {
    if (state !== 'open') return;
    digest.update(chunk);
    sizeBytes += chunk.length;
    waitingBytes += chunk.length;
    queue.push(chunk);
    wakeReader();
  };
  for (const chunk of first) push(chunk);

  const stored = blobs.putStream(source());
  // Noticed at once, so that a client does not wait for room that never comes; told by finish().
  stored.catch(() => {
    if (state === 'open') state = 'broken';
    queue = [];
    waitingBytes = 0;
    drain();
  });

  return {
    push,
    room: () => {
      if (waitingBytes < WAITING_BYTES || state !== 'open') return undefined;
      drained ??= Promise.withResolvers<void>();
      return drained.promise;
    },
    finish: async () => {
      if (state === 'open') state = 'ended';
      wakeReader();
      const blobKey = await stored;
      if (isDiscarded()) throw new Discarded('the mail was given up');
      state = 'given';
      return { content: { blobKey, sizeBytes }, digest: () => digest.digest() };
    },
    discard: () => {
      if (state === 'discarded' || state === 'given') return;
      state = 'discarded';
      wakeReader();
      drain();
      stored.then((key) => blobs.remove(key)).catch(() => undefined);
    },
  };
}
