/**
 * Creates and authenticates operator keys: `pr_operator_`, the 21 characters of the key's id, and 32 random characters (190 bits). As for
 * API keys of accounts, only the SHA-256 of the key is stored, all failures get the same response after the same work, and cached data is
 * at most 700 ms old. The HTTP pipeline checks the address of the client and the scopes on every request.
 */
import { hash } from 'node:crypto';
import { apiKeyHash, readAllowedNetworks } from '../accounts/accounts.ts';
import { type Clock, iso, isoOrNull } from '../base/clock.ts';
import { type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import { newId, randomText } from '../base/ids.ts';
import {
  OPERATOR_KEY_PREFIX,
  OPERATOR_KEY_REFUSED,
  OPERATOR_SCOPES,
  type OperatorScope,
} from '../http/operator-key.ts';
import type { CallerKey } from '../http/route.ts';
import type { Database } from '../storage/database.ts';
import { createOperatorKeyOperation, findOperatorKeyOperation, type OperatorKey } from './key-store.ts';

/** Maximum age of cached authentication data. */
const FRESH_MS = 700;
const KEYS_KEPT = 1_000;
/** Longer texts are cut before they are hashed, and refused like any unknown key. */
const LONGEST_KEY = 256;
const SHAPE = /^pr_operator_([0-9A-Za-z]{21})_[0-9A-Za-z]{32}$/;
/** An id that no key has. Text that does not look like a key is looked up with it. */
const UNKNOWN_ID = 'opk_000000000000000000000';

interface OperatorKeyContext {
  database: Database;
  clock: Clock;
}

export interface OperatorKeys {
  /** Returns the caller of an active key, or UNAUTHORIZED; synchronously for a recently seen key. */
  authenticate(key: string): Result<CallerKey> | Promise<Result<CallerKey>>;
  /** Evicts a key from the cache of this process; called after its revocation is committed. */
  evict(id: string): void;
}

export function createOperatorKeys({ database, clock }: OperatorKeyContext): OperatorKeys {
  const cache = createFreshCache<{ id: string; digest: string }, OperatorKey>({
    clock,
    maxAgeMs: FRESH_MS,
    limit: KEYS_KEPT,
    // Unknown keys are not cached: a response from memory would be faster than the others and reveal that the key is unknown.
    absentLimit: 0,
    read: async ({ id, digest }) =>
      (await database.execute(findOperatorKeyOperation, { id, secretHash: Buffer.from(digest, 'base64') })) ??
      undefined,
  });
  const resultOf = (key: OperatorKey | undefined): Result<CallerKey> =>
    key === undefined || (key.expiresAt !== null && key.expiresAt <= clock.now())
      ? OPERATOR_KEY_REFUSED
      : ok(callerOf(key));
  return {
    authenticate: (text) => {
      const presented = text.slice(0, LONGEST_KEY);
      const digest = hash('sha256', presented, 'base64');
      const known = cache.get(digest, { id: idIn(presented), digest });
      return known instanceof Promise ? known.then(resultOf) : resultOf(known);
    },
    evict: (id) => cache.evictWhere((key) => key.id === id),
  };
}

function idIn(key: string): string {
  const match = SHAPE.exec(key);
  return match ? `opk_${match[1]}` : UNKNOWN_ID;
}

function callerOf({ id, name, scopes, allowedNetworks }: OperatorKey): CallerKey {
  return {
    keyId: id,
    // Routes of accounts refuse an operator key, whatever these two say.
    scope: 'send',
    mode: 'sandbox',
    operatorScopes: scopes,
    allowedNetworks,
    actor: { kind: 'key', id, name },
  };
}

/** Returns the key as the API and the command line show it, without the secret. */
export function operatorKeyBody({ id, name, scopes, allowedNetworks, expiresAt, createdAt }: OperatorKey) {
  return {
    operatorKeyId: id,
    name,
    scopes,
    allowedNetworks,
    expiresAt: isoOrNull(expiresAt),
    createdAt: iso(createdAt),
  };
}

interface OperatorKeyRequest {
  name: string;
  scopes: readonly OperatorScope[];
  /** Any address if absent or empty. */
  allowedNetworks?: readonly string[] | undefined;
  /** Unix ms; null if it is valid until it is revoked. */
  expiresAt: number | null;
}

/** Creates a key, whose text cannot be read again. Fails with INVALID_REQUEST for invalid networks or an expiry in the past. */
export async function createOperatorKey(
  { database, clock }: OperatorKeyContext,
  { name, scopes, allowedNetworks = [], expiresAt }: OperatorKeyRequest,
): Promise<Result<{ key: OperatorKey; operatorKey: string }>> {
  const createdAt = clock.now();
  const networks = readAllowedNetworks(allowedNetworks);
  const issues = [...(networks.ok ? [] : networks.failure.details), ...expiryIssues(expiresAt, createdAt)];
  if (!networks.ok || issues.length > 0) return refuse(invalid(issues));
  const id = newId('opk', createdAt);
  const operatorKey = `${OPERATOR_KEY_PREFIX}${id.slice('opk_'.length)}_${randomText(32)}`;
  const key: OperatorKey = {
    id,
    name: name.trim(),
    scopes: OPERATOR_SCOPES.filter((known) => scopes.includes(known)),
    allowedNetworks: networks.value,
    expiresAt,
    createdAt,
  };
  await database.execute(createOperatorKeyOperation, { ...key, secretHash: apiKeyHash(operatorKey) });
  return ok({ key, operatorKey });
}

export function expiryIssues(expiresAt: number | null, nowMs: number): Issue[] {
  if (expiresAt === null || expiresAt > nowMs) return [];
  return [{ field: 'expiresAt', message: 'must be in the future' }];
}
