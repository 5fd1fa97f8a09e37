/**
 * Who a mail is from and to. Every address is checked and every issue reported with its place; duplicates are removed
 * without regard to case, to before cc before bcc, so that nobody gets two copies. What a body of any size holds is read no
 * further than a hundred issues, or a thousand addresses of one field.
 */
import type { Issue } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import {
  type Address,
  type AddressIssue,
  MAX_LISTED,
  parseAddress,
  parseAddressList,
  sameAddressKey,
} from '../mail/address.ts';
import { displayNameIssue } from '../mail/mime/display-name.ts';
import type { Role } from '../messages/messages.ts';
import { MAX_RECIPIENTS, type SendBody } from './request.ts';

export interface Recipient {
  address: Address;
  role: Role;
  /** The address in the form in which spellings are compared. */
  key: string;
}

/** Addresses to answer to, in the field or the header. */
const MAX_REPLY_TO = 50;
const MAX_ISSUES = 100;

/** Parses one field that holds addresses in one string or several; what has an issue, or is not there, answers none. */
export function readAddresses(
  value: string | (string | undefined)[] | undefined,
  field: string,
  issues: Issue[],
): Address[] {
  if (value === undefined) return [];
  if (typeof value === 'string') {
    const listed = parseAddressList(value);
    return listed.ok ? listed.value : note(listed.issues, { field, text: value }, issues);
  }
  const found: Address[] = [];
  for (let index = 0; index < value.length && issues.length < MAX_ISSUES; index += 1) {
    const text = value[index];
    if (text === undefined) continue;
    const listed = parseAddressList(text);
    if (!listed.ok) {
      note(listed.issues, { field: `${field}[${index}]`, text }, issues);
      continue;
    }
    if (value.length === 1) return listed.value;
    if (found.length + listed.value.length > MAX_LISTED) {
      issues.push({ field, message: `holds more than ${MAX_LISTED} addresses` });
      return [];
    }
    found.push(...listed.value);
  }
  return found;
}

/** Reports the issues of one text; answers what is read of it. */
function note(found: readonly AddressIssue[], { field, text }: { field: string; text: string }, issues: Issue[]): [] {
  for (const issue of found) {
    if (issues.length >= MAX_ISSUES) break;
    const message = issue.text === '' || issue.text === text ? issue.reason : `${issue.reason} (${issue.text})`;
    const last = issues.at(-1);
    if (last?.field !== field || last.message !== message) issues.push({ field, message });
  }
  return [];
}

/** Where answers go: at most 50 addresses. */
export function readReplyTo(value: string | string[] | undefined, field: string, issues: Issue[]): Address[] {
  const found = readAddresses(value, field, issues);
  if (found.length > MAX_REPLY_TO) {
    issues.push({ field, message: `has ${found.length} addresses; at most ${MAX_REPLY_TO} are allowed` });
  }
  return found;
}

/** The sender: exactly one address, with or without a display name that does not deceive. */
export function readFrom(text: string | undefined, issues: Issue[]): Address | undefined {
  if (text === undefined) {
    issues.push({ field: 'from', message: 'is required' });
    return undefined;
  }
  const result = parseAddress(text);
  const issue = result.ok ? displayNameIssue(result.value.name, result.value) : result.reason;
  if (issue !== undefined) issues.push({ field: 'from', message: issue });
  return result.ok ? result.value : undefined;
}

export interface Recipients {
  /** All without duplicates, in the order to, cc, bcc. */
  all: Recipient[];
  /** What the header shows. */
  to: Address[];
  cc: Address[];
}

/** Most mail goes to one: there is nobody to compare with. */
function onlyOne(to: Address[]): Recipients {
  const address = to[0]!;
  return { all: [{ address, role: 'to', key: sameAddressKey(address) }], to, cc: [] };
}

const ROLES = ['to', 'cc', 'bcc'] as const;

/** Reads to, cc and bcc; at least one and at most 50 addresses must remain. */
export function readRecipients(body: SendBody, issues: Issue[]): Recipients {
  const before = issues.length;
  const to = readAddresses(body.to, 'to', issues);
  if (to.length === 1 && body.cc === undefined && body.bcc === undefined) return onlyOne(to);
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
    issues.push({ field: 'to', message: 'is required: give at least one recipient in to, cc or bcc' });
  }
  if (recipients.all.length > MAX_RECIPIENTS) {
    const message = `has ${recipients.all.length} recipients together with cc and bcc; at most ${MAX_RECIPIENTS} are allowed`;
    issues.push({ field: 'to', message });
  }
  return recipients;
}

/** Whether the sandbox is asked to treat the address as suppressed: X-Sandbox-Outcome decides before the local part. */
export function simulatesSuppressed(mode: Mode, address: Address, outcome: string | undefined): boolean {
  if (mode !== 'sandbox') return false;
  return (outcome ?? address.local.split('+', 1)[0]!.toLowerCase()) === 'suppressed';
}
