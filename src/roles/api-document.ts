/**
 * What /openapi.json says beside the routes: what the API is, its tags in the order in which a newcomer meets them, and what it
 * sends to webhooks.
 */
import { VERSION } from '../config.ts';
import { eventSchema } from '../events/event-schema.ts';
import { EVENT_TYPES, type EventType } from '../events/events.ts';
import type { OpenapiOptions } from '../http/openapi.ts';
import { CONTENT_EXAMPLES } from './api-content-examples.ts';
import { EVENT_EXAMPLES } from './api-event-examples.ts';
import { EXAMPLES } from './api-examples.ts';
import { OPERATOR_EXAMPLES } from './api-operator-examples.ts';

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
  Inbound: 'Mail came in for an inbound route',
};

/** Ids as they stand in paths. */
const PATH_PARAMETERS: OpenapiOptions['pathParameters'] = {
  'accounts/id': { description: 'The accountId.', example: 'acc_2zAbCdEfGhIjKlMnOpQrStU' },
  'api-keys/keyId': { description: 'The keyId.', example: 'key_2zAbCdEfGhIjKlMnOpQrStU' },
  'approvals/id': { description: 'The approvalId.', example: 'apr_2zAbCdEfGhIjKlMnOpQrStU' },
  'attachments/submissionId': {
    description: 'The attachmentSubmissionId that POST /attachments answered.',
    example: 'sub_2zAbCdEfGhIjKlMnOpQrStU',
  },
  'deliveries/deliveryId': { description: 'The deliveryId.', example: 'del_2zAbCdEfGhIjKlMnOpQrStU' },
  'destinations/id': { description: 'The destinationId.', example: 'example.com' },
  'domains/id': { description: 'The domainId.', example: 'dom_2zAbCdEfGhIjKlMnOpQrStU' },
  'inbox/id': { description: 'The messageId.', example: 'msg_2zAbCdEfGhIjKlMnOpQrStU' },
  'attachments/number': { description: 'The number of the attachment, from 0.', example: '0' },
  'inbound-files/token': { description: 'The signed part of a link.', example: 'inb_2zAb' },
  'inbound/id': { description: 'The inboundId.', example: 'inb_2zAbCdEfGhIjKlMnOpQrStU' },
  'inbound-routes/id': { description: 'The inboundRouteId.', example: 'inr_2zAbCdEfGhIjKlMnOpQrStU' },
  'incidents/id': { description: 'The incidentId.', example: 'inc_0f1e2d3c4b5a69788796' },
  'emails/id': { description: 'The emailId, or any messageId of the email.', example: 'msg_2zAbCdEfGhIjKlMnOpQrStU' },
  'messages/id': { description: 'The messageId.', example: 'msg_2zAbCdEfGhIjKlMnOpQrStU' },
  'passkeys/id': { description: 'The passkeyId.', example: 'AbC0-dEf' },
  'postmaster-mail/id': { description: 'The id of the mail.', example: 'inb_2zAbCdEfGhIjKlMnOpQrStU' },
  'sessions/id': { description: 'The sessionId.', example: 'ses_2zAbCdEfGhIjKlMnOpQrStU' },
  'smtp-credentials/id': { description: 'The smtpCredentialId.', example: 'smtp_2zAbCdEfGhIjKlMnOpQrStU' },
  'suppressions/email': { description: 'The address, in any of its spellings.', example: 'ann@example.com' },
  'templates/id': { description: 'The templateId.', example: 'tpl_2zAbCdEfGhIjKlMnOpQrStU' },
  'uploads/token': { description: 'The signed part of an uploadUrl.', example: 'c3ViXzE' },
  'users/id': { description: 'The userId.', example: 'usr_2zAbCdEfGhIjKlMnOpQrStU' },
  'versions/version': { description: 'The number of the version, from 1.', example: '1' },
  'webhooks/id': { description: 'The webhookId.', example: 'whk_2zAbCdEfGhIjKlMnOpQrStU' },
};

export const API_DOCUMENT: Omit<OpenapiOptions, 'serverUrl'> = {
  about: {
    title: 'Postrider',
    version: VERSION,
    description:
      'Transactional email: send over HTTP, follow what became of it by events and webhooks. Every call carries X-Api-Key and X-Id; a signed-in browser carries its session and X-Id. A sandbox key makes the same calls, and nothing leaves the machine.',
    license: { name: 'MIT', identifier: 'MIT' },
  },
  tags: [
    { name: 'send', description: 'Send mail.' },
    { name: 'attachments', description: 'Upload files for mail above 2 MB.' },
    { name: 'messages', description: 'Look up what became of a message; cancel, move or resend it.' },
    { name: 'events', description: 'The log of everything that happened, to read or to follow.' },
    { name: 'incidents', description: 'What fails now, and what to do about it.' },
    { name: 'requests', description: 'What was refused, and why.' },
    { name: 'statistics', description: 'How many messages were accepted, delivered, bounced, opened, by hour or day.' },
    { name: 'webhooks', description: 'Have events sent to your own endpoint, signed.' },
    { name: 'templates', description: 'Content with variables, kept by the service in versions.' },
    { name: 'domains', description: 'The domains that an account sends from, and their DNS records.' },
    { name: 'inbound', description: 'Have mail that comes in turned into events.' },
    { name: 'suppressions', description: 'Addresses that get no mail.' },
    { name: 'sandbox', description: 'The virtual inbox of sandbox keys, its outcomes and its clock.' },
    { name: 'account', description: 'Settings, limits, keys, SMTP credentials, approvals.' },
    { name: 'audit', description: 'Who changed what, when and from where.' },
    { name: 'users', description: 'Who is in the account, and as what.' },
    { name: 'session', description: 'Signing in, which stands for an API key; passwords and second factors.' },
    { name: 'operator', description: 'Accounts, approvals, queue, destinations and nodes, for signed-in operators.' },
    { name: 'service', description: 'For operators and their machines; no key is needed.' },
  ],
  pathParameters: PATH_PARAMETERS,
  examples: { ...EXAMPLES, ...OPERATOR_EXAMPLES },
  contentExamples: CONTENT_EXAMPLES,
  events: {
    schema: eventSchema,
    types: EVENT_TYPES.map((name) => ({ name, summary: SUMMARIES[name], example: EVENT_EXAMPLES[name] })),
  },
};
