/**
 * Implements `postrider account | key | smtp-credential | user | approval | domain`, which manage accounts and their resources. Secrets are
 * displayed once, when they are created.
 */

import {
  type Account,
  type AccountChange,
  type AccountStatus,
  type Approval,
  type ApprovalDecision,
  accountOperation,
  accountsOperation,
  allApprovalsOperation,
  createAccount,
  createKey,
  createSigningKey,
  createSmtpCredential,
  type DeliveryReports,
  decideApprovalOperation,
  MAXIMUM_EMAIL_BYTES,
  type Plan,
  revokeKeyOperation,
  type Scope,
  STANDARD_EMAIL_BYTES,
  SUSPENSION_REASON,
  setAccountOperation,
} from '../accounts/accounts.ts';
import { commandOrigin } from '../audit/audit.ts';
import { BYTES_ALLOWED, parseBytes } from '../base/bytes.ts';
import type { Mode } from '../base/mode.ts';
import type { Config } from '../config.ts';
import { publicUrl } from '../config.ts';
import {
  addDomain,
  type DnsRecord,
  domainOperation,
  knownRecords,
  verifyDomain,
  zoneServers,
} from '../domains/domains.ts';
import { HIGHEST_LIMIT, HIGHEST_QUOTA, LIMIT_NAMES, limitsOf, QUOTA_NAMES } from '../limits/limits.ts';
import { parseAddress } from '../mail/address.ts';
import { openDns } from '../net/dns.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import { createUser, resetPassword, resetTwoFactor } from '../users/users.ts';
import { runningService } from './api-client.ts';
import {
  type CommandCall,
  CommandError,
  type CommandOutcome,
  columns,
  credentialOf,
  notFound,
  successOf,
  UsageError,
  unknownAccount,
} from './command.ts';
import { withStore } from './store.ts';

const MAX_NAME_LENGTH = 200;

function accountView(account: Account) {
  return {
    accountId: account.id,
    name: account.name,
    plan: account.plan,
    status: account.status,
    ...(account.suspensionReason !== undefined && { suspensionReason: account.suspensionReason }),
    approvedEmailBytes: account.approvedEmailBytes,
    limits: limitsOf(account.limits),
    sendingProtection: { status: account.protectionStatus },
    twoFactorRequired: account.twoFactorRequired,
    timeZone: account.timeZone,
    createdAt: new Date(account.createdAt).toISOString(),
  };
}

function asText(account: Account): string {
  const { limits, sendingProtection, ...rest } = accountView(account);
  const limitRows = Object.entries(limits).map(([name, limit]) => [`limits.${name}`, limit]);
  return columns({
    ...rest,
    sendingProtection: sendingProtection.status,
    ...Object.fromEntries(limitRows),
  });
}

export async function makeAccount(call: CommandCall<{ name: string; plan: Plan }>): Promise<CommandOutcome> {
  const name = parseName(call.options.name);
  const created = await withStore(call, (store) => createAccount(store, { name, plan: call.options.plan }));
  const data = { accountId: created.account.id, apiKey: created.apiKey, sandboxApiKey: created.sandboxApiKey };
  return { data, text: `${columns(data)}\nStore the keys now: they cannot be displayed again.` };
}

function parseName(text: string): string {
  const name = text.trim();
  if (name !== '' && name.length <= MAX_NAME_LENGTH && !/\p{Cc}/u.test(name)) return name;
  throw new UsageError(`--name must have 1 to ${MAX_NAME_LENGTH} characters and no control characters`);
}

function parseSuspensionReason(text: string): string {
  const { maxLength, pattern } = SUSPENSION_REASON;
  if (text.length <= maxLength && new RegExp(pattern, 'u').test(text)) return text.trim();
  throw new UsageError(`--reason must have 1 to ${maxLength} characters and no control characters`);
}

/** The status, or the state of the live mail of an active account if it is not good. */
function shownStatus({ status, protectionStatus }: Account): string {
  return status === 'active' && protectionStatus !== 'good' ? protectionStatus : status;
}

export async function listAccounts(call: CommandCall): Promise<CommandOutcome> {
  const accounts = await withStore(call, (store) => store.database.execute(accountsOperation, null));
  const text = accounts.map((one) => `${one.id}  ${one.plan.padEnd(10)}  ${shownStatus(one).padEnd(9)}  ${one.name}`);
  return { data: { accounts: accounts.map(accountView) }, text: text.join('\n') || 'no accounts' };
}

