/**
 * The transactions of the worker: claim due events with all that their attempts need, and settle what came of them.
 * A settle ends or moves the work row, writes the delivery record and keeps the endpoint's standing, all in one; a row
 * whose lease was lost changes nothing.
 */
import type { Mode } from '../base/mode.ts';
import { type EventRow, type EventType, eventBody, WEBHOOK_WORK } from '../events/events.ts';
import * as queue from '../queue/queue.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { deliveryIdOf } from './endpoints.ts';
import { enqueueNotice } from './notice-store.ts';
import { type EndpointTarget, TARGET } from './store.ts';

/** After so long with nothing but failures an endpoint is disabled. */
const DISABLE_AFTER_MS = 5 * 24 * 3_600_000;

export interface WebhookJob {
  seq: number;
  fence: number;
  attempts: number;
  crashes: number;
  accountId: string;
  webhookId: string;
  eventSeq: number;
}

export interface EventText {
  seq: number;
  id: string;
  type: EventType;
  /** Unix ms. */
  at: number;
  /** The JSON body, the same bytes at every attempt. */
  body: string;
}

export interface ClaimedBatch {
  jobs: WebhookJob[];
  /** Each once, however many jobs carry it. */
  events: EventText[];
  targets: EndpointTarget[];
  /** Rows that were claimed, those included that were set aside, or ended because their endpoint or event is gone. */
  taken: number;
  /** Lanes named in the request that still had due rows; these were set aside. */
  crowding: string[];
}

export interface ClaimRequest {
  nowMs: number;
  leaseMs: number;
  limit: number;
  suspects: boolean;
  /** Full lanes whose rows stand at the head of the queue: many of them are set aside before anything is claimed. */
  crowding: string[];
}

/** Due rows looked at for those of a crowding lane. */
const CROWD = 5_000;

/**
 * Sets aside what a full lane has among the first due rows. Claiming such rows one batch after the other costs ten times
 * as much each, and everybody else's stand behind them: behind 100,000 rows of a dead endpoint others waited 8.5 s that
 * way, and 1.6 s this way.
 */
async function setCrowdAside(tx: Transaction, request: ClaimRequest): Promise<void> {
  for (const lane of request.crowding) {
    await tx.run(
      `UPDATE work SET held = 1 WHERE leased = 0 AND seq IN
         (SELECT seq FROM (SELECT seq, lane FROM work WHERE kind = ? AND held = 0 AND due <= ? AND leased = 0
                           ORDER BY due LIMIT ?) AS head WHERE lane = ?)`,
      WEBHOOK_WORK,
      request.nowMs,
      CROWD,
      lane,
    );
  }
}

export const claimOperation = operation(
  'webhooks.claim',
  'write',
  async (tx, request: ClaimRequest): Promise<ClaimedBatch> => {
    await setCrowdAside(tx, request);
    const claimed = await queue.claim(tx, { kind: WEBHOOK_WORK, ...request });
    const crowd = claimed.filter((row) => request.crowding.includes(row.lane));
    await queue.hold(tx, crowd, request.nowMs);
    const rows = crowd.length === 0 ? claimed : claimed.filter((row) => !request.crowding.includes(row.lane));
    const crowding = request.crowding.filter((lane) => crowd.some((row) => row.lane === lane));
    if (rows.length === 0) return { jobs: [], events: [], targets: [], taken: claimed.length, crowding };
    const targets = await readTargets(tx, [...new Set(rows.map((row) => row.subject))]);
    const events = await readEvents(tx, [...new Set(rows.map((row) => row.ref))]);
    const jobs: WebhookJob[] = [];
    for (const row of rows) {
      const event = events.get(row.ref);
      const target = targets.get(row.subject);
      if (event && target?.enabled) jobs.push(jobOf(row));
      else await endUntried(tx, { row, event, known: target !== undefined, nowMs: request.nowMs });
    }
    return { jobs, events: [...events.values()], targets: [...targets.values()], taken: claimed.length, crowding };
  },
);

function jobOf(row: queue.Work): WebhookJob {
  return {
    seq: row.seq,
    fence: row.fence,
    attempts: row.attempts,
    crashes: row.crashes,
    accountId: row.account_id,
    webhookId: row.subject,
    eventSeq: row.ref,
  };
}

/** Parameters of one list query: few different statement texts, so that each stays prepared. */
const LIST_SIZES = [1, 8, 64, 256];

