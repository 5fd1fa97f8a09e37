/** Schemas and bodies of the operator API: accounts, approvals, the queue, nodes, and the diagnosis. */
import type { Account, SendingProtection, Usage } from '../accounts/accounts.ts';
import {
  ACCOUNT_NAME,
  MAXIMUM_EMAIL_BYTES,
  MAXIMUM_NETWORKS,
  protectionBody,
  STANDARD_EMAIL_BYTES,
  SUSPENSION_REASON,
  thresholdsOf,
} from '../accounts/accounts.ts';
import { iso, isoOrNull } from '../base/clock.ts';
import { OPERATOR_SCOPES } from '../http/operator-key.ts';
import { Type } from '../http/schema-type.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import {
  COUNTED_LIMITS,
  HIGHEST_LIMIT,
  HIGHEST_QUOTA,
  LIMIT_NAMES,
  type LimitName,
  type Limits,
  type LimitUsage,
  limitsOf,
  QUOTA_NAMES,
  type QuotaName,
  type QuotaUsage,
} from '../limits/limits.ts';
import type { LiveNode } from '../nodes/nodes.ts';
import type {
  AccountQueue,
  Credentials,
  DomainQueue,
  LastAttempt,
  QueueFigures,
  RequestedApproval,
  SentMail,
} from './store.ts';

