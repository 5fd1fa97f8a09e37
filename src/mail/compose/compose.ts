/**
 * Composes a message (RFC 5322, RFC 2045–2049): header, text and html as alternatives, inline files next to the html, then other files. The
 * result is 7-bit with CRLF line ends and lines of at most 998 characters, except for header addresses whose local part is UTF-8 (RFC 6532;
 * `smtpUtf8` is then true). It never has a Bcc field. Composing throws only for input that the caller must refuse, such as control
 * characters in a header value.
 *
 * Files are sent in Base64, which RFC 2046 §5.2.1 forbids for `message/rfc822`. Such a file is sent unchanged if it is 7-bit with CRLF line
 * ends. Otherwise, and whenever only its size is known, it is sent in Base64 as `application/octet-stream`, so its bytes arrive unchanged.
 * Files of other composite types (`message/…` and `multipart/…`) are relabeled for the same reason.
 */
import { randomText } from '../../base/ids.ts';
import { type Address, needsSmtpUtf8 } from '../address.ts';
import { withoutName } from './content-type.ts';
import { extraField } from './extra-field.ts';
import {
  addressField,
  formatDate,
  hasForbiddenControl,
  isHeaderName,
  legacyNameParameter,
  parameter,
  textField,
} from './header.ts';
import {
  base64SizeBytes,
  encodeText,
  isSevenBit,
  resetScratch,
  type TransferEncoding,
  writeBase64,
} from './transfer-encoding.ts';

interface MailWithoutFiles {
  from: Address;
  sender?: Address | undefined;
  to: readonly Address[];
  cc: readonly Address[];
  replyTo: readonly Address[];
  subject: string;
  text?: string | undefined;
  html?: string | undefined;
  /** Type of a machine-readable report (RFC 6522), whose text is for people and whose files are the report. */
  reportType?: string | undefined;
  /** Extra fields in order; the caller must refuse structural fields. */
  headers: readonly (readonly [name: string, value: string])[];
  /** The Message-ID, with or without angle brackets. */
  messageId: string;
  dateMs: number;
}

export interface FileToCompose {
  name: string;
  contentType: string;
  content: Uint8Array;
  /** Makes the file inline, referenced as `cid:` from the html; without angle brackets. */
  contentId?: string;
}

/** A file of which only the size is needed. If `content` is set, the file is treated exactly as in `compose`. */
export interface FileBySize {
  name: string;
  contentType: string;
  sizeBytes: number;
  contentId?: string;
  content?: Uint8Array;
}

export interface MailToCompose extends MailWithoutFiles {
  attachments: readonly FileToCompose[];
}

export interface MailBySize extends MailWithoutFiles {
  attachments: readonly FileBySize[];
}

export interface ComposedMail {
  /** The complete message. A small one shares its ArrayBuffer with others, which is much cheaper than a separate one. */
  content: Buffer;
  sizeBytes: number;
  /** Whether a header address needs SMTPUTF8. */
  smtpUtf8: boolean;
}

/** A message with gaps: file `order[i]` goes as Base64 lines (`writeBase64`) between `pieces[i]` and `pieces[i + 1]`. */
export interface MessageSkeleton {
  pieces: Buffer[];
  /** Indexes into `attachments`, one for each gap. */
  order: number[];
  /** Size of the complete message, with the files. */
  sizeBytes: number;
  smtpUtf8: boolean;
}

/** The parts of a message in order: ASCII text, raw bytes, or the index of a file to insert as Base64. */
type Chunk = string | Uint8Array | number;

/**
 * Describes how a body ends: with a line end that can be part of the following delimiter (`free`), with a line end that belongs to the text
 * (`own`), or without a line end (`open`).
 */
type Ending = 'free' | 'own' | 'open';

/** One MIME entity: its header fields (with CRLF, without the empty line) and its body. */
interface Entity {
  fields: string;
  body: Chunk[];
  ending: Ending;
}

function textFields(subtype: 'plain' | 'html'): Record<TransferEncoding, string> {
  const fields = (encoding: TransferEncoding): string =>
    `Content-Type: text/${subtype}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n`;
  return { '7bit': fields('7bit'), 'quoted-printable': fields('quoted-printable'), base64: fields('base64') };
}

const TEXT_FIELDS = { plain: textFields('plain'), html: textFields('html') };

function textEntity(subtype: 'plain' | 'html', text: string): Entity {
  const { encoding, data } = encodeText(text);
  const last = typeof data === 'string' ? data.charCodeAt(data.length - 1) : data[data.length - 1];
  let ending: Ending = last === 10 || data.length === 0 ? 'own' : 'open';
  if (encoding === 'base64') ending = 'free';
  return { fields: TEXT_FIELDS[subtype][encoding], body: [data], ending };
}