export async function showAccount(call: CommandCall): Promise<CommandOutcome> {
  const [id = ''] = call.args;
  const account = await withStore(call, (store) => store.database.execute(accountOperation, id));
  if (!account) throw unknownAccount(id);
  return { data: { ...accountView(account), settings: account.settings }, text: asText(account) };
}

interface SetOptions {
  name?: string;
  plan?: Plan;
  status?: AccountStatus;
  reason?: string;
  emailLimit?: string;
  limit?: string[];
  twoFactor?: 'optional';
}

export async function setAccount(call: CommandCall<SetOptions>): Promise<CommandOutcome> {
  const [id = ''] = call.args;
  const { name, plan = null, status = null, reason, emailLimit, limit = [], twoFactor } = call.options;
  if (reason !== undefined && status !== 'suspended') throw new UsageError('--reason requires --status suspended');
  const isUnchanged = [name, emailLimit, twoFactor].every((option) => option === undefined);
  if (isUnchanged && plan === null && status === null && limit.length === 0) {
    throw new UsageError(
      'nothing to change: use at least one of --name, --plan, --email-limit, --status, --limit, and --two-factor',
    );
  }
  const change: Omit<AccountChange, 'nowMs'> = {
    id,
    ...(name !== undefined && { name: parseName(name) }),
    plan,
    status,
    approvedEmailBytes: emailBytes(emailLimit),
    limits: parseLimits(limit),
    ...(reason !== undefined && { suspensionReason: parseSuspensionReason(reason) }),
    ...(twoFactor !== undefined && { twoFactorRequired: false }),
  };
  const account = await withStore(call, (store) =>
    store.database.execute(setAccountOperation, { ...change, nowMs: store.clock.now() }),
  );
  if (!account) throw unknownAccount(id);
  return { data: accountView(account), text: asText(account) };
}

function emailBytes(text: string | undefined): number | null {
  if (text === undefined) return null;
  const bytes = parseBytes(text);
  if (bytes !== undefined && bytes >= STANDARD_EMAIL_BYTES && bytes <= MAXIMUM_EMAIL_BYTES) return bytes;
  throw new UsageError(
    `--email-limit=${JSON.stringify(text)} is not valid: use ${BYTES_ALLOWED}, from ${STANDARD_EMAIL_BYTES} to ${MAXIMUM_EMAIL_BYTES}`,
  );
}

/** Parses values such as `webhooks=500`, `webhooks=standard`, and `messagesPerDay=none`. */
function parseLimits(requested: string[]): NonNullable<AccountChange['limits']> {
  const limits: NonNullable<AccountChange['limits']> = {};
  for (const one of requested) {
    const [, name, value = ''] = /^(\w+)=(\d{1,10}|standard|none)$/.exec(one) ?? [];
    const quota = QUOTA_NAMES.find((known) => known === name);
    const limit = quota ?? LIMIT_NAMES.find((known) => known === name);
    const isUnset = value === (quota === undefined ? 'standard' : 'none');
    const highest = quota === undefined ? HIGHEST_LIMIT : HIGHEST_QUOTA;
    if (limit === undefined || !(isUnset || Number(value) <= highest)) {
      throw new UsageError(
        `--limit=${JSON.stringify(one)} is not valid: use NAME=NUMBER (at most ${HIGHEST_LIMIT}) or NAME=standard, where NAME is one of ${LIMIT_NAMES.join(', ')}; or NAME=NUMBER (at most ${HIGHEST_QUOTA}) or NAME=none, where NAME is one of ${QUOTA_NAMES.join(', ')}`,
      );
    }
    limits[limit] = isUnset ? null : Number(value);
  }
  return limits;
}

interface CredentialOptions {
  mode: Mode;
  allowedSender?: string[];
  network?: string[];
}

interface SmtpCredentialOptions extends CredentialOptions {
  deliveryReports: DeliveryReports;
}

interface KeyOptions extends CredentialOptions {
  scope: Scope;
  kind: 'api-key' | 'sigv4';
}

