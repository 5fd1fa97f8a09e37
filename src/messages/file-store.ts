/**
 * Uploaded files of emails whose content is gone: they go with it, as soon as no other email made of them has its own. The
 * submission they belong to stays for a while, without them. What two transactions at once leave to each other is
 * found by the housekeeping.
 */
import type { Transaction } from '../storage/operation.ts';

/** Answers the blobs that nothing names any more. */
export async function dropFiles(tx: Transaction, emailSeq: number): Promise<string[]> {
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
