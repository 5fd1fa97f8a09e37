/**
 * Mail with files of its own in blob storage, which is never in memory as a whole: its body is hashed for the signatures in
 * one pass over the files, and each attempt reads them once more. Both passes check every file's length and SHA-256. A pass
 * that finds a file missing or changed ends before the last lines of that file are out: an attempt is cut without its final
 * dot, nothing is accepted by the peer, and the log says so at level error.
 *
 * The hash of a body depends on nothing but the content, and is kept for later attempts.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Log } from '../../base/log.ts';
import { type PreparedDkim, prepareDkimHeader, RelaxedBodyHash } from '../../mail/compose/dkim-sign.ts';

import type { Base64Lines } from '../../mail/compose/transfer-encoding.ts';
import { endOfHeader } from '../../mail/mime/header-fields.ts';
import {
  ContentFault,
  type DeliveryJob,
  type EmailFile,
  findMissingFile,
  readLargeContent,
} from '../../messages/messages.ts';
import type { Blobs } from '../../storage/blobs/blobs.ts';

/** Content that is read while it is sent, again each time. */
export interface StreamedContent {
  sizeBytes: number;
  /** Its header with the empty line, with which it begins. */
  header: Buffer;
  read(): AsyncIterable<Buffer | Base64Lines>;
}

/** By the email; the oldest make way. */
export type BodyHashes = Map<string, string>;

const MAX_BODY_HASHES = 1_000;

export interface LargeJob {
  job: DeliveryJob;
  /** Everything but the files. */
  content: Buffer;
  files: readonly EmailFile[];
}

export interface LargeDeps {
  blobs: Blobs;
  log: Log;
  bodyHashes: BodyHashes;
}

/** Why it cannot be sent, in a sentence that a user may read; the log has the rest. */
function tell({ job }: LargeJob, error: Error, { log }: LargeDeps): string {
  const isFault = error instanceof ContentFault;
  const message = isFault ? error.message : 'a stored file of the message cannot be read';
  const { messageId, sizeBytes } = job;
  const blob = isFault ? { blobKey: error.blobKey } : { error: error.message };
  log.error({ messageId, sizeBytes, ...blob }, `${message}; it is not sent`);
  return message;
}

/** The content as an attempt sends it, or why it cannot be sent. Looks for the files without reading them. */
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

/** What the signatures cover, or why the content cannot be read. */
export async function prepareLargeDkim(large: LargeJob, deps: LargeDeps): Promise<PreparedDkim | string> {
  const { job, content } = large;
  const { headerEnd, bodyStart } = endOfHeader(content);
  // Numbers of removed emails may be given again; Message-IDs are not.
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

/** A chunk costs the event loop a quarter of a millisecond, and between two chunks others have their turn. */
async function hashBody(large: LargeJob, from: number, deps: LargeDeps): Promise<string> {
  const body = new RelaxedBodyHash();
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
