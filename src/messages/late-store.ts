/**
 * Records what is reported about a message after the receiving server accepted it: a late bounce, a delay further on, a complaint. Needs no
 * lease. State, event, webhook work, and suppression are written in one transaction, once per message, however often the report arrives:
 *
 *   bounce     delivered → bounced
 *   delay      delivered is unchanged, with one event
 *   complaint  delivered → complained. A bounced message, or a copy that cannot be identified, gets the event and is unchanged.
 *              A complaint that suppresses is recorded after one that does not, so that a forged one cannot prevent it.
 *
 * A message that Postrider is still trying to deliver is not changed (its own attempts decide), nor is one that was never sent.
 */
import type { Mode } from '../base/mode.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { type SuppressionEntry, suppress } from '../suppressions/suppressions.ts';
import { isUnfinished, type MessageStatus } from './message.ts';
import { appendToTimeline, transitionMany } from './state-machine.ts';

/** A copy that was sent live, with what a report is compared with. */
export interface SentCopy {
  accountId: string;
  messageId: string;
  recipient: string;
  status: MessageStatus;
  /** A worker holds it now, to deliver it or to record the result. */
  isBeingSent: boolean;
  headerMessageId: string;
  /** Acceptance of its email. */
  createdAt: number;
}

/**
 * The copy whose id a token names; or, if several recipients share the token, the copies in its transactions, found by the local part of
 * their return path; or all copies of mail with this Message-ID.
 */
export type SentQuery = { messageId: string; sharedReturnPath: string | null } | { headerMessageId: string };

/** An email cannot have more copies; more emails with the same Message-ID are the sender's own doing. */
const MOST_COPIES = 200;

/** Finds live copies, those of newer emails first. */
export const findSentOperation = operation(
  'messages.findSent',
  'read',
  async (tx, query: SentQuery): Promise<SentCopy[]> => {
    const emails =
      'headerMessageId' in query
        ? await tx.all<{ seq: number }>(
            `SELECT seq FROM email WHERE substr(header_message_id, 1, 200) = substr(CAST(? AS TEXT), 1, 200)
               AND header_message_id = ? AND mode = 'live' ORDER BY seq DESC LIMIT 20`,
            query.headerMessageId,
            query.headerMessageId,
          )
        : await emailOf(tx, query.messageId);
    const found: SentCopy[] = [];
    for (const { seq } of emails) found.push(...(await copiesOf(tx, seq)));
    const copies = found.slice(0, MOST_COPIES);
    if ('headerMessageId' in query) return copies;
    const { messageId, sharedReturnPath } = query;
    if (sharedReturnPath === null) return copies.filter((one) => one.messageId === messageId);
    return withReturnPath(tx, copies, sharedReturnPath);
  },
);

/**
 * Returns the copies that a server accepted with this return path, according to the dialogue of their attempts. Other copies of the email
 * are in other transactions, perhaps at another destination, whose recipients do not know this return path. A copy that is being sent right
 * now is included, because the report may have arrived before the record of the attempt.
 */
async function withReturnPath(tx: Transaction, copies: readonly SentCopy[], localPart: string): Promise<SentCopy[]> {
  const requested = rowset(tx, 'requested', { accountId: 'text', messageId: 'text' }, copies);
  const attempts = await tx.all<{ messageId: string; record: string }>(
    `SELECT message_id AS "messageId", record FROM attempt
     WHERE (account_id, message_id) IN (SELECT requested.account_id, requested.message_id FROM ${requested.sql}) AND record LIKE ?`,
    ...requested.params,
    `%<${localPart}@%`,
  );
  const accepted = new Set(
    attempts.filter(({ record }) => isAcceptedWith(record, localPart)).map(({ messageId }) => messageId),
  );
  return copies.filter((copy) => copy.isBeingSent || accepted.has(copy.messageId));
}

/** An attempt can have transactions at several hosts; the last one decided it. */
function isAcceptedWith(record: string, localPart: string): boolean {
  const { outcome, dialogue } = JSON.parse(record) as {
    outcome: string;
    dialogue: { direction: 'C' | 'S'; text: string }[];
  };
  const last = dialogue.findLast(({ direction, text }) => direction === 'C' && text.startsWith('MAIL FROM:'));
  return outcome === 'delivered' && last !== undefined && last.text.startsWith(`MAIL FROM:<${localPart}@`);
}

