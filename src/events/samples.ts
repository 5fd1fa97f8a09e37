/** One sample event of each type: for test events, for GET /event-types, and as the examples of /openapi.json. */
import { detailFieldsOf, EVENT_TYPES, type EventType } from './event.ts';

/** All samples are about one order of one shop, and share these values. */
const SAMPLE = {
  time: '2026-11-20T09:44:00.123Z',
  eventId: 'evt_2zAb03CdEfGhIjKlMnOpQr',
  messageId: 'msg_2zAb01CdEfGhIjKlMnOpQr',
  inboundId: 'inb_2zAb0ECdEfGhIjKlMnOpQr',
  inboundRouteId: 'inr_2zAb0DCdEfGhIjKlMnOpQr',
  from: 'Shop <orders@shop.example>',
  recipient: 'ann@example.com',
  subject: 'Order 17',
} as const;

const LATER = '2026-11-20T09:49:02.480Z';

const common = {
  eventId: SAMPLE.eventId,
  messageId: SAMPLE.messageId,
  timestamp: SAMPLE.time,
  mode: 'live',
  recipient: SAMPLE.recipient,
  from: SAMPLE.from,
  subject: SAMPLE.subject,
  headerMessageId: '<2zAb01CdEfGhIjKlMnOpQr@shop.example>',
  tags: ['receipt'],
  metadata: { order: '17' },
};

const busy = {
  kind: 'soft',
  category: 'rate-limited',
  smtpCode: 421,
  enhancedCode: '4.7.0',
  reply: '421 4.7.0 try again later',
  remoteHost: 'mx.example.com',
  owner: 'remote',
  advice: 'The receiving server limits the sending rate; Postrider retries automatically.',
  suppressed: false,
};

const unknown = {
  kind: 'hard',
  category: 'mailbox-not-found',
  smtpCode: 550,
  enhancedCode: '5.1.1',
  reply: '550 5.1.1 no such user',
  remoteHost: 'mx.example.com',
  owner: 'recipient',
  advice: 'The address does not exist; correct it where it was entered.',
  suppressed: true,
};

const reader = { machine: false, userAgent: 'Mozilla/5.0' };

const authentication = {
  spf: { result: 'pass', domain: 'example.com', reason: null },
  dkim: [{ result: 'pass', domain: 'example.com', selector: 'k1', reason: null }],
  dmarc: { result: 'pass', policy: 'reject', domain: 'example.com', reason: null },
  arc: { result: 'none', reason: null },
};

/** The part of an Inbound event about the mail. */
export const SAMPLE_INBOUND = {
  inboundId: SAMPLE.inboundId,
  inboundRouteId: SAMPLE.inboundRouteId,
  envelope: { from: SAMPLE.recipient, to: 'support@in.shop.example' },
  headers: [
    { name: 'From', value: `Ann <${SAMPLE.recipient}>` },
    { name: 'Subject', value: `Re: ${SAMPLE.subject}` },
  ],
  headerMessageId: '<4f1c@example.com>',
  text: 'Thank you, it came today.\n\nOn Fri, 20 Nov 2026 Shop wrote:\n> Your order is on its way.\n',
  html: null,
  replyText: 'Thank you, it came today.',
  textTruncated: false,
  htmlTruncated: false,
  attachments: [
    {
      name: 'photo.jpg',
      contentType: 'image/jpeg',
      sizeBytes: 48213,
      contentId: null,
      url: 'https://mail.shop.example/inbound-files/WyJpbmJf.c2ln',
    },
  ],
  rawUrl: 'https://mail.shop.example/inbound-files/WyJpbmJg.c2lo',
  linksExpireAt: '2026-11-27T09:44:00.123Z',
  sizeBytes: 67104,
  inReplyTo: SAMPLE.messageId,
  autoReply: false,
  authentication,
  unreadable: [],
};

const DETAILS: Record<EventType, object> = {
  Send: {},
  Delivery: {
    delivery: { remoteHost: 'mx.example.com', reply: '250 2.0.0 OK', tls: 'TLSv1.3', attempts: 1, latencyMs: 412 },
  },
  DeliveryDelay: { deliveryDelay: { ...busy, nextAttemptAt: LATER } },
  Bounce: { bounce: unknown },
  Complaint: {
    complaint: {
      feedbackType: 'abuse',
      remoteHost: 'mx.example.com',
      owner: 'recipient',
      advice: 'The recipient reported this message as spam; stop sending to this address.',
      suppressed: true,
    },
  },
  Reject: {
    reject: {
      reason: 'suppressed',
      owner: 'recipient',
      advice: 'The address is on the suppression list of this account; remove it there once the recipient agrees.',
      suppressed: true,
    },
  },
  Open: { open: reader },
  Click: { click: { url: 'https://shop.example/orders/17', ...reader } },
  Unsubscribe: { unsubscribe: { method: 'one-click' } },
  Inbound: {
    messageId: SAMPLE.inboundId,
    recipient: 'support@in.shop.example',
    from: `Ann <${SAMPLE.recipient}>`,
    subject: `Re: ${SAMPLE.subject}`,
    headerMessageId: SAMPLE_INBOUND.headerMessageId,
    tags: [],
    metadata: {},
    inbound: SAMPLE_INBOUND,
  },
};

const DESCRIPTIONS: Readonly<Record<EventType, string>> = {
  Send: 'A message was accepted.',
  Delivery: "The recipient's mail server accepted the message.",
  DeliveryDelay: 'The first attempt failed temporarily; Postrider retries automatically.',
  Bounce: 'The message was permanently rejected, or it expired.',
  Complaint: 'The recipient reported the message as spam.',
  Reject: 'The message was not sent: the address is suppressed, or the message was canceled.',
  Open: 'The recipient opened the message.',
  Click: 'The recipient opened a link of the message.',
  Unsubscribe: 'The recipient unsubscribed.',
  Inbound: 'An inbound route received an email.',
};

export type SampleEvent = typeof common & { eventType: EventType };

/** Returns a sample event as webhooks and GET /events contain it. */
export function sampleEvent(eventType: EventType): SampleEvent {
  return { ...common, eventType, ...DETAILS[eventType] };
}

/** Returns the fields of the event's type, as the log stores them. */
export function sampleDetail(eventType: EventType): Record<string, unknown> {
  const details = DETAILS[eventType] as Record<string, unknown>;
  return Object.fromEntries(detailFieldsOf([eventType]).map((field) => [field, details[field]]));
}

/** Returns every type with its description and sample, in the order of a message's life. */
export function eventCatalogue(): { eventType: EventType; description: string; sample: SampleEvent }[] {
  return EVENT_TYPES.map((eventType) => ({
    eventType,
    description: DESCRIPTIONS[eventType],
    sample: sampleEvent(eventType),
  }));
}
