/**
 * Checks, reads, and edits the header of submitted mail. Edits only remove and append fields, so every other field keeps its position, its
 * folding, and its bytes.
 *
 * It removes Bcc, Resent-Bcc, Return-Path, Authentication-Results in Postrider's own name (RFC 8601 §5), and the service's control fields
 * (submitted-controls.ts), each with its folded lines. It also removes a leading `From ` line, with any `>` before it, which programs that
 * read mbox files (RFC 4155) leave in. Other Authentication-Results and the Resent- fields are kept. Date and Message-ID are appended after
 * the last field if they are missing or empty (RFC 6409 §8.2, §8.3).
 *
 * It refuses:
 * - lines that are not fields;
 * - white space before the colon: obsolete syntax (RFC 5322 §4.5) that mailers must not write and that receivers interpret differently;
 * - bytes that are not UTF-8 (RFC 6532 §3.1);
 * - more than one of a field that may occur only once (RFC 5322 §3.6, and three fields of MIME);
 * - more than 100 Received fields (RFC 5321 §6.3), or more than 1,000 fields.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import { type Address, domainToAscii } from '../address.ts';
import { formatDate, newMessageId } from '../compose/header.ts';
import { decodeWords, fieldValue, type HeaderField, headerFields, headerText, writtenName } from './header-fields.ts';

import { mailboxItems } from './mailbox-list.ts';
import { type ControlField, type ControlHeaders, isControl, readControls } from './submitted-controls.ts';
import { readFrom } from './submitted-from.ts';
import { excessive, malformed, quote, type SubmissionRefusal, senderRefused } from './submitted-refusal.ts';

export interface HeaderSummary extends ControlHeaders {
  from: Address;
  /** Address of the Sender field, which email clients display next to From. */
  sender: Address | undefined;
  fromText: string;
  headerTo: { to: string[]; cc: string[] };
  subject: string;
  headerMessageId: string;
  /** Whether a remaining field has raw UTF-8. */
  smtpUtf8: boolean;
  /** The first field with raw UTF-8, and its line in the submitted header, counted from 1; undefined if there is none. */
  utf8Field: { name: string; line: number } | undefined;
  /** `TLS-Required: No` (RFC 8689 §5): the TLS policy of the recipient's domain does not apply. */
  tlsOptional: boolean;
}

export type HeaderResult =
  | {
      ok: true;
      summary: HeaderSummary;
      /** The fields after the edits, without the empty line; undefined if nothing was edited. */
      edited: Buffer | undefined;
      /** Values of the fields that define the structure of the body. */
      contentType: string | undefined;
      transferEncoding: string | undefined;
    }
  | { ok: false; refusal: SubmissionRefusal };

export interface HeaderContext {
  nowMs: number;
  /** Domain of an added Message-ID if the domain of From cannot be used. */
  hostname: string;
}

const MAX_FIELDS = 1000;
const MAX_RECEIVED = 100;
const MAX_SUBJECT_LENGTH = 998;
const MAX_MESSAGE_ID_LENGTH = 998;
/** Maximum number of addresses that the API shows of To, and of Cc. */
const MAX_SHOWN = 500;
const MAX_SHOWN_LENGTH = 1000;

const REMOVED = new Set(['bcc', 'resent-bcc', 'return-path']);
const AT_MOST_ONE = new Set([
  'from',
  'sender',
  'reply-to',
  'to',
  'cc',
  'subject',
  'date',
  'message-id',
  'in-reply-to',
  'references',
  'mime-version',
  'content-type',
  'content-transfer-encoding',
]);
const SPACE_BEFORE_COLON = /^[!-9;-~]+[ \t]+:/;
/** Matches the separator of mbox files. `From :` is a field with a space before its colon. */
const MBOX_LINE = /^>*From (?![ \t]*:)[^\r\n]*\r\n$/;
const CONTROLS = /[\p{Cc}\p{Zl}\p{Zp}]+/gu;
const PLAIN = /^[ -~]*$/;
const NON_ASCII = /[^\x00-\x7f]/;

function lineNumber(text: string, at: number): number {
  let line = 1;
  for (let end = text.indexOf('\r\n'); end >= 0 && end < at; end = text.indexOf('\r\n', end + 2)) line += 1;
  return line;
}

function notAField(text: string, field: HeaderField): SubmissionRefusal {
  const line = text.slice(field.start, text.indexOf('\r\n', field.start));
  const place = `line ${lineNumber(text, field.start)} of the header (${quote(line)})`;
  if (SPACE_BEFORE_COLON.test(line)) {
    return malformed(`${place} has a space before its colon, which RFC 5322 no longer allows; remove the space`);
  }
  if (field.start === 0 && /^[ \t]/.test(line)) {
    return malformed(`${place} starts with a space but continues no field; the header must start with a field name`);
  }
  return malformed(
    `${place} is not a header field; write a name, a colon, and a value, and an empty line before the body`,
  );
}