/** Finds a message by its id alone, through its events. */
async function emailOf(tx: Transaction, messageId: string): Promise<{ seq: number }[]> {
  const event = await tx.get<{ account_id: string }>(
    `SELECT account_id FROM event WHERE message_id = ? AND mode = 'live' LIMIT 1`,
    messageId,
  );
  if (!event) return [];
  return tx.all<{ seq: number }>(
    `SELECT email_seq AS seq FROM message WHERE account_id = ? AND mode = 'live' AND id = ?`,
    event.account_id,
    messageId,
  );
}

async function copiesOf(tx: Transaction, emailSeq: number): Promise<SentCopy[]> {
  const rows = await tx.all<Omit<SentCopy, 'isBeingSent'> & { leased: number }>(
    `SELECT m.account_id AS "accountId", m.id AS "messageId", m.recipient, m.status, e.header_message_id AS "headerMessageId",
       e.created_at AS "createdAt", coalesce((SELECT leased FROM work w WHERE w.seq = m.work_seq), 0) AS leased
     FROM message m JOIN email e ON e.seq = m.email_seq WHERE m.email_seq = ? ORDER BY m.id LIMIT ${MOST_COPIES}`,
    emailSeq,
  );
  return rows.map(({ leased, ...row }) => ({ ...row, isBeingSent: leased > 0 && isUnfinished(row.status) }));
}

/** One report about one message. */
export interface LateResult {
  accountId: string;
  messageId: string;
  eventId: string;
  /** Unix ms when it was reported. */
  atMs: number;
  type: 'Bounce' | 'DeliveryDelay' | 'Complaint';
  detail: Record<string, unknown>;
  /** It is unknown which of several copies is meant, so the state does not change. */
  eventOnly?: boolean;
  /** The normalized address; the event's detail records that it is suppressed. */
  suppress: { email: string; reason: 'bounce' | 'complaint'; untilMs: number | null } | null;
}

/** `repeated`: already recorded. `unfit`: the message does not exist, or its state does not allow it. */
export type LateAnswer = 'recorded' | 'repeated' | 'unfit';

const LIVE: Mode = 'live';

/**
 * Records the results within the caller's transaction, with the effect of one after the other: first events before a change of state, then
 * all changes of state together, then later events.
 */
export async function settleLate(tx: Transaction, results: readonly LateResult[]): Promise<LateAnswer[]> {
  const states = await lockMessages(tx, results);
  const steps = results.map((result) => {
    const known = states.get(keyOf(result));
    return { result, step: known === undefined ? ('unfit' as const) : take(result, known) };
  });
  const of = (wanted: Step): LateResult[] => steps.filter(({ step }) => step === wanted).map(({ result }) => result);
  for (const result of of('event')) await appendToTimeline(tx, changeOf(result));
  await transitionMany(
    tx,
    (['bounced', 'complained'] as const).flatMap((to) => of(to).map((result) => ({ ...changeOf(result), to }))),
  );
  for (const result of of('later-event')) await appendToTimeline(tx, changeOf(result));
  const recorded = steps.filter(({ step }) => step !== 'repeated' && step !== 'unfit').map(({ result }) => result);
  await suppress(tx, recorded.flatMap(suppressionOf));
  return steps.map(({ step }) => (step === 'repeated' || step === 'unfit' ? step : 'recorded'));
}

const changeOf = ({ accountId, messageId, atMs, eventId, type, detail }: LateResult) => ({
  accountId,
  mode: LIVE,
  messageId,
  atMs,
  event: { id: eventId, type, detail },
});

function suppressionOf({ accountId, messageId, atMs, suppress: entry }: LateResult): SuppressionEntry[] {
  if (entry === null) return [];
  const { email, reason, untilMs: expiresAt } = entry;
  return [{ accountId, mode: LIVE, email, reason, expiresAt, sourceMessageId: messageId, createdAt: atMs }];
}

const keyOf = ({ accountId, messageId }: Pick<LateResult, 'accountId' | 'messageId'>): string =>
  `${accountId} ${messageId}`;

