/**
 * Complete MIME messages (Content.Raw, SendRawEmail): submitted as mail from SMTP is, so their bytes are kept. Lines that end in LF alone get
 * CRLF, because many programs write them, and the control headers of SES (X-SES-…) are read and removed. Recipients are those of the request,
 * else those in To, Cc, and Bcc.
 */
import { STANDARD_EMAIL_BYTES } from '../../accounts/accounts.ts';
import { type Failure, failure, invalid, ok, type Result, refuse } from '../../base/failure.ts';
import { type Address, parseAddress, parseAddressList, parseBareAddress, sameAddressKey } from '../../mail/address.ts';
import { endOfHeader, fieldValue, headerFields, headerText } from '../../mail/mime/header-fields.ts';
import { mailboxItems } from '../../mail/mime/mailbox-list.ts';
import { createSubmissionReader, type SubmissionRefusal, type SubmittedMail } from '../../mail/mime/submitted.ts';
import { createSubmissionDigest, originOf } from '../../send/send.ts';
import { invalidField, type Operated, repeatKey, type SesContext, type SesDoorDeps } from './endpoint.ts';
import { mailFromFailure } from './errors.ts';

export interface RawEmail {
  /** Base64. */
  data: string;
  /** The field of `data`, for messages. */
  field: string;
  /** The envelope sender; that of the header if absent. */
  from: string | undefined;
  /** Those in the header if empty. */
  recipients: readonly string[];
  metadata: Record<string, string> | undefined;
}

const MOST_RECIPIENTS = 50;
const MOST_METADATA = 20;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const LONE_LF = /(?<!\r)\n/;
const CRLF = Buffer.from('\r\n');

/** Returns the bytes with CRLF at the end of every line; those of a message with such lines are not copied. */
function withLineEnds(bytes: Buffer): Buffer {
  const text = bytes.toString('latin1');
  const lines = LONE_LF.test(text) ? Buffer.from(text.replace(/\r?\n/g, '\r\n'), 'latin1') : bytes;
  return lines.length === 0 || text.endsWith('\n') ? lines : Buffer.concat([lines, CRLF]);
}

interface SesHeaders {
  /** The message without them. */
  content: Buffer;
  tags: [name: string, value: string][];
  isListManaged: boolean;
}

/** Reads and removes the control headers of SES. */
function readSesHeaders(content: Buffer): SesHeaders {
  const { headerEnd } = endOfHeader(content);
  const text = content.toString('latin1', 0, headerEnd);
  const fields = headerFields(text).filter(({ name }) => name.startsWith('x-ses-'));
  if (fields.length === 0) return { content, tags: [], isListManaged: false };
  const kept: Buffer[] = [];
  const found: SesHeaders = { content, tags: [], isListManaged: false };
  let from = 0;
  for (const field of fields) {
    kept.push(content.subarray(from, field.start));
    from = field.end;
    if (field.name === 'x-ses-list-management-options') found.isListManaged = true;
    if (field.name !== 'x-ses-message-tags') continue;
    for (const tag of fieldValue(text, field).split(/[,;]/)) {
      const equals = tag.indexOf('=');
      if (equals > 0) found.tags.push([tag.slice(0, equals).trim(), tag.slice(equals + 1).trim()]);
    }
  }
  kept.push(content.subarray(from));
  return { ...found, content: Buffer.concat(kept) };
}

/** Returns the addresses in To, Cc, and Bcc. Bcc does not leave with the message. */
function headerRecipients(content: Buffer): string[] {
  const text = content.toString('latin1', 0, endOfHeader(content).headerEnd);
  return headerFields(text)
    .filter(({ name }) => name === 'to' || name === 'cc' || name === 'bcc')
    .flatMap((field) => {
      const list = mailboxItems(headerText(fieldValue(text, field)));
      return list.ok ? list.items.flatMap((item) => (item.kind === 'mailbox' ? [item.spec] : [])) : [];
    });
}

