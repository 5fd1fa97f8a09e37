/**
 * Implements POST /attachments and GET /attachments/{submissionId} below the HTTP layer: turns a manifest into a submission with an upload
 * URL per file. The same key with the same manifest returns the same submission; its URLs are renewed only after they expired.
 *
 * To check whether any email within the limit can contain the files, the real composer calculates the size of the smallest email with these
 * files. The size is exact and a lower bound, so a manifest that some email could contain is never refused.
 */

import type { Clock } from '../base/clock.ts';
import { type Failure, failure, ok, type Result, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { limitReached } from '../limits/limits.ts';
import { composedSizeBytes, type FileBySize, type MailBySize } from '../mail/compose/compose.ts';
import { feedbackId, newMessageId } from '../mail/compose/header.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import { manifestHash } from './manifest.ts';
import { type Registration, registerOperation } from './register-store.ts';
import {
  type BatchFile,
  type BatchKey,
  batchOperation,
  KEEP_UNSENT_MS,
  type ManifestItem,
  readConsistently,
  type UploadBatch,
} from './store.ts';
import { requiredHeaders, type UploadUrls } from './upload.ts';

/**
 * The shortest possible sender and recipient: a domain has at least two labels of one character. The Message-ID, which is generated at the
 * sender's domain, is then the shortest too.
 */
const SHORTEST = { name: '', address: 'a@b.c', local: 'a', domain: 'b.c' };
const MESSAGE_ID = newMessageId(SHORTEST.domain, Date.UTC(2026, 0));
/** Feedback-ID of a message with a tag of one character. */
const SHORTEST_FEEDBACK_ID = feedbackId('', 't');

function smallestMail(body: { text: string } | { html: string }, files: readonly FileBySize[]): MailBySize {
  return {
    from: SHORTEST,
    to: [SHORTEST],
    cc: [],
    replyTo: [],
    subject: '',
    headers: [['Feedback-ID', SHORTEST_FEEDBACK_ID]],
    messageId: MESSAGE_ID,
    dateMs: 0,
    attachments: files,
    ...body,
  };
}

/** Returns the size in bytes of the smallest complete email with these files. */
export function leastEmailBytes(files: readonly { name: string; contentType: string; sizeBytes: number }[]): number {
  const bySize = files.map(({ name, contentType, sizeBytes }) => ({ name, contentType, sizeBytes }));
  // A text in a request must not be empty, but it can be empty after its variables are replaced. No text is derived from empty HTML.
  return Math.min(
    composedSizeBytes(smallestMail({ text: '' }, bySize)),
    composedSizeBytes(smallestMail({ html: '' }, bySize)),
  );
}

interface EmailLimits {
  approvedEmailBytes: number;
  /** Limit that no approval can exceed. */
  maximumEmailBytes: number;
}

/** Returns EMAIL_SIZE_EXCEEDED with both sizes, or undefined if the files fit. */
export function fitFailure(leastBytes: number, limits: EmailLimits): Failure | undefined {
  const { approvedEmailBytes, maximumEmailBytes } = limits;
  const limitBytes = Math.min(approvedEmailBytes, maximumEmailBytes);
  if (leastBytes <= limitBytes) return undefined;
  const remedy =
    leastBytes <= maximumEmailBytes
      ? 'Request a larger limit with POST /approvals, or send fewer or smaller files.'
      : `No email can be larger than ${maximumEmailBytes} bytes. Send fewer or smaller files.`;
  return failure('EMAIL_SIZE_EXCEEDED', {
    message: `An email with these files is at least ${leastBytes} bytes; the approved limit of this account is ${limitBytes} bytes. ${remedy}`,
    details: [
      {
        field: 'attachments',
        message: `result in an email of at least ${leastBytes} bytes; the approved limit is ${limitBytes} bytes`,
      },
    ],
  });
}

/** An idempotency key remains valid for this long after its send. */
const KEY_LIFETIME_MS = 86_400_000;
/** Limit on the unsent files of an account, per mode. */
const MAXIMUM_UNSENT_BYTES = 20_000_000_000;
/** Minimum number of bytes for which a submission is counted toward that limit. */
const MIN_COUNTED_BYTES = 2_000_000;
const MAX_RETRY_SECONDS = 3_600;

export interface RegisterDependencies {
  database: Database;
  blobs: Pick<Blobs, 'newKey' | 'presignPut' | 'sizeOf'>;
  clock: Clock;
  urls: UploadUrls;
  uploadTtlSeconds: number;
  /** Limit on the unsent files of an account per mode; default 20,000,000,000 bytes. */
  maximumUnsentBytes?: number;
}

interface RegisterRequest {
  accountId: string;
  mode: Mode;
  limits: EmailLimits;
  idempotencyKey: string | undefined;
  /** Set if nothing can be accepted right now. Existing submissions are still returned. */
  backPressure?: Failure | undefined;
  items: readonly ManifestItem[];
}

/** The response of POST /attachments, which has exactly these fields. `attachmentUploads` is in the order of the manifest. */
interface SubmissionBody {
  attachmentSubmissionId: string;
  expiresAt: number;
  attachmentUploads: { uploadUrl: string; requiredHeaders: Record<string, string> }[];
  maximumFinalMimeBytes: number;
}

/**
 * Registers a manifest. `isRepeat` is true if the submission with this key already existed. It is found before sizes are checked, so that a
 * repeat succeeds even if limits have changed since, and under back-pressure. Fails with OVERLOADED if the account has too many bytes of
 * unsent files, and with LIMIT_REACHED if it has too many submissions.
 */
export async function registerManifest(
  dependencies: RegisterDependencies,
  request: RegisterRequest,
): Promise<Result<{ body: SubmissionBody; isRepeat: boolean }>> {
  const { database, clock } = dependencies;
  const { items, limits, idempotencyKey } = request;
  const refusal = request.backPressure ?? fitFailure(leastEmailBytes(items), limits);
  if (refusal !== undefined && idempotencyKey === undefined) return refuse(refusal);
  const nowMs = clock.now();
  const registration = registrationOf(dependencies, request, { nowMs, fits: refusal === undefined });
  const registered = await database.execute(registerOperation, registration);
  switch (registered.outcome) {
    case 'other-manifest':
      return refuse(failure('IDEMPOTENCY_KEY_REUSED'));
    case 'does-not-fit':
      if (refusal === undefined) throw new Error('a manifest within the limits was refused');
      return refuse(refusal);
    case 'no-room':
      return refuse(tooManyUnsent(registration.maximumUnsentBytes, registered.roomAtMs - nowMs));
    case 'too-many':
      return refuse(limitReached(registered.reached));
    default: {
      const body = await bodyOf(dependencies, registered.submission, limits.maximumEmailBytes);
      return ok({ body, isRepeat: registered.outcome === 'same' });
    }
  }
}

function registrationOf(
  dependencies: RegisterDependencies,
  { accountId, mode, idempotencyKey, items }: RegisterRequest,
  { nowMs, fits }: { nowMs: number; fits: boolean },
): Registration {
  const declaredBytes = items.reduce((sum, item) => sum + item.sizeBytes, 0);
  return {
    id: newId('sub', nowMs),
    accountId,
    mode,
    idempotencyKey: idempotencyKey ?? null,
    manifestHash: manifestHash(items),
    nowMs,
    expiresAtMs: nowMs + dependencies.uploadTtlSeconds * 1000,
    countedBytes: Math.max(declaredBytes, MIN_COUNTED_BYTES),
    maximumUnsentBytes: dependencies.maximumUnsentBytes ?? MAXIMUM_UNSENT_BYTES,
    keepUnsentMs: KEEP_UNSENT_MS,
    fits,
    keysFromMs: nowMs - KEY_LIFETIME_MS,
    files: items.map((item, number) => fileOf(dependencies, item, number)),
  };
}

function fileOf({ blobs }: RegisterDependencies, item: ManifestItem, number: number): BatchFile {
  const direct = blobs.presignPut !== undefined;
  return { ...item, number, direct, blobKey: direct ? blobs.newKey() : null, blobStamp: null };
}

function tooManyUnsent(maximumBytes: number, roomInMs: number): ReturnType<typeof failure> {
  return failure('OVERLOADED', {
    message:
      `With these files, the unsent files of this account exceed the limit of ${maximumBytes} bytes. Send some of the earlier files first. ` +
      'Files that were not uploaded stop counting when their upload URLs expire. Uploaded files stop counting 24 hours after that.',
    retryAfterSeconds: Math.min(Math.max(Math.ceil(roomInMs / 1000), 1), MAX_RETRY_SECONDS),
  });
}

async function bodyOf(
  dependencies: RegisterDependencies,
  submission: UploadBatch,
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
  { id: submissionId, expiresAt }: UploadBatch,
  file: BatchFile,
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
    // The time at which the URLs were issued, so that a repeated call returns the same URLs.
    nowMs: expiresAt - uploadTtlSeconds * 1000,
  });
  const storageHeaders = Object.entries(presigned.headers).filter(([name]) => !/^content-(?:type|length)$/i.test(name));
  return { uploadUrl: presigned.url, requiredHeaders: { ...headers, ...Object.fromEntries(storageHeaders) } };
}

