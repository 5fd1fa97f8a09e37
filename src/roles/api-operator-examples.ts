/** Examples of the operator API, for /openapi.json. */
import { limitsOf } from '../limits/limits.ts';
import { DAY_BEFORE, ids, TIME } from './api-example-ids.ts';

const account = {
  accountId: ids.account,
  name: 'Shop',
  plan: 'paid',
  suspensionReason: null,
  status: 'active',
  approvedEmailBytes: 2_000_000,
  limits: limitsOf({}),
  twoFactorRequired: true,
  createdAt: DAY_BEFORE,
};
const operatorKey = {
  operatorKeyId: ids.operatorKey,
  name: 'terraform',
  scopes: ['read', 'write'],
  allowedNetworks: ['203.0.113.0/24'],
  expiresAt: '2027-11-20T00:00:00.000Z',
  createdAt: DAY_BEFORE,
};
const figures = { depth: 412, due: 3, leased: 5, held: 0, waiting: 404, deferred: 404, oldestDueAt: TIME };
const nodeId = 'mail-1.example.com/4711/k3Jd82HfLq';
const pausedUntil = '2026-11-20T09:49:02.480Z';
const paused = { connections: 0, limit: 2, pausedUntil };

const letter = {
  inboundId: ids.inbound,
  receivedAt: TIME,
  recipient: 'abuse@bounces.example.net',
  from: 'Abuse Desk <abuse@provider.example>',
  envelopeFrom: 'abuse@provider.example',
  subject: 'Mail from 192.0.2.25',
  sizeBytes: 4_711,
  isWhole: true,
  clientAddress: '198.51.100.7',
  forwarding: 'forwarded',
};

export const OPERATOR_EXAMPLES: Readonly<Record<string, unknown>> = {
  OperatorAccount: account,
  OperatorAccountDetail: {
    ...account,
    usage: { messagesToday: 42, messagesLast30Days: 1_204, queued: 3 },
    limitUsage: {
      webhooks: 3,
      domains: 2,
      templates: 14,
      apiKeys: 4,
      smtpCredentials: 1,
      inboundRoutes: 0,
      openSubmissions: 0,
      messagesPerDay: null,
      messagesPerMonth: null,
    },
    health: { status: 'good', periodDays: 7, bounceRate: 0.0021, complaintRate: 0 },
    sendingProtection: {
      status: 'good',
      since: null,
      reason: null,
      countedSince: null,
      thresholds: {
        bounceRate: { warning: 0.05, critical: 0.1, minimumMessages: 100 },
        complaintRate: { warning: 0.001, critical: 0.003, minimumMessages: 1_000 },
      },
    },
    lastActivityAt: TIME,
  },
  NewAccountRequest: { name: 'Shop', plan: 'paid' },
  NewAccount: { accountId: ids.account, apiKey: 'pr_live_…', sandboxApiKey: 'pr_test_…' },
  AccountChangeRequest: { status: 'suspended', suspensionReason: 'Unpaid invoices' },
  Suspension: {
    accountId: ids.account,
    status: 'active',
    mail: { queued: 3, scheduled: 12, delayed: 404, sending: 5, isComplete: true },
    apiKeys: 2,
    smtpCredentials: 1,
    sessions: 3,
  },
  NewOperatorKeyRequest: {
    name: 'terraform',
    scopes: ['read', 'write'],
    allowedNetworks: ['203.0.113.0/24'],
    expiresAt: '2027-11-20T00:00:00Z',
  },
  OperatorKey: operatorKey,
  NewOperatorKey: { ...operatorKey, operatorKey: 'pr_operator_…' },
  SupportAccess: { expiresAt: '2026-11-20T10:44:00.123Z' },
  OperatorApproval: {
    approvalId: ids.approval,
    accountId: ids.account,
    requestedEmailBytes: 30_000_000,
    reason: 'Invoices with scans.',
    status: 'pending',
    decisionReason: null,
    createdAt: DAY_BEFORE,
    decidedAt: null,
    sender: {
      name: 'Shop',
      plan: 'paid',
      status: 'active',
      approvedEmailBytes: 2_000_000,
      createdAt: DAY_BEFORE,
      messagesLast30Days: 1_204,
      bounceRate: 0.0021,
      complaintRate: 0,
      approvedBefore: 0,
      rejectedBefore: 1,
    },
  },
  PostmasterMail: letter,
  PostmasterMailWithText: { ...letter, text: 'Please tell us who sent the message below.' },
  RejectionRequest: { reason: 'Send links instead of files.' },
  AccountQueue: {
    depth: 412,
    isComplete: true,
    domains: [{ domain: 'example.net', depth: 412, nextAttemptAt: TIME, lastReply: '451 4.3.0 try again later' }],
  },
  Queue: { ...figures, isComplete: true, accounts: [{ accountId: ids.account, name: 'Shop', ...figures }] },
  Destination: {
    destinationId: 'mx1.example.com,mx2.example.com',
    domains: ['example.com', 'example.org'],
    depth: 404,
    ...paused,
    nextAttemptAt: pausedUntil,
    blockedSince: null,
    fallback: false,
    messagesPerSecond: 0,
    explanation:
      'mx1.example.com,mx2.example.com requested a pause until 2026-11-14T09:30:00.000Z; 404 messages queued. Last reply: 421 4.7.28 unusual rate of mail. 2 connections at 100 ms per message allow 20 messages/s (resumes after one successful probe).',
    lastReplies: [{ time: TIME, host: 'mx.example.com', reply: '421 4.7.28 unusual rate of mail' }],
    nodes: [{ nodeId, ...paused }],
  },
  Node: {
    nodeId,
    host: 'mail-1.example.com',
    roles: ['api', 'smtp', 'delivery', 'webhooks'],
    version: '1.0.0',
    startedAt: DAY_BEFORE,
    lastSeenAt: TIME,
    leases: { delivery: 5, webhooks: 2 },
  },
  Diagnosis: {
    healthy: true,
    checks: [
      { name: 'database', status: 'ok', message: 'up to date' },
      {
        name: 'reverse DNS',
        status: 'ok',
        message: '203.0.113.7 is mail.example.com, and mail.example.com resolves back to it',
      },
      {
        name: 'public address',
        status: 'warn',
        message: 'POSTRIDER_BASE_URL is not an https URL: one-click unsubscribe is disabled',
        remedy: 'Set POSTRIDER_BASE_URL to the https address under which recipients reach this service.',
      },
    ],
  },
};
