/** One example event of each type, for /openapi.json, and what all examples share: one shop, one order, the same ids. */
import type { EventType } from '../events/events.ts';

export const TIME = '2026-11-20T09:44:00.123Z';
const LATER = '2026-11-20T09:49:02.480Z';
export const DAY_BEFORE = '2026-11-19T08:00:00.000Z';

export const ids = {
  account: 'acc_2zAb00CdEfGhIjKlMnOpQr',
  message: 'msg_2zAb01CdEfGhIjKlMnOpQr',
  second: 'msg_2zAb02CdEfGhIjKlMnOpQr',
  event: 'evt_2zAb03CdEfGhIjKlMnOpQr',
  webhook: 'whk_2zAb04CdEfGhIjKlMnOpQr',
  delivery: 'del_2zAb05CdEfGhIjKlMnOpQr',
  template: 'tpl_2zAb06CdEfGhIjKlMnOpQr',
  domain: 'dom_2zAb07CdEfGhIjKlMnOpQr',
  submission: 'sub_2zAb08CdEfGhIjKlMnOpQr',
  key: 'key_2zAb09CdEfGhIjKlMnOpQr',
  credential: 'smtp_2zAb0ACdEfGhIjKlMnOpQr',
  approval: 'apr_2zAb0BCdEfGhIjKlMnOpQr',
  operatorKey: 'opk_2zAb0BCdEfGhIjKlMnOpQr',
  inboundRoute: 'inr_2zAb0DCdEfGhIjKlMnOpQr',
  inbound: 'inb_2zAb0ECdEfGhIjKlMnOpQr',
  request: 'req_2zAb0CCdEfGhIjKlMnOpQr',
};

export const SHOP = 'Shop <orders@shop.example>';
export const ANN = 'ann@example.com';
export const SUBJECT = 'Order 17';

const common = {
  eventId: ids.event,
  messageId: ids.message,
  timestamp: TIME,
  mode: 'live',
  recipient: ANN,
  from: SHOP,
  subject: SUBJECT,
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

export const AUTHENTICATION_EXAMPLE = {
  spf: { result: 'pass', domain: 'example.com', reason: null },
  dkim: [{ result: 'pass', domain: 'example.com', selector: 'k1', reason: null }],
  dmarc: { result: 'pass', policy: 'reject', domain: 'example.com', reason: null },
  arc: { result: 'none', reason: null },
};

/** The part of an Inbound event about the mail. */
export const INBOUND_EXAMPLE = {
  inboundId: ids.inbound,
  inboundRouteId: ids.inboundRoute,
  envelope: { from: ANN, to: 'support@in.shop.example' },
  headers: [
    { name: 'From', value: `Ann <${ANN}>` },
    { name: 'Subject', value: `Re: ${SUBJECT}` },
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
  inReplyTo: ids.message,
  autoReply: false,
  authentication: AUTHENTICATION_EXAMPLE,
  unreadable: [],
};

const member: Record<EventType, object> = {
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
    messageId: ids.inbound,
    recipient: 'support@in.shop.example',
    from: `Ann <${ANN}>`,
    subject: `Re: ${SUBJECT}`,
    headerMessageId: INBOUND_EXAMPLE.headerMessageId,
    tags: [],
    metadata: {},
    inbound: INBOUND_EXAMPLE,
  },
};

export const EVENT_EXAMPLES: Readonly<Record<string, unknown>> = Object.fromEntries(
  Object.entries(member).map(([eventType, detail]) => [eventType, { ...common, eventType, ...detail }]),
);
