/** Examples of messages, their attempts, and shared links, for /openapi.json. */
import { sampleEvent } from '../events/events.ts';
import { ANN, ids, SHOP, SUBJECT, TIME } from './api-example-ids.ts';

const outcome = {
  messageId: ids.message,
  status: 'delivered',
  mode: 'live',
  from: SHOP,
  to: ANN,
  role: 'to',
  subject: SUBJECT,
  sizeBytes: 2_143,
  headerMessageId: '<2zAb01CdEfGhIjKlMnOpQr@shop.example>',
  createdAt: TIME,
  expiresAt: '2026-11-23T09:44:00.123Z',
};

const message = { ...outcome, tags: ['receipt'], metadata: { order: '17' } };

const SHARE_ID = 'shr_2zAb0ECdEfGhIjKlMnOpQr';
const SHARE_TOKEN = 'WyJhY2NfIl0.K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN_H_pI4';
const sharedEvent = {
  eventId: ids.event,
  eventType: 'Delivery',
  timestamp: TIME,
  delivery: { remoteHost: 'mx.example.com', reply: '250 2.0.0 OK', tls: 'TLSv1.3', attempts: 1, latencyMs: 412 },
};

const attempt = {
  time: TIME,
  durationMs: 398,
  host: 'mx.example.com',
  address: '192.0.2.25',
  tls: 'TLSv1.3',
  dialogue: [
    { atMs: 41, direction: 'S', text: '220 mx.example.com ESMTP' },
    { atMs: 42, direction: 'C', text: 'EHLO mail.shop.example' },
  ],
  reply: '250 2.0.0 OK',
  outcome: 'delivered',
};

export const MESSAGE_EXAMPLES: Record<string, unknown> = {
  Message: message,
  Email: {
    emailId: ids.message,
    mode: 'live',
    from: SHOP,
    subject: SUBJECT,
    tags: ['receipt'],
    metadata: { order: '17' },
    headerMessageId: outcome.headerMessageId,
    createdAt: TIME,
    recipients: [{ messageId: ids.message, email: ANN, role: 'to', status: 'delivered' }],
  },
  ShareMessageRequest: { expiresInSeconds: 86_400, hideContent: true },
  ShareLink: {
    shareId: SHARE_ID,
    url: `https://mail.shop.example/shared#token=${SHARE_TOKEN}`,
    expiresAt: '2026-11-21T09:44:00.123Z',
  },
  Share: {
    shareId: SHARE_ID,
    messageId: ids.message,
    createdAt: TIME,
    expiresAt: '2026-11-21T09:44:00.123Z',
    hideSubject: false,
    hideContent: true,
    createdBy: { kind: 'user', id: 'usr_2zAb0FCdEfGhIjKlMnOpQr', name: 'ann@shop.example' },
  },
  SharedMessage: {
    ...outcome,
    validUntil: '2026-11-21T09:44:00.123Z',
    subjectHidden: false,
    contentHidden: true,
    attempts: [attempt],
    timeline: [sharedEvent],
  },
  MessageDetail: { ...message, attempts: [attempt], timeline: [sampleEvent('Send'), sampleEvent('Delivery')] },
};
