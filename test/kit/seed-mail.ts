/** Stores messages and their events without the acceptance, for tests and benchmarks of later steps. */

import { newId } from '../../src/base/ids.ts';
import type { Mode } from '../../src/base/mode.ts';
import {
  type Acceptance,
  type AcceptanceResult,
  type AcceptedEmail,
  acceptOperation,
} from '../../src/send/acceptance.ts';
import type { Database } from '../../src/storage/database.ts';

export interface SeededMail {
  accountId: string;
  mode?: Mode;
  recipients?: string[];
  from?: string;
  subject?: string;
  tags?: string[];
  content?: string;
  sendAtMs?: number;
  nowMs?: number;
  retain?: Acceptance['retain'];
  email?: Partial<AcceptedEmail>;
}

export function acceptance(mail: SeededMail): Acceptance {
  const nowMs = mail.nowMs ?? Date.now();
  const recipients = mail.recipients ?? ['ada@example.com'];
  const subject = mail.subject ?? 'Your order';
  const from = mail.from ?? 'Shop <shop@example.org>';
  const headerMessageId = `<${newId('msg')}@example.org>`;
  const content =
    mail.content ??
    `From: ${from}\r\nTo: ${recipients[0]}\r\nSubject: ${subject}\r\nMessage-ID: ${headerMessageId}\r\n\r\nThank you.\r\n`;
  return {
    accountId: mail.accountId,
    mode: mail.mode ?? 'live',
    source: 'http',
    nowMs,
    clockOffsetMs: 0,
    emails: [
      {
        headerFrom: from,
        headerTo: JSON.stringify({ to: recipients, cc: [] }),
        envelopeFrom: 'shop@example.org',
        subject,
        headerMessageId,
        tags: JSON.stringify(mail.tags ?? ['order']),
        metadata: '{}',
        options: JSON.stringify({ requireTls: false, smtpUtf8: false, eightBit: false, expiresAfterSeconds: 259_200 }),
        templateId: null,
        templateVersion: null,
        sizeBytes: content.length,
        content: Buffer.from(content),
        blobKey: null,
        clientAddress: null,
        traceparent: null,
        dsn: null,
        recipients: recipients.map((email) => ({
          messageId: newId('msg', nowMs),
          sendEventId: newId('evt', nowMs),
          rejectEventId: newId('evt', nowMs),
          email,
          suppressionKey: email.toLowerCase(),
          addressHash: '',
          role: 'to',
          lane: email.slice(email.indexOf('@') + 1),
          simulateSuppressed: false,
          dsn: null,
        })),
        ...mail.email,
      },
    ],
    retain: mail.retain ?? '30d',
    contentUntilMs: nowMs + 30 * 86_400_000,
    sendAtMs: mail.sendAtMs ?? null,
    expiresAtMs: (mail.sendAtMs ?? nowMs) + 259_200_000,
    from,
    idempotency: null,
    leaseUntilMs: null,
  };
}

/** Accepts one email; every recipient's message gets its Send event. */
export function seedMail(database: Database, mail: SeededMail): Promise<AcceptanceResult> {
  return database.execute(acceptOperation, acceptance(mail));
}
