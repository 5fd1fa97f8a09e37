/** A session of the outbound client with a scripted server, and a small message to send. */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { openSmtpSession, type SmtpMessage, type SmtpSession, type SmtpTimeouts } from '../../src/net/smtp-client.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from './smtp-sink.ts';

/** Closed after the tests of the file. */
export const open: { close(): Promise<void> | void }[] = [];

after(async () => {
  for (const one of open.reverse()) await one.close();
});

export async function begin(
  options: SinkOptions = {},
  timeouts: Partial<SmtpTimeouts> = {},
): Promise<{ sink: SmtpSink; session: SmtpSession }> {
  const sink = await smtpSink(options);
  open.push(sink);
  const result = await openSmtpSession({
    host: 'mx.example.net',
    addresses: ['127.0.0.1'],
    port: sink.port,
    helo: 'mail.example.com',
    tls: 'opportunistic',
    verifyCertificate: false,
    timeouts: { greetingMs: 30_000, envelopeMs: 30_000, dotMs: 30_000, ...timeouts },
  });
  assert.ok(result.ok, JSON.stringify(result));
  open.push({ close: () => result.session.destroy() });
  return { sink, session: result.session };
}

export function mail(extra: Partial<SmtpMessage> = {}): SmtpMessage {
  const content = extra.content ?? Buffer.from('Subject: x\r\n\r\nhello\r\n');
  const sizeBytes = Buffer.isBuffer(content) ? content.length : 1000;
  return {
    mailFrom: 'a@example.com',
    recipients: ['b@example.net'],
    content,
    sizeBytes,
    smtpUtf8: false,
    eightBit: false,
    ...extra,
  };
}
