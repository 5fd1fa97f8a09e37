/** Builds the API representations of accounts, API keys, and SMTP credentials, and defines the schemas that describe them. */
import type { TInteger } from 'typebox';
import { iso, isoOrNull } from '../base/clock.ts';
import { Type } from '../http/schema-type.ts';
import { closed, mapOf, named, oneOf } from '../http/validate.ts';
import { type LimitName, limitsOf } from '../limits/limits.ts';
import {
  type Account,
  MAXIMUM_EMAIL_BYTES,
  MAXIMUM_SENDERS,
  STANDARD_EMAIL_BYTES,
  type SubmissionPorts,
} from './account.ts';
import { keyPrefix } from './authenticate.ts';
import type { ApiKeyRecord, CredentialRecord } from './credential-store.ts';
import { LOGO_TYPES, MAXIMUM_LOGO_BASE64, MAXIMUM_LOGO_BYTES } from './logo.ts';
import type { Logo, LogoSummary } from './logo-store.ts';
import { MAXIMUM_NETWORKS } from './networks.ts';
import type { SendingProtection } from './protection-store.ts';
import { protectionBody } from './protection-texts.ts';
import type { Usage } from './usage.ts';

const RECIPIENTS_PER_EMAIL = 50;
const time = Type.String({ format: 'date-time' });
const mode = oneOf(['live', 'sandbox']);
const scope = oneOf(['send', 'full']);

const limitShape: Record<LimitName, TInteger> = {
  webhooks: Type.Integer({ description: 'Limits on resources count live and sandbox together.' }),
  domains: Type.Integer(),
  templates: Type.Integer(),
  apiKeys: Type.Integer(),
  smtpCredentials: Type.Integer(),
  inboundRoutes: Type.Integer(),
  openSubmissions: Type.Integer({
    description: 'Submissions that are not sent yet and have valid upload URLs or uploaded files.',
  }),
  eventStreams: Type.Integer({ description: 'Event streams open at the same time.' }),
  inboxWaits: Type.Integer({ description: 'Calls of GET /sandbox/inbox/wait open at the same time.' }),
  inboundMailPerHour: Type.Integer({ description: 'Messages from outside for inbound routes. More are deferred.' }),
};

const quota = (period: string) =>
  Type.Unsafe<number | null>({
    type: ['integer', 'null'],
    description: `Messages per ${period} (UTC), in each mode; every recipient is one message. More are refused with 429. Null: unlimited.`,
  });

const logoSummaryFields = {
  contentType: oneOf([...LOGO_TYPES]),
  bytes: Type.Integer(),
  updatedAt: time,
};
const logoSummary = closed(logoSummaryFields);
export const logoSchema = named('Logo', {
  ...logoSummaryFields,
  content: Type.String({ description: 'The image, in Base64.' }),
});
export const logoRequest = named('LogoRequest', {
  content: Type.String({
    minLength: 1,
    maxLength: MAXIMUM_LOGO_BASE64,
    description: `A PNG, JPEG, GIF, or WebP image of up to ${MAXIMUM_LOGO_BYTES} bytes, in Base64.`,
  }),
});

function logoSummaryBody({ contentType, bytes, updatedAt }: LogoSummary): Record<string, unknown> {
  return { contentType, bytes, updatedAt: iso(updatedAt) };
}

export function logoBody({ content, ...logo }: Logo): Record<string, unknown> {
  return { ...logoSummaryBody({ ...logo, bytes: content.length }), content: Buffer.from(content).toString('base64') };
}

export const accountSchema = named('Account', {
  accountId: Type.String(),
  name: Type.String(),
  timeZone: Type.String({ description: 'IANA name of the time zone of the times in notices.' }),
  logo: Type.Unsafe<unknown>({
    anyOf: [logoSummary, { type: 'null' }],
    description: 'The image at the top of notices; null if there is none. GET /account/logo returns its content.',
  }),
  plan: oneOf(['free', 'paid', 'enterprise']),
  status: oneOf(['active', 'suspended']),
  approvedEmailBytes: Type.Integer(),
  limits: closed({
    maximumEmailBytes: Type.Integer({ description: 'Maximum size of an email without the upload flow.' }),
    approvedEmailBytes: Type.Integer({ description: 'Maximum size of an email with the upload flow.' }),
    maximumFinalMimeBytes: Type.Integer({ description: 'Highest size that can be approved.' }),
    recipientsPerEmail: Type.Integer(),
    ...limitShape,
    messagesPerDay: quota('day'),
    messagesPerMonth: quota('month'),
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
        description: 'With implicit TLS; null if the service has no such port.',
      }),
    },
    { description: 'Ports for SMTP submission, on the host of this API.' },
  ),
  settings: closed({
    variables: mapOf(Type.String(), { maxProperties: 200 }),
    missingVariables: oneOf(['error', 'empty', 'keep']),
    retainContent: oneOf(['none', '7d', '30d']),
    defaultFrom: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
  }),
  twoFactorRequired: Type.Boolean({ description: 'Whether users of the account need two-factor authentication.' }),
  createdAt: time,
});

