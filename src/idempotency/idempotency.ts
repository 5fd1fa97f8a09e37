/**
 * What an Idempotency-Key promises: the first request runs, an identical retry gets its stored answer byte for byte, a
 * concurrent one 409 at once, the same key with another body 422. Bodies are the same when their JSON values are: clients write
 * their JSON afresh when they retry. A refused request leaves nothing behind.
 *
 *   free ──taken──▶ in progress ──accepted──▶ stored (24 h, and until its messages are settled) ──▶ free
 *                        └──refused or failed──▶ free
 *
 * "In progress" is kept in memory: it dies with the process, so that a crash frees the key. "Stored" is a row written in
 * the transaction of the acceptance: there is never one without the other. A record past its time counts as long as one of the
 * messages that its answer names is unfinished; then it makes way for a new one, or is removed.
 */
import { hash } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { jsonDigest } from '../base/digest.ts';
import { type Failure, failure, invalid, ok, type Result, refuse } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import type { ParsedJson } from '../http/strict-json.ts';
import { hasUnfinishedMessages, lastExpiryOf } from '../messages/messages.ts';
import type { Database } from '../storage/database.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { insertMany, rowset, table } from '../storage/rows.ts';

export const KEY_LIFETIME_MS = 86_400_000;

/** Keys whose first request is in progress in this process. Two nodes find out in the transaction that stores the answer. */
export interface InFlightKeys {
  /** False when another request has taken the key. */
  take(key: IdempotencyKey): boolean;
  release(key: IdempotencyKey): void;
}

