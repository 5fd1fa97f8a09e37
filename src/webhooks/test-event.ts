/** A sample Delivery event, signed like any other, to test an endpoint. It is tried once and not recorded; it has `"test": true`. */
import { iso } from '../base/clock.ts';
import { newId, randomText } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import type { HttpClient } from '../net/http-client.ts';
import { answerOf, postEvent } from './attempt.ts';
import { batchOf } from './batch.ts';
import { resendPayload } from './resend-payload.ts';
import type { Target } from './sign.ts';

export async function sendTestEvent(test: {
  http: HttpClient;
  target: Target;
  /** The payload format of the endpoint; null for Postrider's own. */
  format: 'resend' | null;
  mode: Mode;
  nowMs: number;
}) {
  const { nowMs, format, mode } = test;
  const id = newId('evt', nowMs);
  const body = format === null ? ownBody(id, mode, nowMs) : resendBody(nowMs);
  const event = test.target.maxBatch > 1 ? batchOf([{ id, body }]) : { id, body };
  const outcome = await postEvent({ http: test.http, target: test.target, event, nowMs });
  return { success: outcome.ok && outcome.status >= 200 && outcome.status < 300, eventId: id, ...answerOf(outcome) };
}

const RECIPIENT = 'recipient@example.com';
const FROM = 'sender@example.com';
const SUBJECT = 'A test of this webhook';
const HEADER_MESSAGE_ID = '<test@postrider.invalid>';
const DELIVERY = { remoteHost: 'mx.example.com', reply: '250 2.0.0 OK', tls: 'TLSv1.3', attempts: 1, latencyMs: 1 };

function resendBody(nowMs: number): string {
  const messageId = newId('msg', nowMs);
  const payload = resendPayload({
    seq: 0,
    type: 'Delivery',
    messageId,
    at: nowMs,
    detail: JSON.stringify({ delivery: DELIVERY }),
    recipient: RECIPIENT,
    headerFrom: FROM,
    subject: SUBJECT,
    metadata: '{"test":"true"}',
    headerMessageId: HEADER_MESSAGE_ID,
    templateId: null,
    acceptedAt: nowMs,
    sendAt: null,
    firstId: messageId,
  });
  return payload!.body;
}

function ownBody(id: string, mode: Mode, nowMs: number): string {
  return JSON.stringify({
    eventId: id,
    eventType: 'Delivery',
    messageId: `msg_test${randomText(17)}`,
    timestamp: iso(nowMs),
    mode,
    recipient: RECIPIENT,
    from: FROM,
    subject: SUBJECT,
    headerMessageId: HEADER_MESSAGE_ID,
    tags: [],
    metadata: {},
    delivery: DELIVERY,
    test: true,
  });
}
