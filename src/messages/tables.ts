/** The tables of mail: a new column is two migrations, a line here, its producer and its reader. */
import { type TableRow, table } from '../storage/rows.ts';

/** One composed email: what several recipients share. Small content stands here, larger content in the blob it names. */
export const EMAIL = table('email', {
  seq: 'int',
  accountId: 'text',
  mode: 'text',
  source: 'text',
  headerFrom: 'text',
  headerTo: 'text',
  envelopeFrom: 'text',
  subject: 'text',
  headerMessageId: 'text',
  tags: 'text',
  metadata: 'text',
  options: 'text',
  templateId: 'text?',
  templateVersion: 'int?',
  sizeBytes: 'int',
  content: 'bytes?',
  blobKey: 'text?',
  createdAt: 'int',
  retain: 'text',
  contentUntil: 'int?',
  clientAddress: 'text?',
});
export type EmailRow = TableRow<typeof EMAIL>;

/** One recipient's copy. */
export const MESSAGE = table('message', {
  accountId: 'text',
  mode: 'text',
  id: 'text',
  emailSeq: 'int',
  recipient: 'text',
  role: 'text',
  status: 'text',
  attempts: 'int',
  workSeq: 'int?',
  sendAt: 'int?',
  nextAttemptAt: 'int?',
  expiresAt: 'int',
  createdAt: 'int',
  updatedAt: 'int',
});

/** One try to deliver a message. */
export const ATTEMPT = table('attempt', {
  accountId: 'text',
  messageId: 'text',
  number: 'int',
  at: 'int',
  record: 'text',
});
