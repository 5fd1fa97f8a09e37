/**
 * Parses command lines of RFC 5321 §4.1: verb and argument, and the paths and parameters of MAIL and RCPT. Invalid text, parameters that
 * were not offered, and paths that are not mailboxes are refused with a specific reply. Nothing is repaired except spaces after the colon
 * and at the end, which old clients send.
 */
import { isIsoTime, isoTimeMs } from '../http/validate.ts';
import { type Address, parseBareAddress } from '../mail/address.ts';
import { quote } from '../mail/mime/submitted-refusal.ts';
import { decodeEnvid, decodeOriginalRecipient, isXtext, parseNotify, type RecipientReports } from './dsn.ts';

/** A value, or the reply that refuses it. */
export type Parsed<T> = { ok: true; value: T } | { ok: false; reply: string };

export interface Command {
  /** The verb in upper case. */
  verb: string;
  /** The argument without surrounding spaces. */
  argument: string;
}

const CONTROL = /[\x00-\x1f\x7f]/;
const NON_ASCII = /[^\x00-\x7f]/;

/** Matches a greeting, in which clients may send their computer's name in a legacy charset. */
const GREETING = /^(?:EHLO|HELO) /i;

/**
 * Returns the text of a line without its line end; undefined if it has control characters or is not UTF-8 (RFC 6531 §3.3). In EHLO and
 * HELO, invalid bytes become `?`. The common case of ASCII is checked first.
 */
export function lineText(line: Buffer): string | undefined {
  const text = line.toString('latin1');
  if (CONTROL.test(text)) return undefined;
  if (!NON_ASCII.test(text)) return text;
  const utf8 = line.toString('utf8');
  const isText = !utf8.includes('\ufffd') && !/[\u0080-\u009f]/.test(utf8);
  if (isText) return utf8;
  return GREETING.test(text) ? text.replace(/[^\x20-\x7e]/g, '?') : undefined;
}

export function parseCommand(text: string): Command {
  const space = text.indexOf(' ');
  if (space === -1) return { verb: text.toUpperCase(), argument: '' };
  return { verb: text.slice(0, space).toUpperCase(), argument: text.slice(space + 1).trim() };
}

function refused<T>(reply: string): Parsed<T> {
  return { ok: false, reply };
}

type Keyword = 'FROM' | 'TO';

interface Path {
  /** The text between the angle brackets. */
  inside: string;
  /** The parameters as `NAME` or `NAME=value`, in order. */
  parameters: string[];
}

const SYNTAX: Readonly<Record<Keyword, string>> = {
  FROM: 'MAIL FROM:<user@example.com>',
  TO: 'RCPT TO:<user@example.com>',
};

/** Splits `FROM:<…> A B=c` into its parts; quoted local parts may contain brackets and spaces. */
function splitPath(argument: string, keyword: Keyword): Parsed<Path> {
  const malformed = (issue: string): Parsed<Path> => refused(`501 5.5.4 ${issue}; syntax: ${SYNTAX[keyword]}`);
  const colon = keyword.length;
  if (argument.slice(0, colon).toUpperCase() !== keyword) return malformed(`${keyword}: is missing`);
  if (argument[colon] !== ':') return malformed(`the colon after ${keyword} is missing`);
  let at = colon + 1;
  while (argument[at] === ' ') at += 1;
  if (argument[at] !== '<') return malformed('the address is not in angle brackets');
  const close = closingBracket(argument, at + 1);
  if (close === -1) return malformed('the > after the address is missing');
  const rest = argument.slice(close + 1);
  if (rest !== '' && rest[0] !== ' ') return malformed(`a space is missing between the address and ${quote(rest)}`);
  return { ok: true, value: { inside: argument.slice(at + 1, close), parameters: rest.split(' ').filter(Boolean) } };
}

function closingBracket(text: string, from: number): number {
  const close = text.indexOf('>', from);
  const quote = text.indexOf('"', from);
  if (quote === -1 || close < quote) return close;
  let quoted = false;
  for (let at = from; at < text.length; at += 1) {
    const c = text[at];
    if (quoted && c === '\\') at += 1;
    else if (c === '"') quoted = !quoted;
    else if (c === '>' && !quoted) return at;
  }
  return -1;
}

