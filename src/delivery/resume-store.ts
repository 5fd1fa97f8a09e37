/**
 * Pauses that the operator has ended: asked for on any node, found by those that are in the pause, which then bring the mail forward
 * that they had put off until its end.
 */
import { change } from '../audit/audit.ts';
import { DELIVERY_WORK } from '../messages/messages.ts';
import { operation, skipLocked } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';

/** Longer than a pause lasts. */
const KEPT_MS = 7_200_000;
const READ_AT_MOST = 1_000;

/** Asks all nodes to end the pause of a destination that they are in now. */
export const resumeDestinationOperation = change(
  'delivery.resumeDestination',
  async (tx, { destination, nowMs }: { destination: string; nowMs: number }): Promise<void> => {
    await tx.run('DELETE FROM destination_resume WHERE asked_at < ?', nowMs - KEPT_MS);
    await tx.run(
      `INSERT INTO destination_resume (destination, asked_at) VALUES (?, ?)
       ON CONFLICT (destination) DO UPDATE SET asked_at = excluded.asked_at`,
      destination,
      nowMs,
    );
  },
  {
    action: 'destination.resume',
    table: 'destination_resume',
    where: ({ destination }) => ({ destination }),
    shows: ['asked_at'],
  },
);

export interface AskedResume {
  destination: string;
  /** Unix ms. */
  askedAt: number;
}

/** What was asked for at or after this time. */
export const askedResumesOperation = operation(
  'delivery.askedResumes',
  'read',
  (tx, sinceMs: number): Promise<AskedResume[]> | AskedResume[] =>
    tx.all<AskedResume>(
      `SELECT destination, asked_at AS "askedAt" FROM destination_resume WHERE asked_at >= ?
       ORDER BY asked_at DESC LIMIT ${READ_AT_MOST}`,
      sinceMs,
    ),
);

export interface PutOffMail {
  /** Of recipients; null: of all, behind a relay. */
  domains: readonly string[] | null;
  /** It was put off until a time between these, Unix ms. */
  fromMs: number;
  untilMs: number;
  nowMs: number;
  limit: number;
}

/** Makes mail due now that was put off until the end of a pause; answers how much. */
export const bringForwardOperation = operation('delivery.bringForward', 'write', (tx, mail: PutOffMail) => {
  const domains = rowset(
    tx,
    'd',
    { domain: 'text' },
    (mail.domains ?? []).map((domain) => ({ domain })),
  );
  const ofDomains = `AND substr(lane, length(account_id) + 2) IN (SELECT d.domain FROM ${domains.sql})`;
  return tx.run(
    `UPDATE work SET due = ? WHERE seq IN (SELECT seq FROM work
       WHERE kind = ? AND held = 0 AND due >= ? AND due <= ? AND leased = 0 AND mode = 'live' AND due > ?
         ${mail.domains === null ? '' : ofDomains}
       ORDER BY due LIMIT ? ${skipLocked(tx)})`,
    ...[mail.nowMs, DELIVERY_WORK, mail.fromMs, mail.untilMs, mail.nowMs],
    ...[...(mail.domains === null ? [] : domains.params), mail.limit],
  );
});
