/**
 * Validates the header fields of a request: sender, recipients, reply-to addresses, and custom headers. Every address is checked, and every
 * issue is reported with its field. Duplicate recipients are removed without regard to case. An address in `to` takes precedence over `cc`,
 * and `cc` over `bcc`, so no recipient gets two copies. At most 100 issues of a body, and 1,000 addresses of one field, are read.
 *
 * Headers that structure the mail, trace its path, or prove its origin are refused: Postrider writes these, and a second copy could be used
 * to forge mail. Reply-To is allowed instead of replyTo. X-Sandbox-Outcome is an instruction to the sandbox and is never sent.
 */

import { type Caller, maySendAs } from '../accounts/accounts.ts';
import { type Failure, failure, type Issue, MAX_ISSUES } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import {
  type Address,
  type AddressIssue,
  type AddressResult,
  MAX_LISTED,
  parseAddress,
  parseAddressList,
  sameAddressKey,
} from '../mail/address.ts';
import { structuredIssue } from '../mail/compose/extra-field.ts';
import { hasForbiddenControl, isHeaderName } from '../mail/compose/header.ts';
import { displayNameIssue } from '../mail/mime/submitted-from.ts';
import type { Role } from '../messages/messages.ts';
import { MAX_RECIPIENTS, type SendBody } from './request.ts';

interface Recipient {
  address: Address;
  role: Role;
  /** The normalized address, which identifies duplicates. */
  key: string;
}

/** Maximum number of addresses in replyTo or the Reply-To header. */
const MAX_REPLY_TO = 50;

/** Parses one mailbox. A display name in encoded-words must not be deceptive. */
function readMailbox(text: string): AddressResult {
  const result = parseAddress(text);
  if (!result.ok || result.isEncoded !== true) return result;
  const reason = displayNameIssue(result.value.name, result.value, { isEncoded: true });
  return reason === undefined ? result : { ok: false, reason };
}

/** Parses a field with addresses in one string or several. Invalid and missing entries add no address. */
function readAddresses(value: string | (string | undefined)[] | undefined, field: string, issues: Issue[]): Address[] {
  if (value === undefined) return [];
  if (typeof value === 'string') {
    const listed = parseAddressList(value, readMailbox);
    return listed.ok ? listed.value : addIssues(listed.issues, { field, text: value }, issues);
  }
  const found: Address[] = [];
  for (let index = 0; index < value.length && issues.length < MAX_ISSUES; index += 1) {
    const text = value[index];
    if (text === undefined) continue;
    const listed = parseAddressList(text, readMailbox);
    if (!listed.ok) {
      addIssues(listed.issues, { field: `${field}[${index}]`, text }, issues);
      continue;
    }
    if (value.length === 1) return listed.value;
    if (found.length + listed.value.length > MAX_LISTED) {
      issues.push({ field, message: `has more than ${MAX_LISTED} addresses` });
      return [];
    }
    found.push(...listed.value);
  }
  return found;
}

/** Adds the issues of one text, up to the limit and without repeating the last one. Returns no addresses. */
function addIssues(
  found: readonly AddressIssue[],
  { field, text }: { field: string; text: string },
  issues: Issue[],
): [] {
  for (const issue of found) {
    if (issues.length >= MAX_ISSUES) break;
    const message = issue.text === '' || issue.text === text ? issue.reason : `${issue.reason} (${issue.text})`;
    const last = issues.at(-1);
    if (last?.field !== field || last.message !== message) issues.push({ field, message });
  }
  return [];
}

/** Reads the reply-to addresses, of which at most 50 are allowed. */
export function readReplyTo(value: string | string[] | undefined, field: string, issues: Issue[]): Address[] {
  const found = readAddresses(value, field, issues);
  if (found.length > MAX_REPLY_TO) {
    issues.push({ field, message: `has ${found.length} addresses; at most ${MAX_REPLY_TO} are allowed` });
  }
  return found;
}

/** Reads the sender: exactly one address, with an optional display name that must not be deceptive. */
export function readFrom(text: string | undefined, issues: Issue[]): Address | undefined {
  if (text === undefined) {
    issues.push({ field: 'from', code: 'REQUIRED', message: 'is required' });
    return undefined;
  }
  const result = parseAddress(text);
  const issue = result.ok
    ? displayNameIssue(result.value.name, result.value, { isEncoded: result.isEncoded === true })
    : result.reason;
  if (issue !== undefined) issues.push({ field: 'from', message: issue });
  return result.ok ? result.value : undefined;
}

