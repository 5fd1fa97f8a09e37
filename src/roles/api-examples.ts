/**
 * Defines an example of each named API schema, for /openapi.json. A test checks each example against its schema.
 */

import { sampleEvent } from '../events/events.ts';
import { limitsOf } from '../limits/limits.ts';
import { ANN, DAY_BEFORE, ids, SHOP, SUBJECT, TIME } from './api-example-ids.ts';
import { INBOUND_EXAMPLES } from './api-inbound-examples.ts';
import { MESSAGE_EXAMPLES } from './api-message-examples.ts';
import { USER_EXAMPLES } from './api-user-examples.ts';

const incident = {
  incidentId: 'inc_0f1e2d3c4b5a69788796',
  kind: 'delivery',
  state: 'delayed',
  destination: 'example.com',
  smtpCode: 421,
  enhancedCode: '4.7.28',
  reply: '421 4.7.28 Our system has detected an unusual rate of mail from your address',
  category: 'rate-limited',
  owner: 'remote',
  advice: 'The receiving server limits the sending rate; Postrider retries automatically.',
  messages: 412,
  since: TIME,
  lastAt: TIME,
  nextAttemptAt: '2026-11-20T09:49:02.480Z',
  sampleMessageIds: [ids.message],
};

/** A white pixel. */
const LOGO = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg==';
const logoSummary = {
  contentType: 'image/png',
  bytes: Buffer.from(LOGO, 'base64').length,
  updatedAt: DAY_BEFORE,
};

const attachment = { name: 'receipt.pdf', contentType: 'application/pdf', content: 'JVBERi0xLjcK' };

const sendRequest = {
  from: SHOP,
  to: ANN,
  subject: 'Order {{order}}',
  html: '<p>Thank you, {{name}}.</p>',
  templateVariables: { order: 17, name: 'Ann' },
  tags: ['receipt'],
  metadata: { order: '17' },
};

const recipient = { email: ANN, role: 'to', status: 'queued', messageId: ids.message };
const sendResult = {
  message: 'queued',
  messageId: ids.message,
  headerMessageId: '<2zAb01CdEfGhIjKlMnOpQr@shop.example>',
  from: SHOP,
  status: 'queued',
  totalRecipients: 1,
  recipients: [recipient],
};

const variable = { name: 'name', type: 'string', required: true };
const templateRequest = {
  name: 'receipt',
  subject: 'Order {{order}}',
  html: '<p>Thank you, {{name}}.</p>',
  variables: [variable],
};
const templateVersion = {
  templateId: ids.template,
  name: 'receipt',
  type: 'transactional',
  subject: 'Order {{order}}',
  html: '<p>Thank you, {{name}}.</p>',
  text: null,
  variables: [variable],
  version: 3,
  createdAt: DAY_BEFORE,
};

const templateSample = { name: 'First order', values: { order: 17, name: 'Ann' } };

const webhook = {
  webhookId: ids.webhook,
  url: 'https://shop.example/hooks/mail',
  events: ['Delivery', 'Bounce'],
  description: 'Orders',
  headers: { Authorization: '********' },
  enabled: true,
  ordered: false,
  maxBatch: 1,
  createdAt: DAY_BEFORE,
  updatedAt: DAY_BEFORE,
};
const SECRET = 'whsec_…';
const webhookAttempt = { time: TIME, responseStatus: 204, responseStart: '', error: null, latencyMs: 38 };

const record = {
  purpose: 'dkim',
  type: 'TXT',
  name: 'pr1._domainkey.shop.example',
  value: 'v=DKIM1; k=rsa; p=MIIBIjANBgkq…',
  status: 'verified',
  found: ['v=DKIM1; k=rsa; p=MIIBIjANBgkq…'],
  required: true,
  keyState: 'active',
  note: null,
};

const inboxItem = {
  messageId: ids.message,
  from: SHOP,
  to: ANN,
  subject: 'Your code',
  outcome: 'Delivered',
  age: 12,
  createdAt: TIME,
};

const statisticsBucket = {
  start: '2026-11-20T00:00:00.000Z',
  group: 'receipt',
  accepted: 412,
  delivered: 405,
  bounced: { hard: 3, soft: 1, block: 2 },
  delayed: 9,
  suppressed: 2,
  complained: 0,
  opened: 230,
  clicked: 41,
  unsubscribed: 1,
  deliverySeconds: { p50: 0.412, p95: 3.71 },
};

