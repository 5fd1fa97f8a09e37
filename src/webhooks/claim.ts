/**
 * Claims due events with the data that their attempts need. Work whose event or endpoint no longer exists, or whose endpoint is disabled,
 * is ended here.
 */
import type { Mode } from '../base/mode.ts';
import { type EventRow, type EventType, eventBody, WEBHOOK_WORK } from '../events/events.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import * as queue from '../work/work.ts';
import { type DeliveryRow, deliveryIdOf } from './endpoints.ts';
import { readResendPayloads } from './resend-payload.ts';
import { untriedOf, writeRecord } from './settle.ts';
import { type EndpointTarget, TARGET } from './store.ts';
import { type FinishedRow, orderedEndpoints, passTurns, type TurnRow, takeTurns } from './turns.ts';

export interface WebhookJob extends queue.Job {
  attempts: number;
  accountId: string;
  mode: Mode;
  webhookId: string;
  eventSeq: number;
  /** Sandbox: how far the account's clock is ahead of the real time. */
  clockOffsetMs: number;
  /** Set if the endpoint gets the events of a recipient one after the other (turns.ts). */
  turn: string | null;
  /** The body of the request, where the endpoint receives the payload of another service. */
  formatted?: string;
}

export interface EventText {
  seq: number;
  id: string;
  type: EventType;
  /** Unix ms. */
  at: number;
  /** The JSON body, the same bytes at every attempt; null if it is large (inbound mail) and read at the attempt. */
  body: string | null;
  /** The trace context in which the email was accepted (base/trace.ts). */
  traceparent: string | null;
}

export interface ClaimedBatch {
  jobs: WebhookJob[];
  /** Without duplicates, even if several jobs have the same event. */
  events: EventText[];
  targets: StoredTarget[];
  /** Includes rows that were parked, or ended because their endpoint or event no longer exists. */
  taken: queue.ClaimExtent;
  /** Lanes of the request that still had due rows; these were parked. */
  overQuota: string[];
  /** Rows that became due because others of their turn were ended. */
  freed: number;
}

/** Due rows that are searched for rows of a lane over its quota. */
const LOOKED_AT = 5_000;

/**
 * Parks the rows of a full lane among the first due rows. Claiming such rows batch by batch costs ten times as much per row and delays all
 * other lanes by seconds.
 */