/** Parses the mailbox of a path. The reply to a malformed mailbox includes the fix. */
function parseMailbox(inside: string, keyword: Keyword, utf8: boolean): Parsed<Address> {
  const result = parseBareAddress(inside);
  if (!result.ok)
    return refused(`${STATUS[keyword]} ${mailboxIssue(inside, keyword) ?? malformedIssue(inside, result.reason)}`);
  if (!utf8 && NON_ASCII.test(inside)) {
    return refused(`553 5.6.7 the address ${quote(inside)} has non-ASCII characters; add SMTPUTF8 to MAIL FROM:<...>`);
  }
  return { ok: true, value: result.value };
}

const STATUS: Readonly<Record<Keyword, string>> = { FROM: '501 5.1.7', TO: '501 5.1.3' };

/**
 * Returns why an address is malformed. Refusals are recorded for the customer, so text without an @ is not repeated: it may be anything,
 * even a password in the wrong place.
 */
function malformedIssue(inside: string, reason: string): string {
  return inside.includes('@') ? `the address ${quote(inside)} ${reason}` : `the address ${reason}`;
}

/** Detects syntax that header fields allow and the envelope does not: several addresses, display names, comments, spaces. */
function mailboxIssue(inside: string, keyword: Keyword): string | undefined {
  const outside = inside.replace(/"(?:[^"\\]|\\.)*"/gsu, '""');
  const parts = outside.split(/[,; ]+/).filter((part) => part.includes('@'));
  if (!outside.startsWith('@') && parts.length > 1) {
    const count = `${quote(inside)} has ${parts.length} addresses`;
    return keyword === 'TO'
      ? `${count}; each RCPT TO takes one, so send one RCPT TO for each address`
      : `${count}; MAIL FROM takes one, the envelope sender`;
  }
  if (/[<>]/.test(outside)) {
    return `${quote(inside)} has a display name or brackets; write the address alone, such as ${SYNTAX[keyword]}`;
  }
  if (outside.includes('('))
    return `${quote(inside)} has a comment; write the address alone, such as ${SYNTAX[keyword]}`;
  if (/^[ \t]|[ \t]$/.test(outside)) return `${quote(inside)} has a space inside its angle brackets; remove it`;
  if (/[,;]$/.test(outside))
    return `${quote(inside)} ends in ${outside.at(-1) === ',' ? 'a comma' : 'a semicolon'}; remove it`;
  return undefined;
}

/** The time to release a message (RFC 4865): an interval after its acceptance, or a point in time. */
export type Hold = { forSeconds: number } | { untilMs: number };

/** The limit is the same as for `sendAt` in the API. */
export const MAX_HOLD_SECONDS = 30 * 86_400;

export interface MailCommand {
  /** Undefined for the null sender `<>`. */
  from: Address | undefined;
  /** The value of SIZE. */
  sizeBytes: number | undefined;
  smtpUtf8: boolean;
  hold: Hold | undefined;
  /** ENVID, decoded from xtext. */
  envid: string | undefined;
  /** RET: how much of the message a delivery report returns. */
  ret: 'full' | 'headers' | undefined;
}

const INBOUND: ReadonlySet<string> = new Set(['SIZE', 'BODY', 'SMTPUTF8']);
const SUBMISSION: ReadonlySet<string> = new Set([...INBOUND, 'AUTH', 'HOLDFOR', 'HOLDUNTIL', 'ENVID', 'RET']);

