/**
 * How many messages each address has sent, or may still send, to each provider on a day: the part of the day's share that all nodes
 * together have taken. It is taken before sending, so a crash never exceeds the share. Days are counted since 1970; a row is removed when
 * its day has ended.
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
  /** The total taken of the day's share, including this call. */
  taken: number;
}

/** Takes up to this many messages from the share of each address, in the order of the addresses to avoid deadlocks between nodes. */
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

/** Returns messages that were taken but not sent. */
export const returnWarmUpShareOperation = operation(
  'delivery.returnWarmUpShare',
  'write',
  async (tx, unused: readonly UnusedShare[]): Promise<void> => {
    for (const { provider, source, day, mails } of unused) {
      await tx.run(
        'UPDATE warm_up SET mails = mails - ? WHERE provider = ? AND source = ? AND day = ?',
        mails,
        provider,
        source,
        day,
      );
    }
  },
);