export interface Recipients {
  /** All recipients without duplicates, in the order to, cc, bcc. */
  all: Recipient[];
  /** Addresses of the To field in the header; `cc` contains those of the Cc field. */
  to: Address[];
  cc: Address[];
}

function singleRecipient(to: Address[]): Recipients {
  const address = to[0]!;
  return { all: [{ address, role: 'to', key: sameAddressKey(address) }], to, cc: [] };
}

const ROLES = ['to', 'cc', 'bcc'] as const;

/** Reads to, cc, and bcc. Without duplicates, at least one and at most 50 recipients must remain. */
export function readRecipients(body: SendBody, issues: Issue[]): Recipients {
  const before = issues.length;
  const to = readAddresses(body.to, 'to', issues);
  if (to.length === 1 && body.cc === undefined && body.bcc === undefined) return singleRecipient(to);
  const recipients: Recipients = { all: [], to: [], cc: [] };
  const seen = new Set<string>();
  for (const role of ROLES) {
    for (const address of role === 'to' ? to : readAddresses(body[role], role, issues)) {
      const key = sameAddressKey(address);
      if (seen.has(key)) continue;
      seen.add(key);
      recipients.all.push({ address, role, key });
      if (role !== 'bcc') recipients[role].push(address);
    }
  }
  if (recipients.all.length === 0 && issues.length === before) {
    issues.push({ field: 'to', code: 'REQUIRED', message: 'is required: at least one recipient in to, cc or bcc' });
  }
  if (recipients.all.length > MAX_RECIPIENTS) {
    const message = `has ${recipients.all.length} recipients together with cc and bcc; at most ${MAX_RECIPIENTS} are allowed`;
    issues.push({ field: 'to', message });
  }
  return recipients;
}

/** Returns whether the sandbox must treat the address as suppressed: X-Sandbox-Outcome takes precedence over the local part. */
export function simulatesSuppressed(mode: Mode, address: Address, outcome: string | undefined): boolean {
  if (mode !== 'sandbox') return false;
  return (outcome ?? address.local.split('+', 1)[0]!.toLowerCase()) === 'suppressed';
}

const MAX_TOTAL_LENGTH = 64_000;

const REFUSED = new Set(
  `apparently-to authentication-results bcc cc date delivered-to dkim-signature domainkey-signature from idempotency-key message-id
  mime-version received received-spf reply-to return-path sender subject to x-original-to`.split(/\s+/),
);
const REFUSED_PREFIXES = ['arc-', 'content-', 'resent-', 'x-postrider-'];
/** Headers that are refused because the request has a field for them. */
const FIELDS: Record<string, string> = {
  from: 'from',
  to: 'to',
  cc: 'cc',
  bcc: 'bcc',
  'reply-to': 'replyTo',
  subject: 'subject',
};

const OUTCOMES: readonly string[] = ['bounced', 'delayed', 'complained', 'suppressed', 'delivered'];
const SMTP_REPLY = /^[245][0-5]\d(?: [245]\.\d{1,3}\.\d{1,3})?(?: [\x20-\x7e]{1,400})?$/;

interface ExtraHeaders {
  headers: [name: string, value: string][];
  sandboxOutcome: string | undefined;
  /** The Reply-To header, which is not parsed yet, with its field. */
  replyTo: { field: string; value: string } | undefined;
}

interface HeaderContext {
  mode: Mode;
  /** Whether the request has the field replyTo, which conflicts with a Reply-To header. */
  hasReplyTo: boolean;
}

const NONE: ExtraHeaders = { headers: [], sandboxOutcome: undefined, replyTo: undefined };

