/**
 * A sample event of a chosen type, signed like any other, to test an endpoint. It is tried once and not recorded; it has `"test": true`, or
 * in Resend's format a tag `test`.
 */
import { iso } from '../base/clock.ts';
import { newId, randomText } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { type EventType, sampleDetail, sampleEvent } from '../events/events.ts';
import type { HttpClient } from '../net/http-client.ts';
import { answerOf, listedError, postEvent } from './attempt.ts';
import { batchOf, failedEventIds } from './batch.ts';
import { resendPayload } from './resend-payload.ts';
import type { Target } from './sign.ts';

export interface TestEvent {
  eventType: EventType;
  /** The payload format of the endpoint; null for Postrider's own. */
  format: 'resend' | null;
  mode: Mode;
  nowMs: number;
}

/** Returns the body of a test event; undefined if the endpoint's format has no event of this type. */
export function testEventBody(id: string, { eventType, format, mode, nowMs }: TestEvent): string | undefined {
  const sample = sampleEvent(eventType);
  // An inbound event has the id of the inbound message as its messageId.
  const messageId = eventType === 'Inbound' ? sample.messageId : `msg_test${randomText(17)}`;
  const own = { ...sample, eventId: id, messageId, timestamp: iso(nowMs), mode };
  if (format === null) return JSON.stringify({ ...own, test: true });
  const resendId = newId('msg', nowMs);
  return resendPayload({
    seq: 0,
    type: eventType,
    messageId: resendId,
    at: nowMs,
    detail: JSON.stringify(sampleDetail(eventType)),
    recipient: sample.recipient,
    headerFrom: sample.from,
    subject: sample.subject,
    metadata: '{"test":"true"}',
    headerMessageId: sample.headerMessageId,
    templateId: null,
    acceptedAt: nowMs,
    sendAt: null,
    firstId: resendId,
  })?.body;
}

/** Posts a test event once, and returns the answer. */
export async function sendTestEvent(test: {
  http: HttpClient;
  target: Target;
  event: { id: string; body: string };
  nowMs: number;
}) {
  const { event, ...request } = test;
  const isBatch = test.target.maxBatch > 1;
  const outcome = await postEvent({ ...request, event: isBatch ? batchOf([event]) : event, keepBody: isBatch });
  const failed = isBatch ? failedEventIds(outcome) : new Set<string>();
  const isFailed = failed === 'unknown' || failed.has(event.id);
  const success = outcome.ok && outcome.status >= 200 && outcome.status < 300 && !isFailed;
  return { success, eventId: event.id, ...answerOf(outcome), ...(isFailed && { error: listedError(failed) }) };
}