export async function makeKey(call: CommandCall<KeyOptions>): Promise<CommandOutcome> {
  const [accountId = ''] = call.args;
  const { mode, scope, kind, allowedSender: allowedSenders = [], network: allowedNetworks = [] } = call.options;
  const request = { accountId, mode, scope, name: null, allowedSenders, allowedNetworks };
  if (kind === 'sigv4') {
    const created = await withStore(call, async (store) =>
      createSigningKey(store, { ...request, secretKey: await store.secretKey() }),
    );
    const { keyId, accessKeyId, secretAccessKey } = credentialOf(created, unknownAccount(accountId));
    const data = { keyId, accessKeyId, secretAccessKey };
    return { data, text: `${columns(data)}\nStore the secret now: it cannot be displayed again.` };
  }
  const created = await withStore(call, (store) => createKey(store, request));
  const { keyId, apiKey } = credentialOf(created, unknownAccount(accountId));
  return {
    data: { keyId, apiKey },
    text: `${columns({ keyId, apiKey })}\nStore the key now: it cannot be displayed again.`,
  };
}

export async function revokeKey(call: CommandCall): Promise<CommandOutcome> {
  const [id = ''] = call.args;
  const revoked = await withStore(call, (store) =>
    store.database.execute(revokeKeyOperation, { id, accountId: null, mode: null, nowMs: store.clock.now() }),
  );
  if (revoked !== 'revoked') throw notFound(`there is no active API key ${id}`);
  return { data: { keyId: id, status: 'revoked' }, text: `${id} is revoked` };
}

export async function makeSmtpCredential(call: CommandCall<SmtpCredentialOptions>): Promise<CommandOutcome> {
  const [accountId = ''] = call.args;
  const { mode, deliveryReports, allowedSender: allowedSenders = [], network: allowedNetworks = [] } = call.options;
  const request = { accountId, mode, allowedSenders, allowedNetworks, deliveryReports };
  const created = await withStore(call, (store) => createSmtpCredential(store, request));
  const { smtpCredentialId, username, password } = credentialOf(created, unknownAccount(accountId));
  const data = { smtpCredentialId, username, password };
  return { data, text: `${columns(data)}\nStore the password now: it cannot be displayed again.` };
}

function bareAddress(text: string): string {
  // The operator that the first run creates has an address without a dot in its domain.
  if (text === 'operator@localhost') return text;
  const address = parseAddress(text);
  if (!address.ok || address.value.name !== '') {
    throw new UsageError(
      `--email ${address.ok ? 'must be an address without a display name, such as ann@example.com' : address.reason}`,
    );
  }
  return address.value.address;
}

export async function makeUser(call: CommandCall<{ email: string; operator?: boolean }>): Promise<CommandOutcome> {
  const user = { email: bareAddress(call.options.email), isOperator: call.options.operator === true };
  const created = successOf(await withStore(call, (store) => createUser(store, user)));
  const data = { ...created, operator: user.isOperator };
  return { data, text: `${columns(data)}\nStore the password now: it cannot be displayed again.` };
}

export async function resetUser(call: CommandCall<{ email: string }>): Promise<CommandOutcome> {
  const email = bareAddress(call.options.email);
  const { config } = call;
  const { httpPort = config.httpPort } = runningService(dataDirectory(config.dataDir).path);
  const baseUrl = publicUrl({ ...config, httpPort });
  const changed = await withStore(call, (store) => resetPassword(store, { email, baseUrl }));
  const data = { ...successOf(changed, notFound(`there is no user ${email}`)) };
  return {
    data,
    text: `${columns(data)}\nStore both now: they cannot be displayed again. The user can open resetUrl within 24 hours to set another password.`,
  };
}

export async function resetFactors(call: CommandCall<{ email: string }>): Promise<CommandOutcome> {
  const email = bareAddress(call.options.email);
  const changed = await withStore(call, (store) => resetTwoFactor(store, email));
  const data = { ...successOf(changed, notFound(`there is no user ${email}`)) };
  return {
    data,
    text: `${columns(data)}\nThe second factors were removed, and all sessions ended. The user signs in with the password and can set up new ones.`,
  };
}

const MAX_LISTED = 1_000;
const MAX_REASON_LENGTH = 2_000;

function approvalView(approval: Approval): Record<string, unknown> {
  return {
    approvalId: approval.id,
    accountId: approval.accountId,
    requestedEmailBytes: approval.requestedEmailBytes,
    reason: approval.reason,
    status: approval.status,
    ...(approval.decisionReason === null ? {} : { decisionReason: approval.decisionReason }),
    createdAt: new Date(approval.createdAt).toISOString(),
    ...(approval.decidedAt === null ? {} : { decidedAt: new Date(approval.decidedAt).toISOString() }),
  };
}

