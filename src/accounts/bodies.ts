/** Accounts, keys and credentials as the API shows them, with the schemas that describe it. */
import { type TInteger, Type } from 'typebox';
import { iso } from '../base/clock.ts';
import { closed, mapOf, named, oneOf } from '../http/validate.ts';
import { type LimitName, limitsOf } from '../limits/limits.ts';
import {
  type Account,
  MAXIMUM_EMAIL_BYTES,
  MAXIMUM_SENDERS,
  STANDARD_EMAIL_BYTES,
  type SubmissionPorts,
} from './account.ts';
import type { ApiKeyRecord, CredentialRecord } from './credential-store.ts';
import type { SendingProtection } from './protection-store.ts';
import { protectionBody } from './protection-words.ts';
import type { Usage } from './usage.ts';

const RECIPIENTS_PER_EMAIL = 50;
const time = Type.String({ format: 'date-time' });
const mode = oneOf(['live', 'sandbox']);
const scope = oneOf(['send', 'full']);

const limitShape: Record<LimitName, TInteger> = {
  webhooks: Type.Integer({ description: 'Resources are counted in all, live and sandbox together.' }),
  domains: Type.Integer(),
  templates: Type.Integer(),
  apiKeys: Type.Integer(),
  smtpCredentials: Type.Integer(),
  inboundRoutes: Type.Integer(),
  openSubmissions: Type.Integer({ description: 'Not sent yet, with upload URLs that live or with files.' }),
  eventStreams: Type.Integer({ description: 'Held open at once.' }),
  inboxWaits: Type.Integer({ description: 'Held open at once.' }),
  inboundMailPerHour: Type.Integer({ description: 'Mail for inbound routes from outside; more is put off.' }),
};

export const accountSchema = named('Account', {
  accountId: Type.String(),
  name: Type.String(),
  plan: oneOf(['free', 'paid', 'enterprise']),
  status: oneOf(['active', 'suspended']),
  approvedEmailBytes: Type.Integer(),
  limits: closed({
    maximumEmailBytes: Type.Integer({ description: 'Of an email without the upload flow.' }),
    approvedEmailBytes: Type.Integer({ description: 'Of an email with the upload flow.' }),
    maximumFinalMimeBytes: Type.Integer({ description: 'Above which no approval goes.' }),
    recipientsPerEmail: Type.Integer(),
    ...limitShape,
  }),
  usage: closed({
    messagesToday: Type.Integer({ description: "Since midnight UTC, in this key's mode." }),
    messagesLast30Days: Type.Integer({ description: 'Counted up to 100,000.' }),
    queued: Type.Integer(),
  }),
  smtp: closed(
    {
      port: Type.Integer({ description: 'With STARTTLS.' }),
      tlsPort: Type.Unsafe<number | null>({
        type: ['integer', 'null'],
        description: 'With TLS from the first byte; null where the service has no such port.',
      }),
    },
    { description: 'Ports that take mail by SMTP, at the host of this API.' },
  ),
  settings: closed({
    variables: mapOf(Type.String(), { maxProperties: 200 }),
    missingVariables: oneOf(['error', 'empty', 'keep']),
    retainContent: oneOf(['none', '7d', '30d']),
    defaultFrom: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
  }),
  createdAt: time,
});

export function accountBody(account: Account, usage: Usage, smtp: SubmissionPorts): Record<string, unknown> {
  return {
    accountId: account.id,
    name: account.name,
    plan: account.plan,
    status: account.status,
    approvedEmailBytes: account.approvedEmailBytes,
    limits: {
      maximumEmailBytes: STANDARD_EMAIL_BYTES,
      approvedEmailBytes: account.approvedEmailBytes,
      maximumFinalMimeBytes: MAXIMUM_EMAIL_BYTES,
      recipientsPerEmail: RECIPIENTS_PER_EMAIL,
      ...limitsOf(account.limits),
    },
    usage,
    smtp,
    settings: account.settings,
    createdAt: iso(account.createdAt),
  };
}

const threshold = closed({
  warning: Type.Number({ description: 'High from this share on; 0: never.' }),
  critical: Type.Number({ description: 'Too high from this share on; 0: never.' }),
  minimumMessages: Type.Integer({
    description: 'The rate counts once this many messages were delivered, bounced or complained about.',
  }),
});