export function createInFlightKeys(): InFlightKeys {
  const taken = new Set<string>();
  // No part can hold a line break, so that no two keys look the same.
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

/** The key of a request from every value its header was sent with; undefined when there is none. */
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

/** What a repeat must have in common with the first request. */
interface BodyDigest {
  value: Uint8Array;
  /** As an earlier version recorded it, over the bytes; asked for only where `value` is not the one that is stored. */
  ofBytes?(): Uint8Array;
}

/** Of a body with the bytes that an earlier version hashed. What is no JSON is the same as nothing but its own bytes. */
export function digestOfJson(json: ParsedJson, bytes: () => Uint8Array | string): BodyDigest {
  const ofBytes = (): Uint8Array => hashBody(bytes());
  return { value: json.ok ? jsonDigest(json.value) : ofBytes(), ofBytes };
}

export interface Answer {
  status: number;
  /** The body, byte for byte. */
  json: string;
  replayed: boolean;
}

/** What a stored answer means for a request with this body. */
function replay({ bodyHash, ...stored }: StoredAnswer, { value, ofBytes }: BodyDigest): Result<Answer> {
  const isSame = Buffer.compare(bodyHash, value) === 0 || (ofBytes && Buffer.compare(bodyHash, ofBytes()) === 0);
  if (!isSame) return refuse(failure('IDEMPOTENCY_KEY_REUSED'));
  return ok({ status: stored.status, json: stored.body, replayed: true });
}

interface Keyed {
  database: Database;
  inFlight: InFlightKeys;
  key: IdempotencyKey;
  body: BodyDigest;
  nowMs: number;
}

/**
 * Runs `first` unless the key has an answer already. `first` answers undefined when its transaction found a record that was
 * not there before (another node was faster); that record is the answer then.
 */
export async function once(keyed: Keyed, first: () => Promise<Result<Answer> | undefined>): Promise<Result<Answer>> {
  const { database, inFlight, key, body, nowMs } = keyed;
  if (!inFlight.take(key)) return refuse(inProgress());
  try {
    const stored = await database.execute(storedAnswerOperation, { ...key, nowMs });
    if (stored !== null) return replay(stored, body);
    const answer = await first();
    if (answer !== undefined && !mayBeAnswered(answer)) return answer;
    const other = await database.execute(storedAnswerOperation, { ...key, nowMs });
    return other === null ? (answer ?? refuse(inProgress())) : replay(other, body);
  } finally {
    inFlight.release(key);
  }
}

/** A submission that is found used may have been used by another node under this very key, since the key was looked at. */
function mayBeAnswered(answer: Result<Answer>): boolean {
  return !answer.ok && answer.failure.code === 'SUBMISSION_ALREADY_USED';
}

interface KeyedCall {
  accountId: string;
  mode: Mode;
  endpoint: string;
  /** Every value that the header Idempotency-Key was sent with. */
  keys: readonly string[];
  /** What a repeat must have in common with the first. */
  body: Uint8Array | string;
  /** Of the answer that is kept. */
  status: number;
}

/** See `createKeyedCalls`. */
export type KeyedCalls = ReturnType<typeof createKeyedCalls>;

/**
 * For calls beside /send: runs `first` once under the key that the call came with, if any. `first` gets the record to store
 * with what it accepts, and answers undefined when its transaction found one.
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

/** What an acceptance records under its key. */
export interface IdempotencyRecord {
  endpoint: string;
  key: string;
  bodyHash: Uint8Array;
  status: number;
  expiresAtMs: number;
}

/** As one text. */
export function keyText(key: IdempotencyKey): string {
  return JSON.stringify(valuesOf(key));
}

/** Those of the keys, as texts, that stand for an answer already. Records that no longer count are removed. */
export async function keysInUse(tx: Transaction, keys: readonly IdempotencyKey[], nowMs: number): Promise<Set<string>> {
  const inUse = new Set<string>();
  if (keys.length === 0) return inUse;
  const asked = rowset(tx, 'asked', { accountId: 'text', mode: 'text', endpoint: 'text', key: 'text' }, keys);
  const rows = await tx.all<IdempotencyKey & { expired: string | null }>(
    `SELECT i.account_id AS "accountId", i.mode, i.endpoint, i.key,
       CASE WHEN i.expires_at <= CAST(? AS BIGINT) THEN i.body END AS expired
     FROM ${asked.sql} JOIN idempotency i ON i.account_id = asked.account_id AND i.mode = asked.mode
       AND i.endpoint = asked.endpoint AND i.key = asked.key`,
    ...[nowMs, ...asked.params],
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

/** The stored answer of a key; null where there is none that counts. */
export const storedAnswerOperation = operation(
  'idempotency.storedAnswer',
  'read',
  async (tx, { nowMs, ...key }: IdempotencyKey & { nowMs: number }): Promise<StoredAnswer | null> => {
    const row = await tx.get<StoredAnswer & { expiresAt: number }>(
      `SELECT body_hash AS "bodyHash", status, body, expires_at AS "expiresAt" FROM idempotency WHERE ${OF_KEY}`,
      ...valuesOf(key),
    );
    if (row === undefined) return null;
    const { expiresAt, ...answer } = row;
    return expiresAt > nowMs || (await hasUnfinishedMessages(tx, { ...key, body: answer.body })) ? answer : null;
  },
);

interface BatchAnswer {
  key: IdempotencyKey;
  answer: StoredAnswer;
  /** One message of each email that was accepted; all copies of an email expire together. */
  messageIds: string[];
  nowMs: number;
  /** The least time to keep it. */
  expiresAtMs: number;
}

/** Keeps the answer of a whole batch until its messages have expired; they have records of their own. */
export const keepAnswerOperation = operation(
  'idempotency.keepAnswer',
  'write',
  async (tx, { key, answer, messageIds, nowMs, expiresAtMs }: BatchAnswer): Promise<void> => {
    const { accountId, mode, endpoint, key: name } = key;
    const expiresAt = Math.max(expiresAtMs, await lastExpiryOf(tx, { accountId, mode, messageIds }));
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

/** A record in the order of expiry. */
export interface ExpiredRecord extends IdempotencyKey {
  expiresAt: number;
}

interface ExpiredBatch {
  /** Unix ms; what expired by then is removed. */
  beforeMs: number;
  limit: number;
  /** The last record that was looked at; null for the first batch. */
  after: ExpiredRecord | null;
}

const BEFORE_ALL: ExpiredRecord = { expiresAt: 0, accountId: '', mode: 'live', endpoint: '', key: '' };

/** Removes records that no longer count; others are passed over. `next` is where to go on, or null at the end. */
export const removeExpiredOperation = operation(
  'idempotency.removeExpired',
  'write',
  async (tx, { beforeMs, limit, after }: ExpiredBatch): Promise<{ count: number; next: ExpiredRecord | null }> => {
    const last = after ?? BEFORE_ALL;
    const rows = await tx.all<ExpiredRecord & { body: string }>(
      `SELECT expires_at AS "expiresAt", account_id AS "accountId", mode, endpoint, key, body FROM idempotency
       WHERE expires_at <= ? AND (expires_at, account_id, mode, endpoint, key) > (?, ?, ?, ?, ?)
       ORDER BY expires_at, account_id, mode, endpoint, key LIMIT ?`,
      ...[beforeMs, last.expiresAt, ...valuesOf(last), limit],
    );
    let count = 0;
    for (const row of rows) {
      if (await hasUnfinishedMessages(tx, row)) continue;
      // The key may have been used again at this moment.
      count += await tx.run(
        `DELETE FROM idempotency WHERE ${OF_KEY} AND expires_at <= ?`,
        ...[...valuesOf(row), beforeMs],
      );
    }
    const end = rows.length < limit ? undefined : rows.at(-1);
    if (end === undefined) return { count, next: null };
    const { body: _, ...next } = end;
    return { count, next };
  },
);
