/**
 * Idempotency keys: the first request is processed, an identical retry gets the stored response byte for byte, a concurrent one gets 409
 * immediately, and the same key with another body gets 422. Bodies are compared as JSON values, because clients serialize their JSON again
 * when they retry. A refused request stores nothing.
 *
 *   free ──taken──▶ in progress ──accepted──▶ stored (24 h, and until its messages are settled) ──▶ free
 *                        └──refused or failed──▶ free
 *
 * The state "in progress" is kept in memory, so a crash frees the key. A stored response is a row that is written in the transaction of the
 * acceptance, so neither exists without the other. An expired record remains valid while a message in its response is unfinished; after
 * that it is replaced or deleted.
 */
import { hash } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { jsonDigest } from '../base/digest.ts';
import { type Failure, failure, invalid, ok, type Result, refuse } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import type { ParsedJson } from '../http/strict-json.ts';
import { hasUnfinishedMessages } from '../messages/messages.ts';
import type { Database } from '../storage/database.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { insertMany, rowset, table } from '../storage/rows.ts';

export const KEY_LIFETIME_MS = 86_400_000;

/** Keys whose first request is in progress in this process. Two nodes detect a conflict in the transaction that stores the response. */
export interface InFlightKeys {
  /** Returns false if another request holds the key. */
  take(key: IdempotencyKey): boolean;
  release(key: IdempotencyKey): void;
}

export function createInFlightKeys(): InFlightKeys {
  const taken = new Set<string>();
  // No part can contain a line break, so the names are unique.
  const nameOf = (one: IdempotencyKey): string => `${one.accountId}\n${one.mode}\n${one.endpoint}\n${one.key}`;
  return {
    take: (key) => {
      const name = nameOf(key);
      if (taken.has(name)) return false;
      taken.add(name);
      return true;
    },
    release: (key) => {
      taken.delete(nameOf(key));
    },
  };
}

/** Returns the key of a request from all values of its header; undefined if there is none. */
export function readKey(values: readonly string[]): Result<string | undefined> {
  if (values.length === 0) return ok(undefined);
  const [key] = values;
  if (values.length === 1 && key !== undefined && /^[\x20-\x7e]{1,255}$/.test(key)) return ok(key);
  const message = values.length > 1 ? 'is given more than once' : 'must be 1 to 255 printable ASCII characters';
  return refuse(invalid([{ field: 'Idempotency-Key', message }]));
}

export function hashBody(body: Uint8Array | string): Uint8Array {
  return hash('sha256', body, 'buffer');
}

/** Members with the values of templates, in which null is a value. */
const VARIABLES = new Set(['templateVariables', 'variables']);

/** Returns a body without the fields that are null: they mean the same as absent ones. */
function withoutNullFields(body: unknown): unknown {
  if (Array.isArray(body)) return body.map(withoutNullFields);
  if (typeof body !== 'object' || body === null) return body;
  const given = Object.entries(body).filter(([, value]) => value !== null);
  return Object.fromEntries(
    given.map(([name, value]) => [name, VARIABLES.has(name) ? value : withoutNullFields(value)]),
  );
}

/** The digest of a body. A retry must have the same digest as the first request. */
interface BodyDigest {
  value: Uint8Array;
  /** Returns the digest of the bytes, which earlier versions stored; called only if `value` does not match. */
  ofBytes?(): Uint8Array;
}

/** Returns the digest of a JSON body. A body that is not JSON is equal only to the same bytes. */
export function digestOfJson(json: ParsedJson, bytes: () => Uint8Array | string): BodyDigest {
  const ofBytes = (): Uint8Array => hashBody(bytes());
  return { value: json.ok ? jsonDigest(withoutNullFields(json.value)) : ofBytes(), ofBytes };
}

export interface Answer {
  status: number;
  /** The body, byte for byte. */
  json: string;
  replayed: boolean;
}

function replay({ bodyHash, ...stored }: StoredAnswer, { value, ofBytes }: BodyDigest): Result<Answer> {
  const isSame = Buffer.compare(bodyHash, value) === 0 || (ofBytes && Buffer.compare(bodyHash, ofBytes()) === 0);
  if (!isSame) return refuse(failure('IDEMPOTENCY_KEY_REUSED'));
  return ok({ status: stored.status, json: stored.body, replayed: true });
}

interface KeyedRequest {
  database: Database;
  inFlight: InFlightKeys;
  key: IdempotencyKey;
  body: BodyDigest;
  nowMs: number;
}

/**
 * Runs `first` unless the key already has a response. `first` returns undefined if its transaction found a record that another node stored
 * in the meantime; the response of that record is then returned.
 */
