/** How far reports are trusted: the copies that they refer to, and the parts that change nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { feedbackId } from '../mail/compose/header.ts';
import type { Report, ReportedRecipient } from '../mail/report/report.ts';
import type { SentCopy } from '../messages/messages.ts';
import { type ComplaintContext, type ReportResults, resultsOfBounce, resultsOfComplaint } from './report-results.ts';

const NOW = Date.UTC(2026, 10, 20);
const OURS = '<mh1.x@shop.example>';

function copy(name: string, change: Partial<SentCopy> = {}): SentCopy {
  return {
    accountId: 'acc_1',
    messageId: `msg_${name}`,
    recipient: `${name}@example.com`,
    status: 'delivered',
    isBeingSent: false,
    headerMessageId: OURS,
    createdAt: NOW,
    ...change,
  };
}

function recipient(change: Partial<ReportedRecipient>): ReportedRecipient {
  return {
    finalRecipient: null,
    originalRecipient: null,
    action: 'failed',
    status: '5.1.1',
    smtpCode: null,
    diagnostic: null,
    remoteHost: null,
    ...change,
  };
}

const bounce = (messageId: string | null, ...recipients: Partial<ReportedRecipient>[]) =>
  ({
    kind: 'bounce',
    recipients: recipients.map(recipient),
    mail: { messageId, feedbackId: null, to: [] },
    isForMachines: true,
    mentioned: [] as string[],
  }) satisfies Report;

/** The messages that it changes, then the counts of the others. */
function shown({ results, ignored, isTooEarly }: ReportResults): string {
  const what = results.map((one) => `${one.type} ${one.messageId}${one.suppress ? ' suppressed' : ''}`);
  return [...what, ...ignored, ...(isTooEarly ? ['too early'] : [])].join(', ');
}

const one = [copy('ann')];
const three = [copy('ann'), copy('bob'), copy('eve')];
const rewritten = { finalRecipient: 'a@b.local' };
const forPeople = (report: ReturnType<typeof bounce>, ...mentioned: string[]) => ({
  ...report,
  isForMachines: false,
  mentioned,
});
const BOUNCES: [name: string, report: Report & { kind: 'bounce' }, copies: SentCopy[], expected: string][] = [
  ['its recipient', bounce(OURS, { finalRecipient: 'ann@example.com' }), one, 'Bounce msg_ann suppressed'],
  ['in other letters', bounce(null, { finalRecipient: 'ANN@Example.COM' }), one, 'Bounce msg_ann suppressed'],
  ['no recipient', bounce(null, {}), one, 'Bounce msg_ann suppressed'],
  ['no recipient, for people', forPeople(bounce(null, {})), one, 'Bounce msg_ann suppressed'],
  ['a rewritten one, with our id', bounce(OURS, rewritten), one, 'Bounce msg_ann suppressed'],
  ['a rewritten one, for people with our id', forPeople(bounce(OURS, rewritten)), one, 'Bounce msg_ann suppressed'],
  ['a rewritten one, without any id', bounce(null, rewritten), one, 'Bounce msg_ann suppressed'],
  ['a rewritten one, for people without any id', forPeople(bounce(null, rewritten)), one, 'other-recipient'],
  [
    'a foreign one, for people, with the recipient elsewhere in the text',
    forPeople(bounce(null, rewritten), 'postmaster@b.local', 'ann@example.com'),
    one,
    'Bounce msg_ann suppressed',
  ],
  ['a rewritten one of several, without any id', bounce(null, rewritten), three, 'other-recipient'],
  ['a foreign one with another id', bounce('<x@y.example>', rewritten), one, 'other-recipient'],
  [
    'one member of the list that our recipient is',
    bounce(OURS, { finalRecipient: 'ann@example.com', action: 'expanded', status: '2.0.0' }, rewritten),
    one,
    'no-failure, other-recipient',
  ],
  [
    'the original one of a forwarded mail',
    bounce(null, { originalRecipient: 'ann@example.com', finalRecipient: 'ann@elsewhere.example' }),
    three,
    'Bounce msg_ann suppressed',
  ],
  ['nobody of several', bounce(OURS, {}), three, 'other-recipient'],
  ['a foreign one of several', bounce(OURS, { finalRecipient: 'a@b.local' }), three, 'other-recipient'],
  [
    'two of several, and one of whom it is only late',
    bounce(
      OURS,
      { finalRecipient: 'eve@example.com' },
      { finalRecipient: 'bob@example.com', action: 'delayed', status: '4.4.1' },
      { finalRecipient: 'ann@example.com', action: 'relayed', status: '2.0.0' },
    ),
    three,
    'Bounce msg_eve suppressed, DeliveryDelay msg_bob, no-failure',
  ],
  [
    'the same recipient twice, and one of whom it is also late',
    bounce(
      OURS,
      { finalRecipient: 'ann@example.com' },
      { finalRecipient: 'ANN@example.com', status: '5.2.1' },
      { finalRecipient: 'ann@example.com', action: 'delayed', status: '4.4.1' },
    ),
    three,
    'Bounce msg_ann suppressed, DeliveryDelay msg_ann, repeated',
  ],
  ['no mail of ours', bounce(OURS, { finalRecipient: 'ann@example.com' }), [], 'unknown-mail'],
  [
    'one that is being sent',
    bounce(OURS, { finalRecipient: 'ann@example.com' }),
    [copy('ann', { status: 'queued', isBeingSent: true })],
    'too early',
  ],
];