function readParameters(parameters: string[], known = SUBMISSION): Parsed<Omit<MailCommand, 'from'>> {
  let sizeBytes: number | undefined;
  let smtpUtf8 = false;
  let hold: Hold | undefined;
  let envid: string | undefined;
  let ret: MailCommand['ret'];
  const seen = new Set<string>();
  for (const parameter of parameters) {
    const equals = parameter.indexOf('=');
    const name = (equals === -1 ? parameter : parameter.slice(0, equals)).toUpperCase();
    const value = equals === -1 ? undefined : parameter.slice(equals + 1);
    const isRepeated = seen.has(name);
    seen.add(name);
    const issue = isRepeated
      ? `${quote(name)} is given twice`
      : known.has(name)
        ? parameterIssue(name, value)
        : 'unknown';
    if (issue === 'unknown') return refused(unknownParameter(name));
    if (issue !== undefined) return refused(`501 5.5.4 ${issue}`);
    if (name === 'SIZE') sizeBytes = Number(value);
    if (name === 'SMTPUTF8') smtpUtf8 = true;
    if (name === 'HOLDFOR') hold = { forSeconds: Number(value) };
    if (name === 'HOLDUNTIL') hold = { untilMs: isoTimeMs(value ?? '') };
    if (name === 'ENVID') envid = decodeEnvid(value ?? '');
    if (name === 'RET') ret = /^full$/i.test(value ?? '') ? 'full' : 'headers';
  }
  if (seen.has('HOLDFOR') && seen.has('HOLDUNTIL')) return refused('501 5.5.4 use HOLDFOR or HOLDUNTIL, not both');
  return { ok: true, value: { sizeBytes, smtpUtf8, hold, envid, ret } };
}

function parameterIssue(name: string, value: string | undefined): string | undefined {
  switch (name) {
    case 'SIZE':
      return value !== undefined && /^\d{1,20}$/.test(value)
        ? undefined
        : 'SIZE must be a number of bytes, such as SIZE=2000';
    case 'BODY':
      return value !== undefined && /^(?:7BIT|8BITMIME)$/i.test(value) ? undefined : 'BODY must be 7BIT or 8BITMIME';
    case 'SMTPUTF8':
      return value === undefined ? undefined : 'SMTPUTF8 takes no value';
    case 'AUTH':
      return value !== undefined && (value === '<>' || isXtext(value))
        ? undefined
        : 'AUTH must be an address in xtext (RFC 4954), or <>';
    case 'HOLDFOR':
      if (value === undefined || !/^[1-9]\d{0,8}$/.test(value))
        return 'HOLDFOR must be a number of seconds, such as HOLDFOR=3600';
      return Number(value) <= MAX_HOLD_SECONDS ? undefined : `HOLDFOR must be at most ${MAX_HOLD_SECONDS} seconds`;
    case 'HOLDUNTIL':
      return isIsoTime(value ?? '') ? undefined : 'HOLDUNTIL must be a time, such as 2026-11-23T08:00:00Z';
    case 'RET':
      return value !== undefined && /^(?:FULL|HDRS)$/i.test(value) ? undefined : 'RET must be FULL or HDRS';
    case 'ENVID':
      return value !== undefined && decodeEnvid(value) !== undefined
        ? undefined
        : 'ENVID must be 1 to 100 characters of xtext (RFC 3461), such as ENVID=order+2B17';
    default:
      return 'unknown';
  }
}

/** Parses the argument of MAIL: `FROM:<sender>` and its parameters. */
export function parseMail(argument: string): Parsed<MailCommand> {
  const cut = splitPath(argument, 'FROM');
  if (!cut.ok) return cut;
  const path = cut.value;
  const parameters = path.parameters.length === 0 ? NO_PARAMETERS : readParameters(path.parameters);
  if (!parameters.ok) return parameters;
  if (path.inside === '') return { ok: true, value: { from: undefined, ...parameters.value } };
  const from = parseMailbox(path.inside, 'FROM', parameters.value.smtpUtf8);
  return from.ok ? { ok: true, value: { from: from.value, ...parameters.value } } : from;
}

const MAX_PATH_BYTES = 320;

/**
 * Parses the argument of MAIL on the inbound port. The sender is kept as given, because bounces and mail from other servers come from
 * addresses that submission would refuse (`root@localhost`, names with underscores). `from` is empty for the null sender.
 */
export function parseInboundMail(
  argument: string,
): Parsed<{ from: string; sizeBytes: number | undefined; smtpUtf8: boolean }> {
  const cut = splitPath(argument, 'FROM');
  if (!cut.ok) return cut;
  const path = cut.value;
  const parameters = readParameters(path.parameters, INBOUND);
  if (!parameters.ok) return parameters;
  const { sizeBytes, smtpUtf8 } = parameters.value;
  if (!smtpUtf8 && NON_ASCII.test(path.inside)) {
    return refused(
      `553 5.6.7 the address ${quote(path.inside)} has non-ASCII characters; add SMTPUTF8 to MAIL FROM:<...>`,
    );
  }
  if (Buffer.byteLength(path.inside) > MAX_PATH_BYTES)
    return refused(`501 5.1.7 the sender address is longer than ${MAX_PATH_BYTES} bytes`);
  return { ok: true, value: { from: path.inside, sizeBytes, smtpUtf8 } };
}

