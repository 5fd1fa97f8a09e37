/**
 * Stores inbound messages. A message is stored together with its work row. A worker claims it, and finishes it in the transaction that
 * records its effect. It is then deleted, kept, or quarantined. A blob is deleted only when no row refers to it anymore; the blob sweep
 * finds blobs that remain because of concurrent transactions.
 */
import type { Mode } from '../base/mode.ts';
import { batch, operation, type Transaction } from '../storage/operation.ts';
import { insertMany, rowset, type TableRow, table } from '../storage/rows.ts';
import {
  type Claim,
  type ClaimExtent,
  type ClampDue,
  claim,
  clampDue,
  enqueue,
  finish,
  type Lease,
  park,
  settleLeases,
  takenOf,
  type Work,
} from '../work/work.ts';
import type { EndInbound, InboundMail, Use } from './inbound-mail.ts';

/** Kind of the work rows for inbound messages; their subject is the id of the message. */
export const INBOUND_WORK = 'inbound';

const INBOUND_MAIL = table('inbound_mail', {
  id: 'text',
  accountId: 'text',
  mode: 'text',
  purpose: 'text',
  envelopeFrom: 'text',
  recipient: 'text',
  client: 'text',
  sizeBytes: 'int',
  content: 'bytes?',
  blobKey: 'text?',
  receivedAt: 'int',
  status: 'text',
});

/** The facts about a message without its bytes. */
export type InboundFacts = Omit<InboundMail, 'content'>;

export interface NewInbound extends InboundFacts {
  /** Exactly one of the two is set. */
  content: Uint8Array | null;
  blobKey: string | null;
  /** Unix ms in real time, not by the clock of a mode. */
  nowMs: number;
}

/** Returns the account and mode of the message. It has no account unless an inbound route accepted it. */
function ownerOf(use: Use): { accountId: string; mode: Mode } {
  return use.kind === 'route' ? { accountId: use.accountId, mode: use.mode } : { accountId: '', mode: 'live' };
}

/** The prefix of lanes for route mail. */
export const ROUTE_LANE = 'route ';

/**
 * Returns the lane of a message: one per account for route mail, one per sent copy for reports, and one per client address for mail that
 * anyone can send, so a flood only delays itself.
 */
function laneOf({ use, client }: NewInbound): string {
  if (use.kind === 'route') return ROUTE_LANE + use.accountId;
  return `${use.kind} ${'copy' in use ? use.copy.messageId : client.address}`;
}

/** The row has the real time, which retention uses: the clock of a sandbox can be years ahead. */
function rowOf(
  { use, client, receivedAtMs: _, nowMs: receivedAt, ...mail }: NewInbound,
  status: 'waiting' | 'kept',
): TableRow<typeof INBOUND_MAIL> {
  const owner = ownerOf(use);
  return { ...mail, ...owner, purpose: JSON.stringify(use), client: JSON.stringify(client), receivedAt, status };
}

/** Stores a message without work. */
export const storeKeptOperation = operation(
  'inbound.storeKept',
  'write',
  async (tx, mail: NewInbound): Promise<void> => {
    await insertMany(tx, INBOUND_MAIL, [rowOf(mail, 'kept')]);
  },
);

/** Stores the copies of one message, each with its work row. */
export async function storeInbound(tx: Transaction, messages: readonly NewInbound[]): Promise<void> {
  await insertMany(
    tx,
    INBOUND_MAIL,
    messages.map((mail) => rowOf(mail, 'waiting')),
  );
  await enqueue(
    tx,
    messages.map((mail) => ({
      kind: INBOUND_WORK,
      ...ownerOf(mail.use),
      subject: mail.id,
      ref: 0,
      lane: laneOf(mail),
      dueMs: mail.nowMs,
    })),
  );
}

export const storeInboundOperation = batch(
  'inbound.store',
  'write',
  async (tx, calls: readonly NewInbound[][]): Promise<null[]> => {
    await storeInbound(tx, calls.flat());
    return calls.map(() => null);
  },
);

export interface InboundJob extends Lease {
  attempts: number;
  crashes: number;
  lane: string;
  mail: InboundFacts;
  content: Uint8Array | null;
  blobKey: string | null;
}