const time = Type.String({ format: 'date-time' });
const nullable = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description });
const nullableTime = (description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time', description });
const count = (description: string) => Type.Integer({ description });
const plan = oneOf(['free', 'paid', 'enterprise']);
const status = oneOf(['active', 'suspended']);
const emailBytes = (description: string) => Type.Integer({ description });
const quotaUsed = (description: string) => Type.Unsafe<number | null>({ type: ['integer', 'null'], description });
const quota = Type.Unsafe<number | null>({ type: ['integer', 'null'], description: 'Null if unlimited.' });
const limits = closed(
  {
    ...(Object.fromEntries(LIMIT_NAMES.map((name) => [name, Type.Integer()])) as Record<
      LimitName,
      ReturnType<typeof count>
    >),
    messagesPerDay: quota,
    messagesPerMonth: quota,
  },
  { description: 'The limits of the account.' },
);

const protectionStatus = oneOf(['good', 'warned', 'held']);

const accountFields = {
  accountId: Type.String(),
  name: Type.String(),
  plan,
  status,
  suspensionReason: nullable('Why the account is suspended; null for an active account.'),
  approvedEmailBytes: emailBytes('Maximum size of an email with uploaded files.'),
  limits,
  twoFactorRequired: Type.Boolean(),
  createdAt: time,
};
export const accountSchema = named('OperatorAccount', {
  ...accountFields,
  sendingProtection: closed(
    { status: protectionStatus },
    { description: 'Sending protection of live mail; GET /operator/accounts/{id} returns the reason.' },
  ),
});

export function accountBody(account: Account) {
  const { id: accountId, name, plan, status, suspensionReason = null } = account;
  const { approvedEmailBytes, twoFactorRequired, protectionStatus, createdAt } = account;
  const limits: Limits = limitsOf(account.limits);
  return {
    accountId,
    name,
    plan,
    status,
    suspensionReason,
    approvedEmailBytes,
    limits,
    twoFactorRequired,
    sendingProtection: { status: protectionStatus },
    createdAt: iso(createdAt),
  };
}

const threshold = closed({ warning: Type.Number(), critical: Type.Number(), minimumMessages: Type.Integer() });

export const accountDetailSchema = named('OperatorAccountDetail', {
  ...accountFields,
  usage: closed({
    messagesToday: count('Live messages since midnight UTC.'),
    messagesLast30Days: count('Live messages in the last 30 days, counted up to 100,000.'),
    queued: count('Queued messages.'),
  }),
  limitUsage: closed(
    {
      ...(Object.fromEntries(COUNTED_LIMITS.map((name) => [name, Type.Integer()])) as Record<
        (typeof COUNTED_LIMITS)[number],
        ReturnType<typeof count>
      >),
      messagesPerDay: quotaUsed('Live messages that count toward the quota of this UTC day; null without a quota.'),
      messagesPerMonth: quotaUsed('Live messages that count toward the quota of this UTC month; null without a quota.'),
    },
    {
      description:
        'How much of each of the `limits` is used; resources of live and sandbox together. Limits of concurrent calls and of inbound mail per hour are missing: each process counts them separately.',
    },
  ),
  health: closed({
    status: oneOf(['good', 'warning', 'critical']),
    periodDays: Type.Integer(),
    bounceRate: Type.Number({
      description:
        'Bounced messages as a share of the live messages that were delivered, bounced, or complained about.',
    }),
    complaintRate: Type.Number({ description: 'Complaints as a share of the same messages.' }),
  }),
  sendingProtection: closed(
    {
      status: protectionStatus,
      since: nullableTime('Null while the rate is good.'),
      reason: nullable('The rate and its thresholds when the status changed.'),
      countedSince: nullableTime('When held mail was last released; earlier mail is not included in the rates.'),
      thresholds: closed({ bounceRate: threshold, complaintRate: threshold }),
    },
    {
      description:
        'Sending protection of live mail. If the rate of hard bounces or complaints is too high, Postrider holds the mail until an owner or an operator releases it.',
    },
  ),
  lastActivityAt: nullableTime('When the newest live or sandbox message was created; null if there is none.'),
});

interface Health {
  status: string;
  periodDays: number;
  bounceRate: number;
  complaintRate: number;
}

export function accountDetailBody(
  account: Account,
  {
    usage,
    limitUsage,
    health,
    protection,
    lastAt,
  }: {
    usage: Usage;
    limitUsage: LimitUsage & QuotaUsage;
    health: Health;
    protection: SendingProtection;
    lastAt: number | null;
  },
) {
  const { status, periodDays, bounceRate, complaintRate } = health;
  return {
    ...accountBody(account),
    usage,
    limitUsage,
    health: { status, periodDays, bounceRate, complaintRate },
    sendingProtection: { ...protectionBody(protection), thresholds: thresholdsOf(protection.set) },
    lastActivityAt: isoOrNull(lastAt),
  };
}

const accountName = Type.String(ACCOUNT_NAME);
export const newAccountRequest = named('NewAccountRequest', { name: accountName, plan: Type.Optional(plan) });
export const newAccountSchema = named('NewAccount', {
  accountId: Type.String(),
  apiKey: Type.String({ description: 'A live key with full scope, returned only in this response.' }),
  sandboxApiKey: Type.String({ description: 'A sandbox key, returned only in this response.' }),
});

const limitChange = (maximum: number, description: string) =>
  Type.Optional(Type.Unsafe<number | null>({ type: ['integer', 'null'], minimum: 0, maximum, description }));
type LimitChange = ReturnType<typeof limitChange>;
const resourceChange = limitChange(HIGHEST_LIMIT, 'Null restores the standard limit.');
const quotaChange = limitChange(
  HIGHEST_QUOTA,
  'Maximum messages per UTC day or month, including those already accepted in it. Null removes the quota.',
);
const changedLimits = {
  ...(Object.fromEntries(LIMIT_NAMES.map((name) => [name, resourceChange])) as Record<LimitName, LimitChange>),
  ...(Object.fromEntries(QUOTA_NAMES.map((name) => [name, quotaChange])) as Record<QuotaName, LimitChange>),
};
const share = Type.Optional(Type.Number({ minimum: 0, maximum: 1, description: '0 disables this level.' }));
const thresholdChange = Type.Optional(
  closed({
    warning: share,
    critical: share,
    minimumMessages: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000 })),
  }),
);
export const accountChangeRequest = closed(
  {
    name: Type.Optional(accountName),
    plan: Type.Optional(plan),
    status: Type.Optional(status),
    suspensionReason: Type.Optional(Type.String(SUSPENSION_REASON)),
    approvedEmailBytes: Type.Optional(Type.Integer({ minimum: STANDARD_EMAIL_BYTES, maximum: MAXIMUM_EMAIL_BYTES })),
    limits: Type.Optional(closed(changedLimits)),
    sendingProtection: Type.Optional(
      closed(
        { bounceRate: thresholdChange, complaintRate: thresholdChange },
        {
          description:
            'Thresholds for sending protection. They replace all thresholds that were set before; omitted thresholds get their standard values. `warning` must be below `critical` unless one of them is 0.',
        },
      ),
    ),
    twoFactorRequired: Type.Optional(
      Type.Literal(false, {
        description: 'Stops requiring two-factor authentication, for an account whose owners are locked out.',
      }),
    ),
  },
  { title: 'AccountChangeRequest', minProperties: 1 },
);

export const suspensionSchema = named('Suspension', {
  accountId: Type.String(),
  status,
  mail: closed({
    queued: count('Queued live messages. They would stay queued until the account is active again.'),
    scheduled: Type.Integer(),
    delayed: Type.Integer(),
    sending: count('Messages that are being delivered. A suspension does not stop them.'),
    isComplete: Type.Boolean({ description: 'False if the account has more than 100,000 messages to count.' }),
  }),
  apiKeys: count('API keys that would be refused with 403 ACCOUNT_SUSPENDED.'),
  smtpCredentials: count('SMTP credentials that would be refused with 535.'),
  sessions: count('Open sessions of users of the account. Their calls to this account would be refused.'),
});