export async function once(
  keyed: KeyedRequest,
  first: () => Promise<Result<Answer> | undefined>,
): Promise<Result<Answer>> {
  const { database, inFlight, key, body, nowMs } = keyed;
  if (!inFlight.take(key)) return refuse(inProgress());
  try {
    const stored = await readDurably(database, { ...key, nowMs });
    if (stored !== null) return replay(stored, body);
    const answer = await first();
    if (answer !== undefined && !mayHaveResponse(answer)) return answer;
    const other = await readDurably(database, { ...key, nowMs });
    return other === null ? (answer ?? refuse(inProgress())) : replay(other, body);
  } finally {
    inFlight.release(key);
  }
}

/**
 * Reads the stored response of a key. On PostgreSQL its commit may not have reached the synchronous standby, if the server stopped waiting
 * (a restart, a canceled session): a failover would then lose a message whose retry got a 202. A found response is therefore returned only
 * after a commit that follows it, which the standby confirms together with all earlier ones.
 */
async function readDurably(database: Database, key: KeyAtTime): Promise<StoredAnswer | null> {
  const stored = await database.execute(storedAnswerOperation, key);
  if (stored === null || database.dialect === 'sqlite') return stored;
  return database.execute(confirmedAnswerOperation, key);
}

/**
 * Returns whether the key may have a response by now: after the key was checked, another node may have accepted a request with the same key
 * and upload batch.
 */
function mayHaveResponse(answer: Result<Answer>): boolean {
  return !answer.ok && answer.failure.code === 'SUBMISSION_ALREADY_USED';
}

interface KeyedCall {
  accountId: string;
  mode: Mode;
  endpoint: string;
  /** All values of the Idempotency-Key header. */
  keys: readonly string[];
  /** The request body. A retry must have the same body. */
  body: Uint8Array | string;
  status: number;
}

/** See `createKeyedCalls`. */
export type KeyedCalls = ReturnType<typeof createKeyedCalls>;

/**
 * For calls other than /send: runs `first` once under the key of the call, if any. `first` receives the record to store with its result,
 * and returns undefined if its transaction found one.
 */
export function createKeyedCalls(options: { database: Database; inFlight: InFlightKeys; clock: Clock }) {
  const { database, inFlight, clock } = options;
  return async (
    call: KeyedCall,
    first: (record: IdempotencyRecord | null) => Promise<Result<Answer> | undefined>,
  ): Promise<Result<Answer>> => {
    const read = readKey(call.keys);
    if (!read.ok) return read;
    if (read.value === undefined) return (await first(null)) ?? refuse(inProgress());
    const nowMs = clock.now();
    const { accountId, mode, endpoint, status } = call;
    const bodyHash = hashBody(call.body);
    const key = { accountId, mode, endpoint, key: read.value };
    const record = { endpoint, key: read.value, bodyHash, status, expiresAtMs: nowMs + KEY_LIFETIME_MS };
    return once({ database, inFlight, key, body: { value: bodyHash }, nowMs }, () => first(record));
  };
}

function inProgress(): Failure {
  return failure('DUPLICATE_REQUEST_IN_PROGRESS', { retryAfterSeconds: 1 });
}

export const IDEMPOTENCY = table('idempotency', {
  accountId: 'text',
  mode: 'text',
  endpoint: 'text',
  key: 'text',
  bodyHash: 'bytes',
  status: 'int',
  body: 'text',
  emailSeq: 'int?',
  createdAt: 'int',
  expiresAt: 'int',
});

/** A key, unique within its account, mode and endpoint. */
export interface IdempotencyKey {
  accountId: string;
  mode: Mode;
  endpoint: string;
  key: string;
}

const OF_KEY = 'account_id = ? AND mode = ? AND endpoint = ? AND key = ?';
const valuesOf = ({ accountId, mode, endpoint, key }: IdempotencyKey) => [accountId, mode, endpoint, key] as const;

/** The record that an acceptance stores under its key. */
export interface IdempotencyRecord {
  endpoint: string;
  key: string;
  bodyHash: Uint8Array;
  status: number;
  expiresAtMs: number;
}

/** Returns the key as one string. */
export function keyText(key: IdempotencyKey): string {
  return JSON.stringify(valuesOf(key));
}

/** Returns the keys, as `keyText`, that have a response. Deletes expired records. */
export async function keysInUse(tx: Transaction, keys: readonly IdempotencyKey[], nowMs: number): Promise<Set<string>> {
  const inUse = new Set<string>();
  if (keys.length === 0) return inUse;
  const requested = rowset(tx, 'requested', { accountId: 'text', mode: 'text', endpoint: 'text', key: 'text' }, keys);
  const rows = await tx.all<IdempotencyKey & { expired: string | null }>(
    `SELECT i.account_id AS "accountId", i.mode, i.endpoint, i.key,
       CASE WHEN i.expires_at <= CAST(? AS BIGINT) THEN i.body END AS expired
     FROM ${requested.sql} JOIN idempotency i ON i.account_id = requested.account_id AND i.mode = requested.mode
       AND i.endpoint = requested.endpoint AND i.key = requested.key`,
    nowMs,
    ...requested.params,
  );
  for (const { expired, ...row } of rows) {
    if (expired === null || (await hasUnfinishedMessages(tx, { ...row, body: expired }))) inUse.add(keyText(row));
    else await tx.run(`DELETE FROM idempotency WHERE ${OF_KEY}`, ...valuesOf(row));
  }
  return inUse;
}

