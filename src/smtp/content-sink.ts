/**
 * Stores the content of a message while it arrives: small content stays in memory, content over 64 KB streams into a blob, so that memory
 * is constant for any size. The writer is told when to pause. Small pieces are combined, so that content sent byte by byte costs no more. A
 * blob is removed if its mail is not accepted; if storage fails, finish() rejects with its error, and the remaining content is discarded.
 */
import { ByteQueue } from '../base/byte-queue.ts';
import { INLINE_BYTES } from '../messages/messages.ts';
import { createSubmissionDigest, type SubmittedContent } from '../send/send.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';

/** Bytes that can wait for the blob storage before the client is paused. */
const WAITING_BYTES = 256 * 1024;
/** Pieces from this size on are passed to blob storage uncopied; smaller ones are collected into buffers of the other size. */
const LARGE_PIECE_BYTES = 4 * 1024;
const GATHERED_BYTES = 64 * 1024;
/** Unused memory that may come with content that stays in memory. */
const SLACK_BYTES = 4 * 1024;
/** Memory that a queued piece costs in addition to its bytes. */
const PIECE_BYTES = 512;

export interface FinishedContent {
  content: SubmittedContent;
  /** Digest of the content without the fields that a retry may change; see createSubmissionDigest. */
  digest(): Buffer;
}

type Digest = ReturnType<typeof createSubmissionDigest>;

export interface ContentSink {
  /** The memory of the chunk must not be reused. */
  write(chunk: Buffer): void;
  /** Resolves when more can be written; undefined if it can. */
  untilReady(): Promise<void> | undefined;
  /** Ends the content and returns it. The caller then owns the stored blob. */
  finish(): FinishedContent | Promise<FinishedContent>;
  /** Removes what was stored, unless it was taken over. */
  discard(): void;
}

/** `startDigest` replaces the digest if none is needed. */
export function createContentSink(blobs: Blobs, startDigest: () => Digest = createSubmissionDigest): ContentSink {
  const inline = new ByteQueue();
  let stream: BlobStream | undefined;

  return {
    write: (chunk) => {
      if (stream === undefined && inline.length + chunk.length <= INLINE_BYTES) {
        inline.push(chunk);
        return;
      }
      if (stream === undefined) {
        stream = streamToBlob(blobs, startDigest());
        stream.push(inline.bytes);
        inline.clear();
      }
      stream.push(chunk);
    },
    untilReady: () => stream?.untilReady(),
    finish: () => {
      if (stream) return stream.finish();
      const { bytes } = inline;
      // The content keeps its complete buffer in memory until it is stored and delivered.
      const content = bytes.buffer.byteLength > bytes.length + SLACK_BYTES ? Buffer.from(bytes) : bytes;
      return { content, digest: () => digestOf(content) };
    },
    discard: () => {
      inline.clear();
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
  untilReady(): Promise<void> | undefined;
  finish(): Promise<FinishedContent>;
  discard(): void;
}

const NOTHING = Buffer.alloc(0);

class Discarded extends Error {
  override name = 'Discarded';
}

/** A queue between the connection, which pushes, and the blob storage, which pulls. */
function streamToBlob(blobs: Blobs, digest: Digest): BlobStream {
  let queue: Buffer[] = [];
  /** Small pieces that are not queued yet; memory that was queued is not written again. */
  let gathering = NOTHING;
  let gathered = { from: 0, to: 0 };
  let waitingBytes = 0;
  let sizeBytes = 0;
  let state: 'open' | 'ended' | 'given' | 'discarded' | 'broken' = 'open';
  let wakeReader: () => void = () => undefined;
  let drained: { promise: Promise<void>; resolve: () => void } | undefined;

  const drain = (): void => {
    drained?.resolve();
    drained = undefined;
  };

  // Checked again after every yield.
  const isDiscarded = (): boolean => state === 'discarded';

  async function* source(): AsyncGenerator<Buffer> {
    for (;;) {
      if (isDiscarded()) throw new Discarded('the message was not accepted');
      const taken = queue;
      queue = [];
      for (const chunk of taken) {
        yield chunk;
        waitingBytes -= chunk.length + PIECE_BYTES;
        if (waitingBytes < WAITING_BYTES / 2) drain();
      }
      if (queue.length > 0 || isDiscarded()) continue;
      if (state === 'ended') return;
      await new Promise<void>((resolve) => {
        wakeReader = resolve;
      });
    }
  }

  const enqueue = (piece: Buffer): void => {
    digest.update(piece);
    waitingBytes += piece.length + PIECE_BYTES;
    queue.push(piece);
    wakeReader();
  };
  const enqueueGathered = (): void => {
    const { from, to } = gathered;
    if (to === from) return;
    gathered = { from: to, to };
    enqueue(gathering.subarray(from, to));
  };
  const gather = (piece: Buffer): void => {
    if (gathered.to + piece.length > gathering.length) {
      enqueueGathered();
      gathering = Buffer.allocUnsafeSlow(GATHERED_BYTES);
      gathered = { from: 0, to: 0 };
    }
    piece.copy(gathering, gathered.to);
    gathered.to += piece.length;
  };
  const push = (chunk: Buffer): void => {
    if (state !== 'open') return;
    sizeBytes += chunk.length;
    if (chunk.length < LARGE_PIECE_BYTES) gather(chunk);
    else {
      enqueueGathered();
      enqueue(chunk);
    }
  };

  const stored = blobs.putStream(source());
  // Detected immediately, so that a client does not wait for nothing; finish() reports it.
  stored.catch(() => {
    if (state === 'open') state = 'broken';
    queue = [];
    waitingBytes = 0;
    drain();
  });

  return {
    push,
    untilReady: () => {
      if (waitingBytes < WAITING_BYTES || state !== 'open') return undefined;
      drained ??= Promise.withResolvers<void>();
      return drained.promise;
    },
    finish: async () => {
      if (state === 'open') {
        enqueueGathered();
        state = 'ended';
      }
      wakeReader();
      const blobKey = await stored;
      if (isDiscarded()) throw new Discarded('the message was aborted');
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
