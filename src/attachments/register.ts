/**
 * POST /attachments and GET /attachments/{submissionId} below their HTTP surface: a manifest becomes a submission with an
 * upload URL for every file. The same key with the same manifest is the same submission; its URLs are made anew once they
 * have expired, and only then.
 */
import type { Clock } from '../base/clock.ts';
import { failure } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import type { Blobs } from '../storage/blobs.ts';
import type { Database } from '../storage/database.ts';
import { type EmailLimits, fitFailure, leastEmailBytes } from './fit.ts';
import { manifestHash } from './manifest.ts';
import { type Registration, registerOperation } from './register-store.ts';
import { submissionOperation } from './store.ts';
import type { ManifestItem, Submission, SubmissionFile } from './submission.ts';
import { requiredHeaders } from './upload.ts';
import type { UploadUrls } from './upload-url.ts';

/** How long a key counts after the send it led to. */
const KEY_LIFETIME_MS = 86_400_000;
/** Submissions that were not sent, in each mode of an account. */
const MAXIMUM_OPEN = 1_000;
const RETRY_AFTER_SECONDS = 3_600;

export interface RegisterDependencies {
  database: Database;
  blobs: Pick<Blobs, 'newKey' | 'presignPut' | 'sizeOf'>;
  clock: Clock;
  urls: UploadUrls;
  uploadTtlSeconds: number;
  /** Open submissions that an account may have; 1,000 unless told. */
  maximumOpen?: number;
}

export interface RegisterRequest {
  accountId: string;
  mode: Mode;
  limits: EmailLimits;
  idempotencyKey: string | undefined;
  items: readonly ManifestItem[];
}

/** The answer of POST /attachments (specification: 2.2). */
export interface SubmissionBody {
  attachmentSubmissionId: string;
  expiresAt: number;
  attachmentUploads: { uploadUrl: string; requiredHeaders: Record<string, string> }[];
  maximumFinalMimeBytes: number;
}

/** `isRepeat`: the key stood for this submission already. */
export async function registerManifest(
  dependencies: RegisterDependencies,
  request: RegisterRequest,
): Promise<Result<{ body: SubmissionBody; isRepeat: boolean }>> {
  const { database, clock, uploadTtlSeconds } = dependencies;
  const { items, limits } = request;
  const tooLarge = fitFailure(leastEmailBytes(items), limits);
  if (tooLarge !== undefined) return refuse(tooLarge);
  const nowMs = clock.now();
  const registration: Registration = {
    id: newId('sub', nowMs),
    accountId: request.accountId,
    mode: request.mode,
    idempotencyKey: request.idempotencyKey ?? null,
    manifestHash: manifestHash(items),
    nowMs,
    expiresAtMs: nowMs + uploadTtlSeconds * 1000,
    maximumOpen: dependencies.maximumOpen ?? MAXIMUM_OPEN,
    keysFromMs: nowMs - KEY_LIFETIME_MS,
    files: items.map((item, number) => fileOf(dependencies, item, number)),
  };
  const registered = await database.execute(registerOperation, registration);
  if (registered.outcome === 'other-manifest') return refuse(failure('IDEMPOTENCY_KEY_REUSED'));
  if (registered.outcome === 'too-many') return refuse(tooMany(registration.maximumOpen));
  const body = await bodyOf(dependencies, registered.submission, limits.maximumEmailBytes);
  return ok({ body, isRepeat: registered.outcome === 'same' });
}

function fileOf({ blobs }: RegisterDependencies, item: ManifestItem, number: number): SubmissionFile {
  const direct = blobs.presignPut !== undefined;
  return { ...item, number, direct, blobKey: direct ? blobs.newKey() : null };
}

function tooMany(maximumOpen: number): ReturnType<typeof failure> {
  return failure('RATE_LIMITED', {
    message:
      `This account has ${maximumOpen} attachment submissions that were not sent; send them, ` +
      'or wait until the oldest are removed, 24 hours after their upload URLs have expired.',
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}

async function bodyOf(
  dependencies: RegisterDependencies,
  submission: Submission,
  maximumFinalMimeBytes: number,
): Promise<SubmissionBody> {
  return {
    attachmentSubmissionId: submission.id,
    expiresAt: submission.expiresAt,
    attachmentUploads: await Promise.all(submission.files.map((file) => uploadOf(dependencies, submission, file))),
    maximumFinalMimeBytes,
  };
}

async function uploadOf(
  { blobs, urls, uploadTtlSeconds }: RegisterDependencies,
  { id: submissionId, expiresAt }: Submission,
  file: SubmissionFile,
): Promise<SubmissionBody['attachmentUploads'][number]> {
  const { number, sizeBytes, contentType } = file;
  const headers = requiredHeaders(file);
  if (!file.direct || blobs.presignPut === undefined || file.blobKey === null) {
    const grant = { submissionId, number, expiresAt, sizeBytes, sha256: file.sha256, contentType };
    return { uploadUrl: urls.url(grant), requiredHeaders: headers };
  }
  const presigned = await blobs.presignPut({
    key: file.blobKey,
    sizeBytes,
    contentType,
    sha256: Buffer.from(file.sha256),
    expiresInSeconds: uploadTtlSeconds,
    // As of when the URLs were last made: a repeated call gives out the same ones.
    nowMs: expiresAt - uploadTtlSeconds * 1000,
  });
  const given = Object.entries(presigned.headers).filter(([name]) => !/^content-(?:type|length)$/i.test(name));
  return { uploadUrl: presigned.url, requiredHeaders: { ...headers, ...Object.fromEntries(given) } };
}

/** The answer of GET /attachments/{submissionId}. */
export interface SubmissionState {
  attachmentSubmissionId: string;
  expiresAt: number;
  status: 'open' | 'used';
  files: { name: string; sizeBytes: number; status: 'waiting' | 'uploaded' }[];
}

/** What of a submission has arrived; SUBMISSION_NOT_FOUND also for one of another account or mode. */
export async function submissionState(
  { database, blobs }: Pick<RegisterDependencies, 'database' | 'blobs'>,
  key: { accountId: string; mode: Mode; id: string },
): Promise<Result<SubmissionState>> {
  const submission = await database.execute(submissionOperation, key);
  if (submission === null) return refuse(failure('SUBMISSION_NOT_FOUND'));
  const isUsed = submission.usedAt !== null;
  const files = submission.files.map(async (file) => {
    const isThere = isUsed || (await hasArrived(blobs, file));
    return { name: file.name, sizeBytes: file.sizeBytes, status: isThere ? 'uploaded' : 'waiting' } as const;
  });
  return ok({
    attachmentSubmissionId: submission.id,
    expiresAt: submission.expiresAt,
    status: isUsed ? 'used' : 'open',
    files: await Promise.all(files),
  });
}

async function hasArrived(blobs: Pick<Blobs, 'sizeOf'>, file: SubmissionFile): Promise<boolean> {
  return file.blobKey !== null && (await blobs.sizeOf(file.blobKey)) === file.sizeBytes;
}