interface Known {
  status: MessageStatus;
  /** Event types that it already has, of those allowed once. */
  has: Set<string>;
  isChanged: boolean;
}

/** Locks in a fixed order, until the end of the transaction: two nodes that get the same report record it once. */
async function lockMessages(tx: Transaction, results: readonly LateResult[]): Promise<Map<string, Known>> {
  const requested = rowset(tx, 'requested', { accountId: 'text', messageId: 'text' }, results);
  const rows = await tx.all<{ accountId: string; messageId: string; status: MessageStatus }>(
    `SELECT m.account_id AS "accountId", m.id AS "messageId", m.status FROM message m
     WHERE m.mode = '${LIVE}' AND (m.account_id, m.id) IN (SELECT requested.account_id, requested.message_id FROM ${requested.sql})
     ORDER BY m.id ${locked(tx)}`,
    ...requested.params,
  );
  const states = new Map(
    rows.map((row) => [keyOf(row), { status: row.status, has: new Set<string>(), isChanged: false }]),
  );
  const once = results.filter(({ type }) => type !== 'Bounce');
  if (once.length === 0) return states;
  const requestedEvents = rowset(tx, 'requested', { messageId: 'text' }, once);
  const events = await tx.all<{ accountId: string; messageId: string; type: string; detail: string }>(
    `SELECT event.account_id AS "accountId", event.message_id AS "messageId", event.type, event.detail FROM event
     WHERE event.message_id IN (SELECT requested.message_id FROM ${requestedEvents.sql}) AND event.mode = '${LIVE}'
       AND event.type IN ('DeliveryDelay', 'Complaint')`,
    ...requestedEvents.params,
  );
  for (const event of events) {
    const isEarlier = event.type === 'DeliveryDelay' && !isLateDelay(event.detail);
    const has = states.get(keyOf(event))?.has;
    if (!isEarlier) has?.add(event.type);
    if (event.type === 'Complaint' && hasSuppressed(event.detail)) has?.add(PROVEN_COMPLAINT);
  }
  return states;
}

/** Returns whether another server reported the delay; Postrider's own delays came before delivery. */
function isLateDelay(detail: string): boolean {
  const { deliveryDelay } = JSON.parse(detail) as { deliveryDelay?: { late?: boolean } };
  return deliveryDelay?.late === true;
}

function hasSuppressed(detail: string): boolean {
  const { complaint } = JSON.parse(detail) as { complaint?: { suppressed?: boolean } };
  return complaint?.suppressed === true;
}

/** Recorded in addition to event types: a complaint that suppressed its recipient. */
const PROVEN_COMPLAINT = 'Complaint, suppressed';

const isProvenComplaint = ({ type, suppress: suppressed }: LateResult): boolean =>
  type === 'Complaint' && suppressed !== null;

/** What to do with the message; `later-event` if an earlier result in this call changed its state. */
type Step = 'bounced' | 'complained' | 'event' | 'later-event' | 'repeated' | 'unfit';

/** Returns the step for a result and updates what is known of its message. */
function take(result: LateResult, known: Known): Step {
  const step = stepOf(result, known);
  if (step === 'repeated' || step === 'unfit') return step;
  known.has.add(result.type);
  if (isProvenComplaint(result)) known.has.add(PROVEN_COMPLAINT);
  if (step === 'event') return known.isChanged ? 'later-event' : 'event';
  known.status = step;
  known.isChanged = true;
  return step;
}

function stepOf(result: LateResult, { status, has }: Known): Exclude<Step, 'later-event'> {
  const { type, eventOnly = false } = result;
  const isProven = isProvenComplaint(result);
  if (type === 'Bounce') return status === 'delivered' ? 'bounced' : status === 'bounced' ? 'repeated' : 'unfit';
  if (has.has(isProven ? PROVEN_COMPLAINT : type)) return 'repeated';
  if (type === 'DeliveryDelay') return status === 'delivered' ? 'event' : 'unfit';
  if (status === 'delivered') return eventOnly ? 'event' : 'complained';
  return status === 'bounced' || (isProven && status === 'complained') ? 'event' : 'unfit';
}
