/**
 * Command lines of RFC 5321 §4.1 as text: verb and argument, and the paths and parameters of MAIL and RCPT. Everything that is
 * no ASCII word where one belongs, every parameter that was not offered and every path that is no mailbox is refused with
 * the reply that says so; nothing is repaired but spaces behind the colon and at the end, which old clients send.
 */
import { isIsoTime, isoTimeMs } from '../http/validate.ts';
import { type Address, parseAddress } from '../mail/address.ts';
import { decodeEnvid, decodeOriginalRecipient, isXtext, parseNotify, type RecipientReports } from './dsn.ts';

/** A value, or the reply that refuses it. */
export type Parsed<T> = { ok: true; value: T } | { ok: false; reply: string };

export interface Command {
  /** Upper case. */
  verb: string;
  /** Without the spaces around it. */
  argument: string;
}

const CONTROL = /[\x00-\x1f\x7f]/;
const NON_ASCII = /[^\x00-\x7f]/;

/**
 * The text of a line without its line end; undefined when it holds controls or is not UTF-8 (RFC 6531 §3.3). Bytes
 * outside ASCII are rare, so that their cost is paid only where there are some.
 */
export function lineText(line: Buffer): string | undefined {
  const text = line.toString('latin1');
  if (CONTROL.test(text)) return undefined;
  if (!NON_ASCII.test(text)) return text;
  const utf8 = line.toString('utf8');
  return utf8.includes('\ufffd') || /[\u0080-\u009f]/.test(utf8) ? undefined : utf8;
}

export function parseCommand(text: string): Command {
  const space = text.indexOf(' ');
  if (space === -1) return { verb: text.toUpperCase(), argument: '' };
  return { verb: text.slice(0, space).toUpperCase(), argument: text.slice(space + 1).trim() };
}

function refused<T>(reply: string): Parsed<T> {
  return { ok: false, reply };
}

interface Path {
  /** What stands between the angle brackets. */
  inside: string;
  /** `NAME` or `NAME=value`, in order. */
  parameters: string[];
}

/** Cuts `FROM:<…> A B=c` into its parts; quoted local parts may hold brackets and spaces. Undefined when it is no path. */
function cutPath(argument: string, keyword: 'FROM' | 'TO'): Path | undefined {
  const colon = keyword.length;
  if (argument[colon] !== ':' || argument.slice(0, colon).toUpperCase() !== keyword) return undefined;
  let at = colon + 1;
  while (argument[at] === ' ') at += 1;
  if (argument[at] !== '<') return undefined;
  const close = closingBracket(argument, at + 1);
  if (close === -1) return undefined;
  const rest = argument.slice(close + 1);
  if (rest !== '' && rest[0] !== ' ') return undefined;
  return { inside: argument.slice(at + 1, close), parameters: rest.split(' ').filter(Boolean) };
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

/** The mailbox of a path; `status` is the reply code and enhanced code of a malformed one. */
function parseMailbox(inside: string, status: string, utf8: boolean): Parsed<Address> {
  // Display names and spaces around the address are of headers, not of the envelope.
  if (/^[ \t]|[ \t>]$/.test(inside)) return refused(`${status} the address is not a mailbox; write <user@example.com>`);
  const result = parseAddress(inside);
  if (!result.ok) return refused(`${status} the address ${result.reason}`);
  if (!utf8 && NON_ASCII.test(inside)) {
    return refused('553 5.6.7 the address is not ASCII; give SMTPUTF8 with MAIL');
  }
  return { ok: true, value: result.value };
}

/** When a mail is to be released (RFC 4865): an interval from its acceptance, or a time. */
export type Hold = { forSeconds: number } | { untilMs: number };

/** As far ahead as `sendAt` of the API. */
export const MAX_HOLD_SECONDS = 30 * 86_400;

export interface MailCommand {
  /** Undefined for the null sender `<>`. */
  from: Address | undefined;
  /** Declared with SIZE. */
  sizeBytes: number | undefined;
  smtpUtf8: boolean;
  hold: Hold | undefined;
  /** ENVID, decoded from xtext. */
  envid: string | undefined;
  /** RET: what a delivery report returns of the message. */
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
      ? `${shown(name)} is given twice`
      : known.has(name)
        ? parameterIssue(name, value)
        : 'unknown';
    if (issue === 'unknown') return refused(`555 5.5.4 the parameter ${shown(name)} is not known here`);
    if (issue !== undefined) return refused(`501 5.5.4 ${issue}`);
    if (name === 'SIZE') sizeBytes = Number(value);
    if (name === 'SMTPUTF8') smtpUtf8 = true;
    if (name === 'HOLDFOR') hold = { forSeconds: Number(value) };
    if (name === 'HOLDUNTIL') hold = { untilMs: isoTimeMs(value ?? '') };
    if (name === 'ENVID') envid = decodeEnvid(value ?? '');
    if (name === 'RET') ret = /^full$/i.test(value ?? '') ? 'full' : 'headers';
  }
  if (seen.has('HOLDFOR') && seen.has('HOLDUNTIL')) return refused('501 5.5.4 give HOLDFOR or HOLDUNTIL, not both');
  return { ok: true, value: { sizeBytes, smtpUtf8, hold, envid, ret } };
}