test('a report with 500 recipients has one result per copy, and duplicates are only counted', async () => {
  const copies = Array.from({ length: 200 }, (_, i) => copy(`m${i}`));
  const named = Array.from({ length: 500 }, (_, i) => ({ finalRecipient: `m${i % 250}@example.com` }));
  const { results, ignored } = await resultsOfBounce(bounce(OURS, ...named), copies, NOW);
  assert.deepEqual([results.length, new Set(results.map((one) => one.messageId)).size], [200, 200]);
  const count = (what: string): number => ignored.filter((one) => one === what).length;
  assert.deepEqual([count('repeated'), count('other-recipient')], [200, 100]);
});

for (const [name, report, copies, expected] of BOUNCES)
  test(`a bounce that names ${name}`, async () =>
    assert.equal(shown(await resultsOfBounce(report, copies, NOW)), expected));

interface ComplaintFields {
  recipients?: string[];
  feedbackId?: string;
}

const complaint = ({ recipients = [], feedbackId: id }: ComplaintFields) =>
  ({
    kind: 'complaint',
    feedbackType: 'abuse',
    recipients,
    mail: { messageId: OURS, feedbackId: id ?? null, to: [] },
    tokens: [],
  }) satisfies Report;

const ann = ['ann@example.com'];
const bob = ['bob@example.com'];
const all = { proof: 'transaction' } as const;
const ofTwo = [copy('ann', { accountId: 'acc_2', messageId: 'msg_other' }), copy('ann')];
const COMPLAINTS: [name: string, fields: ComplaintFields, context: Partial<ComplaintContext>, expected: string][] = [
  ['with its recipient', { recipients: ann }, { copies: one }, 'Complaint msg_ann suppressed'],
  [
    'of one of several, by a token of all',
    { recipients: bob },
    { ...all, copies: three },
    'Complaint msg_bob suppressed',
  ],
  ['of one of several, by the Message-ID alone', { recipients: bob }, { copies: three }, 'Complaint msg_ann'],
  ['without one, of a mail to one', {}, { copies: one }, 'Complaint msg_ann'],
  ['without one, of a mail to several', {}, { copies: three }, 'Complaint msg_ann'],
  ['without one, by a token', {}, { copies: one, proof: 'copy' }, 'Complaint msg_ann suppressed'],
  ['of somebody who is no recipient', { recipients: ['a@b.local'] }, { copies: three }, 'Complaint msg_ann'],
  ['about no mail of ours', { recipients: ann }, { copies: [] }, 'unknown-mail'],
  ['about an id of two accounts', { recipients: ann }, { copies: ofTwo }, 'unproven'],
  [
    'about an id of two accounts, with our Feedback-ID',
    { recipients: ann, feedbackId: feedbackId('acc_1', 'welcome') },
    { copies: ofTwo },
    'Complaint msg_ann suppressed',
  ],
  [
    'about mail that was sent again with its id',
    { recipients: ann },
    { copies: [copy('ann', { messageId: 'msg_new', status: 'suppressed' }), copy('ann')] },
    'Complaint msg_ann suppressed',
  ],
];

for (const [name, fields, context, expected] of COMPLAINTS)
  test(`a complaint ${name}`, () => {
    const whole = { copies: [], proof: 'message-id' as const, reporter: 'fbl.example', nowMs: NOW, ...context };
    assert.equal(shown(resultsOfComplaint(complaint(fields), whole)), expected);
  });

test('a complaint that does not identify one of several recipients changes no state', () => {
  const context = { copies: three, proof: 'transaction', reporter: null, nowMs: NOW } as const;
  assert.deepEqual(
    resultsOfComplaint(complaint({}), context).results.map((result) => result.eventOnly),
    [true],
  );
  const known = resultsOfComplaint(complaint({ recipients: ann }), context);
  assert.deepEqual(
    known.results.map((result) => result.eventOnly),
    [undefined],
  );
});
