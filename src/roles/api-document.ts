/**
 * The parts of /openapi.json besides the routes: the description of the API, its tags in the order for a new reader, and the webhooks.
 */
import { VERSION } from '../config.ts';
import { eventSchema } from '../events/event-schema.ts';
import { eventCatalogue } from '../events/events.ts';
import type { OpenapiOptions } from '../http/openapi.ts';
import { readExamples } from './api-examples.ts';

/** Ids in paths. */
const PATH_PARAMETERS: NonNullable<OpenapiOptions['pathParameters']> = {
  'accounts/id': { description: 'The accountId.', example: 'acc_2zAbCdEfGhIjKlMnOpQrStU' },
  'agent-requests/id': { description: 'The agentRequestId.', example: 'agr_2zAbCdEfGhIjKlMnOpQrStU' },
  'api-keys/keyId': { description: 'The keyId.', example: 'key_2zAbCdEfGhIjKlMnOpQrStU' },
  'keys/id': { description: 'The operatorKeyId.', example: 'opk_2zAbCdEfGhIjKlMnOpQrStU' },
  'approvals/id': { description: 'The approvalId.', example: 'apr_2zAbCdEfGhIjKlMnOpQrStU' },
  'attachments/submissionId': {
    description: 'The attachmentSubmissionId that POST /attachments returned.',
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
  'erasures/id': { description: 'The erasureId.', example: 'ers_2zAbCdEfGhIjKlMnOpQrStU' },
  'saved-filters/id': { description: 'The savedFilterId.', example: 'flt_2zAbCdEfGhIjKlMnOpQrStU' },
  'sessions/id': { description: 'The sessionId.', example: 'ses_2zAbCdEfGhIjKlMnOpQrStU' },
  'shares/id': { description: 'The shareId.', example: 'shr_2zAbCdEfGhIjKlMnOpQrStU' },
  'smtp-credentials/id': { description: 'The smtpCredentialId.', example: 'smtp_2zAbCdEfGhIjKlMnOpQrStU' },
  'suppressions/email': { description: 'The address, in any spelling.', example: 'ann@example.com' },
  'template-shares/id': { description: 'The shareId.', example: 'shr_2zAbCdEfGhIjKlMnOpQrStU' },
  'templates/id': { description: 'The templateId.', example: 'tpl_2zAbCdEfGhIjKlMnOpQrStU' },
  'uploads/token': { description: 'The signed part of an uploadUrl.', example: 'c3ViXzE' },
  'users/id': { description: 'The userId.', example: 'usr_2zAbCdEfGhIjKlMnOpQrStU' },
  'versions/version': { description: 'The number of the version, from 1.', example: '1' },
  'webhooks/id': { description: 'The webhookId.', example: 'whk_2zAbCdEfGhIjKlMnOpQrStU' },
};

const ABOUT: OpenapiOptions['about'] = {
  title: 'Postrider',
  version: VERSION,
  description:
    'Transactional email: send over HTTP, and track delivery with events and webhooks. Every call needs X-Api-Key and X-Id; a logged-in browser sends its session and X-Id. Calls below /operator need an operator key or the session of an operator. A sandbox key makes the same calls, but no mail is sent. Every response has the header X-Request-Id, which identifies the request in the log.',
  license: { name: 'MIT', identifier: 'MIT' },
};

const TAGS: NonNullable<OpenapiOptions['tags']> = [
  { name: 'send', description: 'Send mail.' },
  { name: 'attachments', description: 'Upload files for emails above 2 MB.' },
  { name: 'messages', description: 'Look up the status of a message; cancel, reschedule, or resend it.' },
  { name: 'events', description: 'The log of all events, to read or to follow.' },
  { name: 'incidents', description: 'Current problems, and how to fix them.' },
  { name: 'requests', description: 'The log of requests, and why some were rejected.' },
  { name: 'statistics', description: 'Counts of messages accepted, delivered, bounced, and opened, by hour or day.' },
  { name: 'webhooks', description: 'Receive signed events at your own endpoint.' },
  { name: 'templates', description: 'Stored content with variables, in versions.' },
  { name: 'domains', description: 'The domains that an account sends from, and their DNS records.' },
  { name: 'inbound', description: 'Receive mail as events.' },
  { name: 'suppressions', description: 'Addresses that receive no mail.' },
  { name: 'recipients', description: 'Erase the data of a recipient.' },
  { name: 'sandbox', description: 'The virtual inbox of sandbox keys, its outcomes and its clock.' },
  { name: 'account', description: 'Settings, limits, keys, SMTP credentials, approvals.' },
  { name: 'audit', description: 'Who changed what, when and from where.' },
  { name: 'agents', description: 'Changes that AI agents request, and that people approve or decline.' },
  { name: 'users', description: 'The members of the account and their roles.' },
  { name: 'session', description: 'Login sessions, an alternative to API keys; passwords and second factors.' },
  {
    name: 'operator',
    description: 'Accounts, approvals, queue, destinations and nodes, for logged-in operators and operator keys.',
  },
  { name: 'service', description: 'For operators and monitoring; no key is required.' },
];

/** Returns the options of the document of a service with this address. Reads the examples from files. */
export function documentOptions(serverUrl: string): OpenapiOptions {
  return {
    serverUrl,
    about: ABOUT,
    tags: TAGS,
    pathParameters: PATH_PARAMETERS,
    examples: readExamples(),
    events: {
      schema: eventSchema,
      types: eventCatalogue(),
    },
  };
}
