/**
 * Files above 2 MB: registered by their digests, then sent to upload URLs in sequence. If a URL has expired, the file gets a new one; an
 * interrupted upload is repeated from the start. The Idempotency-Key of the registration is also that of the send. A repetition with the
 * same key uploads only the missing files, and none if the email was already sent.
 */
import { type Caller, newKey } from './call.ts';
import { PostriderError } from './error.ts';
import type { CallOptions, Http } from './http.ts';
import type { AttachmentSubmission } from './schema.ts';

export interface UploadFile {
  name: string;
  contentType: string;
  /** For a file on disk, use Node's `fs.openAsBlob(path)`. */
  content: Blob | Uint8Array;
}

export interface UploadProgress {
  /** The file being uploaded. */
  name: string;
  /** For all files together. A file that is uploaded again counts from its start. */
  sentBytes: number;
  totalBytes: number;
}

export interface UploadOptions extends CallOptions {
  onProgress?: (progress: UploadProgress) => void;
}

export interface Uploaded {
  attachmentSubmissionId: string;
  /** The send must use the same key. */
  idempotencyKey: string;
  /** Unix time in milliseconds at which the upload URLs expire. */
  expiresAt: number;
  maximumFinalMimeBytes: number;
}

/** Timeout of one try of one file. */
const UPLOAD_TIMEOUT_MS = 600_000;
const FRESH_URLS_AT_MOST = 3;
/** Codes of a 403 for an expired URL: the service's own, and that of a response without one, from the storage behind a presigned URL. */
const EXPIRED_CODES: ReadonlySet<string> = new Set(['UPLOAD_URL_INVALID', 'UNEXPECTED_ANSWER']);

export const blobOf = (content: Blob | Uint8Array): Blob =>
  content instanceof Blob ? content : new Blob([content as Uint8Array<ArrayBuffer>]);

async function manifestOf({ name, contentType, content }: UploadFile) {
  const blob = blobOf(content);
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', await blob.arrayBuffer()));
  const sha256 = Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return { name, contentType, sizeBytes: blob.size, sha256 };
}

const PIECE_BYTES = 65_536;

/** Streams the bytes of a blob in pieces, as fast as they are consumed. */
function counted(blob: Blob, sent: (bytes: number) => void): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      if (at > 0) sent(Math.min(at, blob.size));
      if (at >= blob.size) return controller.close();
      controller.enqueue(new Uint8Array(await blob.slice(at, at + PIECE_BYTES).arrayBuffer()));
      at += PIECE_BYTES;
    },
  });
}

/** Pages cannot see the progress of fetch, but of XMLHttpRequest. */
interface PageRequest {
  upload: { onprogress: ((event: { loaded: number }) => void) | null };
  status: number;
  responseText: string;
  onload: (() => void) | null;
  onerror: (() => void) | null;
  open(method: string, url: string): void;
  setRequestHeader(name: string, value: string): void;
  send(body: Blob): void;
  abort(): void;
}

/** Returns a fetch for one PUT that reports progress, for pages. */
export function pageFetch(sent: (bytes: number) => void): typeof fetch | undefined {
  const { XMLHttpRequest } = globalThis as { XMLHttpRequest?: new () => PageRequest };
  if (XMLHttpRequest === undefined) return undefined;
  return (url, init) =>
    new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open('PUT', String(url));
      for (const [name, value] of Object.entries(init?.headers as Record<string, string>)) {
        request.setRequestHeader(name, value);
      }
      request.upload.onprogress = ({ loaded }) => sent(loaded);
      request.onload = () => resolve(new Response(request.responseText, { status: request.status }));
      request.onerror = () => reject(new TypeError('The upload broke.'));
      init?.signal?.addEventListener('abort', () => {
        request.abort();
        reject(init.signal?.reason);
      });
      request.send(init?.body as Blob);
    });
}

interface Put {
  url: string;
  headers: Record<string, string>;
  blob: Blob;
  sent: ((bytes: number) => void) | undefined;
  options: UploadOptions;
}

async function put(http: Http, { url, headers, blob, sent, options }: Put): Promise<void> {
  const shared = { method: 'PUT', url, isRepeatable: true, signal: options.signal };
  const timeoutMs = options.timeoutMs ?? UPLOAD_TIMEOUT_MS;
  const inPage = sent === undefined ? undefined : pageFetch(sent);
  if (sent === undefined || inPage !== undefined) {
    await http.send({ ...shared, headers, timeoutMs, body: blob, ...(inPage === undefined ? {} : { fetch: inPage }) });
    return;
  }
  // A stream has no known length, and stores require one.
  const measured = { ...headers, 'Content-Length': String(blob.size) };
  await http.send({ ...shared, headers: measured, timeoutMs, body: () => counted(blob, sent) });
}

const isExpired = (error: unknown): boolean =>
  error instanceof PostriderError && error.status === 403 && EXPIRED_CODES.has(error.code);

/** Registers and uploads 1 to 10 files; the result is passed to the send. */
export async function uploadFiles(
  caller: Caller,
  files: readonly UploadFile[],
  options: UploadOptions = {},
): Promise<Uploaded> {
  const { onProgress, signal } = options;
  const idempotencyKey = options.idempotencyKey ?? newKey();
  const blobs = files.map(({ content }) => blobOf(content));
  const attachments = await Promise.all(files.map(manifestOf));
  const totalBytes = blobs.reduce((sum, one) => sum + one.size, 0);
  for (let round = 0; ; round += 1) {
    const given = { idempotencyKey, ...(signal && { signal }) };
    const submission: AttachmentSubmission = await caller.call('registerAttachments', { body: { attachments } }, given);
    const { attachmentSubmissionId, expiresAt, maximumFinalMimeBytes } = submission;
    const path = { submissionId: attachmentSubmissionId };
    const state = await caller.call('getAttachmentSubmission', { path }, { ...(signal && { signal }) });
    // The files of a sent email can no longer be uploaded; the send returns the stored result.
    const isMissing = (index: number): boolean => state.status === 'open' && state.files[index]?.status !== 'uploaded';
    let doneBytes = blobs.reduce((sum, one, index) => sum + (isMissing(index) ? 0 : one.size), 0);
    try {
      for (const [index, blob] of blobs.entries()) {
        if (!isMissing(index)) continue;
        const { uploadUrl: url, requiredHeaders: headers } = submission.attachmentUploads[index]!;
        const { name } = files[index]!;
        const sent = onProgress && ((bytes: number) => onProgress({ name, sentBytes: doneBytes + bytes, totalBytes }));
        await put(caller.http, { url, headers, blob, sent, options });
        doneBytes += blob.size;
      }
      return { attachmentSubmissionId, idempotencyKey, expiresAt, maximumFinalMimeBytes };
    } catch (error) {
      // The same registration returns new URLs.
      if (!isExpired(error) || round === FRESH_URLS_AT_MOST) throw error;
    }
  }
}