function fileEntity(file: FileBySize, index: number): Entity {
  if (hasForbiddenControl(file.contentType) || /[^\x20-\x7e]/.test(file.contentType)) {
    throw new TypeError('the content type of a file contains a control character or a non-ASCII character');
  }
  const composite = /^(?:message|multipart)\//i.test(file.contentType);
  const isUnchanged =
    composite && file.content !== undefined && /^message\/rfc822\b/i.test(file.contentType) && isSevenBit(file.content);
  // Two names in one field could show different names to different email clients.
  const type = composite && !isUnchanged ? 'application/octet-stream' : withoutName(file.contentType);
  const disposition = file.contentId === undefined ? 'attachment' : 'inline';
  let fields =
    `Content-Type: ${type}${legacyNameParameter(file.name)}\r\n` +
    `Content-Transfer-Encoding: ${isUnchanged ? '7bit' : 'base64'}\r\n` +
    `Content-Disposition: ${disposition}${parameter('filename', file.name)}\r\n`;
  if (file.contentId !== undefined) {
    if (/[^\x21-\x7e]|[<>]/.test(file.contentId))
      throw new TypeError('the content id of a file contains a space, an angle bracket, or a non-ASCII character');
    fields += `Content-ID: <${file.contentId}>\r\n`;
  }
  return isUnchanged ? { fields, body: [file.content!], ending: 'own' } : { fields, body: [index], ending: 'free' };
}

function multipart(subtype: string, boundary: string, parts: readonly Entity[]): Entity {
  const delimiter = `--${boundary}\r\n`;
  const body: Chunk[] = [];
  let before = delimiter;
  for (const part of parts) {
    body.push(`${before}${part.fields}\r\n`);
    for (const chunk of part.body) body.push(chunk);
    before = part.ending === 'free' ? delimiter : `\r\n${delimiter}`;
  }
  body.push(`${before.slice(0, -2)}--\r\n`);
  const type = subtype === 'related' ? 'related; type="text/html"' : subtype;
  return { fields: `Content-Type: multipart/${type};\r\n boundary="${boundary}"\r\n`, body, ending: 'free' };
}

/** Returns whether the body may contain this delimiter (RFC 2046 §5.1.1): two hyphens and the boundary. */
function holdsDelimiter({ body: [data] }: Entity, token: string): boolean {
  if (typeof data === 'number' || data === undefined) return false;
  return typeof data === 'string'
    ? data.includes('--=_') && data.includes(token)
    : Buffer.from(data.buffer, data.byteOffset, data.length).includes(token);
}

/**
 * Returns a new token for boundaries. Boundaries contain `=_`, which cannot occur in Base64 and quoted-printable, so only 7bit bodies are
 * searched.
 */
function newBoundaryToken(bodies: readonly Entity[]): string {
  for (;;) {
    const token = randomText(22);
    let found = false;
    for (const entity of bodies) found ||= holdsDelimiter(entity, token);
    if (!found) return token;
  }
}

/** Matches the type of a calendar object with a method (RFC 6047 §2.4): an invitation, a reply, or a cancellation. */
const CALENDAR = /^text\/calendar *;(?:.*;)? *method=/i;

/**
 * Returns an alternative to the text with the first calendar file, because Outlook and Gmail otherwise show a file instead of an
 * invitation. The file's bytes must be in memory.
 */
function calendarEntity(files: readonly FileBySize[]): Entity | undefined {
  const isCalendar = (file: FileBySize): boolean =>
    file.content !== undefined && file.contentId === undefined && CALENDAR.test(file.contentType);
  const index = files.findIndex(isCalendar);
  if (index === -1) return undefined;
  const type = withoutName(files[index]!.contentType);
  const charset = /; *charset=/i.test(type) ? '' : '; charset=utf-8';
  const fields = `Content-Type: ${type}${charset}\r\nContent-Transfer-Encoding: base64\r\n`;
  return { fields, body: [index], ending: 'free' };
}

/** Combines text, html, and files in the order of RFC 2046: mixed( alternative( plain, related( html, inline… ), calendar ), file… ). */
function bodyEntity(mail: MailWithoutFiles, attachments: readonly FileBySize[]): Entity {
  const plain = mail.text !== undefined || mail.html === undefined ? textEntity('plain', mail.text ?? '') : undefined;
  const html = mail.html === undefined ? undefined : textEntity('html', mail.html);
  if (attachments.length === 0) {
    if (plain === undefined || html === undefined) return (plain ?? html)!;
    const both = [plain, html];
    return multipart('alternative', `=_a.${newBoundaryToken(both)}`, both);
  }
  const files = attachments.map(fileEntity);
  const token = newBoundaryToken([...(plain ? [plain] : []), ...(html ? [html] : []), ...files]);
  const isInline = (index: number): boolean => html !== undefined && attachments[index]!.contentId !== undefined;
  const inline = files.filter((_, index) => isInline(index));
  const others = files.filter((_, index) => !isInline(index));
  let top = html;
  if (html !== undefined && inline.length > 0) top = multipart('related', `=_r.${token}`, [html, ...inline]);
  const calendar = calendarEntity(attachments);
  const alternatives = [plain, top, calendar].filter((one) => one !== undefined);
  top = alternatives.length === 1 ? alternatives[0] : multipart('alternative', `=_a.${token}`, alternatives);
  const outer = mail.reportType === undefined ? 'mixed' : `report; report-type="${mail.reportType}"`;
  return others.length === 0 ? top! : multipart(outer, `=_m.${token}`, [top!, ...others]);
}