const allowedSenders = ['shop@example.com'];
const allowedNetworks = ['203.0.113.0/24', '2001:db8::/32'];
const credentialBase = {
  mode: 'live',
  allowedSenders,
  allowedNetworks,
  expiresAt: null,
  createdAt: DAY_BEFORE,
  lastUsedAt: TIME,
  lastUsedAddress: '203.0.113.25',
};
const unused = { lastUsedAt: null, lastUsedAddress: null };
const apiKey = {
  keyId: ids.key,
  prefix: 'pr_live_2zAb09…',
  scope: 'send',
  name: 'web shop',
  ...credentialBase,
};
const credential = {
  smtpCredentialId: ids.credential,
  username: ids.credential,
  ...credentialBase,
  deliveryReports: 'failures',
};

export const EXAMPLES: Readonly<Record<string, unknown>> = {
  Refusal: {
    success: false,
    error: {
      code: 'INVALID_REQUEST',
      message: 'The request is not valid: to must have at least one address.',
      details: [{ field: 'to', code: 'TOO_SHORT', message: 'must have at least one address' }],
    },
    reasonCode: 'INVALID_REQUEST',
    requestId: ids.request,
  },
  Confirmation: { message: 'Deleted.' },
  SendRequest: sendRequest,
  Attachment: attachment,
  SendBatchRequest: { messages: [sendRequest] },
  SendResponse: { success: true, data: sendResult },
  SendBatchResponse: { results: [{ status: 202, data: sendResult }] },
  DryRunResponse: {
    subject: SUBJECT,
    html: '<p>Thank you, Ann.</p>',
    text: 'Thank you, Ann.',
    sizeBytes: 2_143,
    limitBytes: 2_000_000,
    suppressed: [],
    missingVariables: [],
    warnings: [
      {
        code: 'NO_UNSUBSCRIBE',
        message: 'The message has no unsubscribe link.',
        remedy: 'Set listUnsubscribe for bulk mail, such as newsletters.',
      },
    ],
  },
  AttachmentManifest: {
    attachments: [
      {
        name: 'catalogue.pdf',
        contentType: 'application/pdf',
        sizeBytes: 12_000_000,
        sha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
      },
    ],
  },
  AttachmentSubmission: {
    attachmentSubmissionId: ids.submission,
    expiresAt: 1_795_168_740_000,
    attachmentUploads: [
      { uploadUrl: 'http://localhost:3000/uploads/AbC…', requiredHeaders: { 'Content-Type': 'application/pdf' } },
    ],
    maximumFinalMimeBytes: 40_000_000,
  },
  AttachmentSubmissionState: {
    attachmentSubmissionId: ids.submission,
    expiresAt: 1_795_168_740_000,
    status: 'open',
    files: [{ name: 'catalogue.pdf', sizeBytes: 12_000_000, status: 'uploaded' }],
  },
  ...MESSAGE_EXAMPLES,
  MoveMessageRequest: { sendAt: '2026-11-21T08:00:00.000Z' },
  Event: sampleEvent('Delivery'),
  Statistics: { buckets: [statisticsBucket] },
  WebhookChange: { enabled: true },
  WebhookRequest: { url: webhook.url, events: webhook.events, description: 'Orders' },
  Webhook: webhook,
  WebhookWithSecret: { ...webhook, secret: SECRET },
  WebhookWithNewSecret: { ...webhook, secret: SECRET, previousSecretUntil: '2026-11-21T09:44:00.123Z' },
  WebhookTestResult: {
    success: true,
    eventId: ids.event,
    responseStatus: 204,
    responseStart: '',
    error: null,
    latencyMs: 38,
  },
  WebhookDelivery: {
    deliveryId: ids.delivery,
    eventId: ids.event,
    eventType: 'Delivery',
    status: 'succeeded',
    attempts: 1,
    request: {
      method: 'POST',
      url: webhook.url,
      headers: { 'webhook-id': ids.event },
      body: JSON.stringify(sampleEvent('Delivery')),
    },
    responseStatus: 204,
    responseStart: '',
    error: null,
    latencyMs: 38,
    attemptLog: [webhookAttempt],
    nextAttemptAt: null,
    createdAt: TIME,
  },
  WebhookTestRequest: { eventType: 'Bounce' },
  EventType: {
    eventType: 'Delivery',
    description: "The recipient's mail server accepted the message.",
    sample: sampleEvent('Delivery'),
  },
  ReplayRequest: { since: DAY_BEFORE, until: TIME, eventTypes: ['Bounce'] },
  ReplayResult: { message: '12 events are queued to be sent again.', events: 12 },
  TemplateChange: { subject: 'Your receipt for order {{ orderId }}' },
  TemplateRequest: templateRequest,
  Template: { ...templateVersion, samples: [templateSample], updatedAt: TIME },
  TemplateSamplesRequest: { samples: [templateSample] },
  TemplateVersion: templateVersion,
  RenderRequest: { templateVariables: { order: 17, name: 'Ann' } },
  RenderSourcesRequest: { html: '<p>Thank you, {{name}}.</p>', templateVariables: { name: 'Ann' } },
  ShareTemplateRequest: { expiresInSeconds: 86_400, templateVariables: { name: 'Ann' } },
  TemplateShare: {
    shareId: 'shr_2zAb0GCdEfGhIjKlMnOpQr',
    templateId: ids.template,
    name: 'receipt',
    version: 3,
    createdAt: TIME,
    expiresAt: '2026-11-21T09:44:00.123Z',
    createdBy: { kind: 'user', id: 'usr_2zAb0FCdEfGhIjKlMnOpQr', name: 'ann@shop.example' },
  },
  SharedTemplate: {
    name: 'receipt',
    version: 3,
    subject: SUBJECT,
    html: '<p>Thank you, Ann.</p>',
    text: 'Thank you, Ann.',
    createdAt: TIME,
    validUntil: '2026-11-21T09:44:00.123Z',
  },
  RenderedTemplate: { subject: SUBJECT, html: '<p>Thank you, Ann.</p>', text: 'Thank you, Ann.', missingVariables: [] },
  ...INBOUND_EXAMPLES,
  DnsRecord: record,
  DomainRequest: { domain: 'shop.example' },
  Domain: {
    domainId: ids.domain,
    domain: 'shop.example',
    status: 'verified',
    dnsRecords: [record],
    createdAt: DAY_BEFORE,
    checkedAt: TIME,
    verifiedBy: 'dns',
    sendingStopsAt: null,
  },
  DomainVerification: { success: true, message: 'The domain is verified.' },
  Suppression: {
    email: ANN,
    reason: 'bounce',
    sourceMessageId: ids.message,
    expiresAt: null,
    createdAt: TIME,
  },
  SuppressionRequest: { email: ANN, reason: 'manual' },
  SuppressionImport: { imported: 2, skipped: 1 },
  // No other example sends to this address, because an erasure suppresses it.
  ErasureRequest: { email: 'former.customer@example.com' },
  Erasure: {
    erasureId: 'ers_2zAbCdEfGhIjKlMnOpQrStU',
    status: 'running',
    createdAt: TIME,
    completedAt: null,
    removed: { messages: 12, events: 31, inboundMessages: 1 },
  },
  SandboxMessage: inboxItem,
  SandboxMessageDetail: {
    ...inboxItem,
    html: '<p>Your code is 493 817.</p>',
    text: 'Your code is 493 817.',
    headers: { Subject: 'Your code' },
    links: [],
    codes: ['493817'],
  },
  SandboxOutcomeRequest: { outcome: 'bounced' },
  ClockAdvanceRequest: { seconds: 86_400 },
  ClockReset: { now: '2026-11-20T09:44:00.123Z', removed: 12 },
  ClockAdvance: { now: '2026-11-21T09:44:00.123Z', ran: 3 },
  Account: {
    accountId: ids.account,
    name: 'Shop',
    timeZone: 'Europe/Berlin',
    logo: logoSummary,
    plan: 'paid',
    status: 'active',
    approvedEmailBytes: 2_000_000,
    limits: {
      maximumEmailBytes: 2_000_000,
      approvedEmailBytes: 2_000_000,
      maximumFinalMimeBytes: 40_000_000,
      recipientsPerEmail: 50,
      ...limitsOf({}),
    },
    usage: { messagesToday: 120, messagesLast30Days: 4_310, queued: 2 },
    smtp: { port: 587, tlsPort: 465 },
    settings: {
      variables: { company_address_html: 'Shop, 1 High Street' },
      missingVariables: 'error',
      retainContent: '30d',
      defaultFrom: SHOP,
    },
    twoFactorRequired: true,
    createdAt: DAY_BEFORE,
  },
  AccountSettingsRequest: { defaultFrom: SHOP, timeZone: 'Europe/Berlin' },
  Logo: { ...logoSummary, content: LOGO },
  LogoRequest: { content: LOGO },
  AccountHealth: {
    status: 'good',
    periodDays: 7,
    messages: 4_310,
    delivered: 4_280,
    bounced: 28,
    complained: 1,
    queued: 2,
    bounceRate: 0.0065,
    complaintRate: 0.0002,
    thresholds: {
      bounceRate: { warning: 0.05, critical: 0.1, minimumMessages: 100 },
      complaintRate: { warning: 0.001, critical: 0.003, minimumMessages: 1_000 },
    },
    advice: [],
    sendingProtection: { status: 'good', since: null, reason: null, countedSince: null },
  },
  ResumeSendingRequest: { confirm: true },
  ApiKeyChangeRequest: { name: 'web shop, staging', allowedNetworks },
  ApiKeyRequest: { mode: 'live', scope: 'send', allowedSenders, allowedNetworks, name: 'web shop' },
  ApiKey: apiKey,
  NewApiKey: { ...apiKey, ...unused, apiKey: 'pr_live_…' },
  SmtpCredentialRequest: { mode: 'live', allowedNetworks, deliveryReports: 'failures' },
  SmtpCredentialChangeRequest: { allowedNetworks },
  SmtpCredential: credential,
  NewSmtpCredential: { ...credential, ...unused, password: '…' },
  AgentRequest: {
    agentRequestId: 'agr_2zAb0DCdEfGhIjKlMnOpQr',
    tool: 'send_email',
    client: 'Support agent',
    keyId: ids.key,
    status: 'pending',
    digest: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
    createdAt: TIME,
    expiresAt: '2026-11-20T09:54:00.123Z',
    decidedAt: null,
    decidedBy: null,
    recipients: [ANN],
    call: { method: 'POST', path: '/send', body: { from: SHOP, to: [ANN], subject: SUBJECT, text: 'Thank you, Ann.' } },
    result: null,
  },
  AgentRequestDecision: { digest: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08' },
  ApprovalRequest: { requestedEmailBytes: 20_000_000, reason: 'We send printed catalogues to our customers.' },
  Approval: {
    approvalId: ids.approval,
    status: 'pending',
    requestedEmailBytes: 20_000_000,
    reason: 'We send printed catalogues to our customers.',
    createdAt: TIME,
  },
  AuditEntry: {
    auditId: 'aud_0VnX3kQ9aB1cD2eF3gH4i',
    time: '2026-11-20T09:44:00.123Z',
    accountId: ids.account,
    mode: 'live',
    actor: { kind: 'key', id: ids.key, name: 'web shop' },
    address: '192.0.2.10',
    requestId: 'req_0VnX3kQ9aB1cD2eF3gH4i',
    action: 'account.update',
    resource: 'account',
    resourceId: ids.account,
    before: { status: 'active', plan: 'free' },
    after: { status: 'active', plan: 'paid' },
  },
  DeliveryIncident: incident,
  DeliveryIncidentDetail: {
    ...incident,
    affectedMessages: [
      { messageId: ids.message, to: ANN, status: 'delayed', failedAt: TIME, nextAttemptAt: '2026-11-20T09:49:02.480Z' },
    ],
  },
  WebhookIncident: {
    incidentId: 'inc_5b1f0c2d9e8a7f6e5d4c',
    kind: 'webhook',
    state: 'failing',
    webhookId: ids.webhook,
    host: 'shop.example',
    deliveries: 17,
    lastStatus: 503,
    lastError: null,
    owner: 'sender',
    advice:
      'shop.example must return 2xx within 15 s (it returned 503); Postrider retries automatically, and disables the webhook after five days of failures.',
    since: DAY_BEFORE,
    lastAt: TIME,
  },
  DomainIncident: {
    incidentId: 'inc_7c6b5a49382716051423',
    kind: 'domain',
    state: 'failing',
    domainId: ids.domain,
    domain: 'shop.example',
    record: { type: 'TXT', name: 's1._domainkey.shop.example' },
    owner: 'sender',
    advice: 'Publish the TXT record s1._domainkey.shop.example again.',
    since: DAY_BEFORE,
    lastAt: TIME,
  },
  ReputationIncident: {
    incidentId: 'inc_1a2b3c4d5e6f70819203',
    kind: 'reputation',
    state: 'held',
    rate: 'bounceRate',
    owner: 'sender',
    reason: 'In the last 24 hours, 12.4 % of 1250 live messages hard-bounced (warning at 5 %, hold at 10 %).',
    advice: 'Once the cause is fixed, an owner can release the mail with POST /account/resume-sending.',
    since: DAY_BEFORE,
    lastAt: DAY_BEFORE,
  },
  IncidentRetried: {
    retried: 412,
    message: 'Retrying 412 messages as soon as the pauses and limits of the destination allow.',
  },
  LoggedRequest: {
    requestId: ids.request,
    source: 'api',
    time: TIME,
    endpoint: 'POST /send',
    path: '/send',
    status: 400,
    durationMs: 3,
    code: 'INVALID_REQUEST',
    message: 'to must have at least one address.',
    details: [{ field: 'to', code: 'TOO_SHORT', message: 'must have at least one address' }],
    keyId: ids.key,
    address: '192.0.2.80',
    userAgent: 'node',
  },
  ...USER_EXAMPLES,
  Health: { status: 'ok' },
  Readiness: { status: 'ready', reasons: [] },
  Openapi: { openapi: '3.1.0', info: { title: 'Postrider', version: '1.0.0' }, paths: {} },
};