async function readList<T>(tx: Transaction, sql: (marks: string) => string, keys: (string | number)[]): Promise<T[]> {
  const found: T[] = [];
  for (let at = 0; at < keys.length; ) {
    const size = LIST_SIZES.find((one) => one >= keys.length - at) ?? 256;
    const part = keys.slice(at, at + size);
    const padding = new Array<null>(size - part.length).fill(null);
    found.push(...(await tx.all<T>(sql(`?${', ?'.repeat(size - 1)}`), ...part, ...padding)));
    at += size;
  }
  return found;
}

type StoredTarget = EndpointTarget & { enabled: number };

async function readTargets(tx: Transaction, ids: string[]): Promise<Map<string, StoredTarget>> {
  const rows = await readList<StoredTarget>(
    tx,
    (marks) => `SELECT ${TARGET}, enabled FROM webhook WHERE id IN (${marks})`,
    ids,
  );
  return new Map(rows.map((row) => [row.id, row]));
}

async function readEvents(tx: Transaction, seqs: number[]): Promise<Map<number, EventText>> {
  const rows = await readList<EventRow>(
    tx,
    (marks) =>
      `SELECT v.seq, v.id, v.type, v.message_id, v.mode, v.at, v.detail, m.recipient, e.header_from, e.subject, e.tags,
         e.metadata
       FROM event v JOIN message m ON m.account_id = v.account_id AND m.mode = v.mode AND m.id = v.message_id
         JOIN email e ON e.seq = m.email_seq
       WHERE v.seq IN (${marks})`,
    seqs,
  );
  return new Map(
    rows.map(({ seq, id, type, at, ...rest }) => [
      seq,
      { seq, id, type, at, body: JSON.stringify(eventBody({ seq, id, type, at, ...rest })) },
    ]),
  );
}

interface Untried {
  row: queue.Work;
  event: EventText | undefined;
  /** Whether the endpoint exists; it is disabled then. */
  known: boolean;
  nowMs: number;
}

/** Ends work that nobody waits for any more; a disabled endpoint keeps the record, to be retried or replayed by hand. */
async function endUntried(tx: Transaction, untried: Untried): Promise<void> {
  const { row, event } = untried;
  await queue.finish(tx, row);
  if (!event || !untried.known) return;
  await writeRecord(tx, {
    ...jobOf(row),
    eventId: event.id,
    eventType: event.type,
    result: 'failed',
    tried: false,
    nextAttemptMs: null,
    responseStatus: null,
    responseStart: null,
    error: 'the endpoint is disabled; enable it and retry this delivery, or replay the time in question',
    latencyMs: null,
    atMs: untried.nowMs,
  });
}

export interface Settled {
  seq: number;
  fence: number;
  accountId: string;
  webhookId: string;
  eventSeq: number;
  eventId: string;
  eventType: EventType;
  /** `gone`: failed, and the endpoint asked for no more. */
  result: 'succeeded' | 'failed' | 'retry' | 'gone';
  /** False when no request was made. */
  tried: boolean;
  nextAttemptMs: number | null;
  responseStatus: number | null;
  responseStart: string | null;
  error: string | null;
  latencyMs: number | null;
  atMs: number;
}

const RECORD_STATUS = { succeeded: 'succeeded', failed: 'failed', gone: 'failed', retry: 'pending' } as const;

async function writeRecord(tx: Transaction, settled: Settled): Promise<void> {
  await tx.run(
    `INSERT INTO webhook_delivery (webhook_id, id, account_id, event_seq, event_id, event_type, status, attempts,
       response_status, response_start, error, latency_ms, next_attempt_at, created_at, updated_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (webhook_id, id) DO UPDATE SET status = excluded.status,
       attempts = webhook_delivery.attempts + excluded.attempts,
       response_status = CASE WHEN excluded.attempts = 0 THEN webhook_delivery.response_status
         ELSE excluded.response_status END,
       response_start = CASE WHEN excluded.attempts = 0 THEN webhook_delivery.response_start
         ELSE excluded.response_start END,
       error = excluded.error, latency_ms = coalesce(excluded.latency_ms, webhook_delivery.latency_ms),
       next_attempt_at = excluded.next_attempt_at, updated_at = excluded.updated_at`,
    settled.webhookId,
    deliveryIdOf(settled.webhookId, settled.eventId),
    settled.accountId,
    settled.eventSeq,
    settled.eventId,
    settled.eventType,
    RECORD_STATUS[settled.result],
    settled.tried ? 1 : 0,
    settled.responseStatus,
    settled.responseStart,
    settled.error,
    settled.latencyMs,
    settled.nextAttemptMs,
    settled.atMs,
    settled.atMs,
  );
}

export interface LaneRoom {
  lane: string;
  limit: number;
}