function parameterIssue(name: string, value: string | undefined): string | undefined {
  switch (name) {
    case 'SIZE':
      return value !== undefined && /^\d{1,20}$/.test(value) ? undefined : 'SIZE wants a number of bytes';
    case 'BODY':
      return value !== undefined && /^(?:7BIT|8BITMIME)$/i.test(value) ? undefined : 'BODY is 7BIT or 8BITMIME';
    case 'SMTPUTF8':
      return value === undefined ? undefined : 'SMTPUTF8 takes no value';
    case 'AUTH':
      return value !== undefined && (value === '<>' || isXtext(value)) ? undefined : 'AUTH wants a mailbox or <>';
    case 'HOLDFOR':
      if (value === undefined || !/^[1-9]\d{0,8}$/.test(value)) return 'HOLDFOR wants a number of seconds';
      return Number(value) <= MAX_HOLD_SECONDS ? undefined : `HOLDFOR is at most ${MAX_HOLD_SECONDS} seconds`;
    case 'HOLDUNTIL':
      return isIsoTime(value ?? '') ? undefined : 'HOLDUNTIL wants a time such as 2026-11-23T08:00:00Z';
    case 'RET':
      return value !== undefined && /^(?:FULL|HDRS)$/i.test(value) ? undefined : 'RET is FULL or HDRS';
    case 'ENVID':
      return value !== undefined && decodeEnvid(value) !== undefined
        ? undefined
        : 'ENVID must be 1 to 100 characters of xtext (RFC 3461), such as ENVID=order+2B17';
    default:
      return 'unknown';
  }
}

function shown(name: string): string {
  return /^[A-Z0-9-]{1,40}$/.test(name) ? name : 'given';
}

/** The argument of MAIL: `FROM:<sender>` and its parameters. */
export function parseMail(argument: string): Parsed<MailCommand> {
  const path = cutPath(argument, 'FROM');
  if (path === undefined) return refused('501 5.5.4 the syntax is MAIL FROM:<user@example.com>');
  const parameters = path.parameters.length === 0 ? NO_PARAMETERS : readParameters(path.parameters);
  if (!parameters.ok) return parameters;
  if (path.inside === '') return { ok: true, value: { from: undefined, ...parameters.value } };
  const from = parseMailbox(path.inside, '501 5.1.7', parameters.value.smtpUtf8);
  return from.ok ? { ok: true, value: { from: from.value, ...parameters.value } } : from;
}

const MAX_PATH_BYTES = 320;

/**
 * The same of mail that comes in: who it says it is from is kept as it was given, since bounces and mail of the world come from
 * addresses that nobody would be let send from (`root@localhost`, names with underscores). Empty for the null sender.
 */
