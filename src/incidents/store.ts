/**
 * Reads the data of incidents in small parts, so other operations can use the storage in between: work rows by cause, bounces in the event
 * log, newest first, and failing webhooks and domains. Also retries the messages of a cause, a few hundred rows at a time.
 */
import type { Owner } from '../base/mode.ts';
import { type EventPlace, logOrder } from '../events/events.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { clockOffsetOf } from '../work/work.ts';

export interface DelayedPart extends Owner {
  /** Only causes after `after` and before `below` are counted. */
  after: string;
  below: string;
  /** Maximum number of causes per part. */
  groups: number;
  /** Maximum number of messages to count per cause. */
  counted: number;
}

export interface DelayedGroup {
  cause: string;
  messages: number;
}

/** Counts delayed messages by cause, in the order of causes, by stepping through their index from cause to cause. */
export const delayedOperation = operation('incidents.delayed', 'read', (tx, part: DelayedPart) => {
  const { accountId, mode } = part;
  const own = 'account_id = CAST(? AS TEXT) AND mode = CAST(? AS TEXT) AND cause IS NOT NULL';
  const next = (after: string) =>
    `(SELECT cause FROM work WHERE ${own} AND work.cause > ${after} AND work.cause < ? ORDER BY work.cause LIMIT 1)`;
  return tx.all<DelayedGroup>(
    `WITH RECURSIVE step (found, n) AS (
       SELECT ${next('CAST(? AS TEXT)')}, 1
       UNION ALL SELECT ${next('step.found')}, n + 1 FROM step WHERE step.found IS NOT NULL AND n < CAST(? AS INTEGER))
     SELECT step.found AS cause,
       (SELECT count(*) FROM (SELECT 1 FROM work WHERE ${own} AND work.cause = step.found LIMIT ?) AS counted) AS messages
     FROM step WHERE step.found IS NOT NULL ORDER BY step.found`,
    accountId,
    mode,
    part.after,
    part.below,
    accountId,
    mode,
    part.below,
    part.groups,
    accountId,
    mode,
    part.counted,
  );
});

export interface AffectedRow {
  seq: number;
  messageId: string;
  recipient: string;
  status: string;
  leased: number;
  failedAtMs: number;
  nextAttemptAtMs: number | null;
}

export interface AffectedPage extends Owner {
  cause: string;
  /** `seq` of the last row read. */
  before: number | null;
  limit: number;
}

async function affected(tx: Transaction, { accountId, mode, cause, before, limit }: AffectedPage) {
  return tx.all<AffectedRow>(
    `SELECT w.seq, w.subject AS "messageId", m.recipient, m.status, w.leased, w.failed_at AS "failedAtMs",
       m.next_attempt_at AS "nextAttemptAtMs"
     FROM work w JOIN message m ON m.account_id = w.account_id AND m.mode = w.mode AND m.id = w.subject
     WHERE w.account_id = ? AND w.mode = ? AND w.cause = ? ${before === null ? '' : 'AND w.seq < ?'}
     ORDER BY w.seq DESC LIMIT ?`,
    accountId,
    mode,
    cause,
    ...(before === null ? [] : [before]),
    limit,
  );
}

/** Lists the messages of a cause, newest first. */
export const affectedOperation = operation('incidents.affected', 'read', affected);

export interface Sample {
  cause: string;
  recipient: string;
  messageIds: string[];
  /** Reply of the last attempt at the newest message, or the text of its event if there was no attempt. */
  reply: string | null;
  /** When the oldest message was first deferred. */
  sinceMs: number | null;
  /** When the first of the newest messages is retried, in real time. */
  nextDueMs: number;
  /** When one of the newest messages last failed, by the clock of the mode. */
  lastAtMs: number;
}

export interface SampleRequest extends Owner {
  causes: string[];
  /** Number of messages to list per cause. */
  limit: number;
  /** Number of messages to read per cause for its times. */
  scanLimit: number;
}

/** Reads the newest and oldest messages of causes; causes that have ended in the meantime are omitted. */
export const samplesOperation = operation('incidents.samples', 'read', async (tx, request: SampleRequest) => {
  const samples = await Promise.all(request.causes.map((cause) => sampleOf(tx, request, cause)));
  return samples.flatMap((one) => one ?? []);
});