/** Reads the `headers` of a request. */
export function readHeaders(
  given: Record<string, string> | undefined,
  context: HeaderContext,
  issues: Issue[],
): ExtraHeaders {
  if (given === undefined) return NONE;
  const headers: [string, string][] = [];
  let sandboxOutcome: string | undefined;
  let replyTo: ExtraHeaders['replyTo'];
  let total = 0;
  const names = Object.keys(given);
  const seen = names.length > 1 ? new Set<string>() : undefined;
  for (const name of names) {
    const value = given[name]!;
    const lower = name.toLowerCase();
    const isReplyTo = lower === 'reply-to' && !context.hasReplyTo;
    const issue =
      (isReplyTo ? undefined : nameIssue(name, lower)) ??
      (seen?.has(lower) === true ? 'is a duplicate header' : valueIssue(name, value));
    seen?.add(lower);
    if (issue !== undefined) {
      issues.push({ field: `headers.${name}`, message: issue });
      continue;
    }
    if (lower === 'x-sandbox-outcome') {
      if (context.mode === 'sandbox') sandboxOutcome = readOutcome(value, `headers.${name}`, issues);
      continue;
    }
    if (isReplyTo) {
      replyTo = { field: `headers.${name}`, value };
      continue;
    }
    total += name.length + value.length;
    headers.push([name, value]);
  }
  if (total > MAX_TOTAL_LENGTH)
    issues.push({ field: 'headers', message: `must have at most ${MAX_TOTAL_LENGTH} characters in total` });
  return { headers, sandboxOutcome, replyTo };
}

function nameIssue(name: string, lower: string): string | undefined {
  if (!isHeaderName(name)) return 'is not a header name (1 to 76 visible ASCII characters without a colon)';
  if (!isRefused(lower)) return undefined;
  const instead = FIELDS[lower];
  return instead === undefined
    ? 'is set by Postrider and cannot be overridden'
    : `cannot be set as a header; use the field ${instead}`;
}

function isRefused(lower: string): boolean {
  for (const prefix of REFUSED_PREFIXES) if (lower.startsWith(prefix)) return true;
  return REFUSED.has(lower);
}

function valueIssue(name: string, value: string): string | undefined {
  return hasForbiddenControl(value) ? 'has a line break or another control character' : structuredIssue(name, value);
}

/** Reads X-Sandbox-Outcome; reports an issue with the field if it is not a known outcome. */
export function readOutcome(value: string, field: string, issues: Issue[]): string | undefined {
  const text = value.trim();
  const word = text.toLowerCase();
  if (OUTCOMES.includes(word)) return word;
  if (SMTP_REPLY.test(text)) return text;
  issues.push({
    field,
    message: `must be one of ${OUTCOMES.join(', ')}, or an SMTP reply such as 452 4.2.2 mailbox full`,
  });
  return undefined;
}

export type SendingCaller = Pick<Caller, 'account' | 'mode' | 'allowedSenders'>;

/** A caller at the time of its request. */
export interface Sender extends SendingCaller {
  /** Unix ms by the clock of the mode. */
  nowMs: number;
  /** How far that clock is ahead of real time, in ms. Ids include this offset. */
  clockOffsetMs: number;
}

/** Returns whether the account has verified the domain or one of its parent domains. */
export type IsVerified = (accountId: string, domain: string) => Promise<boolean>;

/**
 * Checks whether a caller may send from an address. The restrictions of its key or credential apply in both modes. In live mode, the
 * account must also have verified the domain. HTTP, SMTP, dry runs, and resends all use this function. Returns SENDER_NOT_VERIFIED, or
 * undefined if the caller may send.
 */
export async function senderFailure(
  { account, mode, allowedSenders }: SendingCaller,
  from: Address,
  isVerified: IsVerified,
): Promise<Failure | undefined> {
  if (!maySendAs(allowedSenders, from)) return notAllowed(from, allowedSenders);
  if (mode === 'sandbox') return undefined;
  return (await isVerified(account.id, from.domain)) ? undefined : notVerified(from.domain);
}

function notVerified(domain: string): Failure {
  return failure('SENDER_NOT_VERIFIED', {
    message: `The domain ${domain} is not verified for this account. Add it with POST /domains and verify it.`,
    details: [{ field: 'from', message: 'must be an address of a verified domain' }],
  });
}

function notAllowed({ address }: Address, allowed: readonly string[]): Failure {
  return failure('SENDER_NOT_VERIFIED', {
    message: `This key or credential is not allowed to send from "${address}". Its allowedSenders are ${allowed.join(', ')}.`,
    details: [{ field: 'from', message: 'must be one of the allowedSenders of the key or credential' }],
  });
}