/** Returns a line of the list. The reason was written by a client, so its control characters are escaped. */
function approvalLine(approval: Approval): string {
  const { id, accountId, requestedEmailBytes, status } = approval;
  return `${id}  ${accountId}  ${String(requestedEmailBytes).padStart(10)}  ${status.padEnd(8)}  ${JSON.stringify(approval.reason)}`;
}

export async function listApprovals(call: CommandCall): Promise<CommandOutcome> {
  const approvals = await withStore(call, (store) => store.database.execute(allApprovalsOperation, MAX_LISTED));
  return {
    data: { approvals: approvals.map(approvalView) },
    text: approvals.map(approvalLine).join('\n') || 'no approval requests',
  };
}

async function decide(
  call: CommandCall,
  status: 'approved' | 'rejected',
  reason: string | null,
): Promise<ApprovalDecision> {
  const [id = ''] = call.args;
  const decided = await withStore(call, (store) =>
    store.database.execute(decideApprovalOperation, { id, status, reason, nowMs: store.clock.now() }),
  );
  if (!decided) throw notFound(`there is no approval request ${id}; see postrider approval list`);
  if (!decided.decided) throw new CommandError('CONFLICT', `${id} is already ${decided.approval.status}`);
  return decided;
}

export async function approve(call: CommandCall): Promise<CommandOutcome> {
  const { approval, approvedEmailBytes } = await decide(call, 'approved', null);
  return {
    data: { ...approvalView(approval), approvedEmailBytes },
    text: `${approval.id} is approved: ${approval.accountId} can send emails of up to ${approvedEmailBytes} bytes`,
  };
}

export async function reject(call: CommandCall<{ reason: string }>): Promise<CommandOutcome> {
  const reason = call.options.reason.trim();
  if (reason === '' || reason.length > MAX_REASON_LENGTH) {
    throw new UsageError(`--reason must have 1 to ${MAX_REASON_LENGTH} characters`);
  }
  const { approval, approvedEmailBytes } = await decide(call, 'rejected', reason);
  return { data: { ...approvalView(approval), approvedEmailBytes }, text: `${approval.id} is rejected` };
}

function recordSettings({ smtpHostname, bounceDomain, baseUrl }: Config) {
  return { sendingHost: smtpHostname, bounceDomain, baseUrl };
}

/** Returns the published values if they differ from the expected one. */
function foundText({ status, found }: DnsRecord): string {
  return status === 'verified' ? '' : (found ?? []).map((text) => `\n  found: ${text}`).join('');
}

function recordsText(records: DnsRecord[]): string {
  return records
    .map(
      (one) =>
        `\n${one.purpose} (${one.required ? 'required' : 'recommended'}): ${one.status}\n  ${one.type} ${one.name}\n  ${one.value}${foundText(one)}${one.note === null ? '' : `\n  ${one.note}`}`,
    )
    .join('\n');
}

export async function makeDomain(call: CommandCall<{ verified?: boolean }>): Promise<CommandOutcome> {
  const { config, clock, options } = call;
  const [accountId = '', domain = ''] = call.args;
  const added = await withStore(call, async ({ database, secretKey }) =>
    addDomain(
      { database, clock, secretKey: await secretKey(), by: commandOrigin(clock.now(), accountId) },
      { accountId, domain, verified: options.verified === true },
    ),
  );
  const created = successOf(added, unknownAccount(accountId)).domain;
  const data = { domainId: created.id, domain: created.domain, status: created.status };
  return { data, text: `${columns(data)}\n${recordsText(knownRecords(created, recordSettings(config)))}` };
}

export async function checkDomain(call: CommandCall): Promise<CommandOutcome> {
  const { config, clock } = call;
  const [id = ''] = call.args;
  const dns = openDns({ servers: config.dnsServers, dnssec: config.dnssec });
  try {
    const { success, message, status, records } = await withStore(call, async ({ database }) => {
      const domain = await database.execute(domainOperation, { id, accountId: null });
      if (!domain) throw notFound(`there is no domain ${id}`);
      const by = commandOrigin(clock.now(), domain.accountId);
      return verifyDomain({ database, clock, dns, serversOf: zoneServers(dns), by, ...recordSettings(config) }, domain);
    });
    const data = { success, message, domainId: id, status, dnsRecords: records };
    return { data, text: `${message}\n${recordsText(records)}`, exitCode: success ? 0 : 1 };
  } finally {
    dns.close();
  }
}
