/**
 * Deletes the records that an erasure found, in transactions that also record its progress. Records that other recipients share are kept
 * without the address: an email keeps the messages of its other recipients, and its content is deleted when none of them is queued.
 */
import type { Mode } from '../base/mode.ts';
import { DELIVERY_WORK, dropContents } from '../messages/messages.ts';
import { locked, operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { HELD } from '../work/work.ts';
import {
  type FoundMessage,
  isMentioned,
  type Key,
  TEXT_TABLES,
  type TextPart,
  type TextTable,
  WITHOUT_RECORD,
} from './find-store.ts';
import { createMentions, ERASED, type Mentions } from './mentions.ts';
import { type HeldErasure, hold, type Progress, type Removed, recordProgress } from './store.ts';

/** Kind of the work rows of inbound mail. */
const INBOUND_WORK = 'inbound';

export interface Step extends HeldErasure {
  accountId: string;
  mode: Mode;
  /** The address in the spelling of the request. */
  address: string;
  /** The position after this step, with the totals before it; the records that the step removes are added to them. */
  progress: Progress;
}

/** `lost`: the lease was lost, and nothing was changed. `busy`: a message is being delivered or read; the step must be repeated later. */
export type StepResult = { outcome: 'lost' | 'busy' } | { outcome: 'done'; progress: Progress };

/** The records that a step removed. */
interface Effect extends Removed {
  blobKeys: string[];
}

function added(progress: Progress, { blobKeys, ...removed }: Effect): Progress {
  return {
    ...progress,
    blobKeys: [...progress.blobKeys, ...blobKeys],
    removed: {
      messages: progress.removed.messages + removed.messages,
      events: progress.removed.events + removed.events,
      inboundMessages: progress.removed.inboundMessages + removed.inboundMessages,
    },
  };
}

/** Deletes the messages of the recipient, and removes the address from emails that others also received. */
export const removeMessagesOperation = operation(
  'erasure.removeMessages',
  'write',
  async (tx, { found, ...step }: Step & { found: FoundMessage[] }): Promise<StepResult> => {
    if (!(await hold(tx, step))) return { outcome: 'lost' };
    const own = found.filter(({ isOwn }) => isOwn);
    for (const { id } of own) if (await isBeingSent(tx, step, id)) return { outcome: 'busy' };
    const effect: Effect = { messages: 0, events: 0, inboundMessages: 0, blobKeys: [] };
    for (const { id } of own) {
      effect.events += await removeEvents(tx, step, id);
      effect.messages += await removeMessage(tx, step, id);
    }
    for (const seq of new Set(found.map(({ emailSeq }) => emailSeq)))
      effect.blobKeys.push(...(await cleanEmail(tx, step, seq)));
    const progress = added(step.progress, effect);
    await recordProgress(tx, step, progress);
    return { outcome: 'done', progress };
  },
);

/**
 * Deletes the work row of a message and returns false. Returns true if a worker holds it: that delivery cannot be stopped, and its result
 * must be recorded first.
 */
async function isBeingSent(tx: Transaction, { accountId, mode }: Step, id: string): Promise<boolean> {
  const row = await tx.get<{ workSeq: number | null }>(
    `SELECT work_seq AS "workSeq" FROM message WHERE account_id = ? AND mode = ? AND id = ? ${locked(tx)}`,
    accountId,
    mode,
    id,
  );
  if (row === undefined || row.workSeq === null) return false;
  const condition = 'kind = ? AND seq = ? AND subject = ?';
  const params = [DELIVERY_WORK, row.workSeq, id];
  await tx.run(`DELETE FROM work WHERE ${condition} AND leased = 0`, ...params);
  return (await tx.get(`SELECT 1 AS found FROM work WHERE ${condition}`, ...params)) !== undefined;
}

/** Deletes the events of a message and the records of their webhook requests. Returns the number of events. */
async function removeEvents(tx: Transaction, { accountId, mode }: Step, messageId: string): Promise<number> {
  const events = await tx.all<{ id: string }>(
    'DELETE FROM event WHERE message_id = ? AND account_id = ? AND mode = ? RETURNING id',
    messageId,
    accountId,
    mode,
  );
  for (const { id: eventId } of events) {
    // The id of a webhook delivery contains the time of its event.
    const first = `del_${eventId.slice(4, 12)}`;
    await tx.run(
      `DELETE FROM webhook_delivery WHERE webhook_id IN (SELECT id FROM webhook WHERE account_id = ? AND mode = ?)
         AND id >= ? AND id < ? AND event_id = ?`,
      accountId,
      mode,
      first,
      `${first}~`,
      eventId,
    );
  }
  // Rows for ordered webhooks name the recipient. The worker ends them, since their events are gone.
  await tx.run(
    `UPDATE work SET turn = NULL, held = CASE held WHEN ${HELD.behind} THEN 0 ELSE held END
     WHERE subject IN (SELECT id FROM webhook WHERE account_id = ? AND mode = ?)
       AND turn = (SELECT lower(m.recipient) FROM message m WHERE m.account_id = ? AND m.mode = ? AND m.id = ?)`,
    accountId,
    mode,
    accountId,
    mode,
    messageId,
  );
  return events.length;
}

async function removeMessage(tx: Transaction, { accountId, mode }: Step, id: string): Promise<number> {
  await tx.run('DELETE FROM attempt WHERE account_id = ? AND message_id = ?', accountId, id);
  await tx.run('DELETE FROM sandbox_item WHERE account_id = ? AND message_id = ?', accountId, id);
  const removed = await tx.run('DELETE FROM message WHERE account_id = ? AND mode = ? AND id = ?', accountId, mode, id);
  await tx.run('DELETE FROM message_share WHERE message_id = ? AND account_id = ? AND mode = ?', id, accountId, mode);
  return removed;
}

interface SharedEmail {
  headerTo: string;
  subject: string;
  metadata: string;
  dsn: string | null;
  blobKey: string | null;
}

/**
 * Deletes an email that has no messages left. If other messages remain, removes the address from the email, and deletes its content when
 * none of them is queued, which may be now. Returns the blobs that no row references anymore.
 */
async function cleanEmail(tx: Transaction, step: Step, seq: number): Promise<string[]> {
  const email = await tx.get<SharedEmail>(
    `SELECT header_to AS "headerTo", subject, metadata, dsn, blob_key AS "blobKey" FROM email WHERE seq = ? ${locked(tx)}`,
    seq,
  );
  if (email === undefined) return [];
  const mentions = createMentions(step.address);
  const others = await tx.get('SELECT 1 AS found FROM message WHERE email_seq = ? LIMIT 1', seq);
  if (others === undefined) {
    await cleanFiles(tx, mentions, seq);
    const blobs = (await dropContents(tx, [seq])).get(seq) ?? [];
    await tx.run('DELETE FROM email WHERE seq = ?', seq);
    return blobs;
  }
  const { nowMs } = step;
  await tx.run(
    `UPDATE email SET header_to = ?, subject = ?, metadata = ?, dsn = ?, retain = 'none',
       content_until = CASE WHEN content_until > ? THEN ? ELSE content_until END WHERE seq = ?`,
    withoutRecipient(email.headerTo, mentions),
    mentions.without(email.subject),
    mentions.without(email.metadata),
    email.dsn === null ? null : mentions.without(email.dsn),
    nowMs,
    nowMs,
    seq,
  );
  await cleanCopies(tx, step, seq);
  return (await dropContents(tx, [seq])).get(seq) ?? [];
}

/**
 * Removes the address from the records of other messages: copies of one email can share an SMTP transaction, whose transcript contains all
 * of its recipients.
 */
async function cleanCopies(tx: Transaction, { address }: Step, emailSeq: number): Promise<void> {
  const mentions = createMentions(address);
  const copies = await tx.all<{ accountId: string; mode: Mode; id: string; dsn: string | null }>(
    'SELECT account_id AS "accountId", mode, id, dsn FROM message WHERE email_seq = ?',
    emailSeq,
  );
  for (const { accountId, mode, id, dsn } of copies) {
    if (dsn === null || !mentions.has(dsn)) continue;
    const changed = [mentions.without(dsn), accountId, mode, id];
    await tx.run('UPDATE message SET dsn = ? WHERE account_id = ? AND mode = ? AND id = ?', ...changed);
  }
  const these = rowset(tx, 'copy', { accountId: 'text', id: 'text' }, copies);
  const attempts = await tx.all<{ accountId: string; id: string; number: number; record: string }>(
    `SELECT account_id AS "accountId", message_id AS id, number, record FROM attempt
     WHERE (account_id, message_id) IN (SELECT copy.account_id, copy.id FROM ${these.sql})`,
    ...these.params,
  );
  for (const { accountId, id, number, record } of attempts) {
    if (!mentions.has(record)) continue;
    const changed = [mentions.without(record), accountId, id, number];
    await tx.run('UPDATE attempt SET record = ? WHERE account_id = ? AND message_id = ? AND number = ?', ...changed);
  }
  const events = await tx.all<{ seq: number; detail: string }>(
    `SELECT seq, detail FROM event WHERE message_id IN (SELECT copy.id FROM ${these.sql})`,
    ...these.params,
  );
  for (const { seq, detail } of events)
    if (mentions.has(detail)) await tx.run('UPDATE event SET detail = ? WHERE seq = ?', mentions.without(detail), seq);
}

/** Removes the addresses of the recipient, with their display names, from the address lists that the API returns. */
function withoutRecipient(headerTo: string, mentions: Mentions): string {
  const lists = JSON.parse(headerTo) as Record<string, string[]>;
  const kept = Object.entries(lists).map(([name, shown]) => [name, shown.filter((one) => !mentions.isAddress(one))]);
  return mentions.without(JSON.stringify(Object.fromEntries(kept)));
}

/**
 * Removes the file names from the manifest of uploaded files, which is kept for a while, and its idempotency key if it mentions the
 * address.
 */
async function cleanFiles(tx: Transaction, mentions: Mentions, emailSeq: number): Promise<void> {
  const uses = await tx.all<{ id: string; key: string | null }>(
    `SELECT s.id, s.idempotency_key AS key FROM attachment_use u JOIN attachment_submission s ON s.id = u.submission_id
     WHERE u.email_seq = ?`,
    emailSeq,
  );
  for (const { id, key } of uses) {
    await tx.run('UPDATE attachment_file SET name = ? WHERE submission_id = ?', ERASED, id);
    if (!mentions.has(key)) continue;
    await tx.run('UPDATE attachment_submission SET idempotency_key = NULL WHERE id = ?', id);
  }
}

/** Deletes inbound mail without a record, with its work rows. If a worker holds one of them, the outcome is `busy`. */
export const removeReceivingOperation = operation(
  'erasure.removeReceiving',
  'write',
  async (tx, { ids, ...step }: Step & { ids: string[] }): Promise<StepResult> => {
    if (!(await hold(tx, step))) return { outcome: 'lost' };
    for (const id of ids) {
      await tx.run('DELETE FROM work WHERE kind = ? AND subject = ? AND leased = 0', INBOUND_WORK, id);
      const held = await tx.get('SELECT 1 AS found FROM work WHERE kind = ? AND subject = ?', INBOUND_WORK, id);
      if (held !== undefined) return { outcome: 'busy' };
    }
    const blobKeys = await removeMessages(tx, ids, `AND ${WITHOUT_RECORD}`);
    const progress = added(step.progress, { messages: 0, events: 0, inboundMessages: 0, blobKeys });
    await recordProgress(tx, step, progress);
    return { outcome: 'done', progress };
  },
);

export const removeInboundOfOperation = operation(
  'erasure.removeInbound',
  'write',
  async (tx, { ids, ...step }: Step & { ids: string[] }): Promise<StepResult> => {
    if (!(await hold(tx, step))) return { outcome: 'lost' };
    const effect: Effect = { messages: 0, events: 0, inboundMessages: 0, blobKeys: [] };
    for (const id of ids) {
      effect.events += await removeEvents(tx, step, id);
      effect.inboundMessages += await tx.run('DELETE FROM inbound_message WHERE id = ?', id);
    }
    effect.blobKeys = await removeMessages(tx, ids);
    const progress = added(step.progress, effect);
    await recordProgress(tx, step, progress);
    return { outcome: 'done', progress };
  },
);

/** Deletes the stored content of inbound mail. Recipients of one mail share its blob; returns the blobs that no row references anymore. */
async function removeMessages(tx: Transaction, ids: readonly string[], condition = ''): Promise<string[]> {
  const removed = rowset(
    tx,
    'removed',
    { id: 'text' },
    ids.map((id) => ({ id })),
  );
  const rows = await tx.all<{ blobKey: string | null }>(
    `DELETE FROM inbound_mail WHERE id IN (SELECT removed.id FROM ${removed.sql}) ${condition} RETURNING blob_key AS "blobKey"`,
    ...removed.params,
  );
  const unreferenced: string[] = [];
  for (const key of new Set(rows.flatMap(({ blobKey }) => blobKey ?? []))) {
    const other = await tx.get('SELECT 1 AS found FROM inbound_mail WHERE blob_key = ? LIMIT 1', key);
    if (other === undefined) unreferenced.push(key);
  }
  return unreferenced;
}

/** Deletes rows whose texts mention the address, or replaces the address in them. */
export const removeTextsOperation = operation(
  'erasure.removeTexts',
  'write',
  async (tx, { part, keys, ...step }: Step & { part: TextPart; keys: Key[] }): Promise<StepResult> => {
    if (!(await hold(tx, step))) return { outcome: 'lost' };
    const { name, owned, key: keyColumns, texts, isDeleted }: TextTable = TEXT_TABLES[part];
    const mentions = createMentions(step.address);
    const where = `${owned} AND ${keyColumns.map((column) => `${column} = ?`).join(' AND ')}`;
    for (const key of keys) {
      const params: SqlValue[] = [step.accountId, step.mode, ...key];
      const row = await tx.get<Record<string, string | null>>(
        `SELECT ${[...keyColumns, ...texts].join(', ')} FROM ${name} WHERE ${where} ${locked(tx)}`,
        ...params,
      );
      if (row === undefined) continue;
      if (isDeleted || isMentioned(mentions, row, keyColumns))
        await tx.run(`DELETE FROM ${name} WHERE ${where}`, ...params);
      else {
        const changed = texts.map((column) => row[column] && mentions.without(row[column]));
        const set = texts.map((column) => `${column} = ?`).join(', ');
        await tx.run(`UPDATE ${name} SET ${set} WHERE ${where}`, ...(changed as SqlValue[]), ...params);
      }
    }
    await recordProgress(tx, step, step.progress);
    return { outcome: 'done', progress: step.progress };
  },
);
