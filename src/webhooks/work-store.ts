/**
 * The transactions of the worker: claim due events with all that their attempts need, and settle what came of them.
 * A settle ends or moves the work row, writes the delivery record and keeps the endpoint's health, all in one; a row
 * whose lease was lost changes nothing.
 */
import { type EventRow, eventBody, WEBHOOK_WORK } from '../events/events.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import * as queue from '../work/work.ts';
import { recordHealth } from './endpoint-health.ts';
import { deliveryIdOf } from './endpoints.ts';
import type { EventText, Settled, WebhookJob } from './job.ts';
import { type EndpointTarget, TARGET } from './store.ts';

export interface ClaimedBatch {
  jobs: WebhookJob[];
  /** Each once, however many jobs carry it. */
  events: EventText[];
  targets: EndpointTarget[];
  /** Rows that were claimed, those included that were parked, or ended because their endpoint or event is gone. */
  taken: number;
  /** Lanes named in the request that still had due rows; these were parked. */
  overQuota: string[];
}

/** Due rows looked at for those of a lane over its quota. */
const LOOKED_AT = 5_000;

/**
 * Parks what a full lane has among the first due rows. Claiming such rows one batch after the other costs ten times
 * as much each, and everybody else's stand behind them: behind 100,000 rows of a dead endpoint others waited 8.5 s that
 * way, and 1.6 s this way.
 */
async function parkOverQuota(tx: Transaction, request: queue.ClaimRequest): Promise<void> {
  for (const lane of request.overQuota) {
    await tx.run(
      `UPDATE work SET held = 1 WHERE leased = 0 AND seq IN
         (SELECT seq FROM (SELECT seq, lane FROM work WHERE kind = ? AND held = 0 AND due <= ? AND leased = 0
                           ORDER BY due LIMIT ?) AS head WHERE lane = ?)`,
      WEBHOOK_WORK,
      request.nowMs,
      LOOKED_AT,
      lane,
    );
  }
}

export const claimOperation = operation(
  'webhooks.claim',
  'write',
  async (tx, request: queue.ClaimRequest): Promise<ClaimedBatch> => {
    await parkOverQuota(tx, request);
    const claimed = await queue.claim(tx, { kind: WEBHOOK_WORK, ...request });
    const parked = claimed.filter((row) => request.overQuota.includes(row.lane));
    await queue.park(tx, parked, request.nowMs);
    const rows = parked.length === 0 ? claimed : claimed.filter((row) => !request.overQuota.includes(row.lane));
    const overQuota = request.overQuota.filter((lane) => parked.some((row) => row.lane === lane));
    const batch = await batchOf(tx, rows, request.nowMs);
    return { ...batch, taken: claimed.length, overQuota };
  },
);

/** What the attempts of leased rows need; rows that nobody waits for any more are ended. */
async function batchOf(
  tx: Transaction,
  rows: readonly queue.Work[],
  nowMs: number,
): Promise<Pick<ClaimedBatch, 'jobs' | 'events' | 'targets'>> {
  if (rows.length === 0) return { jobs: [], events: [], targets: [] };
  const targets = await readTargets(tx, [...new Set(rows.map((row) => row.subject))]);
  const events = await readEventTexts(tx, [...new Set(rows.map((row) => row.ref))]);
  const clockOffsets = await readClockOffsets(tx, rows);
  const jobs: WebhookJob[] = [];
  for (const row of rows) {
    const event = events.get(row.ref);
    const target = targets.get(row.subject);
    const job = jobOf(row, clockOffsets.get(row.seq));
    if (event && target?.enabled) jobs.push(job);
    else await endUntried(tx, { job, event, known: target !== undefined, nowMs });
  }
  return { jobs, events: [...events.values()], targets: [...targets.values()] };
}

/** The same for rows that the caller has leased himself. */
export const sandboxBatchOperation = operation(
  'webhooks.sandboxBatch',
  'write',
  (tx, { works, nowMs }: { works: queue.Work[]; nowMs: number }) => batchOf(tx, works, nowMs),
);

/** What the clocks of the rows are ahead of the real time, by the rows' numbers. */
async function readClockOffsets(tx: Transaction, rows: readonly queue.Work[]): Promise<Map<number, number>> {
  const ofSandbox = rows.filter((row) => row.mode === 'sandbox');
  if (ofSandbox.length === 0) return new Map();
  const asked = rowset(tx, 'w', { seq: 'int', account_id: 'text', mode: 'text' }, ofSandbox);
  const found = await tx.all<{ seq: number; offset: number }>(
    `SELECT w.seq, ${queue.clockOffsetSql('w')} AS "offset" FROM ${asked.sql}`,
    ...asked.params,
  );
  return new Map(found.map((row) => [row.seq, row.offset]));
}

function jobOf(row: queue.Work, clockOffsetMs = 0): WebhookJob {
  return {
    seq: row.seq,
    fence: row.fence,
    attempts: row.attempts,
    crashes: row.crashes,
    lane: row.lane,
    accountId: row.account_id,
    mode: row.mode,
    webhookId: row.subject,
    eventSeq: row.ref,
    clockOffsetMs,
  };
}

