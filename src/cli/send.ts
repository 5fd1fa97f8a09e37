/**
 * Implements `postrider send`: sends one email through the HTTP API. Files to a single recipient use the upload flow; to several recipients
 * they are part of the request, which limits the email to 2 MB. Each step (manifest, uploads, send) can be repeated: files that an earlier
 * run has uploaded are not uploaded again, and an email that was accepted is not sent again.
 */

import { STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { parseAddressList } from '../mail/address.ts';
import {
  type ApiAnswer,
  type ApiClient,
  type ApiOptions,
  apiClient,
  apiTarget,
  RefusedCall,
  refusal,
  sentOutcome,
} from './api-client.ts';
import { type CommandCall, CommandError, type CommandOutcome } from './command.ts';
import {
  ERASE_LINE,
  inlineAttachment,
  type LocalFile,
  localFile,
  type ManifestItem,
  manifestItem,
  startProgress,
  type UploadAnswer,
  uploadFile,
} from './send-files.ts';
import { openSendState, type SendState } from './send-state.ts';

/** Upload URLs that expire are renewed; this ends a send whose connection is too slow for a single file. */
const MAX_ROUNDS = 5;
/** An interrupted send without uploads can be resumed for this time. Later, the same command may be a new email, for example of a timer. */
const INLINE_USEFUL_MS = 10 * 60_000;

interface Submission {
  attachmentSubmissionId: string;
  attachmentUploads: { uploadUrl: string; requiredHeaders: Record<string, string> }[];
}

interface Large {
  call: CommandCall;
  api: ApiClient;
  files: LocalFile[];
  manifest: string;
  idempotencyKey: string;
}

/** Errors that a retry with the same key cannot change; after any other error the uploaded files remain useful. */
const FINAL_CODES = new Set([
  'SUBMISSION_NOT_FOUND',
  'SUBMISSION_ALREADY_USED',
  'IDEMPOTENCY_KEY_REUSED',
  'IDEMPOTENCY_KEY_MISMATCH',
]);

function isFinal({ body }: ApiAnswer): boolean {
  return FINAL_CODES.has((body as { error?: { code?: string } }).error?.code ?? '');
}

/** Sends `mail` (fields of POST /send) with these files; returns the response of POST /send, or of the step that was refused. */
async function sendLarge(
  call: CommandCall<{ idempotencyKey?: string }>,
  api: ApiClient,
  { mail, files }: { mail: Record<string, unknown>; files: LocalFile[] },
): Promise<CommandOutcome> {
  const items = await describe(call, files);
  const given = call.options.idempotencyKey;
  const command = { url: api.base, id: api.accountId, mail, items };
  const state: SendState | undefined =
    given === undefined
      ? openSendState(command, { environment: call.environment, nowMs: call.clock.now() })
      : undefined;
  const idempotencyKey = given ?? state?.idempotencyKey ?? '';
  announceResumption(call, state);
  const ignoreInterrupt = announceInterrupt(call);
  try {
    const large = { call, api, files, manifest: JSON.stringify({ attachments: items }), idempotencyKey };
    const attachmentSubmissionId = await uploadAll(large);
    const body = JSON.stringify({ ...mail, attachmentSubmissionId });
    const answer = await api.call({ method: 'POST', path: '/send', body, idempotencyKey });
    if (answer.status !== 202) throw new RefusedCall(answer);
    state?.finish();
    announceReplay(call, answer);
    return sentOutcome(api, answer);
  } catch (error) {
    if (!(error instanceof RefusedCall)) throw error;
    if (isFinal(error.answer)) state?.finish();
    return refusal(error.answer);
  } finally {
    ignoreInterrupt();
  }
}

function announceResumption({ streams }: CommandCall, state: SendState | undefined): void {
  if (state?.isContinued && streams.errIsTerminal) streams.err('Resuming an interrupted send.\n');
}

/** Reports that this run sent nothing, because an earlier request with the same key was accepted. */
function announceReplay({ streams, options }: CommandCall<{ idempotencyKey?: string }>, answer: ApiAnswer): void {
  if (!answer.isReplayed) return;
  const earlier =
    options.idempotencyKey === undefined ? 'the email of the interrupted run' : 'an email with this idempotency key';
  streams.err(`postrider: ${earlier} was already accepted, so nothing was sent now\n`);
}

/** On Ctrl-C, prints how to resume, and exits like an interrupted program. */
function announceInterrupt({ streams }: CommandCall): () => void {
  if (streams.errIsTerminal !== true) return () => undefined;
  const onInterrupt = (): void => {
    streams.err(`${ERASE_LINE}Interrupted. Repeat the same command to resume.\n`);
    process.kill(process.pid, 'SIGINT');
  };
  process.once('SIGINT', onInterrupt);
  return () => void process.off('SIGINT', onInterrupt);
}

async function describe(call: CommandCall, files: LocalFile[]): Promise<ManifestItem[]> {
  const totalBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  const progress = startProgress(call.streams, 'Reading  ', { totalBytes });
  let doneBytes = 0;
  const items: ManifestItem[] = [];
  try {
    for (const file of files) {
      const item = await manifestItem(file, (count) => {
        doneBytes += count;
        progress.show(doneBytes);
      });
      // The size that was read is used: some files have no size beforehand, and some grow.
      file.sizeBytes = item.sizeBytes;
      items.push(item);
    }
  } finally {
    progress.end();
  }
  return items;
}

/** Uploads missing files, with new URLs when they expire; returns the id of the submission. */
async function uploadAll(large: Large): Promise<string> {
  let refused: UploadAnswer | undefined;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const submission = await register(large);
    const id = submission.attachmentSubmissionId;
    refused = await uploadRound(large, submission);
    if (refused === undefined) return id;
    if (refused.status !== 403) break;
  }
  throw new RefusedCall({ status: refused?.status ?? 0, body: refusalBody(refused) });
}

