/**
 * Removing the content of emails, and the uploaded files they are made of: these go with it as soon as no other email has its own
 * content of them. The upload batch they belong to stays for a while, without them. What two transactions at once
 * leave to each other is found by the housekeeping.
 */
import { locked, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { UNFINISHED } from './message.ts';

/**
 * Removes the content of these emails, and their files, once none of their messages waits to be tried; answers the blobs to
 * remove, by email.
 */
export async function dropContents(tx: Transaction, emailSeqs: readonly number[]): Promise<Map<number, string[]>> {
  const blobs = new Map<number, string[]>();
  if (emailSeqs.length === 0) return blobs;
  const numbers = [...new Set(emailSeqs)].sort((a, b) => a - b);
  const asked = rowset(
    tx,
    'asked',
    { seq: 'int' },
    numbers.map((seq) => ({ seq })),
  );
  // The bounds say which partitions are concerned, and spare the others.
  const these = `email.seq IN (SELECT asked.seq FROM ${asked.sql}) AND email.seq >= ? AND email.seq <= ?`;
  const params = [...asked.params, numbers[0]!, numbers.at(-1)!];
  // Two copies that are settled at once: the one that comes later sees, in its second statement, that the other is finished.
  const held = locked(tx);
  if (held !== '') await tx.all(`SELECT 1 AS found FROM email WHERE ${these} ORDER BY seq ${held}`, ...params);
  const rows = await tx.all<{ seq: number; blob_key: string | null }>(
    `SELECT seq, blob_key FROM email WHERE ${these} AND NOT EXISTS
       (SELECT 1 FROM message WHERE email_seq = email.seq AND status IN ${UNFINISHED})`,
    ...params,
  );
  const dropped = rowset(tx, 'dropped', { seq: 'int' }, rows);
  await tx.run(
    `UPDATE email SET content = NULL, blob_key = NULL, content_until = NULL
     WHERE seq IN (SELECT dropped.seq FROM ${dropped.sql}) AND seq >= ? AND seq <= ?`,
    ...[...dropped.params, numbers[0]!, numbers.at(-1)!],
  );
  for (const { seq, blob_key } of rows) {
    const files = await dropFiles(tx, seq);
    blobs.set(seq, blob_key === null ? files : [blob_key, ...files]);
  }
  return blobs;
}

/** Answers the blobs that nothing names any more. */
async function dropFiles(tx: Transaction, emailSeq: number): Promise<string[]> {
  const uses = await tx.all<{ submission_id: string }>(
    `SELECT submission_id FROM attachment_use u WHERE email_seq = ? AND NOT EXISTS
       (SELECT 1 FROM attachment_use o JOIN email e ON e.seq = o.email_seq
        WHERE o.submission_id = u.submission_id AND e.content_until IS NOT NULL)`,
    emailSeq,
  );
  const blobKeys: string[] = [];
  for (const { submission_id: id } of uses) {
    const files = await tx.all<{ blob_key: string }>(
      'SELECT blob_key FROM attachment_file WHERE submission_id = ? AND blob_key IS NOT NULL ORDER BY number',
      id,
    );
    await tx.run('UPDATE attachment_file SET blob_key = NULL WHERE submission_id = ?', id);
    blobKeys.push(...files.map((file) => file.blob_key));
  }
  return blobKeys;
}
