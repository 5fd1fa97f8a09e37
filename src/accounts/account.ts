/**
 * The account (one workspace), the authenticated caller, how both are read from their rows, and the allowed senders of a key or credential:
 * addresses, and domains including their subdomains. Allowed senders are stored in the form used to compare addresses (lower case,
 * A-labels); an empty list means no restriction. They apply in both modes, in addition to the senders that the account itself may use.
 */
import type { Actor } from '../base/actor.ts';
import { failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import type { Mode, Owner } from '../base/mode.ts';
import type { MemberRole } from '../http/route.ts';
import type { SetLimits } from '../limits/limits.ts';
import { type Address, domainToAscii, parseAddress, sameAddressKey } from '../mail/address.ts';
import type { Transaction } from '../storage/operation.ts';

export type Plan = 'free' | 'paid' | 'enterprise';
/** Live mail of an account under sending protection: sent, sent with a warning, or held until someone releases it. */
export type ProtectionStatus = 'good' | 'warned' | 'held';

export type AccountStatus = 'active' | 'suspended';
export type Scope = 'send' | 'full';
export type MissingVariables = 'error' | 'empty' | 'keep';

/** Ports for SMTP submission: STARTTLS on `port`, implicit TLS on `tlsPort` (null if there is none). */
export interface SubmissionPorts {
  port: number;
  tlsPort: number | null;
}

export const STANDARD_EMAIL_BYTES = 2_000_000;
export const MAXIMUM_EMAIL_BYTES = 40_000_000;

/** Schema of the name of an account. As on the command line, it cannot have characters that could control a terminal. */
export const ACCOUNT_NAME = {
  minLength: 1,
  maxLength: 200,
  pattern: '^(?=.*\\S)[^\\u0000-\\u001f\\u007f-\\u009f]*$',
  phrase: 'must have visible characters and no control characters',
  description: '1 to 200 characters, without control characters.',
};

/** Schema of the reason of a suspension; on the command line, the same limits apply. */
export const SUSPENSION_REASON = {
  minLength: 1,
  maxLength: 500,
  pattern: ACCOUNT_NAME.pattern,
  phrase: ACCOUNT_NAME.phrase,
  description:
    'Why the account is suspended, only with `status: "suspended"`. The email to the users of the account contains it. A later change of the reason alone sends no email.',
};

/** Settings that PATCH /account changes; stored as JSON. */
export interface AccountSettings {
  /** Template variables of the account, such as company_address_html. */
  variables: Record<string, string>;
  missingVariables: MissingVariables;
  retainContent: 'none' | '7d' | '30d';
  defaultFrom: string | null;
}

export interface Account {
  id: string;
  name: string;
  plan: Plan;
  status: AccountStatus;
  approvedEmailBytes: number;
  settings: AccountSettings;
  /** Limits that an operator has set for this account; the standard limits apply to all others. */
  limits: SetLimits;
  /** The operator's reason for the suspension. */
  suspensionReason?: string;
  /** The state of its live mail under sending protection. */
  protectionStatus: ProtectionStatus;
  /** Whether users of the account need two-factor authentication. */
  twoFactorRequired: boolean;
  /** IANA name of the time zone of the times in notices. */
  timeZone: string;
  /** Unix ms. */
  createdAt: number;
}

/** Whether the sender of a message that bounces receives a delivery report that the client did not request. */
export type DeliveryReports = 'off' | 'failures';

/** The authenticated caller: the account and the permissions of its key. */
export interface Caller {
  account: Account;
  mode: Mode;
  scope: Scope;
  keyId: string;
  /** Addresses and domains that the key or credential is restricted to; empty means unrestricted. */
  allowedSenders: readonly string[];
  /** Networks that the key or credential can be used from; empty means unrestricted. */
  allowedNetworks: readonly string[];
  actor: Actor;
  /** Unix ms at which the key or credential stops being valid; absent or null for never. */
  expiresAt?: number | null;
  /** Set for an SMTP credential. */
  deliveryReports?: DeliveryReports;
  /** Role of a logged-in user in the account; keys and credentials have no role. */
  role?: MemberRole;
  isOperator?: boolean;
}

export function ownerOf({ caller }: { readonly caller: Pick<Caller, 'account' | 'mode'> }): Owner {
  return { accountId: caller.account.id, mode: caller.mode };
}

const EMPTY: readonly string[] = [];

export interface AccountRow {
  id: string;
  name: string;
  plan: Plan;
  status: AccountStatus;
  approved_email_bytes: number;
  settings: string;
  limits: string;
  two_factor_required: number;
  time_zone: string;
  suspension_reason: string | null;
  protection_status: ProtectionStatus;
  created_at: number;
}

export const ACCOUNT_COLUMNS =
  'a.id, a.name, a.plan, a.status, a.approved_email_bytes, a.settings, a.limits, a.two_factor_required, a.suspension_reason, a.protection_status, a.time_zone, a.created_at';

export function accountOf(row: AccountRow): Account {
  return {
    id: row.id,
    name: row.name,
    plan: row.plan,
    status: row.status,
    approvedEmailBytes: row.approved_email_bytes,
    settings: JSON.parse(row.settings) as AccountSettings,
    limits: JSON.parse(row.limits) as SetLimits,
    ...(row.suspension_reason !== null && { suspensionReason: row.suspension_reason }),
    protectionStatus: row.protection_status,
    twoFactorRequired: row.two_factor_required === 1,
    timeZone: row.time_zone,
    createdAt: row.created_at,
  };
}

/** Reads an account by id. `hold` is appended to the statement, to lock the row in a transaction that changes it. */
export async function readAccount(tx: Transaction, id: string, hold = ''): Promise<Account | undefined> {
  const row = await tx.get<AccountRow>(`SELECT ${ACCOUNT_COLUMNS} FROM account a WHERE a.id = ? ${hold}`, id);
  return row && accountOf(row);
}

export type RevocationResult = 'revoked' | 'unknown' | 'other-mode';

/** A key or credential to revoke, in one account or (null) any, in one mode or (null) either. */
export interface Revocation {
  id: string;
  accountId: string | null;
  mode: Mode | null;
  nowMs: number;
}

export async function revoke(
  tx: Transaction,
  table: 'api_key' | 'smtp_credential',
  { id, accountId, mode, nowMs }: Revocation,
): Promise<RevocationResult> {
  const row = await tx.get<{ mode: Mode }>(
    `SELECT mode FROM ${table} WHERE id = ? AND account_id = coalesce(?, account_id) AND revoked_at IS NULL`,
    id,
    accountId,
  );
  if (row === undefined) return 'unknown';
  if (mode !== null && row.mode !== mode) return 'other-mode';
  const changed = await tx.run(`UPDATE ${table} SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL`, nowMs, id);
  await tx.run('DELETE FROM credential_use WHERE credential_id = ?', id);
  return changed === 1 ? 'revoked' : 'unknown';
}

export const MAXIMUM_SENDERS = 20;
const DOMAIN = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Returns the form used for comparison, or undefined if the text is neither an address nor a domain. */
function comparable(text: string): string | undefined {
  if (text.includes('@')) {
    const address = parseAddress(text);
    return address.ok && address.value.name === '' ? sameAddressKey(address.value) : undefined;
  }
  const domain = domainToAscii(text.normalize('NFC').toLowerCase());
  return domain !== undefined && domain.length <= 253 && DOMAIN.test(domain) ? domain : undefined;
}

export function allowedSenderIssues(list: readonly (string | undefined)[]): Issue[] {
  return list.flatMap((text, index) =>
    text !== undefined && comparable(text) === undefined
      ? [{ field: `allowedSenders[${index}]`, message: 'must be an address or a domain, such as shop@example.com' }]
      : [],
  );
}

/** Returns the list in its stored form; INVALID_REQUEST names every invalid entry. */
export function readAllowedSenders(list: readonly string[]): Result<readonly string[]> {
  const issues = allowedSenderIssues(list);
  if (list.length > MAXIMUM_SENDERS) {
    issues.push({ field: 'allowedSenders', message: `must have at most ${MAXIMUM_SENDERS} entries` });
  }
  return issues.length > 0 ? refuse(invalid(issues)) : ok([...new Set(list.map((text) => comparable(text)!))]);
}

function covers(allowed: readonly string[], wanted: string): boolean {
  const domain = wanted.slice(wanted.lastIndexOf('@') + 1);
  return allowed.some((one) => (one.includes('@') ? one === wanted : domain === one || domain.endsWith(`.${one}`)));
}

export function maySendAs(allowed: readonly string[], from: Address): boolean {
  return allowed.length === 0 || covers(allowed, sameAddressKey(from));
}

/** Returns the senders of a key that a restricted key creates: by default the same ones, and never more (FORBIDDEN). */
export function grantedSenders(
  own: readonly string[],
  requested: readonly string[] | undefined,
): Result<readonly string[]> {
  const wanted = readAllowedSenders(requested ?? own);
  if (!wanted.ok || own.length === 0) return wanted;
  if (wanted.value.length > 0 && wanted.value.every((one) => covers(own, one))) return wanted;
  return refuse(
    failure('FORBIDDEN', {
      message: `This key can send only from ${own.join(', ')}, and can create keys and credentials for these senders only. List them in allowedSenders.`,
    }),
  );
}

/** Returns the value for the database column of allowed senders or networks. */
export function listColumn(list: readonly string[] = EMPTY): string | null {
  return list.length === 0 ? null : JSON.stringify(list);
}

export function listOf(column: string | null): readonly string[] {
  return column === null ? EMPTY : (JSON.parse(column) as string[]);
}
