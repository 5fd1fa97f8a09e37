/** A sample Delivery event, signed like any other, to test an endpoint. It is tried once and not recorded; it has `"test": true`. */
import { iso } from '../base/clock.ts';
import { newId, randomText } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import type { HttpClient } from '../net/http-client.ts';
import { answerOf, postEvent } from './attempt.ts';
import type { Target } from './sign.ts';

export async function sendTestEvent(test: { http: HttpClient; target: Target; mode: Mode; nowMs: number }) {
  const { nowMs } = test;
  const id = newId('evt', nowMs);
  const body = JSON.stringify({
    eventId: id,
    eventType: 'Delivery',
    messageId: `msg_test${randomText(17)}`,
    timestamp: iso(nowMs),
    mode: test.mode,
    recipient: 'recipient@example.com',
    from: 'sender@example.com',
    subject: 'A test of this webhook',
    tags: [],
    metadata: {},
    delivery: { remoteHost: 'mx.example.com', reply: '250 2.0.0 OK', tls: 'TLSv1.3', attempts: 1, latencyMs: 1 },
    test: true,
  });
  const outcome = await postEvent({ http: test.http, target: test.target, event: { id, body }, nowMs });
  return { success: outcome.ok && outcome.status >= 200 && outcome.status < 300, eventId: id, ...answerOf(outcome) };
}