export function suspensionBody(
  account: Account,
  { counts, isComplete, credentials }: { counts: Map<string, number>; isComplete: boolean; credentials: Credentials },
) {
  const of = (status: string): number => counts.get(status) ?? 0;
  const { id: accountId, status } = account;
  const mail = { queued: of('queued'), scheduled: of('scheduled'), delayed: of('delayed'), sending: of('sending') };
  return { accountId, status, mail: { ...mail, isComplete }, ...credentials };
}

export const approvalSchema = named('OperatorApproval', {
  approvalId: Type.String(),
  accountId: Type.String(),
  requestedEmailBytes: Type.Integer(),
  reason: Type.String(),
  status: oneOf(['pending', 'approved', 'rejected']),
  decisionReason: nullable('Reason that the account can read.'),
  createdAt: time,
  decidedAt: nullableTime('Null while it is pending.'),
  sender: closed({
    name: Type.String(),
    plan,
    status,
    approvedEmailBytes: emailBytes('The current limit of the account.'),
    createdAt: time,
    messagesLast30Days: count('Live messages, as counted in the statistics.'),
    bounceRate: Type.Number({
      description: 'Bounces as a share of the messages that were delivered or bounced in the last 30 days.',
    }),
    complaintRate: Type.Number({ description: 'Complaints as a share of the same messages.' }),
    approvedBefore: count('Earlier requests of the account that were approved.'),
    rejectedBefore: Type.Integer(),
  }),
});

const shareOf = (part: number, { delivered, bounced }: SentMail): number =>
  delivered + bounced === 0 ? 0 : Math.round((part / (delivered + bounced)) * 10_000) / 10_000;

/** Returns the body of an approval. A complaint follows a delivery, so it is already included in the delivered messages. */
export function approvalBody({ account, mail, ...approval }: RequestedApproval) {
  return {
    approvalId: approval.id,
    accountId: approval.accountId,
    requestedEmailBytes: approval.requestedEmailBytes,
    reason: approval.reason,
    status: approval.status,
    decisionReason: approval.decisionReason,
    createdAt: iso(approval.createdAt),
    decidedAt: isoOrNull(approval.decidedAt),
    sender: {
      name: account.name,
      plan: account.plan,
      status: account.status,
      approvedEmailBytes: account.approvedEmailBytes,
      createdAt: iso(account.createdAt),
      messagesLast30Days: mail.accepted,
      bounceRate: shareOf(mail.bounced, mail),
      complaintRate: shareOf(mail.complained, mail),
      approvedBefore: approval.approvedBefore,
      rejectedBefore: approval.rejectedBefore,
    },
  };
}

export const rejectionRequest = named('RejectionRequest', {
  reason: Type.String({
    minLength: 1,
    maxLength: 2_000,
    pattern: '^(?=[\\s\\S]*\\S)[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$',
    phrase: 'must have visible characters and no control characters',
    description: 'Reason that the account can read.',
  }),
});

const figures = {
  depth: count('Messages that are queued or being delivered.'),
  due: count('Messages that are due and not yet claimed by a node.'),
  leased: count('Messages that a node has claimed.'),
  held: count('Messages on hold because enough messages of their account or destination are in memory.'),
  waiting: count(
    'Messages that are not due yet: they wait for their next attempt, their `sendAt`, or the end of a pause.',
  ),
  deferred: count('Messages with at least one attempt. They are also included in the figures above.'),
  oldestDueAt: nullableTime('Null if nothing is due.'),
};
export const queueSchema = named('Queue', {
  ...figures,
  isComplete: Type.Boolean({
    description:
      'False if the queue is too long to count completely. All figures except `depth` then cover only the messages that are due first.',
  }),
  accounts: Type.Array(closed({ accountId: Type.String(), name: nullable('Null for Postrider itself.'), ...figures }), {
    description: 'The 100 accounts with the most messages.',
  }),
});

const ACCOUNTS_SHOWN = 100;

function figuresBody({ oldestDueMs, depth, due, leased, held, waiting, deferred }: QueueFigures) {
  return { depth, due, leased, held, waiting, deferred, oldestDueAt: isoOrNull(oldestDueMs) };
}

/** Returns the body of the queue. `depth` is of the complete queue, which may be longer than the rows that were read. */
export function queueBody(accounts: readonly AccountQueue[], { depth, rows }: { depth: number; rows: number }) {
  const sum = (of: (one: AccountQueue) => number): number => accounts.reduce((all, one) => all + of(one), 0);
  const due = accounts.flatMap(({ oldestDueMs }) => (oldestDueMs === null ? [] : [oldestDueMs]));
  const counted = sum((one) => one.depth);
  const isComplete = counted < rows;
  const all: QueueFigures = {
    depth: isComplete ? counted : Math.max(counted, depth),
    due: sum((one) => one.due),
    leased: sum((one) => one.leased),
    held: sum((one) => one.held),
    waiting: sum((one) => one.waiting),
    deferred: sum((one) => one.deferred),
    oldestDueMs: due.length === 0 ? null : due.reduce((a, b) => Math.min(a, b)),
  };
  return {
    ...figuresBody(all),
    isComplete,
    accounts: accounts
      .slice(0, ACCOUNTS_SHOWN)
      .map(({ accountId, name, ...rest }) => ({ accountId, name, ...figuresBody(rest) })),
  };
}

