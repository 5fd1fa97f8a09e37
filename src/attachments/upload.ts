/**
 * PUT of one file's bytes to its upload URL. Everything that can be checked without the body is checked before a byte of it is
 * read: the URL, its age, the headers, the announced size. The bytes stream to blob storage; only when they have all
 * come and have the manifest's digest does the row name them, in one step, and 200 is answered once that is on stable
 * storage. An upload that began in time may end after the URL's expiry; one that ends after the send is refused.
 */
import type { Readable } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import { type Failure, failure, invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { createSemaphore } from '../base/semaphore.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { dropBlobs } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import { type LeastRate, receive, UPLOAD_RATE, UploadError, type UploadErrorReason, UploadReader } from './receive.ts';
import { finishUploadOperation, uploadTargetOperation } from './store.ts';
import type { BatchFile } from './upload-batch.ts';
import { createUploadLimiter, type UploadLimits } from './upload-limiter.ts';
import type { UploadUrls } from './upload-url.ts';

export interface UploadDependencies {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  urls: UploadUrls;
  /** How slow a client may be; the service's own unless given. */
  rate?: LeastRate;
  /** How many uploads may be under way at once; the service's own numbers unless given. */
  limits?: UploadLimits;
}

/** Uploads that write at once: one less than the threads of Node's pool, so that other files and signatures find one. */
const WRITERS = 3;

export interface UploadRequest {
  /** Path and query as they came. */
  url: string;
  /** Every value that this header was sent with. */
  headerValues(name: string): string[];
  /** From Content-Length; undefined when the body is chunked. */
  announcedBytes: number | undefined;
  /** Asked for only when the body is wanted. */
  body(): Readable;
}

/** A refusal, with the status where it is not the catalogue's. */
export interface UploadRefusal {
  ok: false;
  failure: Failure;
  status?: number;
}

export type Upload = (request: UploadRequest) => Promise<{ ok: true } | UploadRefusal>;

/** The headers that an upload has to carry, exactly as they are given out. */
export function requiredHeaders(file: Pick<BatchFile, 'contentType'>): Record<string, string> {
  return { 'Content-Type': file.contentType };
}

/** Rejects with Unavailable when storage fails; nothing is kept then. */
export function createUpload(dependencies: UploadDependencies): Upload {
  const { database, blobs, rate = UPLOAD_RATE, limits } = dependencies;
  const limiter = createUploadLimiter(limits);
  const writers = createSemaphore(WRITERS);
  return async (request) => {
    const checked = await checkRequest(dependencies, request);
    if (!checked.ok) return checked;
    const { accountId, submissionId, file } = checked.value;
    const permit = limiter.acquire({ accountId, submissionId, number: file.number });
    if (!permit.ok) return permit;
    const { sizeBytes, sha256 } = file;
    const reader = new UploadReader(request.body(), rate);
    let blobKey: string;
    try {
      blobKey = await blobs.putStream(receive(reader, { sizeBytes, sha256, writers }), { sizeBytes, sha256 });
    } catch (error) {
      if (error instanceof UploadError) return refusalOf(error.reason, file);
      throw error;
    } finally {
      reader.close();
      const release = permit.value;
      release();
    }
    const blobStamp = (await blobs.stampOf?.(blobKey)) ?? null;
    const uploaded = { submissionId, number: file.number, blobKey, blobStamp };
    const finished = await database.execute(finishUploadOperation, uploaded);
    const unnamed = finished.taken ? finished.replaced : blobKey;
    dropBlobs(blobs, [unnamed]);
    return finished.taken ? ok(undefined) : refuse(notOpen('was sent while the file was uploaded'));
  };
}

interface CheckedRequest {
  accountId: string;
  submissionId: string;
  file: BatchFile;
}

/** Everything but the body. */
async function checkRequest(dependencies: UploadDependencies, request: UploadRequest): Promise<Result<CheckedRequest>> {
  const { database, clock, urls } = dependencies;
  const nowMs = clock.now();
  const claim = urls.read(request.url);
  if (claim === undefined) return refuse(failure('UPLOAD_URL_INVALID'));
  const { submissionId, number } = claim;
  const target = await database.execute(uploadTargetOperation, { submissionId, number });
  if (target === null || target.file.direct) return refuse(failure('UPLOAD_URL_INVALID'));
  const { accountId, file } = target;
  const { sizeBytes, sha256, contentType } = file;
  // The row knows when the latest URLs expire, so that those before them are dead whatever the clock says.
  const grant = { submissionId, number, expiresAt: target.expiresAt, sizeBytes, sha256, contentType };
  if (!urls.verify(claim, grant)) return refuse(failure('UPLOAD_URL_INVALID'));
  if (target.isSuspended) return refuse(failure('ACCOUNT_SUSPENDED'));
  if (target.usedAt !== null) return refuse(notOpen('was sent before'));
  if (target.expiresAt <= nowMs) return refuse(expired());
  const wrongHeaders = headerFailure(request, file);
  if (wrongHeaders !== undefined) return refuse(wrongHeaders);
  if (request.announcedBytes !== undefined && request.announcedBytes !== sizeBytes)
    return refuse(mismatch(file, `Content-Length says ${request.announcedBytes} bytes`));
  return ok({ accountId, submissionId, file });
}

function headerFailure(request: UploadRequest, file: BatchFile): Failure | undefined {
  const details = [];
  for (const [name, value] of Object.entries(requiredHeaders(file))) {
    const given = request.headerValues(name);
    if (given.length !== 1 || given[0] !== value)
      details.push({ field: name, message: `must be sent exactly as requiredHeaders gives it: ${value}` });
  }
  if (details.length === 0) return undefined;
  return failure('UPLOAD_URL_INVALID', {
    message: 'The headers are not those that the upload URL was made for; send every one of requiredHeaders unchanged.',
    details,
  });
}

function expired(): Failure {
  return failure('UPLOAD_URL_INVALID', {
    message:
      'The upload URL has expired; repeat POST /attachments with the same Idempotency-Key and manifest for a fresh one.',
  });
}

function notOpen(what: string): Failure {
  return failure('UPLOAD_URL_INVALID', {
    message: `The attachment submission ${what}; its files cannot be changed any more.`,
  });
}

function mismatch(file: BatchFile, found: string): Failure {
  return failure('UPLOAD_MISMATCH', {
    message: `${found}; the manifest says ${file.sizeBytes} bytes. Nothing was kept, upload the file again.`,
    details: [{ field: `attachments[${file.number}].sizeBytes`, message: `is ${file.sizeBytes}` }],
  });
}

function refusalOf(reason: UploadErrorReason, file: BatchFile): UploadRefusal {
  switch (reason) {
    case 'too-long':
      return refuse(mismatch(file, 'The body has more bytes than announced'));
    case 'other-size':
      return refuse(mismatch(file, 'The body ended before all of its bytes had come'));
    case 'other-digest':
      return refuse(
        failure('UPLOAD_MISMATCH', {
          message: 'The bytes have another SHA-256 than the manifest says; nothing was kept, upload the file again.',
          details: [{ field: `attachments[${file.number}].sha256`, message: 'differs from that of the body' }],
        }),
      );
    case 'too-slow':
      return {
        ...refuse(invalid([], 'The file did not arrive in time; nothing was kept, upload it again.')),
        status: 408,
      };
    case 'broken-off':
      return refuse(invalid([], 'The body broke off or is not valid HTTP; nothing was kept, upload the file again.'));
  }
}