type StoredTarget = EndpointTarget & { enabled: number };

async function readTargets(tx: Transaction, ids: string[]): Promise<Map<string, StoredTarget>> {
  const asked = rowset(
    tx,
    'asked',
    { id: 'text' },
    ids.map((id) => ({ id })),
  );
  const rows = await tx.all<StoredTarget>(
    `SELECT ${TARGET}, enabled FROM webhook WHERE id IN (SELECT asked.id FROM ${asked.sql})`,
    ...asked.params,
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** Events as they are sent, by their numbers. */
export async function readEventTexts(tx: Transaction, seqs: number[]): Promise<Map<number, EventText>> {
  const asked = rowset(
    tx,
    'asked',
    { seq: 'int' },
    seqs.map((seq) => ({ seq })),
  );
  const rows = await tx.all<EventRow>(
    `SELECT v.seq, v.id, v.type, v.message_id, v.mode, v.at, v.detail, m.recipient, e.header_from, e.subject, e.tags,
       e.metadata
     FROM ${asked.sql} JOIN event v ON v.seq = asked.seq
       JOIN message m ON m.account_id = v.account_id AND m.mode = v.mode AND m.id = v.message_id
       JOIN email e ON e.seq = m.email_seq
     ORDER BY v.seq`,
    ...asked.params,
  );
  return new Map(
    rows.map(({ seq, id, type, at, ...rest }) => [
      seq,
      { seq, id, type, at, body: JSON.stringify(eventBody({ seq, id, type, at, ...rest })) },
    ]),
  );
}

interface Untried {
  job: WebhookJob;
  event: EventText | undefined;
  /** Whether the endpoint exists; it is disabled then. */
  known: boolean;
  /** Unix ms, real time. */
  nowMs: number;
}

/** Ends work that nobody waits for any more; a disabled endpoint keeps the record, to be retried or replayed by hand. */
async function endUntried(tx: Transaction, untried: Untried): Promise<void> {
  const { job, event, nowMs } = untried;
  await queue.finish(tx, [job]);
  if (!event || !untried.known) return;
  const record: Settled = {
    ...job,
    eventId: event.id,
    eventType: event.type,
    result: 'failed',
    tried: false,
    url: null,
    nextAttemptMs: null,
    responseStatus: null,
    responseStart: null,
    error: 'the endpoint is disabled; enable it and retry this delivery, or replay the time in question',
    latencyMs: null,
    atMs: nowMs + job.clockOffsetMs,
  };
  await writeRecord(tx, record, nowMs);
}

const RECORD_STATUS = { succeeded: 'succeeded', failed: 'failed', gone: 'failed', retry: 'pending' } as const;

/** `nowMs` is real: how long a record is kept counts from it. */
async function writeRecord(tx: Transaction, settled: Settled, nowMs: number): Promise<void> {
  await tx.run(
    `INSERT INTO webhook_delivery (webhook_id, id, account_id, event_seq, event_id, event_type, status, attempts,
       response_status, response_start, error, latency_ms, next_attempt_at, created_at, updated_at, url)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (webhook_id, id) DO UPDATE SET status = excluded.status,
       attempts = webhook_delivery.attempts + excluded.attempts,
       response_status = CASE WHEN excluded.attempts = 0 THEN webhook_delivery.response_status
         ELSE excluded.response_status END,
       response_start = CASE WHEN excluded.attempts = 0 THEN webhook_delivery.response_start
         ELSE excluded.response_start END,
       url = coalesce(excluded.url, webhook_delivery.url), error = excluded.error, latency_ms = coalesce(excluded.latency_ms, webhook_delivery.latency_ms),
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
    nowMs,
    settled.url,
  );
}

export interface SettleRequest {
  /** Unix ms, real time. */
  nowMs: number;
  settled: Settled[];
}

export interface SettleAnswer {
  /** Rows whose lease had been lost: nothing of these was written. */
  lost: number[];
  /** Endpoints that were disabled by this settle. */
  disabled: string[];
}

export const settleOperation = operation(
  'webhooks.settle',
  'write',
  async (tx, request: SettleRequest): Promise<SettleAnswer> => {
    const held = await queue.settleLeases(tx, request.settled, ({ seq, fence, accountId, mode, ...one }) => ({
      ...{ seq, fence, accountId, mode, tried: true },
      againAtMs: one.result === 'retry' ? (one.nextAttemptMs ?? one.atMs) : null,
    }));
    // A server takes these one behind the other, without waiting for our next word.
    await Promise.all(held.map((settled) => writeRecord(tx, settled, request.nowMs)));
    const tried = held.filter((settled) => settled.tried);
    const disabled = await recordHealth(tx, tried, request.nowMs);
    const kept = new Set(held);
    return { lost: request.settled.filter((one) => !kept.has(one)).map((one) => one.seq), disabled };
  },
);