export function accountBody(
  account: Account,
  { usage, smtp, logo }: { usage: Usage; smtp: SubmissionPorts; logo: LogoSummary | null },
): Record<string, unknown> {
  return {
    accountId: account.id,
    name: account.name,
    timeZone: account.timeZone,
    logo: logo === null ? null : logoSummaryBody(logo),
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
    twoFactorRequired: account.twoFactorRequired,
    createdAt: iso(account.createdAt),
  };
}

const threshold = closed({
  warning: Type.Number({ description: 'Share at which the rate is high; 0 disables the level.' }),
  critical: Type.Number({ description: 'Share at which the rate is too high; 0 disables the level.' }),
  minimumMessages: Type.Integer({
    description: 'Minimum number of messages (delivered, bounced, or complained about) before the rate is evaluated.',
  }),
});

const orNull = (shape: object) => Type.Unsafe<string | null>({ type: ['string', 'null'], ...shape });
const nullableTime = (description: string) => orNull({ format: 'date-time', description });
const protectionSchema = closed(
  {
    status: oneOf(['good', 'warned', 'held'], {
      description: 'held: live mail is accepted and queued, but not sent until an owner or an operator releases it.',
    }),
    since: nullableTime('Null while the status is good.'),
    reason: orNull({ description: 'The rate and its thresholds at that time.' }),
    countedSince: nullableTime('When held mail was last released; earlier messages no longer count.'),
  },
  { description: 'Monitors hard bounces and complaints of live mail over the last day and the last 7 days.' },
);

export const healthSchema = named('AccountHealth', {
  status: oneOf(['good', 'warning', 'critical'], {
    description: 'The worse of both rates; good while there are too few messages to rate.',
  }),
  periodDays: Type.Integer(),
  messages: Type.Integer(),
  delivered: Type.Integer(),
  bounced: Type.Integer(),
  complained: Type.Integer(),
  queued: Type.Integer(),
  bounceRate: Type.Number({
    description: 'Bounced messages as a share of the messages that were delivered, bounced, or complained about.',
  }),
  complaintRate: Type.Number(),
  thresholds: closed(
    { bounceRate: threshold, complaintRate: threshold },
    { description: 'Thresholds that large mailbox providers publish or enforce, unless the operator has set others.' },
  ),
  advice: Type.Array(Type.String()),
  sendingProtection: Type.Optional(protectionSchema),
});

/** Includes `sendingProtection` for live mail only; sandbox mail is never held. */
export function healthBody<H extends object>(health: H, protection: SendingProtection | undefined) {
  return { ...health, ...(protection && { sendingProtection: protectionBody(protection) }) };
}

export const resumeRequest = named('ResumeSendingRequest', {
  confirm: Type.Literal(true, { description: 'Confirms that the cause is fixed and that held mail can be sent.' }),
});

const allowedSenders = Type.Array(Type.String(), {
  description: 'Addresses and domains (including subdomains) that it can send from. Empty: any sender of the account.',
});
const allowedNetworks = Type.Array(Type.String(), {
  description: 'IPv4 and IPv6 networks (CIDR) that it can be used from. Empty: any address.',
});
const keyKind = oneOf(['api-key', 'sigv4'], {
  description:
    'api-key: sent in X-Api-Key. sigv4: an access key id and a secret that sign requests to the SES interface (AWS Signature Version 4).',
});
const expiresAt = Type.Unsafe<string | null>({
  type: ['string', 'null'],
  format: 'date-time',
  description: 'Time at which it expires; null if it never expires.',
});
const lastUse = {
  lastUsedAt: orNull({
    format: 'date-time',
    description:
      'When it was last used: the last request that it authenticated, or the last login or message over SMTP. Recorded within a minute. Null: never used.',
  }),
  lastUsedAddress: orNull({ description: 'IP address of the client that used it last. Null: never used.' }),
};
const keyFields = {
  keyId: Type.String(),
  prefix: Type.String({ description: 'The start of the key, before its secret part; for kind sigv4 the accessKeyId.' }),
  kind: Type.Optional(Type.Literal('sigv4', { description: 'sigv4: the key signs requests to the SES interface.' })),
  accessKeyId: Type.Optional(Type.String({ description: 'Only for keys of kind sigv4.' })),
  mode,
  scope,
  allowedSenders,
  allowedNetworks,
  name: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
  expiresAt,
  createdAt: time,
  ...lastUse,
};
export const keySchema = named('ApiKey', keyFields);
export const newKeySchema = named('NewApiKey', {
  ...keyFields,
  apiKey: Type.Optional(Type.String({ description: 'Returned only in this response; absent for kind sigv4.' })),
  secretAccessKey: Type.Optional(
    Type.String({ description: 'Only for keys of kind sigv4. Returned only in this response.' }),
  ),
});