export interface ClaimedInbound {
  jobs: InboundJob[];
  taken: ClaimExtent;
  /** The over-quota lanes of the request that still had due rows, which were parked. */
  overQuota: string[];
}

export interface MailRow {
  id: string;
  purpose: string;
  envelope_from: string;
  recipient: string;
  client: string;
  size_bytes: number;
  content: Uint8Array | null;
  blob_key: string | null;
  received_at: number;
}

export function factsOf(row: Omit<MailRow, 'content' | 'blob_key'>): InboundFacts {
  return {
    id: row.id,
    receivedAtMs: row.received_at,
    envelopeFrom: row.envelope_from,
    recipient: row.recipient,
    use: JSON.parse(row.purpose) as Use,
    client: JSON.parse(row.client) as InboundFacts['client'],
    sizeBytes: row.size_bytes,
  };
}

const COLUMNS = 'id, purpose, envelope_from, recipient, client, size_bytes, content, blob_key, received_at';

async function jobsOf(tx: Transaction, rows: readonly Work[]): Promise<InboundJob[]> {
  if (rows.length === 0) return [];
  const requested = rowset(tx, 'requested', { subject: 'text' }, rows);
  const found = await tx.all<MailRow>(
    `SELECT ${COLUMNS} FROM inbound_mail WHERE id IN (SELECT requested.subject FROM ${requested.sql})`,
    ...requested.params,
  );
  const messages = new Map(found.map((row) => [row.id, row]));
  // Both rows are written and deleted together. Even so, a work row without its message must not block the claims.
  await finish(
    tx,
    rows.filter((row) => !messages.has(row.subject)),
  );
  return rows.flatMap(({ seq, fence, attempts, crashes, lane, subject }) => {
    const mail = messages.get(subject);
    if (!mail) return [];
    return [
      { seq, fence, attempts, crashes, lane, mail: factsOf(mail), content: mail.content, blobKey: mail.blob_key },
    ];
  });
}

export const claimInboundOperation = operation(
  'inbound.claim',
  'write',
  async (tx, { overQuota, ...request }: Omit<Claim, 'kind'> & { overQuota: string[] }): Promise<ClaimedInbound> => {
    const rows = await claim(tx, { kind: INBOUND_WORK, ...request });
    const parked = rows.filter((row) => overQuota.includes(row.lane));
    await park(tx, parked, request.nowMs);
    const jobs = await jobsOf(
      tx,
      rows.filter((row) => !parked.includes(row)),
    );
    return {
      jobs,
      taken: takenOf(rows),
      overQuota: overQuota.filter((lane) => parked.some((row) => row.lane === lane)),
    };
  },
);

/** Returns the keys that no message refers to anymore. */
export async function unreferenced(tx: Transaction, blobKeys: readonly (string | null)[]): Promise<string[]> {
  const keys = [...new Set(blobKeys)].filter((key) => key !== null);
  const unused: string[] = [];
  for (const key of keys) {
    if (!(await tx.get('SELECT 1 AS found FROM inbound_mail WHERE blob_key = ? LIMIT 1', key))) unused.push(key);
  }
  return unused;
}

/** Deletes the work rows that are still leased, in the transaction that records the effect of their messages. */
export const endInbound: EndInbound = async (tx, leases, { keep }) => {
  if (leases.length === 0) return { held: new Set(), blobKeys: [] };
  const held = await finish(tx, leases);
  const ended = rowset(
    tx,
    'ended',
    { inboundId: 'text' },
    leases.filter(({ seq }) => held.has(seq)),
  );
  const these = `id IN (SELECT ended.inbound_id FROM ${ended.sql})`;
  if (keep) {
    await tx.run(`UPDATE inbound_mail SET status = 'kept' WHERE ${these}`, ...ended.params);
    return { held, blobKeys: [] };
  }
  const deleted = await tx.all<{ blob_key: string | null }>(
    `DELETE FROM inbound_mail WHERE ${these} RETURNING blob_key`,
    ...ended.params,
  );
  return {
    held,
    blobKeys: await unreferenced(
      tx,
      deleted.map((row) => row.blob_key),
    ),
  };
};

/** A message whose processing failed without a result. */
export interface UnprocessedInbound extends Lease {
  inboundId: string;
  accountId: string;
  mode: Mode;
  /** Unix ms of the next try; null quarantines the message. */
  againAtMs: number | null;
}