interface StoredAnswer {
  bodyHash: Uint8Array;
  status: number;
  body: string;
}

type KeyAtTime = IdempotencyKey & { nowMs: number };

async function readAnswer(tx: Transaction, { nowMs, ...key }: KeyAtTime, lock: string): Promise<StoredAnswer | null> {
  const row = await tx.get<StoredAnswer & { expiresAt: number }>(
    `SELECT body_hash AS "bodyHash", status, body, expires_at AS "expiresAt" FROM idempotency WHERE ${OF_KEY} ${lock}`,
    ...valuesOf(key),
  );
  if (row === undefined) return null;
  const { expiresAt, ...answer } = row;
  return expiresAt > nowMs || (await hasUnfinishedMessages(tx, { ...key, body: answer.body })) ? answer : null;
}

/** Returns the stored response of a key; null if there is no valid one. */
export const storedAnswerOperation = operation('idempotency.storedAnswer', 'read', (tx, key: KeyAtTime) =>
  readAnswer(tx, key, ''),
);

/** The same, as a commit of its own: PostgreSQL writes the lock of the row to its log, and waits for the standby as for any change. */
const confirmedAnswerOperation = operation('idempotency.confirmedAnswer', 'write', (tx, key: KeyAtTime) =>
  readAnswer(tx, key, locked(tx)),
);

interface BatchAnswer {
  key: IdempotencyKey;
  answer: StoredAnswer;
  nowMs: number;
  /** The response is kept until this time (Unix ms), and longer while one of its messages is unfinished. */
  expiresAtMs: number;
}

/** Stores the response of an entire batch. Each email of the batch also has its own record. */
export const keepAnswerOperation = operation(
  'idempotency.keepAnswer',
  'write',
  async (tx, { key, answer, nowMs, expiresAtMs: expiresAt }: BatchAnswer): Promise<void> => {
    const { accountId, mode, endpoint, key: name } = key;
    const record = { accountId, mode, endpoint, key: name, ...answer, emailSeq: null, createdAt: nowMs, expiresAt };
    await insertMany(
      tx,
      IDEMPOTENCY,
      [record],
      `ON CONFLICT (account_id, mode, endpoint, key) DO UPDATE SET body_hash = excluded.body_hash,
         status = excluded.status, body = excluded.body, created_at = excluded.created_at, expires_at = excluded.expires_at`,
    );
  },
);

/** The position of a record in the order of expiry. */
export interface ExpiredRecord extends IdempotencyKey {
  expiresAt: number;
}

interface ExpiredBatch {
  /** Unix ms; records that expired by then are deleted. */
  beforeMs: number;
  limit: number;
  /** The last record of the previous batch; null for the first batch. */
  after: ExpiredRecord | null;
}

const BEFORE_ALL: ExpiredRecord = { expiresAt: 0, accountId: '', mode: 'live', endpoint: '', key: '' };

/** Deletes expired records, except those with unfinished messages. `next` is the record to continue after, or null at the end. */
export const removeExpiredOperation = operation(
  'idempotency.removeExpired',
  'write',
  async (tx, { beforeMs, limit, after }: ExpiredBatch): Promise<{ count: number; next: ExpiredRecord | null }> => {
    const last = after ?? BEFORE_ALL;
    const rows = await tx.all<ExpiredRecord & { body: string }>(
      `SELECT expires_at AS "expiresAt", account_id AS "accountId", mode, endpoint, key, body FROM idempotency
       WHERE expires_at <= ? AND (expires_at, account_id, mode, endpoint, key) > (?, ?, ?, ?, ?)
       ORDER BY expires_at, account_id, mode, endpoint, key LIMIT ?`,
      beforeMs,
      last.expiresAt,
      ...valuesOf(last),
      limit,
    );
    let count = 0;
    for (const row of rows) {
      if (await hasUnfinishedMessages(tx, row)) continue;
      // Another request may have replaced the record since it was read.
      count += await tx.run(`DELETE FROM idempotency WHERE ${OF_KEY} AND expires_at <= ?`, ...valuesOf(row), beforeMs);
    }
    const end = rows.length < limit ? undefined : rows.at(-1);
    if (end === undefined) return { count, next: null };
    const { body: _, ...next } = end;
    return { count, next };
  },
);
