/** Late bounces are classified like the same reply in Postrider's own session, and are final. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SentCopy } from '../../messages/messages.ts';
import { lateComplaint, lateFailure } from './reported.ts';

const NOW = Date.UTC(2026, 10, 20);
const copy: SentCopy = {
  accountId: 'acc_1',
  messageId: 'msg_1',
  recipient: 'Ann@Example.com',
  status: 'delivered',
  isBeingSent: false,
  headerMessageId: '<a@b.example>',
  createdAt: NOW,
};
type Reported = Parameters<typeof lateFailure>[1];
const reported = (change: Partial<Reported>): Reported => ({
  finalRecipient: 'ann@example.com',
  originalRecipient: null,
  action: 'failed',
  status: null,
  smtpCode: null,
  diagnostic: null,
  remoteHost: 'mx.example.com',
  ...change,
});

/** Kind, category, owner, suppression, SMTP code, and enhanced code. */
const CASES: [name: string, Partial<Reported>, string][] = [
  [
    'Postfix behind the first server, at RCPT',
    {
      status: '5.1.1',
      smtpCode: 550,
      diagnostic:
        '550 5.1.1 <ann@example.com>: Recipient address rejected: User unknown in local recipient table (in reply to RCPT TO command)',
    },
    'hard mailbox-not-found recipient suppressed 550 5.1.1',
  ],
  ['a status alone', { status: '5.1.1' }, 'hard mailbox-not-found recipient suppressed 550 5.1.1'],
  [
    'words alone',
    { diagnostic: "Sorry, no mailbox here by that name. I'm not going to try again; (#5.1.1)" },
    'hard mailbox-not-found recipient suppressed 550 null',
  ],
  ['nothing at all', {}, 'soft refused remote kept 550 null'],
  [
    'words about a host veto a suppression; the host is not ours, but the one that passed the mail on',
    { status: '5.1.1', smtpCode: 550, diagnostic: '550 5.1.1 Client host [192.0.2.9] blocked using zen.spamhaus.org' },
    'block blocked remote kept 550 5.1.1',
  ],
  [
    'a policy',
    { status: '5.7.1', smtpCode: 550, diagnostic: '550 5.7.1 Message rejected due to DMARC policy' },
    'block policy sender kept 550 5.7.1',
  ],
  [
    'at the end of the content an address is not spoken of',
    { status: '5.1.1', smtpCode: 550, diagnostic: '550 5.1.1 User unknown (in reply to end of DATA command)' },
    'hard mailbox-not-found recipient kept 550 5.1.1',
  ],
  [
    'given up after days of 4xx',
    { status: '4.4.1', diagnostic: 'connect to mx.example.com[192.0.2.1]:25: Connection timed out' },
    'soft expired remote kept 450 4.4.1',
  ],
  [
    'a full mailbox',
    { status: '5.2.2', smtpCode: 552, diagnostic: '552 5.2.2 Quota exceeded' },
    'soft mailbox-full recipient kept 552 5.2.2',
  ],
  [
    'a code that its status contradicts',
    { status: '4.2.1', smtpCode: 550, diagnostic: '550 mailbox disabled, not accepting messages' },
    'hard mailbox-disabled recipient suppressed 550 null',
  ],
];

for (const [name, change, expected] of CASES)
  test(`a late bounce: ${name}`, () => {
    const result = lateFailure(copy, reported(change), NOW);
    assert.equal(result.type, 'Bounce');
    const bounce = result.detail.bounce as Record<string, unknown>;
    const { kind, category, owner, suppressed, smtpCode, enhancedCode } = bounce;
    const found = `${kind} ${category} ${owner} ${suppressed ? 'suppressed' : 'kept'} ${smtpCode} ${enhancedCode}`;
    assert.equal(found, expected);
    assert.equal(bounce.late, true);
    assert.equal(bounce.remoteHost, 'mx.example.com');
    assert.doesNotMatch(String(bounce.advice), /retries automatically/);
    assert.equal(result.suppress?.email, suppressed ? 'ann@example.com' : undefined);
  });

test('a domain that does not exist is suppressed for a week', () => {
  const diagnostic = '550 5.1.2 domain of the recipient not found: no such domain, null MX';
  const { suppress } = lateFailure(copy, reported({ status: '5.1.10', smtpCode: 556, diagnostic }), NOW);
  assert.deepEqual(suppress, { email: 'ann@example.com', reason: 'bounce', untilMs: NOW + 7 * 86_400_000 });
});

test('a delay report is recorded as a delay, whatever its text', () => {
  for (const status of ['4.4.1', '5.1.1']) {
    const result = lateFailure(copy, reported({ action: 'delayed', status }), NOW);
    assert.equal(result.type, 'DeliveryDelay');
    const delay = result.detail.deliveryDelay as Record<string, unknown>;
    assert.deepEqual([delay.kind, delay.suppressed, delay.late, result.suppress], ['soft', false, true, null]);
    assert.match(String(delay.advice), /retries automatically/);
  }
});

test('a complaint suppresses only the address that it names', () => {
  const base = { feedbackType: 'abuse', remoteHost: 'fbl.example' } as const;
  const named = lateComplaint(copy, { ...base, recipientIs: 'named' }, NOW);
  assert.deepEqual(named.suppress, { email: 'ann@example.com', reason: 'complaint', untilMs: null });
  for (const recipientIs of ['the-only-one', 'one-of-several'] as const) {
    const result = lateComplaint(copy, { ...base, recipientIs }, NOW);
    assert.equal(result.suppress, null);
    assert.equal(result.eventOnly ?? false, recipientIs === 'one-of-several');
    assert.equal((result.detail.complaint as { suppressed: boolean }).suppressed, false);
  }
});
