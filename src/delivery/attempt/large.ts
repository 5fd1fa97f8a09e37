/**
 * Messages with separate files in blob storage, which are never in memory as a whole. The body is hashed for the signatures in one pass
 * over the files, and each attempt reads them again. Both passes check the length and SHA-256 of every file. If a file is missing or
 * changed, the pass ends before the last lines of that file: the attempt is cut without its final dot, so the peer accepts nothing, and an
 * error is logged.
 *
 * The hash of a body depends only on the content and is kept for later attempts.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Log } from '../../base/log.ts';
import { type PreparedDkim, prepareDkimHeader } from '../../mail/compose/dkim-sign.ts';
import type { Base64Lines } from '../../mail/compose/transfer-encoding.ts';
import { BodyHash } from '../../mail/dkim-canonicalization.ts';
import { endOfHeader } from '../../mail/mime/header-fields.ts';
import {
  ContentFault,
  type DeliveryJob,
  type EmailFile,
  findMissingFile,
  readLargeContent,
} from '../../messages/messages.ts';
import type { Blobs } from '../../storage/blobs/blobs.ts';

/** Content that is streamed from storage for each attempt. */
export interface StreamedContent {
  sizeBytes: number;
  /** The header including the empty line. */
  header: Buffer;
  read(): AsyncIterable<Buffer | Base64Lines>;
}

/** Keyed by email; the oldest entries are evicted. */
export type BodyHashes = Map<string, string>;

const MAX_BODY_HASHES = 1_000;

export interface LargeJob {
  job: DeliveryJob;
  /** Everything except the files. */
  content: Buffer;
  files: readonly EmailFile[];
}

export interface LargeDeps {
  blobs: Blobs;
  log: Log;
  bodyHashes: BodyHashes;
}

/** Returns why the content cannot be sent, as a message for users; the log has the details. */
function tell({ job }: LargeJob, error: Error, { log }: LargeDeps): string {
  const isFault = error instanceof ContentFault;
  const message = isFault ? error.message : 'a stored file of the message cannot be read';
  const { messageId, sizeBytes } = job;
  const blob = isFault ? { blobKey: error.blobKey } : { error: error.message };
  log.error({ messageId, sizeBytes, ...blob }, `${message}; it is not sent`);
  return message;
}

/** Returns the content as an attempt sends it, or why it cannot be sent. Checks that the files exist without reading them. */
export async function openLarge(large: LargeJob, deps: LargeDeps): Promise<StreamedContent | string> {
  try {
    const missing = await findMissingFile(large.files, deps.blobs);
    if (missing) return tell(large, missing, deps);
  } catch (error) {
    return tell(large, error as Error, deps);
  }
  const header = large.content.subarray(0, endOfHeader(large.content).bodyStart);
  return { sizeBytes: large.job.sizeBytes, header, read: () => readToSend(large, deps) };
}

async function* readToSend(large: LargeJob, deps: LargeDeps): AsyncGenerator<Buffer | Base64Lines> {
  try {
    yield* readLargeContent(large, deps.blobs);
  } catch (error) {
    throw new Error(tell(large, error as Error, deps));
  }
}

/** Returns the input of the signatures, or why the content cannot be read. */
export async function prepareLargeDkim(large: LargeJob, deps: LargeDeps): Promise<PreparedDkim | string> {
  const { job, content } = large;
  const { headerEnd, bodyStart } = endOfHeader(content);
  // Sequence numbers of removed emails may be reused; Message-IDs are not.
  const key = `${job.emailSeq} ${job.headerMessageId}`;
  let bodyHash = deps.bodyHashes.get(key);
  try {
    bodyHash ??= await hashBody(large, bodyStart, deps);
  } catch (error) {
    return tell(large, error as Error, deps);
  }
  deps.bodyHashes.delete(key);
  deps.bodyHashes.set(key, bodyHash);
  if (deps.bodyHashes.size > MAX_BODY_HASHES) deps.bodyHashes.delete(deps.bodyHashes.keys().next().value!);
  return prepareDkimHeader(content.subarray(0, headerEnd), bodyHash);
}

/** A chunk blocks the event loop for 0.25 ms; other work runs between chunks. */
async function hashBody(large: LargeJob, from: number, deps: LargeDeps): Promise<string> {
  const body = new BodyHash('relaxed');
  let skip = from;
  for await (const chunk of readLargeContent(large, deps.blobs)) {
    if (Buffer.isBuffer(chunk)) {
      body.update(chunk.subarray(Math.min(skip, chunk.length)));
      skip -= Math.min(skip, chunk.length);
      await nextTurn();
    } else body.update(chunk.base64);
  }
  return body.digest();
}
