/**
 * The work of delivery reports: a row for each event that the sender is notified of. It is written in the transaction of the event, so a
 * crash neither loses nor duplicates a report. src/send/delivery-reports.ts sends them.
 */
import type { EventType } from '../events/events.ts';
import type { Transaction } from '../storage/operation.ts';
import { enqueue } from '../work/work.ts';
import type { MessageDsn, ReportKind } from './message.ts';

/** The kind of these work rows: subject is the message id, ref the number of the event. */
export const REPORT_WORK = 'delivery-report';

/** Null: not reported, or the detail decides. */
const KINDS: Readonly<Record<EventType, ReportKind | null>> = {
  Send: null,
  Delivery: 'success',
  DeliveryDelay: 'delay',
  Bounce: 'failure',
  Complaint: null,
  Reject: null,
  Open: null,
  Click: null,
  Unsubscribe: null,
  Inbound: null,
};

interface ReportableEvent {
  type: EventType;
  detail: Record<string, unknown>;
}

/** Returns the kind of report for an event. A suppressed recipient is a failure; a canceled message is not reported. */
function kindOf({ type, detail }: ReportableEvent): ReportKind | undefined {
  if (type !== 'Reject') return KINDS[type] ?? undefined;
  return (detail.reject as { reason?: string } | undefined)?.reason === 'suppressed' ? 'failure' : undefined;
}

export interface DueReport extends ReportableEvent {
  accountId: string;
  messageId: string;
  eventSeq: number;
  /** Unix ms, real time. */
  atMs: number;
  /** JSON of MessageDsn, from the message; null for nearly all. */
  dsn: string | null;
}

/** Adds the reports that the senders of these live messages requested. */
export async function enqueueReports(tx: Transaction, events: readonly DueReport[]): Promise<void> {
  const wanted = events.filter(({ dsn, ...event }) => {
    if (dsn === null) return false;
    const kind = kindOf(event);
    return kind !== undefined && (JSON.parse(dsn) as MessageDsn).notify.includes(kind);
  });
  await enqueue(
    tx,
    wanted.map(({ accountId, messageId, eventSeq, atMs }) => ({
      kind: REPORT_WORK,
      accountId,
      mode: 'live',
      subject: messageId,
      ref: eventSeq,
      lane: messageId,
      dueMs: atMs,
    })),
  );
}
