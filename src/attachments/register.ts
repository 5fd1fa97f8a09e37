/**
 * POST /attachments and GET /attachments/{submissionId} below their HTTP surface: a manifest becomes a submission with an
 * upload URL for every file. The same key with the same manifest is the same submission; its URLs are made again once they have
 * expired, and only then.
 *
 * Whether files can be part of any email within a limit: checked by the smallest email that there is around them, composed by
 * the composer itself, so that the figure is exact. It is a lower bound: no email with these files is smaller, and a manifest
 * that some email could carry is never refused.
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
 * No address that may be sent from or to is shorter: a domain has two labels at least, each of one character. No Message-ID
 * is shorter either: it is made at the sender's domain.
 */
const SHORTEST = { name: '', address: 'a@b.c', local: 'a', domain: 'b.c' };
const MESSAGE_ID = newMessageId(SHORTEST.domain, Date.UTC(2026, 0));
/** Of a mail with a tag of one character. */
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

/** Bytes of the smallest complete email with these files. */
export function leastEmailBytes(files: readonly { name: string; contentType: string; sizeBytes: number }[]): number {
  const bySize = files.map(({ name, contentType, sizeBytes }) => ({ name, contentType, sizeBytes }));
  // What is given must not be empty, and may be once its variables are filled in; no text is derived from empty html.
  return Math.min(
    composedSizeBytes(smallestMail({ text: '' }, bySize)),
    composedSizeBytes(smallestMail({ html: '' }, bySize)),
  );
}

interface EmailLimits {
  /** What the operator has approved for the account. */
  approvedEmailBytes: number;
  /** What no approval goes beyond. */
  maximumEmailBytes: number;
}

/** EMAIL_SIZE_EXCEEDED with both sizes, or undefined when the files fit. */
export function fitFailure(leastBytes: number, limits: EmailLimits): Failure | undefined {
  const { approvedEmailBytes, maximumEmailBytes } = limits;
  const limitBytes = Math.min(approvedEmailBytes, maximumEmailBytes);
  if (leastBytes <= limitBytes) return undefined;
  const remedy =
    leastBytes <= maximumEmailBytes
      ? 'ask for a larger limit with POST /approvals, or send fewer or smaller files'
      : `no email may be larger than ${maximumEmailBytes} bytes: send fewer or smaller files`;
  return failure('EMAIL_SIZE_EXCEEDED', {
    message: `An email with these files is at least ${leastBytes} bytes; the approved limit of this account is ${limitBytes} bytes: ${remedy}.`,
    details: [
      {
        field: 'attachments',
        message: `result in an email of at least ${leastBytes} bytes; the approved limit is ${limitBytes}`,
      },
    ],
  });
}

/** How long a key counts after the send it led to. */
const KEY_LIFETIME_MS = 86_400_000;
/** What the unsent files of an account may take, in each mode. */
const MAXIMUM_UNSENT_BYTES = 20_000_000_000;
/** What a submission counts for at least. */
const LEAST_COUNTED_BYTES = 2_000_000;
const LONGEST_RETRY_SECONDS = 3_600;

export interface RegisterDependencies {
  database: Database;
  blobs: Pick<Blobs, 'newKey' | 'presignPut' | 'sizeOf'>;
  clock: Clock;
  urls: UploadUrls;
  uploadTtlSeconds: number;
  /** What the unsent files of an account may take in each mode; 20,000,000,000 by default. */
  maximumUnsentBytes?: number;
}

interface RegisterRequest {
  accountId: string;
  mode: Mode;
  limits: EmailLimits;
  idempotencyKey: string | undefined;
  /** Why nothing may be accepted right now; what was registered before is answered all the same. */
  backPressure?: Failure | undefined;
  items: readonly ManifestItem[];
}

/** The answer of POST /attachments (specification: 2.2). */
interface SubmissionBody {
  attachmentSubmissionId: string;
  expiresAt: number;
  attachmentUploads: { uploadUrl: string; requiredHeaders: Record<string, string> }[];
  maximumFinalMimeBytes: number;
}

/**
 * `isRepeat`: the key stood for this submission already. It is found before sizes are checked, so that a repeat is answered
 * whatever the limits have become since, also under back-pressure. OVERLOADED while the account has too many bytes of unsent files, LIMIT_REACHED while it
 * has too many submissions.
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
      if (refusal === undefined) throw new Error('a manifest that fits was found not to');
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
    countedBytes: Math.max(declaredBytes, LEAST_COUNTED_BYTES),
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
      `The files that this account has registered and not sent come to ${maximumBytes} bytes with these; send some of them first. ` +
      'What was not uploaded stops counting when its upload URLs expire, what was uploaded 24 hours later.',
    retryAfterSeconds: Math.min(Math.max(Math.ceil(roomInMs / 1000), 1), LONGEST_RETRY_SECONDS),
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
    // As of when the URLs were last made: a repeated call gives out the same ones.
    nowMs: expiresAt - uploadTtlSeconds * 1000,
  });
  const given = Object.entries(presigned.headers).filter(([name]) => !/^content-(?:type|length)$/i.test(name));
  return { uploadUrl: presigned.url, requiredHeaders: { ...headers, ...Object.fromEntries(given) } };
}

/** The answer of GET /attachments/{submissionId}. */
interface SubmissionState {
  attachmentSubmissionId: string;
  expiresAt: number;
  status: 'open' | 'used';
  files: { name: string; sizeBytes: number; status: 'waiting' | 'uploaded' }[];
}

/** What of a submission has arrived; SUBMISSION_NOT_FOUND also for one of another account or mode. */
export async function batchState(
  { database, blobs }: Pick<RegisterDependencies, 'database' | 'blobs'>,
  key: BatchKey,
): Promise<Result<SubmissionState>> {
  const found = await readConsistently(
    () => database.execute(batchOperation, key),
    async (batch) => {
      const arrived = await Promise.all(batch.files.map((file) => hasArrived(blobs, batch, file)));
      return { batch, arrived, isFinal: !arrived.includes(false) };
    },
  );
  if (found === undefined) return refuse(failure('SUBMISSION_NOT_FOUND'));
  const { batch, arrived } = found;
  return ok({
    attachmentSubmissionId: batch.id,
    expiresAt: batch.expiresAt,
    status: batch.usedAt === null ? 'open' : 'used',
    files: batch.files.map(({ name, sizeBytes }, index) => ({
      name,
      sizeBytes,
      status: arrived[index] === true ? 'uploaded' : 'waiting',
    })),
  });
}

async function hasArrived(blobs: Pick<Blobs, 'sizeOf'>, { usedAt }: UploadBatch, file: BatchFile): Promise<boolean> {
  if (usedAt !== null) return true;
  return file.blobKey !== null && (await blobs.sizeOf(file.blobKey)) === file.sizeBytes;
}
