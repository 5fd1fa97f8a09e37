/**
 * What /openapi.json says beside the routes: what the API is, its tags in the order in which a newcomer meets them, and what it
 * sends to webhooks.
 */
import { VERSION } from '../config.ts';
import { eventSchema } from '../events/event-schema.ts';
import { EVENT_TYPES, type EventType } from '../events/events.ts';
import type { OpenapiOptions } from '../http/openapi.ts';
import { EVENT_EXAMPLES } from './api-event-examples.ts';
import { EXAMPLES } from './api-examples.ts';

const SUMMARIES: Record<EventType, string> = {
  Send: 'A message was accepted',
  Delivery: "The recipient's server took the message",
  DeliveryDelay: 'The first attempt that failed for now',
  Bounce: 'The message was refused for good, or expired',
  Complaint: 'The recipient marked the message as spam',
  Reject: 'The message never left: the address is suppressed, or the message was cancelled',
  Open: 'The mail was opened',
  Click: 'A link in the mail was followed',
  Unsubscribe: 'The recipient unsubscribed',
};

export const API_DOCUMENT: Omit<OpenapiOptions, 'serverUrl'> = {
  about: {
    title: 'Postrider',
    version: VERSION,
    description:
      'Transactional email: send over HTTP, follow what became of it by events and webhooks. Every call carries X-Api-Key and X-Id. A sandbox key makes the same calls, and nothing leaves the machine.',
    license: { name: 'MIT', identifier: 'MIT' },
  },
  tags: [
    { name: 'send', description: 'Send mail.' },
    { name: 'attachments', description: 'Upload files for mail above 2 MB.' },
    { name: 'messages', description: 'Look up what became of a message; cancel, move or resend it.' },
    { name: 'events', description: 'The log of everything that happened, to read or to follow.' },
    { name: 'webhooks', description: 'Have events sent to your own endpoint, signed.' },
    { name: 'templates', description: 'Content with variables, kept by the service in versions.' },
    { name: 'domains', description: 'The domains that an account sends from, and their DNS records.' },
    { name: 'suppressions', description: 'Addresses that get no mail.' },
    { name: 'sandbox', description: 'The virtual inbox of sandbox keys, its outcomes and its clock.' },
    { name: 'account', description: 'Settings, limits, keys, SMTP credentials, approvals.' },
    { name: 'service', description: 'For operators and their machines; no key is needed.' },
  ],
  examples: EXAMPLES,
  events: {
    schema: eventSchema,
    types: EVENT_TYPES.map((name) => ({ name, summary: SUMMARIES[name], example: EVENT_EXAMPLES[name] })),
  },
};
