/** Examples of inbound mail, for /openapi.json. */
import { SAMPLE_INBOUND } from '../events/events.ts';
import { ANN, DAY_BEFORE, ids, SUBJECT, TIME } from './api-example-ids.ts';

const inboundRecord = {
  type: 'MX',
  name: 'in.shop.example',
  value: 'mail.shop.example',
  priority: 10,
  status: 'verified',
  found: ['10 mail.shop.example'],
  note: null,
};
const inboundRoute = {
  inboundRouteId: ids.inboundRoute,
  match: 'support@in.shop.example',
  url: 'https://shop.example/hooks/support',
  webhookId: ids.webhook,
  events: false,
  maxBytes: 25_000_000,
  mode: 'live',
  status: 'active',
  dnsRecord: inboundRecord,
  checkedAt: TIME,
  createdAt: DAY_BEFORE,
  updatedAt: DAY_BEFORE,
};

const mail = {
  inboundId: ids.inbound,
  inboundRouteId: ids.inboundRoute,
  outcome: 'event',
  from: `Ann <${ANN}>`,
  recipient: 'support@in.shop.example',
  envelopeFrom: ANN,
  subject: `Re: ${SUBJECT}`,
  sizeBytes: 67104,
  attachments: 1,
  inReplyTo: ids.message,
  receivedAt: TIME,
};

export const INBOUND_EXAMPLES = {
  InboundMail: mail,
  InboundMailWithContent: { ...mail, eventId: ids.event, contentKept: true, content: SAMPLE_INBOUND },
  SimulateInboundRequest: {
    to: 'support@in.shop.example',
    from: ANN,
    subject: `Re: ${SUBJECT}`,
    text: 'Thank you, it came today.',
    authentication: { dmarc: { result: 'fail', domain: 'example.com', policy: 'reject' } },
  },
  SimulatedInbound: {
    inboundId: ids.inbound,
    inboundRouteId: ids.inboundRoute,
    outcome: 'event',
    eventId: ids.event,
    inReplyTo: null,
  },
  InboundRouteChange: { maxBytes: 2_000_000 },
  InboundRouteRequest: { match: inboundRoute.match, url: inboundRoute.url },
  InboundRoute: inboundRoute,
  InboundRouteWritten: { ...inboundRoute, secret: 'whsec_…' },
};