async function sampleOf(
  tx: Transaction,
  { accountId, mode, limit, scanLimit }: SampleRequest,
  cause: string,
): Promise<Sample | undefined> {
  const rows = await affected(tx, { accountId, mode, cause, before: null, limit });
  const newest = rows[0];
  if (!newest) return undefined;
  const own = 'FROM work WHERE account_id = ? AND mode = ? AND cause = ?';
  const [times, oldest, attempt] = await Promise.all([
    tx.get<Pick<Sample, 'nextDueMs' | 'lastAtMs'>>(
      `SELECT min(due) AS "nextDueMs", max(failed_at) AS "lastAtMs"
       FROM (SELECT due, failed_at ${own} ORDER BY seq DESC LIMIT ?) AS newest`,
      accountId,
      mode,
      cause,
      scanLimit,
    ),
    tx.get<{ subject: string }>(`SELECT subject ${own} ORDER BY seq LIMIT 1`, accountId, mode, cause),
    tx.get<{ record: string }>(
      'SELECT record FROM attempt WHERE account_id = ? AND message_id = ? ORDER BY number DESC LIMIT 1',
      accountId,
      newest.messageId,
    ),
  ]);
  const first = await firstDelay(tx, { accountId, mode }, oldest?.subject ?? newest.messageId);
  const event = attempt === undefined ? await firstDelay(tx, { accountId, mode }, newest.messageId) : undefined;
  return {
    cause,
    recipient: newest.recipient,
    messageIds: rows.map(({ messageId }) => messageId),
    reply: attempt ? (JSON.parse(attempt.record) as { reply: string | null }).reply : replyOf(event?.detail),
    sinceMs: first?.at ?? null,
    ...times!,
  };
}

function firstDelay(tx: Transaction, { accountId, mode }: Owner, messageId: string) {
  return tx.get<{ at: number; detail: string }>(
    `SELECT at, detail FROM event WHERE message_id = ? AND account_id = ? AND mode = ? AND type = 'DeliveryDelay'
     ORDER BY seq LIMIT 1`,
    messageId,
    accountId,
    mode,
  );
}

function replyOf(detail: string | undefined): string | null {
  if (detail === undefined) return null;
  return (JSON.parse(detail) as { deliveryDelay: { reply: string | null } }).deliveryDelay.reply;
}

export interface BouncedPart extends Owner {
  /** Place of the last event read; null for the first part. */
  before: EventPlace | null;
  limit: number;
}

export interface BouncedRow extends EventPlace {
  messageId: string;
  at: number;
  /** JSON with the member `bounce`. */
  detail: string;
  recipient: string;
}

/** Lists bounces, newest first. */
export const bouncedOperation = operation('incidents.bounced', 'read', (tx, part: BouncedPart) => {
  const log = logOrder(tx);
  const older = part.before === null ? { sql: '1 = 1', params: [] } : log.comparePlace('<', part.before);
  // The condition NOT IN lets the database use the index of rare events.
  return tx.all<BouncedRow>(
    `SELECT ${log.position} AS position, v.seq, v.message_id AS "messageId", v.at, v.detail, m.recipient
     FROM event v JOIN message m ON m.account_id = v.account_id AND m.mode = v.mode AND m.id = v.message_id
     WHERE v.account_id = ? AND v.mode = ? AND v.type = 'Bounce' AND v.type NOT IN ('Send', 'Delivery') AND ${older.sql}
     ORDER BY ${log.order('DESC')} LIMIT ?`,
    part.accountId,
    part.mode,
    ...older.params,
    part.limit,
  );
});

export interface FailingWebhook {
  id: string;
  url: string;
  enabled: number;
  disabledReason: string | null;
  failingSince: number | null;
  updatedAt: number;
  /** Number of failed deliveries among the newest ones. */
  deliveries: number;
  lastStatus: number | null;
  lastError: string | null;
  lastAtMs: number | null;
}

/** Lists webhooks whose deliveries all fail, or that were disabled because of that. `scanLimit` is the number of deliveries to check. */
export const failingWebhooksOperation = operation(
  'incidents.webhooks',
  'read',
  async (tx, { accountId, mode, scanLimit }: Owner & { scanLimit: number }): Promise<FailingWebhook[]> => {
    const rows = await tx.all<Omit<FailingWebhook, 'deliveries' | 'lastStatus' | 'lastError' | 'lastAtMs'>>(
      `SELECT id, url, enabled, disabled_reason AS "disabledReason", failing_since AS "failingSince",
         updated_at AS "updatedAt"
       FROM webhook WHERE account_id = ? AND mode = ?
         AND ((enabled = 1 AND failing_since IS NOT NULL) OR (enabled = 0 AND disabled_reason IS NOT NULL))
       ORDER BY id`,
      accountId,
      mode,
    );
    return Promise.all(
      rows.map(async (row) => {
        const newest = '(SELECT * FROM webhook_delivery WHERE webhook_id = ? ORDER BY id DESC LIMIT ?) AS newest';
        const [count, last] = await Promise.all([
          tx.get<{ n: number }>(`SELECT count(*) AS n FROM ${newest} WHERE status <> 'succeeded'`, row.id, scanLimit),
          tx.get<{ status: number | null; error: string | null; at: number }>(
            `SELECT response_status AS status, error, updated_at AS at FROM ${newest} WHERE attempts > 0
             ORDER BY updated_at DESC LIMIT 1`,
            row.id,
            scanLimit,
          ),
        ]);
        const found = { lastStatus: last?.status ?? null, lastError: last?.error ?? null, lastAtMs: last?.at ?? null };
        return { ...row, deliveries: count!.n, ...found };
      }),
    );
  },
);

