/**
 * Mail to postmaster@ and abuse@ for operators: rows of the inbound table (store.ts) with a summary. Up to MOST_KEPT messages and
 * MOST_BYTES are kept, the newest first, so that a flood does not fill the disk; none is kept longer than other content.
 */
import { batch, operation } from '../storage/operation.ts';
import type { InboundLease, InboundMail, RecordedFindings } from './inbound-mail.ts';
import { endInbound, factsOf, type MailRow, unreferenced } from './store.ts';

const MOST_KEPT = 1_000;
const MOST_BYTES = 200_000_000;

/** Whether a message was forwarded to the operators' address, or why not. */
export const FORWARDING = ['forwarded', 'not-set', 'loop', 'automatic-reply', 'over-limit', 'no-sender'] as const;
export type Forwarding = (typeof FORWARDING)[number];

export interface OperatorMailSummary {
  from: string;
  subject: string;
  text: string;
  forwarding: Forwarding;
}

export interface OperatorMail extends OperatorMailSummary {
  id: string;
  receivedAtMs: number;
  recipient: string;
  envelopeFrom: string;
  client: InboundMail['client'];
  /** Size of the message as received. */
  sizeBytes: number;
  /** Whether it is stored completely; larger messages are stored without attachments. */
  isWhole: boolean;
}

export const recordOperatorMailOperation = batch(
  'inbound.recordOperatorMail',
  'write',
  async (tx, calls: readonly (readonly { lease: InboundLease; summary: OperatorMailSummary }[])[]) => {
    const recorded: RecordedFindings[] = [];
    for (const mails of calls) {
      const leases = mails.map(({ lease }) => lease);
      const { held } = await endInbound(tx, leases, { keep: true });
      for (const { lease, summary } of mails) {
        if (!held.has(lease.seq)) continue;
        await tx.run('UPDATE inbound_mail SET summary = ? WHERE id = ?', JSON.stringify(summary), lease.inboundId);
      }
      const gone = await tx.all<{ blob_key: string | null }>(
        `DELETE FROM inbound_mail WHERE id IN (
           SELECT id FROM (
             SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) AS position, SUM(size_bytes) OVER (ORDER BY id DESC) AS bytes
             FROM inbound_mail WHERE summary IS NOT NULL
           ) AS kept WHERE position > ? OR (bytes > ? AND position > 1)
         ) RETURNING blob_key`,
        MOST_KEPT,
        MOST_BYTES,
      );
      recorded.push({
        lost: leases.flatMap(({ seq }) => (held.has(seq) ? [] : [seq])),
        blobKeys: await unreferenced(
          tx,
          gone.map((row) => row.blob_key),
        ),
      });
    }
    return recorded;
  },
);

type Row = Omit<MailRow, 'content' | 'blob_key'> & { summary: string };

const COLUMNS = 'id, purpose, envelope_from, recipient, client, size_bytes, received_at, summary';

function shown(row: Row): OperatorMail {
  const { id, receivedAtMs, recipient, envelopeFrom, client, sizeBytes, use } = factsOf(row);
  const receivedBytes = 'receivedBytes' in use ? use.receivedBytes : undefined;
  return {
    ...(JSON.parse(row.summary) as OperatorMailSummary),
    id,
    receivedAtMs,
    recipient,
    envelopeFrom,
    client,
    sizeBytes: receivedBytes ?? sizeBytes,
    isWhole: receivedBytes === undefined,
  };
}

/** Newest first, starting after `before`. */
export const listOperatorMailOperation = operation(
  'inbound.listOperatorMail',
  'read',
  async (tx, { before, limit }: { before: string | null; limit: number }): Promise<OperatorMail[]> => {
    const after = before === null ? { sql: '', params: [] } : { sql: 'AND id < ?', params: [before] };
    const rows = await tx.all<Row>(
      `SELECT ${COLUMNS} FROM inbound_mail WHERE summary IS NOT NULL ${after.sql} ORDER BY id DESC LIMIT ?`,
      ...after.params,
      limit,
    );
    return rows.map(shown);
  },
);

export const findOperatorMailOperation = operation(
  'inbound.findOperatorMail',
  'read',
  async (tx, id: string): Promise<OperatorMail | undefined> => {
    const row = await tx.get<Row>(`SELECT ${COLUMNS} FROM inbound_mail WHERE id = ? AND summary IS NOT NULL`, id);
    return row && shown(row);
  },
);