type LastUse = Pick<ApiKeyRecord, 'lastUsedAt' | 'lastUsedAddress'>;

/** The last use of a key or credential that was just created. */
export const NEVER_USED: LastUse = { lastUsedAt: null, lastUsedAddress: null };

function lastUseBody({ lastUsedAt, lastUsedAddress }: LastUse) {
  return { lastUsedAt: isoOrNull(lastUsedAt), lastUsedAddress };
}

export function keyBody(key: Omit<ApiKeyRecord, 'accountId'>): Record<string, unknown> {
  return {
    keyId: key.id,
    prefix: key.accessKeyId ?? keyPrefix(key.mode, key.id),
    ...(key.accessKeyId !== null && { kind: 'sigv4', accessKeyId: key.accessKeyId }),
    mode: key.mode,
    scope: key.scope,
    allowedSenders: key.allowedSenders,
    allowedNetworks: key.allowedNetworks,
    name: key.name,
    expiresAt: isoOrNull(key.expiresAt),
    createdAt: iso(key.createdAt),
    ...lastUseBody(key),
  };
}

const deliveryReports = oneOf(['off', 'failures'], {
  description:
    'failures: the envelope sender receives a delivery report when a message bounces, even if RCPT has no NOTIFY. NOTIFY=NEVER takes precedence.',
});
const credentialFields = {
  smtpCredentialId: Type.String(),
  username: Type.String(),
  mode,
  allowedSenders,
  allowedNetworks,
  deliveryReports,
  expiresAt,
  createdAt: time,
  ...lastUse,
};
export const credentialSchema = named('SmtpCredential', credentialFields);
export const newCredentialSchema = named('NewSmtpCredential', {
  ...credentialFields,
  password: Type.String({ description: 'Returned only in this response.' }),
});

export function credentialBody(row: Omit<CredentialRecord, 'accountId'>): Record<string, unknown> {
  return {
    smtpCredentialId: row.id,
    username: row.username,
    mode: row.mode,
    allowedSenders: row.allowedSenders,
    allowedNetworks: row.allowedNetworks,
    deliveryReports: row.deliveryReports,
    expiresAt: isoOrNull(row.expiresAt),
    createdAt: iso(row.createdAt),
    ...lastUseBody(row),
  };
}

const requestedSenders = Type.Optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 320 }), {
    maxItems: MAXIMUM_SENDERS,
    description:
      'Addresses and domains (including subdomains) that it can send from; any other From returns 403. Empty or absent: unrestricted.',
  }),
);

const networksOf = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 64 }), { maxItems: MAXIMUM_NETWORKS, description }));
const requestedNetworks = networksOf(
  'IPv4 and IPv6 networks (CIDR) or addresses that it can be used from; calls from other addresses return 403, and SMTP logins 535. Empty: any address. By default the networks of the key that creates it.',
);
const networksChange = networksOf('Replaces all networks (CIDR) that it can be used from. Empty: any address.');

const requestedExpiry = Type.Optional(
  Type.String({
    format: 'date-time',
    maxLength: 64,
    description:
      'Time at which it expires; must be in the future. Defaults to the expiry of the key that creates it, if any.',
  }),
);

const keyName = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 200,
    pattern: '^[^\\u0000-\\u001f\\u007f]*$',
    phrase: 'must not have control characters',
  }),
);

export const newKeyRequest = named('ApiKeyRequest', {
  mode: Type.Optional(mode),
  kind: Type.Optional(keyKind),
  scope: Type.Optional(scope),
  allowedSenders: requestedSenders,
  allowedNetworks: requestedNetworks,
  expiresAt: requestedExpiry,
  name: keyName,
});
export const keyChangeRequest = named('ApiKeyChangeRequest', { name: keyName, allowedNetworks: networksChange });
export const newCredentialRequest = named('SmtpCredentialRequest', {
  mode: Type.Optional(mode),
  allowedSenders: requestedSenders,
  allowedNetworks: requestedNetworks,
  expiresAt: requestedExpiry,
  deliveryReports: Type.Optional(deliveryReports),
});
export const credentialChangeRequest = named('SmtpCredentialChangeRequest', { allowedNetworks: networksChange });