async function register({ api, manifest, idempotencyKey }: Large): Promise<Submission> {
  const answer = await api.call({ method: 'POST', path: '/attachments', body: manifest, idempotencyKey });
  if (answer.status !== 201) throw new RefusedCall(answer);
  return answer.body as unknown as Submission;
}

/** Returns the indexes of the files that the service is waiting for. */
async function waitingFiles({ api, files }: Large, submissionId: string): Promise<number[]> {
  const answer = await api.call({ method: 'GET', path: `/attachments/${submissionId}` });
  if (answer.status !== 200) throw new RefusedCall(answer);
  const state = answer.body as { files: { status: string }[] };
  return files.flatMap((_, number) => (state.files[number]?.status === 'uploaded' ? [] : [number]));
}

/** Uploads the missing files; returns the first refusal, or undefined if all were accepted. */
async function uploadRound(large: Large, submission: Submission): Promise<UploadAnswer | undefined> {
  const { call, files } = large;
  const waiting = await waitingFiles(large, submission.attachmentSubmissionId);
  const totalBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  const waitingBytes = waiting.reduce((sum, number) => sum + files[number]!.sizeBytes, 0);
  let doneBytes = totalBytes - waitingBytes;
  const progress = startProgress(call.streams, 'Uploading', { totalBytes, fromBytes: doneBytes });
  try {
    for (const number of waiting) {
      const answer = await uploadFile(files[number]!, submission.attachmentUploads[number]!, (count) => {
        doneBytes += count;
        progress.show(doneBytes);
      });
      if (answer.status !== 200) return answer;
    }
  } finally {
    progress.end();
  }
  return undefined;
}

/** Returns the refusal of an upload as an error of the API. A storage service may have refused it with a body that is not JSON. */
function refusalBody(answer: UploadAnswer | undefined): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(answer?.text ?? '');
    if (typeof body === 'object' && body !== null && 'error' in body) return body as Record<string, unknown>;
  } catch {
    // The message below describes it.
  }
  const message = `the storage returned ${answer?.status ?? 0} for the upload: ${(answer?.text ?? '').slice(0, 300)}`;
  return { success: false, error: { code: 'UPLOAD_REFUSED', message } };
}

interface SendOptions extends ApiOptions {
  from: string;
  to: string[];
  cc?: string[];
  bcc?: string[];
  subject: string;
  html?: string;
  text?: string;
  attach?: string[];
  idempotencyKey?: string;
}

/** Returns the fields of POST /send, except the files. */
function mailOf({ from, to, cc, bcc, subject, html, text }: SendOptions): Record<string, unknown> {
  // Without a body, sends an empty email like mail(1); the API requires a body.
  const body = html === undefined && text === undefined ? { text: '\n' } : { html, text };
  return { from, to, subject, cc, bcc, ...body };
}

/** Returns whether the upload flow can be used: it requires exactly one address in to, and no cc and bcc. */
function hasOneRecipient({ to, cc, bcc }: SendOptions): boolean {
  if (cc || bcc) return false;
  const count = to.reduce((sum, text) => {
    const parsed = parseAddressList(text);
    return sum + (parsed.ok ? parsed.value.length : 1);
  }, 0);
  return count === 1;
}

/** Whether a repetition of the request could have another result: the service, or a proxy, had no time for it. */
const isTemporary = ({ status }: ApiAnswer): boolean => status >= 500 || status === 409 || status === 429;

async function sendInline(
  call: CommandCall<SendOptions>,
  api: ApiClient,
  { mail, files }: { mail: Record<string, unknown>; files: LocalFile[] },
): Promise<CommandOutcome> {
  const tooLarge = files.find((file) => file.sizeBytes > STANDARD_EMAIL_BYTES);
  if (tooLarge) {
    throw new CommandError(
      'EMAIL_SIZE_EXCEEDED',
      `${tooLarge.path} has ${tooLarge.sizeBytes} bytes, but an email to several recipients can have up to ${STANDARD_EMAIL_BYTES}; send it to one recipient at a time`,
    );
  }
  const body = JSON.stringify(files.length === 0 ? mail : { ...mail, attachments: files.map(inlineAttachment) });
  const { environment, clock, options } = call;
  const command = { url: api.base, id: api.accountId, isSandbox: api.isSandbox, body };
  const state =
    options.idempotencyKey === undefined
      ? openSendState(command, {
          environment,
          nowMs: clock.now(),
          allowsConcurrent: true,
          usefulMs: INLINE_USEFUL_MS,
        })
      : undefined;
  announceResumption(call, state);
  const stored = state?.isStored ? state.idempotencyKey : undefined;
  const idempotencyKey = options.idempotencyKey ?? stored;
  const ignoreInterrupt = stored === undefined ? () => undefined : announceInterrupt(call);
  try {
    const answer = await api.call({ method: 'POST', path: '/send', body, idempotencyKey });
    if (isFinal(answer) || !isTemporary(answer)) state?.finish();
    if (answer.status !== 202) return refusal(answer);
    announceReplay(call, answer);
    return sentOutcome(api, answer);
  } finally {
    ignoreInterrupt();
  }
}

export async function send(call: CommandCall<SendOptions>): Promise<CommandOutcome> {
  const { options } = call;
  const content = { mail: mailOf(options), files: (options.attach ?? []).map(localFile) };
  const api = apiClient(apiTarget(call));
  const isLarge = content.files.length > 0 && hasOneRecipient(options);
  return isLarge ? sendLarge(call, api, content) : sendInline(call, api, content);
}
