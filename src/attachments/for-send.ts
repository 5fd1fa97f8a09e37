/**
 * What POST /send learns of a submission: its files, complete and in their order, or why it cannot be sent. Completeness is
 * looked at again: the blobs have to be there with the right size. What went straight to the blob storage, past us, is read and
 * hashed, and so is a file that the file system says was touched since its upload: changed on the disk, or restored from a
 * backup. What is answered here holds only as long as the submission keeps its `version`.
 */
import { createHash } from 'node:crypto';
import { type Failure, failure, type Issue } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { BlobDamaged, type Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import { lookSteadily } from './steady-look.ts';
import { confirmFileOperation } from './store.ts';
import type { SubmissionFile } from './submission.ts';

export interface FileToSend {
  name: string;
  contentType: string;
  sizeBytes: number;
  sha256: Buffer;
  blobKey: string;
}

export interface SubmissionToSend {
  submissionId: string;
  /** To be given to `takeSubmission` in the transaction of the send. */
  version: number;
  /** In the order of the manifest. */
  files: FileToSend[];
}

export interface SendReference {
  accountId: string;
  mode: Mode;
  submissionId: string;
  /** Of the POST /send; it must be that of the POST /attachments, or both must have none. */
  idempotencyKey: string | undefined;
}

type StoredFiles = Pick<Blobs, 'sizeOf' | 'read' | 'stampOf'>;

/** SUBMISSION_NOT_FOUND, IDEMPOTENCY_KEY_MISMATCH, SUBMISSION_ALREADY_USED or ATTACHMENT_UPLOAD_INCOMPLETE, in this order. */
export async function submissionForSend(
  { database, blobs }: { database: Database; blobs: StoredFiles },
  reference: SendReference,
): Promise<Result<SubmissionToSend>> {
  const { accountId, mode, submissionId, idempotencyKey } = reference;
  const key = { accountId, mode, id: submissionId };
  const seen = await lookSteadily(database, key, async (submission): Promise<Looked> => {
    if (submission.idempotencyKey !== (idempotencyKey ?? null)) return refused(failure('IDEMPOTENCY_KEY_MISMATCH'));
    if (submission.usedAt !== null) return refused(failure('SUBMISSION_ALREADY_USED'));
    const found = await Promise.all(submission.files.map((file) => lookAt({ database, blobs, submissionId }, file)));
    const details = found.filter((one): one is Issue => 'field' in one);
    if (details.length > 0)
      return { isComplete: false, result: refuse(failure('ATTACHMENT_UPLOAD_INCOMPLETE', { details })) };
    const files = found as FileToSend[];
    return { isComplete: true, result: ok({ submissionId, version: submission.version, files }) };
  });
  return seen === undefined ? refuse(failure('SUBMISSION_NOT_FOUND')) : seen.result;
}

interface Looked {
  /** Nothing seems missing: this is how it is. */
  isComplete: boolean;
  result: Result<SubmissionToSend>;
}

/** Refused for what does not change with another look. */
function refused(why: Failure): Looked {
  return { isComplete: true, result: refuse(why) };
}

interface Place {
  database: Database;
  blobs: StoredFiles;
  submissionId: string;
}

async function lookAt({ database, blobs, submissionId }: Place, file: SubmissionFile): Promise<FileToSend | Issue> {
  const { number, name, contentType, sizeBytes, blobKey } = file;
  const sha256 = Buffer.from(file.sha256);
  const issue = (message: string): Issue => ({
    field: `attachments[${number}]`,
    message: `(${name}) ${message}; PUT it to its uploadUrl`,
  });
  if (blobKey === null) return issue('has not been uploaded');
  const found: FileToSend = { name, contentType, sizeBytes, sha256, blobKey };
  // Taken before the bytes are read, so that a change meanwhile shows at the next look.
  const blobStamp = await blobs.stampOf?.(blobKey);
  if (blobStamp !== undefined && blobStamp === file.blobStamp) return found;
  const storedBytes = await blobs.sizeOf(blobKey);
  if (storedBytes === undefined) return issue('has not been uploaded');
  if (storedBytes !== sizeBytes) return issue(`has ${storedBytes} bytes where the manifest says ${sizeBytes}`);
  const isHashed = file.direct || blobStamp !== undefined;
  if (isHashed && !(await hasDigest(blobs, blobKey, sha256)))
    return issue('has another SHA-256 than the manifest says');
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