export const accountQueueSchema = named('AccountQueue', {
  depth: count('Queued live messages of the account, as far as counted.'),
  isComplete: Type.Boolean({
    description:
      'False if the queue of all accounts is too long to read completely; only messages due first are counted.',
  }),
  domains: Type.Array(
    closed({
      domain: Type.String({ description: 'Domain of the recipients.' }),
      depth: count('Queued live messages of the account for this domain.'),
      nextAttemptAt: nullableTime('When its next message is due; null if nodes are delivering all of them.'),
      lastReply: nullable('Reply to the newest failed attempt that is still queued; null if there is none.'),
    }),
    { description: 'The 100 domains with the most messages.' },
  ),
});

const DOMAINS_SHOWN = 100;

/** Returns the largest domains of a queue, for which the last reply is read and shown. */
export const shownDomains = (domains: readonly DomainQueue[]): readonly DomainQueue[] =>
  domains.slice(0, DOMAINS_SHOWN);

export function accountQueueBody(
  domains: readonly DomainQueue[],
  { attempts, isComplete }: { attempts: readonly LastAttempt[]; isComplete: boolean },
) {
  const replies = new Map(
    attempts.map(({ seq, record }) => [seq, (JSON.parse(record) as { reply: string | null }).reply]),
  );
  return {
    depth: domains.reduce((sum, { depth }) => sum + depth, 0),
    isComplete,
    domains: shownDomains(domains).map(({ domain, depth, nextDueMs, failedSeq }) => ({
      domain,
      depth,
      nextAttemptAt: isoOrNull(nextDueMs),
      lastReply: failedSeq === null ? null : (replies.get(failedSeq) ?? null),
    })),
  };
}

export const nodeSchema = named('Node', {
  nodeId: Type.String(),
  host: Type.String(),
  roles: Type.Array(Type.String()),
  version: Type.String(),
  startedAt: time,
  lastSeenAt: time,
  leases: closed(
    { delivery: Type.Optional(Type.Integer()), webhooks: Type.Optional(Type.Integer()) },
    { description: 'Messages and webhook deliveries in progress.' },
  ),
});

export function nodeBody({ id: nodeId, host, roles, version, startedAt, seenAt, state }: LiveNode) {
  const seen = { startedAt: iso(startedAt), lastSeenAt: iso(seenAt) };
  return { nodeId, host, roles, version, ...seen, leases: state.leases ?? {} };
}

export const diagnosisSchema = named('Diagnosis', {
  healthy: Type.Boolean({ description: 'True if no check failed.' }),
  checks: Type.Array(
    closed({
      name: Type.String(),
      status: oneOf(['ok', 'warn', 'fail', 'skip'], {
        description: '`skip` if the check did not run, for example because this process cannot run it.',
      }),
      message: Type.String(),
      remedy: Type.Optional(Type.String()),
    }),
  ),
});

const scope = oneOf([...OPERATOR_SCOPES], {
  description: 'read: every GET below /operator. write: every other call. Neither includes the other.',
});
const keyFields = {
  operatorKeyId: Type.String(),
  name: Type.String(),
  scopes: Type.Array(scope),
  allowedNetworks: Type.Array(Type.String(), {
    description: 'IPv4 and IPv6 networks (CIDR) that it can be used from. Empty: any address.',
  }),
  expiresAt: nullableTime('Time at which it expires; null if it never expires.'),
  createdAt: time,
};
export const operatorKeySchema = named('OperatorKey', keyFields);
export const newOperatorKeySchema = named('NewOperatorKey', {
  ...keyFields,
  operatorKey: Type.String({ description: 'The key, pr_operator_…. Returned only in this response.' }),
});

export const newOperatorKeyRequest = named('NewOperatorKeyRequest', {
  name: accountName,
  scopes: Type.Array(scope, { minItems: 1, maxItems: OPERATOR_SCOPES.length, uniqueItems: true }),
  allowedNetworks: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      maxItems: MAXIMUM_NETWORKS,
      description:
        'IPv4 and IPv6 networks (CIDR) or addresses that it can be used from; calls from other addresses return 403. Empty or absent: any address.',
    }),
  ),
  expiresAt: Type.Optional(
    Type.String({
      format: 'date-time',
      maxLength: 64,
      description: 'Time at which it expires; must be in the future. By default, it never expires.',
    }),
  ),
});