/** The fields that need more work, as sortFields collects them. */
interface SortedFields {
  single: Map<string, HeaderField>;
  controls: ControlField[];
  removed: HeaderField[];
  received: number;
}

function textOf(text: string, field: HeaderField): string {
  return headerText(fieldValue(text, field));
}

/** Returns whether an Authentication-Results value claims to be from the host: its authserv-id comes first (RFC 8601 §2.2). */
function claimsToBeFrom(hostname: string, value: string): boolean {
  let at = 0;
  for (let depth = 0; at < value.length; at += 1) {
    const c = value[at];
    if (c === '(') depth += 1;
    else if (c === ')' && depth > 0) depth -= 1;
    else if (c === '\\' && depth > 0) at += 1;
    else if (depth === 0 && c !== ' ' && c !== '\t') break;
  }
  const id = /^"?([^\s;"(]{1,255})/.exec(value.slice(at, at + 256))?.[1];
  return id !== undefined && id.toLowerCase() === hostname.toLowerCase();
}

/** Checks that the Sender field has one mailbox (RFC 5322 §3.6.2), like From. An empty field is ignored. */
function readSender(
  value: string | undefined,
): { ok: true; sender: Address | undefined } | { ok: false; refusal: SubmissionRefusal } {
  if (value === undefined || value === '') return { ok: true, sender: undefined };
  const read = readFrom(value, 'Sender');
  if (read.ok) return { ok: true, sender: read.from.address };
  // Old mailers write a name alone (`root`). It displays no address, so it is ignored.
  return /[@\uff20\ufe6b]|=\?/.test(value) ? read : { ok: true, sender: undefined };
}

/** Sorts the fields; refuses a field that is not allowed. */
function sortFields(text: string, fields: readonly HeaderField[], hostname: string): SortedFields | SubmissionRefusal {
  const found: SortedFields = { single: new Map(), controls: [], removed: [], received: 0 };
  let isLeading = true;
  for (const field of fields) {
    const { name } = field;
    isLeading &&= name === '' && MBOX_LINE.test(text.slice(field.start, field.end));
    if (isLeading) {
      found.removed.push(field);
      continue;
    }
    if (name === '' || field.start + name.length < field.colon) return notAField(text, field);
    if (AT_MOST_ONE.has(name)) {
      if (found.single.has(name)) {
        const fieldName = writtenName(text, field);
        const issue = `the header has more than one ${fieldName} field (line ${lineNumber(text, field.start)}); send one`;
        return name === 'from' || name === 'sender' ? senderRefused(issue) : malformed(issue);
      }
      found.single.set(name, field);
    } else if (name === 'received') found.received += 1;
    else if (REMOVED.has(name) || (name === 'authentication-results' && claimsToBeFrom(hostname, textOf(text, field))))
      found.removed.push(field);
    else if (isControl(name)) {
      found.removed.push(field);
      found.controls.push({ name: writtenName(text, field), value: textOf(text, field) });
    }
  }
  if (found.received > MAX_RECEIVED) {
    return excessive(
      `the header has ${found.received} Received fields; more than ${MAX_RECEIVED} indicate a mail loop`,
    );
  }
  return found;
}

function notUtf8(header: Buffer, text: string): SubmissionRefusal {
  const field = headerFields(text).find((one) => !isUtf8(header.subarray(one.start, one.end)));
  const name = field === undefined || field.colon < 0 ? 'the header' : quote(writtenName(text, field));
  const place = field === undefined ? '' : ` (line ${lineNumber(text, field.start)})`;
  return malformed(`${name}${place} has bytes that are not UTF-8; encode the text as in RFC 2047`);
}

function shown(text: string, length: number): string {
  if (text.length <= length && PLAIN.test(text)) return text;
  return [...text.replace(CONTROLS, ' ').toWellFormed()].slice(0, length).join('');
}

/** Returns addresses as the API shows them; text that is not an address list is returned as one item. */
function shownList(value: string | undefined): string[] {
  if (value === undefined || value === '') return [];
  const list = mailboxItems(value);
  if (!list.ok) return [shown(decodeWords(value), MAX_SHOWN_LENGTH)];
  const out: string[] = [];
  for (const item of list.items) {
    if (item.kind !== 'mailbox') continue;
    if (out.length === MAX_SHOWN) break;
    out.push(shown(item.name === '' ? item.spec : `${item.name} <${item.spec}>`, MAX_SHOWN_LENGTH));
  }
  return out;
}

