/** The status summary of a message: every status has one, which states what happened, who must act, and what to do. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Answered, answerOf, type Say } from '../../portal/src/pages/messages/answer.ts';
import { SIMULATED_SUPPRESSED } from '../../src/messages/messages.ts';

const HOUR_MS = 3_600_000;
const CREATED = '2026-11-20T10:00:00.000Z';
const LATER = '2026-11-20T10:02:00.000Z';
const RETRY = '2026-11-20T10:05:00.000Z';

const say: Say = {
  nowMs: Date.parse(LATER),
  at: (time) => time.slice(11, 16),
  from: (time) => `in ${(Date.parse(time) - Date.parse(LATER)) / 60_000} min`,
  duration: (seconds) => `${seconds} s`,
};

const attempt = {
  time: LATER,
  durationMs: 5,
  host: 'mx.example.com',
  address: null,
  tls: null,
  dialogue: [],
  reply: null,
};
const delivery = { remoteHost: 'mx.example.com', reply: '250 OK', tls: 'TLSv1.3', attempts: 1, latencyMs: 400 };
const fault = {
  kind: 'hard',
  category: 'mailbox-not-found',
  smtpCode: 550,
  enhancedCode: '5.1.1',
  reply: '550 no such user',
  remoteHost: 'mx.example.com',
  owner: 'recipient',
  advice: 'The address does not exist.',
  suppressed: true,
} as const;
const soft = {
  ...fault,
  kind: 'soft',
  category: 'greylisted',
  smtpCode: 451,
  owner: 'remote',
  suppressed: false,
} as const;

const event = (eventType: string, detail: object, timestamp = LATER) =>
  ({ eventId: `evt_${eventType}`, eventType, timestamp, ...detail }) as Answered['timeline'][number];

function answered(status: Answered['status'], changes: Partial<Answered> = {}): Answered {
  return {
    status,
    mode: 'live',
    to: 'ann@gmail.com',
    createdAt: CREATED,
    expiresAt: '2026-11-23T10:00:00.000Z',
    attempts: [],
    timeline: [event('Send', {}, CREATED)],
    ...changes,
  };
}

const EXPECTED: Record<
  string,
  [message: Answered, happened: RegExp, turn: string, next: RegExp, isSuppressed?: boolean]
> = {
  scheduled: [
    answered('scheduled', { sendAt: RETRY }),
    ...([/^Scheduled to send at 10:05 \(in 3 min\)\.$/, 'nobody', /reschedule or cancel/] as const),
  ],
  queued: [answered('queued', { createdAt: LATER }), /^Accepted at 10:02 and queued\.$/, 'nobody', /within seconds/],
  'queued for a long time': [answered('queued'), /^Accepted at 10:00 and queued\.$/, 'nobody', /^Queued for 120 s: /],
  'queued again': [
    answered('queued', { attempts: [{ ...attempt, outcome: 'delayed' }] }),
    ...([/^Retrying now\.$/, 'nobody', /within seconds/] as const),
  ],
  sending: [answered('sending'), /^Sending now \(attempt 1\)\.$/, 'nobody', /a few seconds/],
  delayed: [
    answered('delayed', {
      nextAttemptAt: RETRY,
      timeline: [event('DeliveryDelay', { deliveryDelay: { ...soft, nextAttemptAt: LATER } })],
    }),
    ...([
      /^Delayed: gmail\.com asked to retry later \(greylisting\)\.$/,
      'nobody',
      /Next attempt at 10:05 \(in 3 min\)/,
    ] as const),
  ],
  'delayed for a different reason than at first': [
    answered('delayed', {
      attempts: [{ ...attempt, outcome: 'delayed', reply: '452 4.2.2 mailbox full' }],
      timeline: [event('DeliveryDelay', { deliveryDelay: { ...soft, nextAttemptAt: RETRY } })],
    }),
    ...([/asked to retry later/, 'nobody', /Last response: “452 4\.2\.2 mailbox full”\.$/] as const),
  ],
  'delayed by an internal error': [
    answered('delayed', {
      timeline: [
        event('DeliveryDelay', {
          deliveryDelay: {
            ...soft,
            category: 'blocked',
            owner: 'service',
            nextAttemptAt: RETRY,
            advice: 'The operator should look; Postrider retries automatically.',
          },
        }),
      ],
    }),
    ...([/blocks the sending host/, 'operator', /The operator should look\.$/] as const),
  ],
  'delayed for an unknown reason': [
    answered('delayed'),
    ...([
      /^Delayed: gmail\.com deferred this email without giving a reason\.$/,
      'nobody',
      /keeps retrying until 10:00/,
    ] as const),
  ],
  delivered: [
    answered('delivered', { timeline: [event('Delivery', { delivery })] }),
    ...([/^Delivered to mx\.example\.com at 10:02 \(0\.4 s after acceptance\)\.$/, 'nobody', /spam/] as const),
  ],
  'delivered as scheduled': [
    answered('delivered', { sendAt: LATER, timeline: [event('Delivery', { delivery })] }),
    ...([/^Delivered to mx\.example\.com at 10:02\.$/, 'nobody', /spam/] as const),
  ],
  'delivered without TLS': [
    answered('delivered', { timeline: [event('Delivery', { delivery: { ...delivery, tls: null } })] }),
    ...([/^Delivered/, 'nobody', /without TLS: the receiving server doesn’t support TLS/] as const),
  ],
  'delivered and opened by a person': [
    answered('delivered', {
      timeline: [event('Delivery', { delivery }), event('Open', { open: { machine: false, userAgent: 'x' } })],
    }),
    ...([/^Delivered/, 'nobody', /^Opened\./] as const),
  ],
  'delivered and opened by a machine': [
    answered('delivered', {
      timeline: [event('Delivery', { delivery }), event('Open', { open: { machine: true, userAgent: 'x' } })],
    }),
    ...([/^Delivered/, 'nobody', /spam/] as const),
  ],
  'bounced hard': [
    answered('bounced', { timeline: [event('Bounce', { bounce: fault })] }),
    /^Bounced by gmail\.com at 10:02: the mailbox doesn’t exist\.$/,
    ...(['you', /^The address is now suppressed.*The address does not exist/] as const),
  ],
  'bounced hard, removed from the list since': [
    answered('bounced', { timeline: [event('Bounce', { bounce: fault })] }),
    ...([/^Bounced by gmail/, 'you', /has since been removed from the suppression list/] as const),
    false,
  ],
  'bounced without a reply': [
    answered('bounced', {
      timeline: [event('Bounce', { bounce: { ...soft, category: 'network', smtpCode: null, advice: 'Look.' } })],
    }),
    ...([/^Failed at 10:02: the receiving server couldn’t be reached\.$/, 'you', /^Look\.$/] as const),
  ],
  'bounced soft': [
    answered('bounced', {
      timeline: [event('Bounce', { bounce: { ...soft, category: 'mailbox-full', advice: 'Send again later.' } })],
    }),
    ...([/^Bounced by gmail\.com at 10:02: the mailbox is full/, 'you', /^Send again later\.$/] as const),
  ],
  'bounced, expired': [
    answered('bounced', { timeline: [event('Bounce', { bounce: { ...soft, category: 'expired' } })] }),
    ...([/^Expired at 10:02 after 120 s: gmail\.com never accepted it\.$/, 'you', /then resend/] as const),
  ],
  'returned after expiring at another server': [
    answered('bounced', {
      timeline: [
        event('Delivery', { delivery }, CREATED),
        event('Bounce', { bounce: { ...soft, category: 'expired', late: true } }),
      ],
    }),
    ...([
      /^mx\.example\.com accepted the email, but couldn’t deliver it and gave up at 10:02\.$/,
      'you',
      /then resend/,
    ] as const),
  ],
  'bounced after it was accepted': [
    answered('bounced', { timeline: [event('Delivery', { delivery }, CREATED), event('Bounce', { bounce: fault })] }),
    ...([/^mx\.example\.com accepted the email, then bounced it at 10:02/, 'you', /does not exist/] as const),
  ],
  'bounced by an internal error': [
    answered('bounced', {
      timeline: [event('Bounce', { bounce: { ...fault, category: 'internal', owner: 'service', smtpCode: null } })],
    }),
    ...([/Postrider had an internal problem/, 'operator', /./] as const),
  ],
  complained: [
    answered('complained', {
      timeline: [event('Complaint', { complaint: { ...fault, feedbackType: 'abuse' } })],
    }),
    ...([/^Marked as spam by the recipient at 10:02/, 'you', /suppressed.*Don’t email/] as const),
  ],
  suppressed: [
    answered('suppressed', { timeline: [event('Reject', { reject: { ...fault, reason: 'suppressed' } })] }),
    ...([
      /^Not sent: ann@gmail\.com is on your suppression list/,
      'you',
      /remove the address from the suppression list/,
    ] as const),
    true,
  ],
  'suppressed, removed from the list since': [
    answered('suppressed', { timeline: [event('Reject', { reject: { ...fault, reason: 'suppressed' } })] }),
    ...([/^Not sent/, 'you', /You can resend the message/] as const),
    false,
  ],
  'suppression simulated': [
    answered('suppressed', { mode: 'sandbox', timeline: [event('Reject', SIMULATED_SUPPRESSED)] }),
    ...([/the sandbox treated this address as suppressed/, 'nobody', /nothing to remove/] as const),
    false,
  ],
  cancelled: [
    answered('cancelled', { timeline: [event('Reject', { reject: { ...fault, reason: 'cancelled' } })] }),
    ...([/^Canceled at 10:02, before sending\.$/, 'nobody', /Resend it/] as const),
  ],
};

for (const [name, [message, happened, turn, next, isSuppressed]] of Object.entries(EXPECTED)) {
  test(name, () => {
    const answer = answerOf(message, say, isSuppressed);
    assert.match(answer.happened, happened);
    assert.equal(answer.turn, turn);
    assert.match(answer.next.join(' '), next);
    assert.doesNotMatch([answer.happened, ...answer.next].join(' '), /undefined|NaN|\bnull\b|\.\./);
  });
}

test('every status has a message, even without details', () => {
  const bare = { timeline: [], attempts: [], nextAttemptAt: new Date(Date.parse(CREATED) + HOUR_MS).toISOString() };
  for (const status of new Set(Object.values(EXPECTED).map(([message]) => message.status)))
    for (const mode of ['live', 'sandbox'] as const) {
      const answer = answerOf(answered(status, { ...bare, mode }), say);
      assert.match(answer.happened, /\w.*\.$/, status);
      assert.doesNotMatch([answer.happened, ...answer.next].join(' '), /undefined|NaN/, status);
    }
});