export function parseForeignMail(
  argument: string,
): Parsed<{ from: string; sizeBytes: number | undefined; smtpUtf8: boolean }> {
  const path = cutPath(argument, 'FROM');
  if (path === undefined) return refused('501 5.5.4 the syntax is MAIL FROM:<user@example.com>');
  const parameters = readParameters(path.parameters, INBOUND);
  if (!parameters.ok) return parameters;
  const { sizeBytes, smtpUtf8 } = parameters.value;
  if (!smtpUtf8 && NON_ASCII.test(path.inside)) {
    return refused('553 5.6.7 the address is not ASCII; give SMTPUTF8 with MAIL');
  }
  if (Buffer.byteLength(path.inside) > MAX_PATH_BYTES) return refused('501 5.1.7 the address is too long');
  return { ok: true, value: { from: path.inside, sizeBytes, smtpUtf8 } };
}

const NO_PARAMETERS: Parsed<Omit<MailCommand, 'from'>> = {
  ok: true,
  value: { sizeBytes: undefined, smtpUtf8: false, hold: undefined, envid: undefined, ret: undefined },
};

/** The recipient of RCPT with the delivery reports that were requested for it. */
export interface RecipientCommand {
  address: Address;
  /** Without both where the command has no NOTIFY and no ORCPT. */
  reports: RecipientReports;
}

/** The argument of RCPT on a submission port: `TO:<recipient>` with NOTIFY and ORCPT (RFC 3461 §4.1, §4.2). */
export function parseRecipient(argument: string, smtpUtf8: boolean): Parsed<RecipientCommand> {
  const path = cutPath(argument, 'TO');
  if (path === undefined) return refused('501 5.5.4 the syntax is RCPT TO:<user@example.com>');
  const reports = readReports(path.parameters, smtpUtf8);
  if (!reports.ok) return reports;
  const address = recipientOf(path.inside, smtpUtf8);
  return address.ok ? { ok: true, value: { address: address.value, reports: reports.value } } : address;
}

/** The argument of RCPT on the inbound port, which offers no parameters. */
export function parseInboundRecipient(argument: string, smtpUtf8: boolean): Parsed<Address> {
  const path = cutPath(argument, 'TO');
  if (path === undefined) return refused('501 5.5.4 the syntax is RCPT TO:<user@example.com>');
  const [parameter] = path.parameters;
  if (parameter !== undefined) return refused(unknownParameter(parameter.split('=', 1)[0]!));
  return recipientOf(path.inside, smtpUtf8);
}

function recipientOf(inside: string, smtpUtf8: boolean): Parsed<Address> {
  if (inside === '') return refused('501 5.1.3 the recipient is empty; write RCPT TO:<user@example.com>');
  return parseMailbox(inside, '501 5.1.3', smtpUtf8);
}

function unknownParameter(name: string): string {
  return `555 5.5.4 the parameter ${shown(name.toUpperCase())} is not known here`;
}

function readReports(parameters: readonly string[], smtpUtf8: boolean): Parsed<RecipientReports> {
  const reports: RecipientReports = {};
  for (const parameter of parameters) {
    const equals = parameter.indexOf('=');
    const name = (equals === -1 ? parameter : parameter.slice(0, equals)).toUpperCase();
    const value = equals === -1 ? '' : parameter.slice(equals + 1);
    if (name === 'NOTIFY') {
      if (reports.notify !== undefined) return refused('501 5.5.4 NOTIFY is given twice');
      const notify = parseNotify(value);
      if (notify === undefined) {
        return refused('501 5.5.4 NOTIFY is NEVER, or a list of SUCCESS, FAILURE and DELAY separated by commas');
      }
      reports.notify = notify;
    } else if (name === 'ORCPT') {
      if (reports.originalRecipient !== undefined) return refused('501 5.5.4 ORCPT is given twice');
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

/** The name that EHLO or HELO gives, as it may stand in a header; undefined when it is none (RFC 5321 §4.1.1.1). */
export function heloName(argument: string): string | undefined {
  if (!/^[!-~]{1,255}$/.test(argument)) return undefined;
  return argument.replace(/[^A-Za-z0-9.\-_:[\]]/g, '?');
}
