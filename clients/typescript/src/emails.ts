/**
 * Sending. Attachments may be passed as bytes: the client encodes them in Base64, or uploads them first if the email would exceed 2 MB and
 * has one recipient. Every send has an Idempotency-Key, the same for all retries, so the email is sent once.
 */
import { type Answer, type Caller, newKey } from './call.ts';
import { invalidRequest } from './error.ts';
import type { CallOptions } from './http.ts';
import type { Attachment, DryRunResponse, SendRequest, SendResult } from './schema.ts';
import { blobOf, type UploadFile, type UploadOptions, uploadFiles } from './uploads.ts';

export interface EmailAttachment extends Omit<Attachment, 'content'> {
  /** Base64, or bytes. */
  content: string | Uint8Array | Blob;
}

export interface Email extends Omit<SendRequest, 'attachments'> {
  attachments?: EmailAttachment[];
}

/** One result of a batch, in the order of the emails. */
export type BatchResult = Answer<'sendEmailBatch'>['results'][number];

/** The service's limit without an upload, minus space for headers and parts. */
const INLINE_BYTES = 1_900_000;
const ENCODED_RATIO = (4 / 3) * (78 / 76);
const BYTES_AT_ONCE = 0x8000;

const sizeOf = (content: EmailAttachment['content']): number =>
  typeof content === 'string'
    ? (content.length * 3) / 4
    : content instanceof Blob
      ? content.size
      : (content?.length ?? 0);

async function base64Of(content: EmailAttachment['content']): Promise<string> {
  // The service rejects content of any other type.
  if (!(content instanceof Blob) && !(content instanceof Uint8Array)) return content;
  const bytes = content instanceof Blob ? new Uint8Array(await content.arrayBuffer()) : content;
  let binary = '';
  for (let at = 0; at < bytes.length; at += BYTES_AT_ONCE) {
    binary += String.fromCharCode(...bytes.subarray(at, at + BYTES_AT_ONCE));
  }
  return btoa(binary);
}

function bytesOf(base64: string, field: string): Uint8Array {
  try {
    return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  } catch (cause) {
    throw invalidRequest(`\`${field}\` must be Base64, or bytes.`, field, cause);
  }
}

function fileOf({ name, contentType, content }: EmailAttachment, index: number): UploadFile {
  const bytes = typeof content === 'string' ? bytesOf(content, `attachments[${index}].content`) : content;
  return { name, contentType, content: blobOf(bytes) };
}

/** A field that is null is the same as an omitted one. */
const isNobody = (field: SendRequest['cc'] | null): boolean => (field ?? []).length === 0;

/** Whether the email has one recipient; a comma in a quoted name does not separate addresses. */
function hasOneRecipient({ to, cc, bcc }: Email): boolean {
  const addresses = [to ?? []].flat();
  const first = String(addresses[0]);
  return (
    addresses.length === 1 && !/[,;]/.test(first.replaceAll(/"(?:\\.|[^"\\])*"/g, '')) && isNobody(cc) && isNobody(bcc)
  );
}

function isLarge(email: Email): boolean {
  const files = email.attachments ?? [];
  const fileBytes = files.reduce((sum, one) => sum + sizeOf(one.content), 0) * ENCODED_RATIO;
  const textBytes = 2 * ((email.html?.length ?? 0) + (email.text?.length ?? 0));
  const canUpload = hasOneRecipient(email) && files.every((one) => (one.contentId ?? undefined) === undefined);
  return canUpload && fileBytes > 0 && fileBytes + textBytes > INLINE_BYTES;
}

async function inline({ attachments, ...email }: Email): Promise<SendRequest> {
  if (!Array.isArray(attachments)) return email;
  const encoded = attachments.map(async (one) => ({ ...one, content: await base64Of(one.content) }));
  return { ...email, attachments: await Promise.all(encoded) };
}

export function createEmails(caller: Caller) {
  const sendIt = async (body: SendRequest, options?: CallOptions): Promise<SendResult> => {
    const answer = await caller.call('sendEmail', { body }, options);
    return (answer as Extract<typeof answer, { data: unknown }>).data;
  };
  return {
    /** Resolves when the email is on stable storage; every recipient has its own message id. */
    send: async (email: Email, options: UploadOptions = {}): Promise<SendResult> => {
      if (email.attachmentSubmissionId && !options.idempotencyKey) {
        throw invalidRequest('A send with attachmentSubmissionId needs the idempotencyKey that its upload returned.');
      }
      if (!isLarge(email)) return sendIt(await inline(email), options);
      const { attachments = [], cc, bcc, ...rest } = email;
      const given = { ...options, idempotencyKey: options.idempotencyKey ?? newKey() };
      const { attachmentSubmissionId } = await uploadFiles(caller, attachments.map(fileOf), given);
      return sendIt({ ...rest, attachmentSubmissionId }, given);
    },
    /** Sends up to 100 emails, each checked and stored independently. */
    sendBatch: async (emails: readonly Email[], options?: CallOptions): Promise<BatchResult[]> => {
      const messages = await Promise.all(emails.map(inline));
      return (await caller.call('sendEmailBatch', { body: { messages } }, options)).results;
    },
    /** Returns what would be sent, with warnings, without sending it. */
    dryRun: async (email: Email, options?: CallOptions): Promise<DryRunResponse> => {
      const answer = await caller.call('sendEmail', { query: { dryRun: true }, body: await inline(email) }, options);
      return answer as DryRunResponse;
    },
    /** Returns an email with the status of each recipient; `id` is the id of any of its messages. */
    get: (id: string, options?: CallOptions) => caller.call('getEmail', { path: { id } }, options),
  };
}
