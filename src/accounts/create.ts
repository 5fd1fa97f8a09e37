/**
 * Creates accounts, keys, and credentials: generates ids and secrets, and stores only their hashes. Each secret is returned once and cannot
 * be read again.
 */
import type { Clock } from '../base/clock.ts';
import { failure, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { newId, randomText } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { limitReached } from '../limits/limits.ts';
import type { Database } from '../storage/database.ts';
import {
  type Account,
  type AccountSettings,
  type DeliveryReports,
  type Plan,
  readAllowedSenders,
  STANDARD_EMAIL_BYTES,
} from './account.ts';
import { apiKeyHash, newApiKey, newSigningKey } from './authenticate.ts';
import { createCredentialOperation, createKeyOperation, type NewKey, type NewKeyRow } from './credential-store.ts';
import { readAllowedNetworks } from './networks.ts';
import { hashPassword } from './passwords.ts';
import { createAccountOperation } from './store.ts';
import { DEFAULT_TIME_ZONE } from './time-zone.ts';

interface AccountContext {
  database: Database;
  clock: Clock;
}

const PASSWORD_CHARACTERS = 32;

export const newPassword = (): string => randomText(PASSWORD_CHARACTERS);

const DEFAULT_SETTINGS: AccountSettings = {
  variables: {},
  missingVariables: 'error',
  retainContent: '30d',
  defaultFrom: null,
};

export function newAccount(name: string, plan: Plan, nowMs: number): Account {
  return {
    id: newId('acc', nowMs),
    name,
    plan,
    status: 'active',
    approvedEmailBytes: STANDARD_EMAIL_BYTES,
    settings: DEFAULT_SETTINGS,
    limits: {},
    protectionStatus: 'good',
    twoFactorRequired: false,
    timeZone: DEFAULT_TIME_ZONE,
    createdAt: nowMs,
  };
}

export function newKeyRow(wanted: NewKey, nowMs: number): { row: NewKeyRow; apiKey: string } {
  const { keyId, apiKey, secretHash } = newApiKey(wanted.mode, nowMs);
  return { apiKey, row: { ...wanted, id: keyId, secretHash, createdAt: nowMs } };
}

/** Creates an account with a live and a sandbox key of full scope. */
export async function createAccount(
  context: AccountContext,
  wanted: { name: string; plan: Plan },
): Promise<{ account: Account; apiKey: string; sandboxApiKey: string }> {
  const nowMs = context.clock.now();
  const account = newAccount(wanted.name, wanted.plan, nowMs);
  const live = newKeyRow({ accountId: account.id, mode: 'live', scope: 'full', name: null }, nowMs);
  const sandbox = newKeyRow({ accountId: account.id, mode: 'sandbox', scope: 'full', name: null }, nowMs);
  await context.database.execute(createAccountOperation, { account, keys: [live.row, sandbox.row] });
  return { account, apiKey: live.apiKey, sandboxApiKey: sandbox.apiKey };
}

/** Creates a key that signs requests, as createKey does. `secretKey` is the service's secret key, which seals the secret. */
export async function createSigningKey(
  context: AccountContext,
  { secretKey, ...wanted }: NewKey & { secretKey: Uint8Array },
): Promise<Result<{ keyId: string; accessKeyId: string; secretAccessKey: string; createdAt: number }>> {
  const createdAt = context.clock.now();
  const { keyId, accessKeyId, secretAccessKey, secretSealed } = newSigningKey(wanted.mode, createdAt, secretKey);
  const added = await addKey(context, {
    ...wanted,
    id: keyId,
    secretHash: apiKeyHash(secretAccessKey),
    signing: { accessKeyId, secretSealed },
    createdAt,
  });
  return added.ok ? ok({ keyId, accessKeyId, secretAccessKey, createdAt }) : added;
}

/** Creates an API key; NOT_FOUND if the account does not exist, INVALID_REQUEST for invalid senders or networks, or LIMIT_REACHED. */
export async function createKey(
  context: AccountContext,
  wanted: NewKey,
): Promise<Result<{ keyId: string; apiKey: string; createdAt: number }>> {
  const { row, apiKey } = newKeyRow(wanted, context.clock.now());
  const added = await addKey(context, row);
  return added.ok ? ok({ keyId: row.id, apiKey, createdAt: row.createdAt }) : added;
}

type Lists = Pick<NewKey, 'allowedSenders' | 'allowedNetworks'>;

/** Returns the senders and networks in their stored form. */
function readLists({ allowedSenders = [], allowedNetworks = [] }: Lists): Result<Required<Lists>> {
  const senders = readAllowedSenders(allowedSenders);
  const networks = readAllowedNetworks(allowedNetworks);
  if (senders.ok && networks.ok) return ok({ allowedSenders: senders.value, allowedNetworks: networks.value });
  return refuse(invalid([senders, networks].flatMap((read) => (read.ok ? [] : read.failure.details))));
}

async function addKey({ database }: AccountContext, row: NewKeyRow): Promise<Result<undefined>> {
  const lists = readLists(row);
  if (!lists.ok) return lists;
  const outcome = await database.execute(createKeyOperation, { ...row, ...lists.value });
  if (outcome === 'unknown-account') return refuse(failure('NOT_FOUND'));
  if (outcome !== 'created') return refuse(limitReached(outcome));
  return ok(undefined);
}

interface CreatedCredential {
  smtpCredentialId: string;
  username: string;
  password: string;
  createdAt: number;
}

/** Creates an SMTP credential whose username is its id; NOT_FOUND, PLAN_NOT_ELIGIBLE, INVALID_REQUEST, or LIMIT_REACHED. */
export async function createSmtpCredential(
  context: AccountContext,
  wanted: {
    accountId: string;
    mode: Mode;
    allowedSenders?: readonly string[];
    allowedNetworks?: readonly string[];
    /** `off` when absent. */
    deliveryReports?: DeliveryReports;
    /** Unix ms; valid until it is revoked if absent. */
    expiresAt?: number | null;
  },
): Promise<Result<CreatedCredential>> {
  const lists = readLists(wanted);
  if (!lists.ok) return lists;
  const createdAt = context.clock.now();
  const id = newId('smtp', createdAt);
  const password = newPassword();
  const passwordHash = await hashPassword(password);
  const row = { ...wanted, ...lists.value, id, username: id, passwordHash, createdAt };
  const outcome = await context.database.execute(createCredentialOperation, row);
  if (outcome === 'unknown-account') return refuse(failure('NOT_FOUND'));
  if (outcome === 'plan-not-eligible') return refuse(failure('PLAN_NOT_ELIGIBLE'));
  if (outcome !== 'created') return refuse(limitReached(outcome));
  return ok({ smtpCredentialId: id, username: id, password, createdAt });
}