const NO_PARAMETERS: Parsed<Omit<MailCommand, 'from'>> = {
  ok: true,
  value: { sizeBytes: undefined, smtpUtf8: false, hold: undefined, envid: undefined, ret: undefined },
};

/** The recipient of RCPT with the delivery reports that were requested for it. */
export interface RecipientCommand {
  address: Address;
  /** The values of NOTIFY and ORCPT; each is absent if the command does not have it. */
  reports: RecipientReports;
}

/** Parses the argument of RCPT on a submission port: `TO:<recipient>` with NOTIFY and ORCPT (RFC 3461 §4.1, §4.2). */
export function parseRecipient(argument: string, smtpUtf8: boolean): Parsed<RecipientCommand> {
  const cut = splitPath(argument, 'TO');
  if (!cut.ok) return cut;
  const path = cut.value;
  const reports = readReports(path.parameters, smtpUtf8);
  if (!reports.ok) return reports;
  const address = recipientOf(path.inside, smtpUtf8);
  return address.ok ? { ok: true, value: { address: address.value, reports: reports.value } } : address;
}

/** Parses the argument of RCPT on the inbound port, which offers no parameters. */
export function parseInboundRecipient(argument: string, smtpUtf8: boolean): Parsed<Address> {
  const cut = splitPath(argument, 'TO');
  if (!cut.ok) return cut;
  const path = cut.value;
  const [parameter] = path.parameters;
  if (parameter !== undefined) return refused(unknownParameter(parameter.split('=', 1)[0]!));
  return recipientOf(path.inside, smtpUtf8);
}

function recipientOf(inside: string, smtpUtf8: boolean): Parsed<Address> {
  if (inside === '') return refused('501 5.1.3 the recipient is empty; use RCPT TO:<user@example.com>');
  return parseMailbox(inside, 'TO', smtpUtf8);
}

function unknownParameter(name: string): string {
  return `555 5.5.4 unsupported parameter ${quote(name.toUpperCase())}; remove it`;
}

function readReports(parameters: readonly string[], smtpUtf8: boolean): Parsed<RecipientReports> {
  const reports: RecipientReports = {};
  for (const parameter of parameters) {
    const equals = parameter.indexOf('=');
    const name = (equals === -1 ? parameter : parameter.slice(0, equals)).toUpperCase();
    const value = equals === -1 ? '' : parameter.slice(equals + 1);
    if (name === 'NOTIFY') {
      if (reports.notify !== undefined) return refused('501 5.5.4 NOTIFY is repeated');
      const notify = parseNotify(value);
      if (notify === undefined) {
        return refused('501 5.5.4 NOTIFY must be NEVER, or a list of SUCCESS, FAILURE and DELAY separated by commas');
      }
      reports.notify = notify;
    } else if (name === 'ORCPT') {
      if (reports.originalRecipient !== undefined) return refused('501 5.5.4 ORCPT is repeated');
      const original = decodeOriginalRecipient(value, smtpUtf8);
      if (original === undefined) {
        return refused(
          '501 5.5.4 ORCPT must be a type and an address in xtext (RFC 3461), such as rfc822;ann@example.com',
        );
      }
      reports.originalRecipient = original;
    } else return refused(unknownParameter(name));
  }
  return { ok: true, value: reports };
}

const MAX_HELO_LENGTH = 255;

/**
 * Returns the name in EHLO or HELO in a form that is safe in a header; undefined if there is none. RFC 5321 §4.1.4 does not allow a server
 * to refuse a client for a malformed name: computer names have spaces, underscores, and umlauts. Characters that are invalid in host names
 * become `?`.
 */
export function heloName(argument: string): string | undefined {
  if (argument === '') return undefined;
  return argument.replace(/[^A-Za-z0-9.\-_:[\]]/gu, '?').slice(0, MAX_HELO_LENGTH);
}