/** Lists the newest deliveries of a webhook that failed, or are scheduled later than `nowMs` (by the clock of the mode). */
export const failedDeliveriesOperation = operation(
  'incidents.failedDeliveries',
  'read',
  async (
    tx,
    { webhookId, scanLimit, nowMs }: { webhookId: string; scanLimit: number; nowMs: number },
  ): Promise<string[]> => {
    const rows = await tx.all<{ id: string }>(
      `SELECT id FROM (SELECT * FROM webhook_delivery WHERE webhook_id = ? ORDER BY id DESC LIMIT ?) AS newest
       WHERE status = 'failed' OR (status = 'pending' AND next_attempt_at > ?) ORDER BY id`,
      webhookId,
      scanLimit,
      nowMs,
    );
    return rows.map(({ id }) => id);
  },
);

export interface FailingDomain {
  id: string;
  domain: string;
  selector: string;
  /** When a check first found that the record is missing. */
  sinceMs: number;
  checkedAt: number;
}

/** Lists verified domains whose DKIM record is missing. */
export const failingDomainsOperation = operation(
  'incidents.domains',
  'read',
  (tx, { accountId, limit }: { accountId: string; limit: number }) =>
    tx.all<FailingDomain>(
      `SELECT d.id, d.domain, k.selector, coalesce(d.failing_since, d.checked_at, d.created_at) AS "sinceMs",
         coalesce(d.checked_at, d.created_at) AS "checkedAt"
       FROM domain d JOIN dkim_key k ON k.domain_id = d.id AND k.algorithm = 'rsa' AND k.state = 'active'
       WHERE d.account_id = ? AND d.status = 'failing' ORDER BY d.id LIMIT ?`,
      accountId,
      limit,
    ),
);

export interface RetryPart extends Owner {
  cause: string;
  afterSeq: number;
  limit: number;
  nowMs: number;
  /** Rows that are due by this time are not changed. */
  latestMs: number;
  /** Number of rows that earlier parts made due. */
  done: number;
  /** Time between the due times of two rows. */
  apartMs: number;
}

export interface RetriedPart {
  retried: number;
  /** `seq` of the last row read; null if no rows are left. */
  lastSeq: number | null;
}

/**
 * Makes deferred messages of a cause due, in the order in which they were accepted. Does not change leased messages, or the pauses and
 * limits of the destination, which decide when a due message is tried.
 */
export const retryCauseOperation = operation(
  'incidents.retry',
  'write',
  async (tx, part: RetryPart): Promise<RetriedPart> => {
    const { accountId, mode, cause, limit } = part;
    const rows = await tx.all<{ seq: number; subject: string }>(
      `SELECT seq, subject FROM work WHERE account_id = ? AND mode = ? AND cause = ? AND seq > ? AND due > ? AND leased = 0
       ORDER BY seq LIMIT ?`,
      accountId,
      mode,
      cause,
      part.afterSeq,
      part.latestMs,
      limit,
    );
    if (rows.length === 0) return { retried: 0, lastSeq: null };
    const wanted = rows.map(({ seq, subject }, index) => {
      return { seq, id: subject, due: part.nowMs + (part.done + index) * part.apartMs };
    });
    const work = rowset(tx, 'wanted', { seq: 'int', due: 'int' }, wanted);
    const changed = await tx.all<{ seq: number }>(
      `UPDATE work SET due = wanted.due FROM ${work.sql}
       WHERE work.seq = wanted.seq AND work.leased = 0 AND work.due > wanted.due RETURNING work.seq`,
      ...work.params,
    );
    const changedSeqs = new Set(changed.map(({ seq }) => seq));
    const clockOffsetMs = await clockOffsetOf(tx, part);
    const messages = rowset(
      tx,
      'wanted',
      { id: 'text', at: 'int' },
      wanted.flatMap(({ seq, id, due }) => (changedSeqs.has(seq) ? [{ id, at: due + clockOffsetMs }] : [])),
    );
    const ids = rows.map(({ subject }) => subject).sort();
    await tx.run(
      `UPDATE message SET next_attempt_at = wanted.at FROM ${messages.sql}
       WHERE message.account_id = ? AND message.mode = ? AND message.id = wanted.id AND message.id >= ? AND message.id <= ?`,
      ...messages.params,
      accountId,
      mode,
      ids[0]!,
      ids.at(-1)!,
    );
    return { retried: changedSeqs.size, lastSeq: rows.length < limit ? null : rows.at(-1)!.seq };
  },
);
