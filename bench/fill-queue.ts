/**
 * Fills the queue of a stopped service's data directory with a backlog: real rows, written in large transactions, one destination for every
 * ten messages by default.
 */
import { newId } from '../src/base/ids.ts';
import { dataDirectory } from '../src/storage/data-directory.ts';
import { openSqlite } from '../src/storage/sqlite/connection.ts';
import '../src/roles/operations.ts';
import { type Acceptance, acceptOperation } from '../src/send/acceptance.ts';

const content = Buffer.from('From: bench@bench.example\r\nSubject: bench\r\n\r\nbench\r\n');

function oneMail(accountId: string, recipient: string): Acceptance {
  const nowMs = Date.now();
  const domain = recipient.slice(recipient.indexOf('@') + 1);
  return {
    accountId,
    mode: 'live',
    source: 'http',
    nowMs,
    clockOffsetMs: 0,
    emails: [
      {
        headerFrom: 'bench@bench.example',
        headerTo: '{"to":[],"cc":[]}',
        envelopeFrom: 'bench@bench.example',
        subject: 'bench',
        headerMessageId: `<${newId('msg', nowMs)}@bench.example>`,
        tags: '[]',
        metadata: '{}',
        options: '{"requireTls":false,"smtpUtf8":false,"eightBit":false,"expiresAfterSeconds":259200}',
        templateId: null,
        templateVersion: null,
        sizeBytes: content.length,
        content,
        blobKey: null,
        clientAddress: null,
        traceparent: null,
        dsn: null,
        recipients: [
          {
            messageId: newId('msg', nowMs),
            sendEventId: newId('evt', nowMs),
            rejectEventId: newId('evt', nowMs),
            email: recipient,
            suppressionKey: recipient,
            addressHash: '',
            role: 'to',
            lane: `${accountId}/${domain}`,
            simulateSuppressed: false,
            dsn: null,
          },
        ],
      },
    ],
    retain: '30d',
    contentUntilMs: nowMs + 30 * 86_400_000,
    sendAtMs: null,
    expiresAtMs: nowMs + 259_200_000,
    from: 'bench@bench.example',
    idempotency: null,
    leaseUntilMs: null,
  };
}

/** Accepts `count` messages of the account in one transaction. */
export function fillQueue(
  folder: string,
  accountId: string,
  count: number,
  recipientOf = (index: number): string => `rcpt@d${Math.floor(index / 10)}.example`,
): Promise<void> {
  const connection = openSqlite(dataDirectory(folder).databaseFile, { readOnly: false });
  const fill = async (): Promise<void> => {
    for (let done = 0; done < count; ) {
      connection.begin();
      const part = Math.min(200, count - done);
      const calls = Array.from({ length: part }, (_, index) => oneMail(accountId, recipientOf(done + index)));
      await acceptOperation.run(connection, calls);
      connection.commit();
      done += part;
    }
    connection.close();
  };
  return fill();
}
