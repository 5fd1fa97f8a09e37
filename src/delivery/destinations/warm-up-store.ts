/**
 * How many mails each address has sent, or may still send, to each provider on a day: what all nodes together took of the day's share.
 * Taken before it is sent, so that no crash makes it more than the share. Days in days since 1970; a row goes when its day is over.
 */
import { locked, operation } from '../../storage/operation.ts';

export interface ShareRequest {
  provider: string;
  day: number;
  sources: { source: string /** Mails of the day. */; share: number; wanted: number }[];
}

export interface ShareGrant {
  source: string;
  granted: number;
  /** All that was taken of the day's share, this included. */
  taken: number;
}

/** Takes up to so many mails of the share of each address; in the order of the addresses, so that two nodes never wait for each other. */
export const takeWarmUpShareOperation = operation(
  'delivery.takeWarmUpShare',
  'write',
  async (tx, { provider, day, sources }: ShareRequest): Promise<ShareGrant[]> => {
    const grants: ShareGrant[] = [];
    for (const { source, share, wanted } of sources.toSorted((a, b) => (a.source < b.source ? -1 : 1))) {
      const row = [provider, source, day];
      await tx.run(
        'INSERT INTO warm_up (provider, source, day, mails) VALUES (?, ?, ?, 0) ON CONFLICT (provider, source, day) DO NOTHING',
        ...row,
      );
      const found = await tx.get<{ mails: number }>(
        `SELECT mails FROM warm_up WHERE provider = ? AND source = ? AND day = ? ${locked(tx)}`,
        ...row,
      );
      const granted = Math.max(0, Math.min(wanted, share - found!.mails));
      const taken = found!.mails + granted;
      await tx.run('UPDATE warm_up SET mails = ? WHERE provider = ? AND source = ? AND day = ?', taken, ...row);
      grants.push({ source, granted, taken });
    }
    await tx.run('DELETE FROM warm_up WHERE day < ?', day - 1);
    return grants;
  },
);

export interface UnusedShare {
  provider: string;
  source: string;
  day: number;
  mails: number;
}

/** Gives back what was taken and not sent. */
export const returnWarmUpShareOperation = operation(
  'delivery.returnWarmUpShare',
  'write',
  async (tx, unused: readonly UnusedShare[]): Promise<void> => {
    for (const { provider, source, day, mails } of unused) {
      await tx.run(
        'UPDATE warm_up SET mails = mails - ? WHERE provider = ? AND source = ? AND day = ?',
        ...[mails, provider, source, day],
      );
    }
  },
);
