/**
 * Accounts at certificate authorities, and the state of each name's certificate, shared by all nodes. Private keys are encrypted. A claim
 * counts as a failure until it is settled, and stores the time of the next attempt before the authority is contacted: a node that crashes
 * during an order neither blocks the name nor lets other nodes retry more often. The number of the claim is its fence.
 */
import { currentTime, locked, operation, serverTime } from '../storage/operation.ts';
import { type TableRow, table } from '../storage/rows.ts';

const CERTIFICATE = table('acme_certificate', {
  directory: 'text',
  name: 'text',
  fence: 'int',
  /** Claims since the last certificate that did not result in one. */
  failures: 'int',
  /** Unix ms of the next order at the earliest. */
  nextAt: 'int',
  /** Error of the last failed order. */
  error: 'text?',
  challengeToken: 'text?',
  challengeAnswer: 'text?',
  /** PEM, including the issuers' certificates. */
  certificate: 'text?',
  keySealed: 'bytes?',
  /** Unix ms. */
  expiresAt: 'int?',
});

export type CertificateRow = Omit<TableRow<typeof CERTIFICATE>, 'fence' | 'challengeToken' | 'challengeAnswer'>;

interface Key {
  directory: string;
  name: string;
}

/** Stores this account key unless there is one; returns the stored key. */
export const accountKeyOperation = operation(
  'acme.accountKey',
  'write',
  async (tx, { directory, keySealed }: { directory: string; keySealed: Uint8Array }): Promise<Uint8Array> => {
    const kept = 'INSERT INTO acme_account (directory, key_sealed) VALUES (?, ?) ON CONFLICT (directory) DO NOTHING';
    await tx.run(kept, directory, keySealed);
    const found = 'SELECT key_sealed AS "keySealed" FROM acme_account WHERE directory = ?';
    return (await tx.get<{ keySealed: Uint8Array }>(found, directory))!.keySealed;
  },
);

export const certificatesOperation = operation('acme.certificates', 'read', (tx, directory: string) =>
  tx.all<CertificateRow>(
    `SELECT directory, name, failures, next_at AS "nextAt", error, certificate, key_sealed AS "keySealed",
       expires_at AS "expiresAt" FROM acme_certificate WHERE directory = ? ORDER BY name`,
    directory,
  ),
);

/**
 * A claim of an order. `delaysMs` are the times until another claim is possible, by the number of earlier failures; the last one repeats.
 */
interface Claim extends Key {
  delaysMs: number[];
  nowMs: number;
}

export interface Claimed {
  fence: number;
  /** Number of failures, including this claim. */
  failures: number;
}

/** Claims the order of a name if it is due; null otherwise. */
export const claimOrderOperation = operation(
  'acme.claim',
  'write',
  async (tx, claim: Claim): Promise<Claimed | null> => {
    const { directory, name, delaysMs } = claim;
    await tx.run(
      `INSERT INTO acme_certificate (directory, name, fence, failures, next_at) VALUES (?, ?, 0, 0, 0)
     ON CONFLICT (directory, name) DO NOTHING`,
      directory,
      name,
    );
    const now = currentTime(tx, claim.nowMs);
    const row = await tx.get<Claimed>(
      `SELECT fence, failures FROM acme_certificate WHERE directory = ? AND name = ? AND next_at <= ${now.sql} ${locked(tx)}`,
      directory,
      name,
      ...now.params,
    );
    if (!row) return null;
    const nextAt = ((await serverTime(tx)) ?? claim.nowMs) + delaysMs[Math.min(row.failures, delaysMs.length - 1)]!;
    const claimed = { fence: row.fence + 1, failures: row.failures + 1 };
    await tx.run(
      'UPDATE acme_certificate SET fence = ?, failures = ?, next_at = ? WHERE directory = ? AND name = ?',
      claimed.fence,
      claimed.failures,
      nextAt,
      directory,
      name,
    );
    return claimed;
  },
);

interface Fenced extends Key {
  fence: number;
}

/** Returns whether the claim is still valid, as do the operations below. */
export const publishChallengeOperation = operation(
  'acme.publish',
  'write',
  async (tx, { token, answer, ...claim }: Fenced & { token: string; answer: string }): Promise<boolean> => {
    const changed = await tx.run(
      'UPDATE acme_certificate SET challenge_token = ?, challenge_answer = ? WHERE directory = ? AND name = ? AND fence = ?',
      token,
      answer,
      claim.directory,
      claim.name,
      claim.fence,
    );
    return changed > 0;
  },
);

/** Returns the answer to a challenge token; null if no order in progress has it. */
export const challengeOperation = operation('acme.challenge', 'read', async (tx, token: string) => {
  const sql = 'SELECT challenge_answer AS answer FROM acme_certificate WHERE challenge_token = ?';
  return (await tx.get<{ answer: string }>(sql, token))?.answer ?? null;
});

interface Issuance extends Fenced {
  certificate: string;
  keySealed: Uint8Array;
  expiresAt: number;
  nextAt: number;
}

export const issuedOperation = operation('acme.issued', 'write', async (tx, one: Issuance): Promise<boolean> => {
  const changed = await tx.run(
    `UPDATE acme_certificate SET failures = 0, error = NULL, challenge_token = NULL, challenge_answer = NULL, next_at = ?,
       certificate = ?, key_sealed = ?, expires_at = ? WHERE directory = ? AND name = ? AND fence = ?`,
    one.nextAt,
    one.certificate,
    one.keySealed,
    one.expiresAt,
    one.directory,
    one.name,
    one.fence,
  );
  return changed > 0;
});

/** The previous certificate stays. */
export const orderFailedOperation = operation(
  'acme.failed',
  'write',
  async (tx, { error, nextAt, ...claim }: Fenced & { error: string; nextAt: number }): Promise<boolean> => {
    const changed = await tx.run(
      `UPDATE acme_certificate SET error = ?, next_at = ?, challenge_token = NULL, challenge_answer = NULL
       WHERE directory = ? AND name = ? AND fence = ?`,
      error,
      nextAt,
      claim.directory,
      claim.name,
      claim.fence,
    );
    return changed > 0;
  },
);