function readRecipients(given: readonly string[], content: Buffer): Result<Address[]> {
  const isGiven = given.length > 0;
  const field = isGiven ? 'Destination' : 'To, Cc, and Bcc of the message';
  const found = new Map<string, Address>();
  for (const text of isGiven ? given : headerRecipients(content)) {
    const bare = isGiven ? undefined : parseBareAddress(text);
    const list = bare?.ok ? { ok: true as const, value: [bare.value] } : parseAddressList(text);
    if (!list.ok) return invalidField(field, `has an invalid address: ${text.slice(0, 100)} ${list.issues[0]?.reason}`);
    for (const address of list.value) found.set(sameAddressKey(address), address);
  }
  if (found.size === 0) return invalidField(field, 'must have at least one recipient');
  if (found.size > MOST_RECIPIENTS)
    return invalidField(field, `has ${found.size} recipients; at most ${MOST_RECIPIENTS} are allowed`);
  return ok([...found.values()]);
}

function refusalOf({ code, text }: SubmissionRefusal, field: string): Failure {
  if (code === 552) return failure('EMAIL_SIZE_EXCEEDED', { message: `${field} is too large: ${text}.` });
  return invalid([{ field, message: `is not acceptable: ${text}` }]);
}

function readMail(
  deps: SesDoorDeps,
  content: Buffer,
  nowMs: number,
): { mail: SubmittedMail; content: Buffer } | SubmissionRefusal {
  const pieces: Buffer[] = [];
  const reader = createSubmissionReader({
    sink: (chunk) => pieces.push(chunk),
    nowMs,
    maxBytes: STANDARD_EMAIL_BYTES,
    hostname: deps.hostname,
  });
  reader.write(content);
  const read = reader.end();
  if (!read.ok) return read.refusal;
  return { mail: read.mail, content: pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces) };
}

function digestOf(content: Buffer): Buffer {
  const digest = createSubmissionDigest();
  digest.update(content);
  return digest.digest();
}

/** Returns the envelope sender; a domain that only the envelope has gets the error of SES for it. */
async function readSender(
  deps: SesDoorDeps,
  { caller }: SesContext,
  { from, header }: { from: string | undefined; header: Address },
): Promise<Result<Address>> {
  if (from === undefined) return ok(header);
  const parsed = parseAddress(from);
  if (!parsed.ok) return invalidField('from', parsed.reason);
  const refusal = await deps.submit.senderFailure(caller, parsed.value);
  if (refusal === undefined) return ok(parsed.value);
  return refuse(parsed.value.domain === header.domain ? refusal : mailFromFailure(refusal));
}

/** Submits a complete message; resolves with its id once it is on stable storage. */
export async function sendRaw(deps: SesDoorDeps, context: SesContext, raw: RawEmail): Promise<Operated> {
  const { request, caller } = context;
  const { field } = raw;
  if (request.backPressure !== undefined) return refuse(request.backPressure);
  const base64 = raw.data.replace(/\s+/g, '');
  if (base64 === '' || base64.length % 4 !== 0 || !BASE64.test(base64))
    return invalidField(field, 'must be a MIME message in Base64');
  const control = readSesHeaders(withLineEnds(Buffer.from(base64, 'base64')));
  if (control.isListManaged)
    return invalidField(
      field,
      'has X-SES-LIST-MANAGEMENT-OPTIONS, which is not supported: Postrider has no contact lists',
    );
  const nowMs = deps.clock.now();
  const read = readMail(deps, control.content, nowMs + (await deps.submit.clockOffsetMs(caller)));
  if ('text' in read) return refuse(refusalOf(read, field));
  const { mail, content } = read;
  const recipients = readRecipients(raw.recipients, control.content);
  if (!recipients.ok) return recipients;
  const sender = await readSender(deps, context, { from: raw.from, header: mail.from });
  if (!sender.ok) return sender;
  const metadata = { ...Object.fromEntries(control.tags), ...raw.metadata, ...mail.metadata };
  if (Object.keys(metadata).length > MOST_METADATA)
    return invalidField('metadata', `has ${Object.keys(metadata).length} tags; at most ${MOST_METADATA} are allowed`);
  const submitted = await deps.submit.submit({
    caller,
    nowMs,
    envelopeFrom: sender.value,
    recipients: recipients.value,
    mail: { ...mail, metadata, idempotencyKey: mail.idempotencyKey ?? repeatKey(context) },
    content,
    digest: () => digestOf(content),
    origin: originOf(request),
  });
  if (!submitted.ok) return submitted;
  const { messageId } = submitted.value;
  request.noteMessage(messageId);
  return ok({ MessageId: messageId });
}