/** Defers or quarantines messages; returns the rows whose lease was lost. */
export const deferInboundOperation = operation(
  'inbound.defer',
  'write',
  async (tx, unprocessed: readonly UnprocessedInbound[]): Promise<number[]> => {
    const held = await settleLeases(tx, unprocessed, (one) => ({ ...one, tried: true }));
    const quarantined = held.filter((one) => one.againAtMs === null);
    const requested = rowset(tx, 'requested', { inboundId: 'text' }, quarantined);
    await tx.run(
      `UPDATE inbound_mail SET status = 'aside' WHERE id IN (SELECT requested.inbound_id FROM ${requested.sql})`,
      ...requested.params,
    );
    return unprocessed.filter((one) => !held.includes(one)).map((one) => one.seq);
  },
);

/** Finishes messages that are only kept. */
export const keepInboundOperation = operation(
  'inbound.keep',
  'write',
  async (tx, leases: Parameters<EndInbound>[1]): Promise<number[]> => {
    const { held } = await endInbound(tx, leases, { keep: true });
    return leases.filter(({ seq }) => !held.has(seq)).map(({ seq }) => seq);
  },
);

/** Returns a message with its content; undefined if it belongs to another account or does not exist. */
export const findInboundOperation = operation(
  'inbound.find',
  'read',
  async (
    tx,
    { id, accountId, mode }: { id: string; accountId: string; mode: Mode },
  ): Promise<Pick<InboundJob, 'mail' | 'content' | 'blobKey'> | undefined> => {
    const row = await tx.get<MailRow>(
      `SELECT ${COLUMNS} FROM inbound_mail WHERE id = ? AND account_id = ? AND mode = ?`,
      id,
      accountId,
      mode,
    );
    return row && { mail: factsOf(row), content: row.content, blobKey: row.blob_key };
  },
);

/** Deletes messages without work that were received before this time, oldest first. */
export const removeInboundOperation = operation(
  'inbound.remove',
  'write',
  async (
    tx,
    { beforeMs, limit }: { beforeMs: number; limit: number },
  ): Promise<{ count: number; blobKeys: string[] }> => {
    const deleted = await tx.all<{ blob_key: string | null }>(
      `DELETE FROM inbound_mail WHERE id IN
         (SELECT id FROM inbound_mail WHERE status <> 'waiting' AND received_at < ? ORDER BY received_at LIMIT ?)
       RETURNING blob_key`,
      beforeMs,
      limit,
    );
    return {
      count: deleted.length,
      blobKeys: await unreferenced(
        tx,
        deleted.map((row) => row.blob_key),
      ),
    };
  },
);

/** Deletes messages whose records are deleted. Returns the blobs that no row refers to anymore. */
export const removeRecordedOperation = operation(
  'inbound.removeRecorded',
  'write',
  async (tx, ids: readonly string[]): Promise<string[]> => {
    const recorded = rowset(
      tx,
      'recorded',
      { id: 'text' },
      ids.map((id) => ({ id })),
    );
    const deleted = await tx.all<{ blob_key: string | null }>(
      `DELETE FROM inbound_mail WHERE id IN (SELECT recorded.id FROM ${recorded.sql}) RETURNING blob_key`,
      ...recorded.params,
    );
    return unreferenced(
      tx,
      deleted.map((row) => row.blob_key),
    );
  },
);

/**
 * Returns the blobs that contain an inbound message. This is a write operation, so it reads from the database that rows are written to and
 * misses none.
 */
export const inboundBlobsOperation = operation('inbound.namedBlobs', 'write', async (tx, keys: string[]) => {
  if (keys.length === 0) return [];
  const rows = await tx.all<{ blob_key: string }>(
    `SELECT DISTINCT blob_key FROM inbound_mail WHERE blob_key IN (${keys.map(() => '?').join(', ')})`,
    ...keys,
  );
  return rows.map((row) => row.blob_key);
});

/** Brings forward rows that are due later than their schedule allows; returns their number. */
export const clampInboundOperation = operation('inbound.clampDue', 'write', (tx, clamp: ClampDue) =>
  clampDue(tx, { kind: INBOUND_WORK, notBefore: '0' }, clamp),
);
