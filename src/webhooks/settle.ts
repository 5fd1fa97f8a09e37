/**
 * Settles the results of attempts in one transaction: ends or reschedules the work row, writes the delivery record and updates the
 * endpoint's health; a row whose lease was lost changes nothing. The health of an endpoint is the time since when every attempt failed; the
 * endpoint is disabled after five days of failures, or when it replies 410. Responses of a URL that it no longer has do not affect it, and
 * a removed endpoint gets no records.
 */
import type { Mode } from '../base/mode.ts';
import type { EventType } from '../events/events.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { settleLeases } from '../work/work.ts';
import { deliveryIdOf } from './endpoints.ts';
import { enqueueNotice } from './notice-store.ts';
import { unsubscribe } from './store.ts';
import { endpointUrls, endTurns, keepEndpoints, passTurns } from './turns.ts';

/** The recorded result of an event for one endpoint. */
export interface WebhookSettlement {
  seq: number;
  fence: number;
  accountId: string;
  mode: Mode;
  webhookId: string;
  eventSeq: number;
  eventId: string;
  eventType: EventType;
  /** Set if the endpoint gets the events of a recipient one after the other. */
  turn: string | null;
  /** `gone`: failed, and the endpoint replied 410. */
  result: 'succeeded' | 'failed' | 'retry' | 'gone';
  /** False if no request was made. */
  tried: boolean;
  /** The URL of the request. */
  url: string | null;
  /** Like atMs, by the clock of the mode. */
  nextAttemptMs: number | null;
  responseStatus: number | null;
  responseStart: string | null;
  error: string | null;
  latencyMs: number | null;
  atMs: number;
}

/** Returns the record of a delivery that ends without a request. */
export function untriedOf(
  job: Pick<WebhookSettlement, 'seq' | 'fence' | 'accountId' | 'mode' | 'webhookId' | 'eventSeq' | 'turn'>,
  event: { id: string; type: EventType },
  { atMs, error }: { atMs: number; error: string },
): WebhookSettlement {
  const { seq, fence, accountId, mode, webhookId, eventSeq, turn } = job;
  return {
    seq,
    fence,
    accountId,
    mode,
    webhookId,
    eventSeq,
    eventId: event.id,
    eventType: event.type,
    turn,
    result: 'failed',
    tried: false,
    url: null,
    nextAttemptMs: null,
    responseStatus: null,
    responseStart: null,
    latencyMs: null,
    error,
    atMs,
  };
}

const RECORD_STATUS = { succeeded: 'succeeded', failed: 'failed', gone: 'failed', retry: 'pending' } as const;

/** The log of a delivery gets no more attempts when it is longer than this, which takes many manual retries. */
const LONGEST_LOG = 50_000;

/** The columns that hold the last attempt, by their names in the log. */
const LAST_ATTEMPT = Object.entries({
  atMs: 'created_at',
  responseStatus: 'response_status',
  responseStart: 'response_start',
  error: 'error',
  latencyMs: 'latency_ms',
});

/** Returns SQL for the log line of the last attempt of `row`. */
function logLineSql(dialect: Transaction['dialect'], row: 'webhook_delivery' | 'excluded'): string {
  const columns = LAST_ATTEMPT.map(([name, column]) => `${row}.${column} AS "${name}"`);
  const pairs = LAST_ATTEMPT.map(([name, column]) => `'${name}', ${row}.${column}`);
  const json =
    dialect === 'postgres'
      ? `CAST((SELECT row_to_json(attempt) FROM (SELECT ${columns.join()}) attempt) AS TEXT)`
      : `json_object(${pairs.join()})`;
  return `${json} || '\n'`;
}

/**
 * Returns SQL for the log with another attempt. A new record has no log: its attempt is in its other columns, which is enough for most
 * deliveries. Its line is written when another attempt replaces these columns.
 */
function logSql(dialect: Transaction['dialect']): string {
  const first = `CASE WHEN webhook_delivery.attempts = 1 THEN ${logLineSql(dialect, 'webhook_delivery')} ELSE '' END`;
  const added = `CASE WHEN excluded.attempts = 0 THEN '' ELSE ${logLineSql(dialect, 'excluded')} END`;
  return `CASE WHEN length(webhook_delivery.attempt_log) > ${LONGEST_LOG} THEN webhook_delivery.attempt_log
       ELSE nullif(coalesce(webhook_delivery.attempt_log, ${first}) || ${added}, '') END`;
}

const recordSql = (dialect: Transaction['dialect']): string =>
  `INSERT INTO webhook_delivery (webhook_id, id, account_id, event_seq, event_id, event_type, status, attempts,
     response_status, response_start, error, latency_ms, next_attempt_at, created_at, updated_at, url)
   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
   ON CONFLICT (webhook_id, id) DO UPDATE SET status = excluded.status,
     attempts = webhook_delivery.attempts + excluded.attempts,
     response_status = CASE WHEN excluded.attempts = 0 THEN webhook_delivery.response_status
       ELSE excluded.response_status END,
     response_start = CASE WHEN excluded.attempts = 0 THEN webhook_delivery.response_start
       ELSE excluded.response_start END,
     url = coalesce(excluded.url, webhook_delivery.url), error = excluded.error,
     latency_ms = coalesce(excluded.latency_ms, webhook_delivery.latency_ms),
     next_attempt_at = excluded.next_attempt_at, updated_at = excluded.updated_at,
     attempt_log = ${logSql(dialect)}`;
