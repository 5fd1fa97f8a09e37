/**
 * Handles the PUT of a file to its upload URL. The URL, its expiry, the headers, and the Content-Length are checked before the body is
 * read. The bytes are streamed to blob storage. The file's row references the blob only after all bytes have arrived and match the digest
 * in the manifest; 200 is sent once the row is on stable storage. An upload that started before the URL expired may end after that. An
 * upload that ends after the email was sent is refused.
 *
 * An upload URL authorizes one upload of one file. Its token names the file and the expiry and is signed together with the file's
 * properties in the manifest, with a key derived from the service's secret key. The signature is compared as text, so its unused last bits
 * cannot differ either.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import { type Failure, failure, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { createSemaphore } from '../base/semaphore.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { dropBlobs } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import {
  createUploadLimiter,
  type LeastRate,
  receive,
  UPLOAD_RATE,
  UploadError,
  type UploadErrorReason,
  type UploadLimits,
  UploadReader,
} from './receive.ts';
import { type BatchFile, finishUploadOperation, uploadTargetOperation } from './store.ts';

/** Path of upload URLs, below the base URL. */
export const UPLOAD_PATH = '/uploads/';

/** The separator cannot occur in the first three fields; the signature has a fixed length. */
const TOKEN = /^(sub_[0-9A-Za-z]{21})-([0-9]{1,2})-([0-9a-z]{1,11})-([0-9A-Za-z_-]{43})$/;

/** The values that the signature of a URL covers. */
export interface UploadGrant {
  submissionId: string;
  /** The file's position in the manifest, from 0. */
  number: number;
  /** Unix ms. */
  expiresAt: number;
  sizeBytes: number;
  sha256: Uint8Array;
  contentType: string;
}

/** Unverified content of a token; call `verify` before you trust it. */
interface UploadClaim {
  submissionId: string;
  number: number;
  expiresAt: number;
  signature: string;
}

export interface UploadUrls {
  /** Returns the absolute URL for the PUT. */
  url(grant: UploadGrant): string;
  /** Parses the path and query of a request; undefined if they do not have the form of an upload URL. */
  read(url: string): UploadClaim | undefined;
  /** Returns whether the claim was signed by this service for exactly this grant. */
  verify(claim: UploadClaim, grant: UploadGrant): boolean;
}

/** `secretKey` is the service's key (32 bytes); `baseUrl` has no trailing slash, and is read on each use. */
export function createUploadUrls(options: { secretKey: Uint8Array; baseUrl: string }): UploadUrls {
  const key = Buffer.from(hkdfSync('sha256', options.secretKey, '', 'postrider upload urls', 32));
  const sign = (grant: UploadGrant): string => {
    const { submissionId, number, expiresAt, sizeBytes, contentType } = grant;
    const digest = Buffer.from(grant.sha256).toString('hex');
    const signed = [submissionId, number, expiresAt, sizeBytes, digest, contentType].join('\n');
    return createHmac('sha256', key).update(signed).digest('base64url');
  };
  return {
    url: (grant) => {
      const { submissionId, number, expiresAt } = grant;
      const token = `${submissionId}-${number}-${expiresAt.toString(36)}-${sign(grant)}`;
      return `${options.baseUrl}${UPLOAD_PATH}${token}`;
    },
    read: (url) => {
      const match = url.startsWith(UPLOAD_PATH) ? TOKEN.exec(url.slice(UPLOAD_PATH.length)) : null;
      if (match === null) return undefined;
      const [, submissionId = '', number = '', expiresAt = '', signature = ''] = match;
      // Leading zeros are refused, so each number has one spelling.
      if (/^0./.test(number) || /^0./.test(expiresAt)) return undefined;
      return { submissionId, number: Number(number), expiresAt: Number.parseInt(expiresAt, 36), signature };
    },
    verify: (claim, grant) => {
      const isSame =
        claim.submissionId === grant.submissionId &&
        claim.number === grant.number &&
        claim.expiresAt === grant.expiresAt;
      return timingSafeEqual(Buffer.from(claim.signature), Buffer.from(sign(grant))) && isSame;
    },
  };
}

export interface UploadDependencies {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  urls: UploadUrls;
  /** Minimum rate of a client; defaults to the service's. */
  rate?: LeastRate;
  /** Limits on simultaneous uploads; default to the service's. */
  limits?: UploadLimits;
}

/** Simultaneous writes: one less than the threads of Node's pool, so that one remains for other files and signatures. */
const WRITERS = 3;