async function parkOverQuota(
  tx: Transaction,
  { overQuota, nowMs, lookBackMs = nowMs }: queue.ClaimRequest,
): Promise<void> {
  for (const lane of overQuota) {
    await tx.run(
      `UPDATE work SET held = 1 WHERE leased = 0 AND seq IN
         (SELECT seq FROM (SELECT seq, lane FROM work WHERE kind = ? AND held = 0 AND due <= ? AND due >= ? AND leased = 0
                           ORDER BY due LIMIT ?) AS head WHERE lane = ?)`,
      WEBHOOK_WORK,
      nowMs,
      nowMs - lookBackMs,
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
    return { ...batch, taken: queue.takenOf(claimed), overQuota };
  },
);

/** Returns the data for the attempts of leased rows; ends rows that are no longer needed. */
async function batchOf(
  tx: Transaction,
  claimed: readonly queue.Work[],
  nowMs: number,
): Promise<Pick<ClaimedBatch, 'jobs' | 'events' | 'targets' | 'freed'>> {
  if (claimed.length === 0) return { jobs: [], events: [], targets: [], freed: 0 };
  const { rows, targets } = await inTurn(tx, claimed, nowMs);
  const events = await readEventTexts(tx, [...new Set(rows.map((row) => row.ref))], { withMail: false });
  const clockOffsets = await readClockOffsets(tx, rows);
  const isFormatted = (row: queue.Work): boolean => targets.get(row.subject)?.format === 'resend';
  const payloads = await readResendPayloads(tx, [...new Set(rows.filter(isFormatted).map((row) => row.ref))]);
  const jobs: WebhookJob[] = [];
  const ended: FinishedRow[] = [];
  for (const row of rows) {
    const event = events.get(row.ref);
    const target = targets.get(row.subject);
    const job = jobOf(row, clockOffsets.get(row.seq));
    if (event && target?.enabled && isFormatted(row)) {
      const payload = payloads.get(row.ref);
      // One event type can stand for several event names of that service. Names that the endpoint did not request leave no record.
      const isRequested = payload !== undefined && isWanted(target, payload.name);
      const status = isRequested ? undefined : await recordedStatus(tx, job, event);
      if (isRequested || (payload && status)) jobs.push({ ...job, formatted: payload.body });
      else {
        await queue.finish(tx, [job]);
        // The event waited for a retry when the endpoint got its format.
        if (status === 'pending') await failUntried(tx, { job, event, nowMs }, NO_COUNTERPART);
        ended.push({ ...job, isRetried: false });
      }
    } else if (event && target?.enabled) jobs.push(job);
    else {
      await endUntried(tx, { job, event, known: target !== undefined, nowMs });
      ended.push({ ...job, isRetried: false });
    }
  }
  const freed = await passTurns(tx, ended, nowMs);
  return { jobs, events: [...events.values()], targets: [...targets.values()], freed };
}

/** Returns the rows that may be sent now, with their endpoints; those of ordered endpoints that must wait are held back. */
async function inTurn(
  tx: Transaction,
  claimed: readonly queue.Work[],
  nowMs: number,
): Promise<{ rows: readonly queue.Work[]; targets: ReadonlyMap<string, StoredTarget> }> {
  const ids = [...new Set(claimed.map((row) => row.subject))];
  const targets = await readTargets(tx, ids);
  const mayWait = (row: queue.Work): boolean => {
    const target = targets.get(row.subject);
    return row.turn !== null && target?.enabled === 1 && target.ordered === 1;
  };
  const waiting = claimed.filter(mayWait);
  if (waiting.length === 0) return { rows: claimed, targets };
  const endpoints = await orderedEndpoints(tx, [...new Set(waiting.map(({ subject }) => subject))]);
  const isOrdered = (row: queue.Work): row is TurnRow => row.turn !== null && endpoints.has(row.subject);
  const first = new Set<queue.Work>(await takeTurns(tx, claimed.filter(isOrdered), nowMs));
  const rows = claimed.filter((row) => !isOrdered(row) || first.has(row));
  // The result of an event can disable its endpoint while this waits for the turn, so the endpoints are read again.
  return { rows, targets: await readTargets(tx, ids) };
}

function isWanted({ format_events }: StoredTarget, name: string): boolean {
  return (JSON.parse(format_events ?? '[]') as string[]).includes(name);
}

/** Returns the status of an event that has a record: it was sent before, and is sent again. */
async function recordedStatus(
  tx: Transaction,
  { webhookId }: WebhookJob,
  event: EventText,
): Promise<DeliveryRow['status'] | undefined> {
  const record = await tx.get<Pick<DeliveryRow, 'status'>>(
    'SELECT status FROM webhook_delivery WHERE webhook_id = ? AND id = ?',
    webhookId,
    deliveryIdOf(webhookId, event.id),
  );
  return record?.status;
}

/** Returns how far the clocks of the rows are ahead of the real time, by row number. */
async function readClockOffsets(tx: Transaction, rows: readonly queue.Work[]): Promise<Map<number, number>> {
  const ofSandbox = rows.filter((row) => row.mode === 'sandbox');
  if (ofSandbox.length === 0) return new Map();
  const requested = rowset(tx, 'w', { seq: 'int', account_id: 'text', mode: 'text' }, ofSandbox);
  const found = await tx.all<{ seq: number; offset: number }>(
    `SELECT w.seq, ${queue.clockOffsetSql('w')} AS "offset" FROM ${requested.sql}`,
    ...requested.params,
  );
  return new Map(found.map((row) => [row.seq, row.offset]));
}

function jobOf(row: queue.Work, clockOffsetMs = 0): WebhookJob {
  const {
    seq,
    fence,
    attempts,
    crashes,
    lane,
    mode,
    account_id: accountId,
    subject: webhookId,
    ref: eventSeq,
    turn,
  } = row;
  return { seq, fence, attempts, crashes, lane, mode, accountId, webhookId, eventSeq, turn, clockOffsetMs };
}

export type StoredTarget = EndpointTarget & { enabled: number };

async function readTargets(tx: Transaction, ids: string[]): Promise<Map<string, StoredTarget>> {
  const requested = rowset(
    tx,
    'requested',
    { id: 'text' },
    ids.map((id) => ({ id })),
  );
  const rows = await tx.all<StoredTarget>(
    `SELECT ${TARGET}, enabled FROM webhook WHERE id IN (SELECT requested.id FROM ${requested.sql})`,
    ...requested.params,
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** Returns those of the endpoints that exist, as a claim reads them. */
export const presentTargetsOperation = operation(
  'webhooks.presentTargets',
  'read',
  async (tx, { ids }: { ids: string[] }): Promise<StoredTarget[]> => [...(await readTargets(tx, ids)).values()],
);

/** Returns events as they are sent, by number; without `withMail`, events of inbound mail have no body. */
export async function readEventTexts(
  tx: Transaction,
  seqs: number[],
  { withMail }: { withMail: boolean },
): Promise<Map<number, EventText>> {
  const requested = rowset(
    tx,
    'requested',
    { seq: 'int' },
    seqs.map((seq) => ({ seq })),
  );
  const rows = await tx.all<EventRow & { traceparent: string | null }>(
    `SELECT v.seq, v.id, v.type, v.message_id, v.mode, v.at, ${withMail ? 'coalesce(i.detail, v.detail)' : 'v.detail'} AS detail, m.recipient, e.header_from, e.subject,
       e.header_message_id, e.tags, e.metadata, e.dsn, e.traceparent
     FROM ${requested.sql} JOIN event v ON v.seq = requested.seq
       LEFT JOIN message m ON m.account_id = v.account_id AND m.mode = v.mode AND m.id = v.message_id
       LEFT JOIN email e ON e.seq = m.email_seq
       LEFT JOIN inbound_message i ON v.type = 'Inbound' AND i.id = v.message_id
     ORDER BY v.seq`,
    ...requested.params,
  );
  return new Map(
    rows.map(({ seq, id, type, at, traceparent, ...rest }) => {
      const isLeftOut = type === 'Inbound' && !withMail;
      const body = isLeftOut ? null : JSON.stringify(eventBody({ seq, id, type, at, ...rest }));
      return [seq, { seq, id, type, at, body, traceparent }];
    }),
  );
}

/** Returns the JSON body of an event; undefined if it no longer exists. */
export const eventTextOperation = operation(
  'webhooks.eventText',
  'read',
  async (tx, { seq }: { seq: number }): Promise<string | undefined> =>
    (await readEventTexts(tx, [seq], { withMail: true })).get(seq)?.body ?? undefined,
);

interface Untried {
  job: WebhookJob;
  event: EventText;
  /** Unix ms, real time. */
  nowMs: number;
}

const DISABLED = 'the webhook is disabled; enable it, then retry this delivery or replay the missed events';
const NO_COUNTERPART = 'this event has no counterpart in the payload format of this webhook';

/** Ends work that is no longer needed; for a disabled endpoint the record is kept, to be retried or replayed manually. */
async function endUntried(
  tx: Transaction,
  { job, event, known, nowMs }: Omit<Untried, 'event'> & { event: EventText | undefined; known: boolean },
): Promise<void> {
  await queue.finish(tx, [job]);
  if (event && known) await failUntried(tx, { job, event, nowMs }, DISABLED);
}

async function failUntried(tx: Transaction, { job, event, nowMs }: Untried, error: string): Promise<void> {
  await writeRecord(tx, untriedOf(job, event, { atMs: nowMs + job.clockOffsetMs, error }), nowMs);
}

/** Brings forward rows that are due later than any schedule allows; returns their number. */
export const clampDueOperation = operation('webhooks.clampDue', 'write', (tx, clamp: queue.ClampDue) =>
  queue.clampDue(tx, { kind: WEBHOOK_WORK, notBefore: '0' }, clamp),
);