function headerBlock(mail: MailWithoutFiles): string {
  let out = addressField('From', [mail.from]);
  if (mail.sender !== undefined) out += addressField('Sender', [mail.sender]);
  if (mail.to.length > 0) out += addressField('To', mail.to);
  else if (mail.cc.length === 0) out += 'To: undisclosed-recipients:;\r\n';
  if (mail.cc.length > 0) out += addressField('Cc', mail.cc);
  if (mail.replyTo.length > 0) out += addressField('Reply-To', mail.replyTo);
  const id = mail.messageId.startsWith('<') ? mail.messageId : `<${mail.messageId}>`;
  if (!/^<[\x21-\x7e]{1,900}>$/.test(id))
    throw new TypeError('the Message-ID is empty, is too long, or contains a character that is not printable ASCII');
  out += `${textField('Subject', mail.subject)}Date: ${formatDate(mail.dateMs)}\r\nMessage-ID: ${id}\r\nMIME-Version: 1.0\r\n`;
  for (const [name, value] of mail.headers) {
    if (!isHeaderName(name)) throw new TypeError('the name of a header field is not valid');
    out += extraField(name, value);
  }
  return out;
}

interface Assembly {
  /** The header, including the empty line, to be written as UTF-8; everything else is in `body`. */
  header: string;
  headerBytes: number;
  body: Chunk[];
  sizeBytes: number;
  smtpUtf8: boolean;
}

/** Assembles the message. The files are a separate parameter, so that callers need not copy `mail` to change them. */
function assemble(mail: MailWithoutFiles, files: readonly FileBySize[]): Assembly {
  resetScratch();
  const entity = bodyEntity(mail, files);
  const header = `${headerBlock(mail)}${entity.fields}\r\n`;
  const body = entity.ending === 'open' ? [...entity.body, '\r\n'] : entity.body;
  const headerBytes = Buffer.byteLength(header, 'utf8');
  let sizeBytes = headerBytes;
  for (const chunk of body) {
    sizeBytes += typeof chunk === 'number' ? base64SizeBytes(files[chunk]!.sizeBytes) : chunk.length;
  }
  const smtpUtf8 = headerBytes !== header.length && addressesOf(mail).some(needsSmtpUtf8);
  return { header, headerBytes, body, sizeBytes, smtpUtf8 };
}

function addressesOf(mail: MailWithoutFiles): Address[] {
  return [mail.from, ...(mail.sender ? [mail.sender] : []), ...mail.to, ...mail.cc, ...mail.replyTo];
}

function writeChunk(chunk: string | Uint8Array, target: Buffer, offset: number): number {
  if (typeof chunk === 'string') return offset + target.write(chunk, offset, 'latin1');
  target.set(chunk, offset);
  return offset + chunk.length;
}

/** Returns the complete message in memory. */
export function compose(mail: MailToCompose): ComposedMail {
  const files = mail.attachments.map((file) => ({ ...file, sizeBytes: file.content.length }));
  const { header, headerBytes, body, sizeBytes, smtpUtf8 } = assemble(mail, files);
  const content = Buffer.allocUnsafe(sizeBytes);
  content.write(header, 0, headerBytes === header.length ? 'latin1' : 'utf8');
  let offset = headerBytes;
  for (const chunk of body) {
    if (typeof chunk === 'number') offset = writeBase64(files[chunk]!.content, content, offset);
    else offset = writeChunk(chunk, content, offset);
  }
  if (offset !== sizeBytes)
    throw new Error(`the composed message has ${offset} bytes instead of the computed ${sizeBytes} bytes`);
  return { content, sizeBytes, smtpUtf8 };
}

/** Returns the message without its files, which need not be in memory; see `MessageSkeleton`. */
export function composeSkeleton(mail: MailBySize): MessageSkeleton {
  const { header, headerBytes, body, sizeBytes, smtpUtf8 } = assemble(mail, mail.attachments);
  const order: number[] = [];
  const groups: (string | Uint8Array)[][] = [[]];
  for (const chunk of body) {
    if (typeof chunk === 'number') {
      order.push(chunk);
      groups.push([]);
    } else groups[groups.length - 1]!.push(chunk);
  }
  const pieces = groups.map((group, i) => {
    const start = i === 0 ? headerBytes : 0;
    const piece = Buffer.allocUnsafeSlow(group.reduce((sum, chunk) => sum + chunk.length, start));
    if (i === 0) piece.write(header, 0, 'utf8');
    group.reduce((offset, chunk) => writeChunk(chunk, piece, offset), start);
    return piece;
  });
  return { pieces, order, sizeBytes, smtpUtf8 };
}

/** Returns the size in bytes of the mail that `compose` writes for the same input, with attachments known by size only; reads no file. */
export function composedSizeBytes(mail: MailBySize): number {
  return composeSkeleton(mail).sizeBytes;
}