interface SubmissionState {
  attachmentSubmissionId: string;
  expiresAt: number;
  status: 'open' | 'used';
  files: { name: string; sizeBytes: number; status: 'waiting' | 'uploaded' }[];
}

/** Returns the upload status of a submission. Fails with SUBMISSION_NOT_FOUND if the account has no such submission in this mode. */
export async function batchState(
  { database, blobs }: Pick<RegisterDependencies, 'database' | 'blobs'>,
  key: BatchKey,
): Promise<Result<SubmissionState>> {
  const found = await readConsistently(
    () => database.execute(batchOperation, key),
    async (batch) => {
      const uploads = await Promise.all(batch.files.map((file) => isUploaded(blobs, batch, file)));
      return { batch, uploads, isFinal: !uploads.includes(false) };
    },
  );
  if (found === undefined) return refuse(failure('SUBMISSION_NOT_FOUND'));
  const { batch, uploads } = found;
  return ok({
    attachmentSubmissionId: batch.id,
    expiresAt: batch.expiresAt,
    status: batch.usedAt === null ? 'open' : 'used',
    files: batch.files.map(({ name, sizeBytes }, index) => ({
      name,
      sizeBytes,
      status: uploads[index] === true ? 'uploaded' : 'waiting',
    })),
  });
}

async function isUploaded(blobs: Pick<Blobs, 'sizeOf'>, { usedAt }: UploadBatch, file: BatchFile): Promise<boolean> {
  if (usedAt !== null) return true;
  return file.blobKey !== null && (await blobs.sizeOf(file.blobKey)) === file.sizeBytes;
}