interface UploadRequest {
  /** Path and query exactly as received. */
  url: string;
  headerValues(name: string): string[];
  /** Value of Content-Length; undefined if the body is chunked. */
  announcedBytes: number | undefined;
  /** Called only after the request has been checked. */
  body(): Readable;
}

/** A refusal, with a status if it differs from the status of its code. */
interface UploadRefusal {
  ok: false;
  failure: Failure;
  status?: number;
}

type Upload = (request: UploadRequest) => Promise<{ ok: true } | UploadRefusal>;

/** Headers that the upload must send, exactly as returned by POST /attachments. */
export function requiredHeaders(file: Pick<BatchFile, 'contentType'>): Record<string, string> {
  return { 'Content-Type': file.contentType };
}

/** Creates the handler of uploads. It rejects with Unavailable if the storage fails; nothing is stored then. */
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
    const unreferenced = finished.isStored ? finished.replaced : blobKey;
    dropBlobs(blobs, [unreferenced]);
    return finished.isStored ? ok(undefined) : refuse(notOpen('was sent while the file was being uploaded'));
  };
}

interface CheckedRequest {
  accountId: string;
  submissionId: string;
  file: BatchFile;
}

/** Checks everything except the body. */
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
  // The row has the expiry of the latest URLs, so earlier URLs are invalid regardless of the clock.
  const grant = { submissionId, number, expiresAt: target.expiresAt, sizeBytes, sha256, contentType };
  if (!urls.verify(claim, grant)) return refuse(failure('UPLOAD_URL_INVALID'));
  if (target.isSuspended) return refuse(failure('ACCOUNT_SUSPENDED'));
  if (target.usedAt !== null) return refuse(notOpen('has already been sent'));
  if (target.expiresAt <= nowMs) return refuse(expired());
  const wrongHeaders = headerFailure(request, file);
  if (wrongHeaders !== undefined) return refuse(wrongHeaders);
  if (request.announcedBytes !== undefined && request.announcedBytes !== sizeBytes)
    return refuse(mismatch(file, `Content-Length is ${request.announcedBytes} bytes`));
  return ok({ accountId, submissionId, file });
}

function headerFailure(request: UploadRequest, file: BatchFile): Failure | undefined {
  const details = [];
  for (const [name, value] of Object.entries(requiredHeaders(file))) {
    const given = request.headerValues(name);
    if (given.length !== 1 || given[0] !== value)
      details.push({ field: name, message: `must have the value in requiredHeaders: ${value}` });
  }
  if (details.length === 0) return undefined;
  return failure('UPLOAD_URL_INVALID', {
    message: 'The request headers do not match the upload URL. Send all requiredHeaders unchanged.',
    details,
  });
}

function expired(): Failure {
  return failure('UPLOAD_URL_INVALID', {
    message:
      'The upload URL has expired. Repeat POST /attachments with the same Idempotency-Key and manifest to get a new one.',
  });
}

function notOpen(reason: string): Failure {
  return failure('UPLOAD_URL_INVALID', {
    message: `The attachment submission ${reason}; its files can no longer be changed.`,
  });
}

function mismatch(file: BatchFile, problem: string): Failure {
  return failure('UPLOAD_MISMATCH', {
    message: `${problem}; the manifest declares ${file.sizeBytes} bytes. Nothing was stored. Upload the file again.`,
    details: [{ field: `attachments[${file.number}].sizeBytes`, message: `is ${file.sizeBytes} in the manifest` }],
  });
}

function refusalOf(reason: UploadErrorReason, file: BatchFile): UploadRefusal {
  switch (reason) {
    case 'too-long':
      return refuse(mismatch(file, 'The body is longer than the file'));
    case 'other-size':
      return refuse(mismatch(file, 'The body ended early'));
    case 'other-digest':
      return refuse(
        failure('UPLOAD_MISMATCH', {
          message:
            'The SHA-256 of the uploaded bytes differs from the manifest. Nothing was stored. Upload the file again.',
          details: [{ field: `attachments[${file.number}].sha256`, message: 'differs from the SHA-256 of the body' }],
        }),
      );
    case 'too-slow':
      return {
        ...refuse(invalid([], 'The upload timed out. Nothing was stored. Upload the file again.')),
        status: 408,
      };
    case 'broken-off':
      return refuse(
        invalid([], 'The body ended early or is not valid HTTP. Nothing was stored. Upload the file again.'),
      );
  }
}