export interface SettleRequest {
  nowMs: number;
  settled: Settled[];
  /** Rows of full lanes to set aside. */
  hold: queue.Lease[];
  /** Rows to give back untried. */
  release: queue.Lease[];
  /** Rows over which our own code failed. */
  crashed: (queue.Lease & { dueMs: number })[];
  /** Lanes that have room again. */
  unhold: LaneRoom[];
}

export interface SettleAnswer {
  /** Endpoints that were disabled by this settle. */
  disabled: string[];
  /** Rows freed for each entry of `unhold`. */
  unheld: number[];
}

export const settleOperation = operation(
  'webhooks.settle',
  'write',
  async (tx, request: SettleRequest): Promise<SettleAnswer> => {
    const standings = new Map<string, Standing>();
    for (const settled of request.settled) {
      const lease = { seq: settled.seq, fence: settled.fence };
      const held =
        settled.result === 'retry'
          ? await queue.reschedule(tx, lease, settled.nextAttemptMs ?? settled.atMs)
          : await queue.finish(tx, lease);
      if (!held) continue;
      await writeRecord(tx, settled);
      if (settled.tried) note(standings, settled);
    }
    const disabled: string[] = [];
    // In one order, so that two nodes do not wait for each other.
    for (const [webhookId, standing] of [...standings].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (await keepStanding(tx, webhookId, standing)) disabled.push(webhookId);
    }
    await queue.hold(tx, request.hold, request.nowMs);
    await queue.release(tx, request.release, request.nowMs);
    for (const crash of request.crashed) await queue.recordCrash(tx, crash, crash.dueMs);
    const unheld: number[] = [];
    for (const room of request.unhold)
      unheld.push(await queue.unhold(tx, { kind: WEBHOOK_WORK, nowMs: request.nowMs, ...room }));
    return { disabled, unheld };
  },
);

/** What one settle says of an endpoint. */
interface Standing {
  succeeded: boolean;
  gone: boolean;
  atMs: number;
}

function note(standings: Map<string, Standing>, settled: Settled): void {
  const standing = standings.get(settled.webhookId) ?? { succeeded: false, gone: false, atMs: settled.atMs };
  standing.succeeded ||= settled.result === 'succeeded';
  standing.gone ||= settled.result === 'gone';
  standing.atMs = Math.max(standing.atMs, settled.atMs);
  standings.set(settled.webhookId, standing);
}

/** Keeps `failing_since`, and disables an endpoint that wants or deserves no more; answers whether it did. */
async function keepStanding(tx: Transaction, webhookId: string, standing: Standing): Promise<boolean> {
  if (standing.gone) {
    return disable(tx, { webhookId, reason: 'the endpoint answered 410 Gone', nowMs: standing.atMs });
  }
  if (standing.succeeded) {
    await tx.run('UPDATE webhook SET failing_since = NULL WHERE id = ? AND failing_since IS NOT NULL', webhookId);
    return false;
  }
  const row = await tx.get<{ failing_since: number }>(
    'UPDATE webhook SET failing_since = coalesce(failing_since, ?) WHERE id = ? AND enabled = 1 RETURNING failing_since',
    standing.atMs,
    webhookId,
  );
  if (!row || standing.atMs - row.failing_since < DISABLE_AFTER_MS) return false;
  return disable(tx, { webhookId, reason: 'nothing but failures for five days', nowMs: standing.atMs });
}

async function disable(
  tx: Transaction,
  { webhookId, reason, nowMs }: { webhookId: string; reason: string; nowMs: number },
): Promise<boolean> {
  const row = await tx.get<{ account_id: string; mode: Mode }>(
    `UPDATE webhook SET enabled = 0, disabled_reason = ?, updated_at = ? WHERE id = ? AND enabled = 1
     RETURNING account_id, mode`,
    reason,
    nowMs,
    webhookId,
  );
  if (!row) return false;
  await enqueueNotice(tx, { webhookId, accountId: row.account_id, mode: row.mode, nowMs });
  return true;
}

/** Keeps leases; answers the numbers of the rows that were lost. */
export const extendOperation = operation('webhooks.extend', 'write', (tx, extension: queue.Extension) =>
  queue.extend(tx, extension),
);

/** Marks rows that were in a crash before as being sent, or as merely held. */
export const markOperation = operation(
  'webhooks.mark',
  'write',
  (tx, marking: { leases: queue.Lease[]; tried: boolean }) => queue.mark(tx, marking),
);

/** Lanes that have rows set aside. */
export const heldLanesOperation = operation('webhooks.heldLanes', 'read', (tx, page: queue.LanePage) =>
  queue.heldLanes(tx, WEBHOOK_WORK, page),
);

/** Depth and age of what waits for endpoints. */
export const backlogOperation = operation('webhooks.backlog', 'read', (tx, _: null) => queue.backlog(tx, WEBHOOK_WORK));
