/**
 * Who a mail is from and to. Every address is judged and every fault reported with its place; duplicates are removed
 * without regard to case, to before cc before bcc, so that nobody gets two copies.
 */
import type { Fault } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { type Address, parseAddress, parseAddressList, sameAddressKey } from '../mail/address.ts';
import type { Role } from '../messages/messages.ts';
import { MAX_RECIPIENTS, type SendBody } from './request.ts';

export interface Recipient {
  address: Address;
  role: Role;
  /** The address in the form in which spellings are compared. */
  key: string;
}

/** Parses one field that holds addresses in one string or several. */
export function readAddresses(value: string | string[] | undefined, field: string, faults: Fault[]): Address[] {
  if (value === undefined) return [];
  if (typeof value === 'string') return readList(value, field, faults);
  if (value.length === 1) return readList(value[0]!, `${field}[0]`, faults);
  return value.flatMap((text, index) => readList(text, `${field}[${index}]`, faults));
}

function readList(text: string, field: string, faults: Fault[]): Address[] {
  const result = parseAddressList(text);
  if (result.ok) return result.value;
  for (const fault of result.faults) {
    faults.push({
      field,
      message: fault.text === '' || fault.text === text ? fault.reason : `${fault.reason} (${fault.text})`,
    });
  }
  return [];
}

/** The sender: exactly one address, with or without a display name. */
export function readFrom(text: string | undefined, faults: Fault[]): Address | undefined {
  if (text === undefined) {
    faults.push({ field: 'from', message: 'is required' });
    return undefined;
  }
  const result = parseAddress(text);
  if (result.ok) return result.value;
  faults.push({ field: 'from', message: result.reason });
  return undefined;
}

export interface Recipients {
  /** All without duplicates, in the order to, cc, bcc. */
  all: Recipient[];
  /** What the header shows. */
  to: Address[];
  cc: Address[];
}

/** Reads to, cc and bcc; at least one and at most 50 addresses must remain. */
export function readRecipients(body: SendBody, faults: Fault[]): Recipients {
  const before = faults.length;
  const recipients: Recipients = { all: [], to: [], cc: [] };
  const seen = new Set<string>();
  for (const role of ['to', 'cc', 'bcc'] as const) {
    for (const address of readAddresses(body[role], role, faults)) {
      const key = sameAddressKey(address);
      if (seen.has(key)) continue;
      seen.add(key);
      recipients.all.push({ address, role, key });
      if (role !== 'bcc') recipients[role].push(address);
    }
  }
  if (recipients.all.length === 0 && faults.length === before) {
    faults.push({ field: 'to', message: 'is required: give at least one recipient in to, cc or bcc' });
  }
  if (recipients.all.length > MAX_RECIPIENTS) {
    const message = `has ${recipients.all.length} recipients together with cc and bcc; at most ${MAX_RECIPIENTS} are allowed`;
    faults.push({ field: 'to', message });
  }
  return recipients;
}

/** Whether the sandbox is asked to treat the address as suppressed: X-Sandbox-Outcome decides before the local part. */
export function simulatesSuppressed(mode: Mode, address: Address, outcome: string | undefined): boolean {
  if (mode !== 'sandbox') return false;
  return (outcome ?? address.local.split('+', 1)[0]!.toLowerCase()) === 'suppressed';
}