const orNull = (shape: object) => Type.Unsafe<string | null>({ type: ['string', 'null'], ...shape });
const nullableTime = (description: string) => orNull({ format: 'date-time', description });
const protectionSchema = closed(
  {
    status: oneOf(['good', 'warned', 'held'], {
      description: 'held: live mail is accepted and queued, and is sent once an owner or the operator releases it.',
    }),
    since: nullableTime('Null while it is good.'),
    reason: orNull({ description: 'The rate and its thresholds, as they were then.' }),
    countedSince: nullableTime('When held mail was last released; earlier mail no longer counts.'),
  },
  { description: 'Watches hard bounces and complaints of live mail over the last day and the last seven.' },
);

export const healthSchema = named('AccountHealth', {
  status: oneOf(['good', 'warning', 'critical'], {
    description: 'The worse of both rates; good while there are too few messages to say more.',
  }),
  periodDays: Type.Integer(),
  messages: Type.Integer(),
  delivered: Type.Integer(),
  bounced: Type.Integer(),
  complained: Type.Integer(),
  queued: Type.Integer(),
  bounceRate: Type.Number({ description: 'Share of the messages delivered, bounced or complained about.' }),
  complaintRate: Type.Number(),
  thresholds: closed(
    { bounceRate: threshold, complaintRate: threshold },
    { description: 'What large mailbox providers publish or act on, unless the operator has set others.' },
  ),
  advice: Type.Array(Type.String()),
  sendingProtection: Type.Optional(protectionSchema),
});

/** With `sendingProtection` for live mail only: mail in the sandbox is never held. */
export function healthBody<H extends object>(health: H, protection: SendingProtection | undefined) {
  return { ...health, ...(protection && { sendingProtection: protectionBody(protection) }) };
}

export const resumeRequest = named('ResumeSendingRequest', {
  confirm: Type.Literal(true, { description: 'Confirms that the cause is fixed and held mail is to be sent.' }),
});

const allowedSenders = Type.Array(Type.String(), {
  description: 'Addresses and domains (with their subdomains) that it may send from; empty: any that the account may.',
});
const keyFields = {
  keyId: Type.String(),
  mode,
  scope,
  allowedSenders,
  name: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
  createdAt: time,
};
export const keySchema = named('ApiKey', keyFields);
export const newKeySchema = named('NewApiKey', {
  ...keyFields,
  apiKey: Type.String({ description: 'Shown this once.' }),
});

export function keyBody(key: Omit<ApiKeyRecord, 'accountId'>): Record<string, unknown> {
  return {
    keyId: key.id,
    mode: key.mode,
    scope: key.scope,
    allowedSenders: key.allowedSenders,
    name: key.name,
    createdAt: iso(key.createdAt),
  };
}

const deliveryReports = oneOf(['off', 'failures'], {
  description:
    'failures: the envelope sender of mail that bounces receives a delivery report, also when RCPT has no NOTIFY. NOTIFY=NEVER wins.',
});
const credentialFields = {
  smtpCredentialId: Type.String(),
  username: Type.String(),
  mode,
  allowedSenders,
  deliveryReports,
  createdAt: time,
};
export const credentialSchema = named('SmtpCredential', credentialFields);
export const newCredentialSchema = named('NewSmtpCredential', {
  ...credentialFields,
  password: Type.String({ description: 'Shown this once.' }),
});

export function credentialBody(row: Omit<CredentialRecord, 'accountId'>): Record<string, unknown> {
  return {
    smtpCredentialId: row.id,
    username: row.username,
    mode: row.mode,
    allowedSenders: row.allowedSenders,
    deliveryReports: row.deliveryReports,
    createdAt: iso(row.createdAt),
  };
}

const sendersWanted = Type.Optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 320 }), {
    maxItems: MAXIMUM_SENDERS,
    description: 'Addresses and domains (with their subdomains); any other From is 403. Empty or absent: any.',
  }),
);

export const newKeyRequest = named('ApiKeyRequest', {
  mode: Type.Optional(mode),
  scope: Type.Optional(scope),
  allowedSenders: sendersWanted,
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 200, pattern: '^[^\\u0000-\\u001f\\u007f]*$' })),
});
export const renameKeyRequest = named('RenameApiKeyRequest', {
  name: Type.String({ minLength: 1, maxLength: 200, pattern: '^[^\\u0000-\\u001f\\u007f]*$' }),
});
export const newCredentialRequest = named('SmtpCredentialRequest', {
  mode: Type.Optional(mode),
  allowedSenders: sendersWanted,
  deliveryReports: Type.Optional(deliveryReports),
});