const RECORD_SQL = { sqlite: recordSql('sqlite'), postgres: recordSql('postgres') };

/** Writes a record; `nowMs` is real time, from which its retention counts. */
export async function writeRecord(tx: Transaction, settled: WebhookSettlement, nowMs: number): Promise<void> {
  await tx.run(
    RECORD_SQL[tx.dialect],
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

interface SettleRequest {
  /** Unix ms, real time. */
  nowMs: number;
  settled: WebhookSettlement[];
}

export interface SettleAnswer {
  /** Rows whose lease was lost: nothing was written for them. */
  lost: number[];
  /** Endpoints that this settlement disabled. */
  disabled: string[];
  /** Rows that became due because others of their turn were settled. */
  freed: number;
}

export const settleOperation = operation(
  'webhooks.settle',
  'write',
  async (tx, request: SettleRequest): Promise<SettleAnswer> => {
    const webhookIds = [...new Set(request.settled.map(({ webhookId }) => webhookId))];
    await keepEndpoints(tx, webhookIds);
    const urls = await endpointUrls(tx, webhookIds);
    const results = request.settled.map((one) => redirected(one, urls));
    const held = await settleLeases(tx, results, ({ seq, fence, accountId, mode, ...one }) => ({
      seq,
      fence,
      accountId,
      mode,
      tried: true,
      againAtMs: one.result === 'retry' ? (one.nextAttemptMs ?? one.atMs) : null,
    }));
    // The statements are pipelined to the database.
    await Promise.all(held.map((settled) => urls.has(settled.webhookId) && writeRecord(tx, settled, request.nowMs)));
    const current = held.filter((one) => one.tried && one.url === urls.get(one.webhookId));
    const disabled = await recordHealth(tx, current, request.nowMs);
    const ended = held.map((one) => ({ ...one, isRetried: one.result === 'retry' }));
    const freed = await passTurns(tx, ended, request.nowMs);
    const kept = new Set(held);
    return { lost: results.filter((one) => !kept.has(one)).map((one) => one.seq), disabled, freed };
  },
);

/** Returns the result; a retry for a 410 of a URL that its endpoint no longer has, because the event is sent to the new one. */
function redirected(settled: WebhookSettlement, urls: ReadonlyMap<string, string>): WebhookSettlement {
  const url = urls.get(settled.webhookId);
  if (settled.result !== 'gone' || url === undefined || url === settled.url) return settled;
  return { ...settled, result: 'retry', nextAttemptMs: settled.atMs };
}

/** An endpoint is disabled after this time with nothing but failures. */
const DISABLE_AFTER_MS = 5 * 24 * 3_600_000;

/** The health of an endpoint according to one settlement. */
interface Health {
  succeeded: boolean;
  gone: boolean;
  /** By the clock of the mode. */
  atMs: number;
}

function note(healths: Map<string, Health>, settled: WebhookSettlement): void {
  const health = healths.get(settled.webhookId) ?? { succeeded: false, gone: false, atMs: settled.atMs };
  health.succeeded ||= settled.result === 'succeeded';
  health.gone ||= settled.result === 'gone';
  health.atMs = Math.max(health.atMs, settled.atMs);
  healths.set(settled.webhookId, health);
}

/** Updates the health of every endpoint that was tried at its URL; returns those that were disabled. `nowMs` is real time. */
async function recordHealth(tx: Transaction, tried: readonly WebhookSettlement[], nowMs: number): Promise<string[]> {
  const healths = new Map<string, Health>();
  for (const settled of tried) note(healths, settled);
  const disabled: string[] = [];
  // In a fixed order, so that two nodes cannot deadlock.
  for (const [webhookId, health] of [...healths].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (await recordHealthOf(tx, webhookId, { ...health, nowMs })) disabled.push(webhookId);
  }
  return disabled;
}

/** Updates `failing_since` and disables a failing endpoint; returns whether it did. */
async function recordHealthOf(
  tx: Transaction,
  webhookId: string,
  health: Health & { nowMs: number },
): Promise<boolean> {
  const { nowMs } = health;
  if (health.gone) {
    return disable(tx, { webhookId, reason: 'the endpoint returned 410 Gone', nowMs });
  }
  if (health.succeeded) {
    await tx.run('UPDATE webhook SET failing_since = NULL WHERE id = ? AND failing_since IS NOT NULL', webhookId);
    return false;
  }
  const row = await tx.get<{ failing_since: number }>(
    'UPDATE webhook SET failing_since = coalesce(failing_since, ?) WHERE id = ? AND enabled = 1 RETURNING failing_since',
    health.atMs,
    webhookId,
  );
  if (!row || health.atMs - row.failing_since < DISABLE_AFTER_MS) return false;
  return disable(tx, { webhookId, reason: 'every delivery failed for five days', nowMs });
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
  await unsubscribe(tx, webhookId);
  await endTurns(tx, webhookId, nowMs);
  await enqueueNotice(tx, { webhookId, accountId: row.account_id, mode: row.mode, nowMs });
  return true;
}
