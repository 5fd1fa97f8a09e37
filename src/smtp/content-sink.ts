/**
 * Where the content of a mail goes while it comes in: small content stays in memory, and content beyond 64 KB streams into a blob, so
 * that memory stays flat whatever the size. The writer learns when to pause. Small pieces are gathered, so that content in pieces of
 * a byte costs no more than in one. A blob whose mail is not accepted is removed; content that storage does not take makes
 * finish() reject with its error, and what still comes is thrown away.
 */
import { ByteQueue } from '../base/byte-queue.ts';
import { INLINE_BYTES } from '../messages/messages.ts';
import { createSubmissionDigest, type SubmittedContent } from '../send/send.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';

/** Bytes that can wait for the blob storage before the client is paused. */
const WAITING_BYTES = 256 * 1024;
/** Pieces from this size on go to the blob storage as they are; smaller ones are copied into buffers of the other size. */
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
  /** The memory of the chunk may not be used again. */
  write(chunk: Buffer): void;
  /** Resolves when more can be taken; undefined when it can. */
  untilReady(): Promise<void> | undefined;
  /** Ends the content and returns it. The caller then owns the stored blob. */
  finish(): FinishedContent | Promise<FinishedContent>;
  /** Removes what was stored, unless it was given away. */
  discard(): void;
}

/** `startDigest` for content whose digest nobody asks for. */
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
      // Until it is stored, and for as long as its delivery holds it, it keeps all the memory behind it.
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
  /** Small pieces that are not in the queue yet; memory that once was is not written again. */
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

  // Asked again behind every yield.
  const isDiscarded = (): boolean => state === 'discarded';

  async function* source(): AsyncGenerator<Buffer> {
    for (;;) {
      if (isDiscarded()) throw new Discarded('the mail was not accepted');
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
  // Noticed at once, so that a client does not wait in vain; finish() reports it.
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
