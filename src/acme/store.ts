/**
 * Accounts at certificate authorities, and the state of each name's certificate, shared by all nodes. Keys are sealed. A claim
 * counts as a failure until it is settled, and writes the time of the next one before the authority is asked: a node that crashes
 * amid an order neither holds the name for good nor lets the others ask more often. The number of the claim is its fence.
 */
import { locked, operation, presentTime, serverTime } from '../storage/operation.ts';
import { type TableRow, table } from '../storage/rows.ts';

const CERTIFICATE = table('acme_certificate', {
  /** URL of the authority's directory. */
  directory: 'text',
  name: 'text',
  /** Number of the last claim. */
  fence: 'int',
  /** Claims since the last certificate that brought none. */
  failures: 'int',
  /** Unix ms: no order before. */
  nextAt: 'int',
  /** Of the last order that failed. */
  error: 'text?',
  challengeToken: 'text?',
  challengeAnswer: 'text?',
  /** PEM, with those of who issued it. */
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

/** Keeps this account's key unless there is one; answers the one that stands. */
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

/** Of one authority, by name. */
export const certificatesOperation = operation('acme.certificates', 'read', (tx, directory: string) =>
  tx.all<CertificateRow>(
    `SELECT directory, name, failures, next_at AS "nextAt", error, certificate, key_sealed AS "keySealed",
       expires_at AS "expiresAt" FROM acme_certificate WHERE directory = ? ORDER BY name`,
    directory,
  ),
);

/** For how long nobody else may claim, by the number of failures before. The last holds for all further ones. */
interface Claim extends Key {
  delaysMs: number[];
  nowMs: number;
}

export interface Claimed {
  fence: number;
  /** This one among them. */
  failures: number;
}

/** Takes the order of a name if it is due; null where it is not. */
export const claimOrderOperation = operation(
  'acme.claim',
  'write',
  async (tx, claim: Claim): Promise<Claimed | null> => {
    const { directory, name, delaysMs } = claim;
    await tx.run(
      `INSERT INTO acme_certificate (directory, name, fence, failures, next_at) VALUES (?, ?, 0, 0, 0)
     ON CONFLICT (directory, name) DO NOTHING`,
      ...[directory, name],
    );
    const now = presentTime(tx, claim.nowMs);
    const row = await tx.get<Claimed>(
      `SELECT fence, failures FROM acme_certificate WHERE directory = ? AND name = ? AND next_at <= ${now.sql} ${locked(tx)}`,
      ...[directory, name, ...now.params],
    );
    if (!row) return null;
    const nextAt = ((await serverTime(tx)) ?? claim.nowMs) + delaysMs[Math.min(row.failures, delaysMs.length - 1)]!;
    const claimed = { fence: row.fence + 1, failures: row.failures + 1 };
    await tx.run(
      'UPDATE acme_certificate SET fence = ?, failures = ?, next_at = ? WHERE directory = ? AND name = ?',
      ...[claimed.fence, claimed.failures, nextAt, directory, name],
    );
    return claimed;
  },
);

interface Fenced extends Key {
  fence: number;
}

/** Answers whether the claim still holds, as those below. */
export const publishChallengeOperation = operation(
  'acme.publish',
  'write',
  async (tx, { token, answer, ...claim }: Fenced & { token: string; answer: string }): Promise<boolean> => {
    const changed = await tx.run(
      'UPDATE acme_certificate SET challenge_token = ?, challenge_answer = ? WHERE directory = ? AND name = ? AND fence = ?',
      ...[token, answer, claim.directory, claim.name, claim.fence],
    );
    return changed > 0;
  },
);

/** The answer to anyone who asks for this token; null where no order under way has it. */
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
    ...[one.nextAt, one.certificate, one.keySealed, one.expiresAt, one.directory, one.name, one.fence],
  );
  return changed > 0;
});

/** What was issued before stays. */
export const orderFailedOperation = operation(
  'acme.failed',
  'write',
  async (tx, { error, nextAt, ...claim }: Fenced & { error: string; nextAt: number }): Promise<boolean> => {
    const changed = await tx.run(
      `UPDATE acme_certificate SET error = ?, next_at = ?, challenge_token = NULL, challenge_answer = NULL
       WHERE directory = ? AND name = ? AND fence = ?`,
      ...[error, nextAt, claim.directory, claim.name, claim.fence],
    );
    return changed > 0;
  },
);
