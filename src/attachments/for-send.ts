/**
 * Provides the files of an upload batch to POST /send, complete and in order, or explains why it cannot be sent. Completeness is checked
 * again: the blobs must exist with the right size. Files that were uploaded directly to blob storage are read and hashed, and so are files
 * that changed on disk since their upload according to the file system. The result is valid only while the batch keeps its `version`, which
 * the caller compares in its transaction.
 */
import { createHash } from 'node:crypto';
import { type Failure, failure, type Issue, ok, type Result, refuse } from '../base/failure.ts';
import { BlobDamaged, type Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import {
  type BatchFile,
  type BatchKey,
  batchOperation,
  confirmFileOperation,
  readConsistently,
  type UploadBatch,
} from './store.ts';

export interface FileToSend {
  name: string;
  contentType: string;
  sizeBytes: number;
  sha256: Buffer;
  blobKey: string;
}

export interface CompleteBatch {
  submissionId: string;
  /** Pass it to `markBatchUsed` in the transaction of the send. */
  version: number;
  /** In the order of the manifest. */
  files: FileToSend[];
}

export interface SendReference extends Omit<BatchKey, 'id'> {
  submissionId: string;
  /** Key of the POST /send. It must equal the key of the POST /attachments, or both must be absent. */
  idempotencyKey: string | undefined;
}

interface Dependencies {
  database: Database;
  blobs: Pick<Blobs, 'sizeOf' | 'read' | 'stampOf'>;
}

const AGAIN_AND_AGAIN =
  'The files keep changing because they are being uploaded again. Send the email once the uploads have ended.';

/**
 * Uses a complete batch. `use` returns undefined if its transaction found another version; the batch is then read again. Refuses with
 * SUBMISSION_NOT_FOUND, IDEMPOTENCY_KEY_MISMATCH, SUBMISSION_ALREADY_USED, or ATTACHMENT_UPLOAD_INCOMPLETE, in this order.
 */
export async function useBatch<T>(
  dependencies: Dependencies,
  { accountId, mode, submissionId, idempotencyKey }: SendReference,
  use: (batch: CompleteBatch) => Promise<Result<T> | undefined>,
): Promise<Result<T>> {
  const find = () => dependencies.database.execute(batchOperation, { accountId, mode, id: submissionId });
  const used = await readConsistently(find, async (batch): Promise<{ isFinal: boolean; result: Result<T> }> => {
    if (batch.idempotencyKey !== (idempotencyKey ?? null)) return final(failure('IDEMPOTENCY_KEY_MISMATCH'));
    if (batch.usedAt !== null) return final(failure('SUBMISSION_ALREADY_USED'));
    const complete = await checkFiles(dependencies, batch);
    if (!complete.ok) return { isFinal: false, result: complete };
    const result = await use(complete.value);
    if (result !== undefined) return { isFinal: true, result };
    const changed = failure('ATTACHMENT_UPLOAD_INCOMPLETE', { message: AGAIN_AND_AGAIN });
    return { isFinal: false, result: refuse(changed) };
  });
  return used === undefined ? refuse(failure('SUBMISSION_NOT_FOUND')) : used.result;
}

function final(why: Failure): { isFinal: true; result: { ok: false; failure: Failure } } {
  return { isFinal: true, result: refuse(why) };
}

/** The complete batch, or ATTACHMENT_UPLOAD_INCOMPLETE with every file that is missing or differs. */
async function checkFiles(dependencies: Dependencies, batch: UploadBatch): Promise<Result<CompleteBatch>> {
  const checked = await Promise.all(batch.files.map((file) => checkFile(dependencies, batch.id, file)));
  const details = checked.filter((one): one is Issue => 'field' in one);
  if (details.length > 0) return refuse(failure('ATTACHMENT_UPLOAD_INCOMPLETE', { details }));
  return ok({ submissionId: batch.id, version: batch.version, files: checked as FileToSend[] });
}

async function checkFile(
  { database, blobs }: Dependencies,
  submissionId: string,
  file: BatchFile,
): Promise<FileToSend | Issue> {
  const { number, name, contentType, sizeBytes, blobKey } = file;
  const sha256 = Buffer.from(file.sha256);
  const issue = (message: string): Issue => ({
    field: `attachments[${number}]`,
    message: `(${name}) ${message}; upload it to its uploadUrl with PUT`,
  });
  if (blobKey === null) return issue('has not been uploaded');
  const found: FileToSend = { name, contentType, sizeBytes, sha256, blobKey };
  // Taken before the bytes are read, so that a concurrent change is detected on the next read.
  const blobStamp = await blobs.stampOf?.(blobKey);
  if (blobStamp !== undefined && blobStamp === file.blobStamp) return found;
  const storedBytes = await blobs.sizeOf(blobKey);
  if (storedBytes === undefined) return issue('has not been uploaded');
  if (storedBytes !== sizeBytes)
    return issue(`has ${storedBytes} bytes instead of the ${sizeBytes} bytes in the manifest`);
  const isHashed = file.direct || blobStamp !== undefined;
  if (isHashed && !(await hasDigest(blobs, blobKey, sha256)))
    return issue('has a SHA-256 that differs from the manifest');
  if (blobStamp !== undefined && !file.direct)
    await database.execute(confirmFileOperation, { submissionId, number, blobKey, blobStamp });
  return found;
}

async function hasDigest(blobs: Pick<Blobs, 'read'>, blobKey: string, sha256: Buffer): Promise<boolean> {
  const stream = await blobs.read(blobKey);
  if (stream === undefined) return false;
  const hash = createHash('sha256');
  try {
    for await (const chunk of stream) hash.update(chunk as Buffer);
  } catch (error) {
    if (error instanceof BlobDamaged) return false;
    throw error;
  }
  return hash.digest().equals(sha256);
}