function messageIdOf(value: string): string {
  const id = /<[^<>\s\p{Cc}]+>/u.exec(value)?.[0] ?? `<${value.replace(/[<>\s\p{Cc}]+/gu, '')}>`;
  return id.length <= MAX_MESSAGE_ID_LENGTH ? id : `${id.slice(0, MAX_MESSAGE_ID_LENGTH - 1)}>`;
}

/** Returns the fields without the removed ones, followed by the added lines. */
function edit(header: Buffer, removed: readonly HeaderField[], added: string): Buffer {
  const pieces: Buffer[] = [];
  let from = 0;
  for (const field of removed) {
    if (field.start > from) pieces.push(header.subarray(from, field.start));
    from = field.end;
  }
  if (from < header.length) pieces.push(header.subarray(from));
  if (added !== '') pieces.push(Buffer.from(added, 'latin1'));
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
}

/** Returns whether the header has `TLS-Required: No`; a repeated field, or one with another value, is ignored (RFC 8689 §5). */
function isTlsOptional(text: string, fields: readonly HeaderField[]): boolean {
  const [field, ...others] = fields.filter(({ name }) => name === 'tls-required');
  return field !== undefined && others.length === 0 && /^no$/i.test(textOf(text, field));
}

function firstUtf8Field(
  text: string,
  fields: readonly HeaderField[],
  removed: readonly HeaderField[],
): HeaderSummary['utf8Field'] {
  for (const field of fields) {
    const at = text.slice(field.start, field.end).search(NON_ASCII);
    if (at === -1 || removed.includes(field)) continue;
    return { name: writtenName(text, field), line: lineNumber(text, field.start + at) };
  }
  return undefined;
}

/** Checks and edits a header of complete lines, without the empty line after it; `text` is the same bytes as Latin-1. */
export function readSubmittedHeader(header: Buffer, text: string, context: HeaderContext): HeaderResult {
  const ascii = isAscii(header);
  if (!ascii && !isUtf8(header)) return { ok: false, refusal: notUtf8(header, text) };
  const fields = headerFields(text, MAX_FIELDS + 1);
  if (fields.length > MAX_FIELDS) {
    return { ok: false, refusal: excessive(`the header has more than ${MAX_FIELDS} fields; send fewer`) };
  }
  const found = sortFields(text, fields, context.hostname);
  if ('code' in found) return { ok: false, refusal: found };
  const { single } = found;
  const value = (name: string): string | undefined => {
    const field = single.get(name);
    return field === undefined ? undefined : textOf(text, field);
  };

  const fromValue = value('from');
  if (fromValue === undefined) {
    return {
      ok: false,
      refusal: senderRefused('the header has no From field; add one with the address of the sender'),
    };
  }
  const from = readFrom(fromValue);
  if (!from.ok) return from;
  const sender = readSender(value('sender'));
  if (!sender.ok) return sender;
  const read = readControls(found.controls);
  if (!read.ok) return read;

  let added = '';
  const removed = found.removed;
  const missing = (name: string): boolean => {
    const field = single.get(name);
    if (field === undefined) return true;
    if (fieldValue(text, field) !== '') return false;
    removed.push(field);
    return true;
  };
  if (missing('date')) added += `Date: ${formatDate(context.nowMs)}\r\n`;
  let headerMessageId: string;
  if (missing('message-id')) {
    const { domain } = from.from.address;
    headerMessageId = newMessageId(domainToAscii(domain) === undefined ? context.hostname : domain, context.nowMs);
    added += `Message-ID: ${headerMessageId}\r\n`;
  } else headerMessageId = messageIdOf(value('message-id')!);

  if (removed.length > found.controls.length) removed.sort((a, b) => a.start - b.start);
  const edited = removed.length === 0 && added === '' ? undefined : edit(header, removed, added);
  const summary: HeaderSummary = {
    ...read.controls,
    from: from.from.address,
    sender: sender.sender,
    fromText: from.from.text,
    headerTo: { to: shownList(value('to')), cc: shownList(value('cc')) },
    subject: shown(decodeWords(value('subject') ?? ''), MAX_SUBJECT_LENGTH),
    headerMessageId,
    smtpUtf8: !ascii && !isAscii(edited ?? header),
    utf8Field: ascii ? undefined : firstUtf8Field(text, fields, removed),
    tlsOptional: isTlsOptional(text, fields),
  };
  return {
    ok: true,
    summary,
    edited,
    contentType: value('content-type'),
    transferEncoding: value('content-transfer-encoding'),
  };
}
