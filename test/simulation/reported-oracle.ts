/**
 * Compares inbound reports with their effects: each report acknowledged with 250 has its effect once, however often it was sent, and
 * forged, unproven or non-failure reports have none.
 */
import type { Rows } from './node.ts';
import type { Copy } from './peers.ts';
import type { Report, ReportKind } from './reporters.ts';

interface LateRow {
  message_id: string;
  type: string;
  late: number | null;
}

/** The event that each causes, and the state of the message after it. */
const EFFECT: Partial<Record<ReportKind, { type: string; status?: string; reason?: string }>> = {
  bounce: { type: 'Bounce', status: 'bounced', reason: 'bounce' },
  delay: { type: 'DeliveryDelay' },
  complaint: { type: 'Complaint', status: 'complained', reason: 'complaint' },
  abuse: { type: 'Complaint', status: 'complained', reason: 'complaint' },
  unsubscribe: { type: 'Unsubscribe', reason: 'unsubscribe' },
};

export interface ReportedEvidence {
  reports: readonly Report[];
  copies: readonly Copy[];
  database: Rows;
  /** Whether Postrider must know about the copy. */
  isSure(copy: Copy): boolean;
}

export function reportedFaults(evidence: ReportedEvidence): string[] {
  const { reports, database } = evidence;
  const events = database.all<LateRow>(
    `SELECT message_id, type, coalesce(json_extract(detail, '$.bounce.late'), json_extract(detail, '$.deliveryDelay.late')) AS late
     FROM event WHERE mode = 'live' AND type IN ('Bounce', 'DeliveryDelay', 'Complaint', 'Unsubscribe')`,
  );
  const late = events.filter(
    ({ type, late: isLate }) => isLate === 1 || type === 'Complaint' || type === 'Unsubscribe',
  );
  return [
    ...reports.flatMap(({ kind, strange }) => strange.map((one) => `what came back (${kind}) was answered: ${one}`)),
    ...reports.flatMap(({ kind, isGivenUp }) => (isGivenUp ? [`what came back (${kind}) was never taken`] : [])),
    ...ofReplies(evidence),
    ...[...Map.groupBy(reports, (one) => one.messageId)].flatMap(([id, own]) =>
      ofMessage(evidence, { id, own, late: late.filter((one) => one.message_id === id) }),
    ),
    ...late.flatMap(({ message_id: id, type }) =>
      reports.some((one) => one.messageId === id && EFFECT[one.kind]?.type === type && one.dots > 0)
        ? []
        : [`${id} has a late ${type} that nobody reported`],
    ),
  ];
}

function ofMessage(
  { copies, database, isSure }: ReportedEvidence,
  { id, own, late }: { id: string; own: readonly Report[]; late: readonly LateRow[] },
): string[] {
  const faults: string[] = [];
  for (const [type, same] of Map.groupBy(late, (one) => one.type)) {
    if (same.length > 1) faults.push(`${id} has ${same.length} late events ${type}`);
  }
  // If there are several reports about several copies, the first one decides.
  const [report] = own as [Report];
  const { copy, kind, acknowledged } = report;
  const isOnly = copies.filter((one) => one.subject === copy.subject && one.recipient === copy.recipient).length === 1;
  if (!isOnly || own.length > 1 || !isSure(copy) || acknowledged === 0) return faults;
  const effect = EFFECT[kind];
  if (effect === undefined) return faults;
  if (!late.some(({ type }) => type === effect.type)) faults.push(`${id}: the ${kind} that got 250 has no event`);
  const row = database.get<{ status: string }>('SELECT status FROM message WHERE id = ?', id);
  const status = effect.status ?? 'delivered';
  if (row?.status !== status) faults.push(`${id} is ${row?.status} after a ${kind}`);
  if (effect.reason !== undefined) {
    const listed = database.get('SELECT 1 AS found FROM suppression WHERE email = ?', copy.recipient);
    if (!listed) faults.push(`${copy.recipient} is not suppressed after a ${kind}`);
  }
  return faults;
}

/** Each 250 causes one event, and each event needs a final dot. */
function ofReplies({ reports, database }: ReportedEvidence): string[] {
  const rows = database.all<{ subject: string; events: number; account_id: string; in_reply_to: string | null }>(
    `SELECT m.subject, m.account_id, m.in_reply_to, (SELECT count(*) FROM event e WHERE e.message_id = m.id AND e.type = 'Inbound') AS events
     FROM inbound_message m`,
  );
  return reports.flatMap(({ kind, name, acknowledged, dots, messageId }) => {
    if (kind !== 'reply') return [];
    const own = rows.filter(({ subject }) => subject === name);
    const faults: string[] = [];
    if (own.length < acknowledged || own.length > dots)
      faults.push(`${name} got 250 ${acknowledged} times of ${dots}, and is there ${own.length} times`);
    const message = database.get<{ account_id: string }>('SELECT account_id FROM message WHERE id = ?', messageId);
    for (const { events, account_id: owner, in_reply_to: answered } of own) {
      if (events !== 1) faults.push(`${name} has ${events} events`);
      // Messages of another account are not named.
      if (answered !== (message?.account_id === owner ? messageId : null))
        faults.push(`${name} answers ${answered}, not ${messageId}`);
    }
    return faults;
  });
}
