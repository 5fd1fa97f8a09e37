/** Reports become events exactly once, on any node and however often they arrive. Forged reports change nothing. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { afterEach, test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { notForwarded } from '../../test/kit/operator-mail.ts';
import { deliveryReport, feedbackReport, outOfOffice } from '../../test/kit/report-mail.ts';
import { acceptance } from '../../test/kit/seed-mail.ts';
import { DIALECTS, type Dialect, tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { newId } from '../base/ids.ts';
import { createLog } from '../base/log.ts';
import { createMetrics, type InboundResult } from '../base/metrics.ts';
import { claimOperation } from '../delivery/queue/claim.ts';
import { settleOperation } from '../delivery/record/settle.ts';
import { readEventsOperation } from '../events/events.ts';
import { createTokenAddresses, type TokenUse } from '../mail/token-address.ts';
import type { DeliveryJob } from '../messages/messages.ts';
import { acceptOperation } from '../send/acceptance.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { suppressionsOperation } from '../suppressions/suppressions.ts';
import type { Use } from './inbound-mail.ts';
import { createReportHandlers } from './report-handlers.ts';
import { storeInboundOperation } from './store.ts';
import { createKeeper, startInboundWorker } from './worker.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

type Detail = Record<string, Record<string, unknown>>;

const accountId = 'acc_shop';
const DAY_MS = 86_400_000;
const tokens = createTokenAddresses(Buffer.alloc(32, 1));

async function rig(dialect: Dialect = 'sqlite', nodes = 1) {
  const temp = await tempDatabase(dialect);
  closers.push(() => temp.close());
  const { database } = temp;
  const clock = fakeClock(Date.now());
  const lines: string[] = [];
  const log = createLog('info', (line) => lines.push(line));
  const metrics = createMetrics();
  const blobs = openDiskBlobs(path.join(temp.folder, 'inbound-blobs'));
  const workers = Array.from({ length: nodes }, () => {
    const handlers = {
      ...createReportHandlers({ database, clock, tokens, log, metrics, operators: notForwarded }),
      route: createKeeper(database),
    };
    const deps = { database, blobs, clock, log, handlers, random: () => 0.5, onRecorded: () => undefined };
    const worker = startInboundWorker({ ...deps, pollMs: 50 });
    closers.push(() => worker.stop());
    return worker;
  });

  const counted = async (): Promise<Partial<Record<InboundResult, number>>> => {
    const found = (await metrics.text()).matchAll(
      /^postrider_inbound_reports_total\{result="([\w-]+)"\} ([1-9]\d*)$/gm,
    );
    return Object.fromEntries([...found].map(([, result, count]) => [result, Number(count)]));
  };
  const sum = async () => Object.values(await counted()).reduce((total, count) => total + count, 0);

  /** Accepts one message. `settle` determines the result of its copies. */
  const mail = async (...recipients: string[]) => {
    const accepted = acceptance({ accountId, nowMs: clock.now(), recipients });
    await database.execute(acceptOperation, accepted);
    const [email] = accepted.emails;
    return { headerMessageId: email!.headerMessageId, ids: email!.recipients.map((one) => one.messageId) };
  };
  const claim = async (): Promise<DeliveryJob[]> => {
    const request = { nowMs: clock.now(), leaseMs: 60_000, limit: 100, quarantined: false, overQuota: [] };
    return (await database.execute(claimOperation, request)).jobs;
  };
  /** `returnPath`: the local part in MAIL FROM of the transaction. */
  const deliver = async (jobs: DeliveryJob[], returnPath = 'x'): Promise<void> => {
    const settled = jobs.map(({ seq, fence, mode, messageId, emailSeq, retain }) => ({
      seq,
      fence,
      accountId,
      mode,
      messageId,
      emailSeq,
      retain,
      atMs: clock.now(),
      attempts: 1,
      attempt: { ...ATTEMPT, dialogue: dialogueWith(returnPath) },
      to: 'delivered' as const,
      nextAttemptAtMs: null,
      suppress: null,
      followedBy: null,
      sandboxOutcome: null,
      event: { id: newId('evt', clock.now()), type: 'Delivery' as const, detail: { delivery: { latencyMs: 1 } } },
    }));
    await database.execute(settleOperation, settled);
  };

  /** Stores one message for one address per use, and waits until all are counted. */
  const receive = async (content: Buffer, uses: Use[], results = uses.length): Promise<void> => {
    const before = await sum();
    const client = { address: '192.0.2.1', helo: 'mx.example', tls: null };
    const facts = { envelopeFrom: '', recipient: 'x@bounces.example', client, content, blobKey: null };
    const times = { receivedAtMs: clock.now(), nowMs: clock.now(), sizeBytes: content.length };
    const mails = uses.map((use) => ({ ...facts, ...times, use, id: newId('inb') }));
    await database.execute(storeInboundOperation, mails);
    for (const worker of workers) worker.nudge();
    await waitUntil('the message to be processed', async () => (await sum()) >= before + results);
    assert.equal(await sum(), before + results);
  };
  const events = async (messageId: string) => {
    // With order asc the log ends before events that other transactions may still write.
    const page = { accountId, mode: 'live' as const, order: 'desc' as const, after: null, limit: 100, messageId };
    const rows = await database.execute(readEventsOperation, { ...page, sinceMs: null, untilMs: null });
    return rows.map(({ type, detail }) => ({ type, detail: JSON.parse(detail) as Detail })).reverse();
  };
  const last = async (messageId: string, member: string) => (await events(messageId)).at(-1)!.detail[member]!;
  const types = async (messageId: string) => (await events(messageId)).map((event) => event.type);
  const suppressed = async () => {
    const page = { accountId, mode: 'live' as const, nowMs: clock.now(), after: null, limit: 100 };
    const rows = await database.execute(suppressionsOperation, page);
    return rows.map((row) => `${row.email} ${row.reason}`).sort();
  };
  return { lines, clock, mail, claim, deliver, receive, last, types, suppressed, counted, metrics };
}

const ATTEMPT = {
  time: '2026-11-23T09:00:00.000Z',
  durationMs: 12,
  host: 'mx.example',
  address: '192.0.2.1',
  tls: null,
  reply: '250 2.0.0 OK',
  outcome: 'delivered' as const,
};

/** The dialogue of a transaction with this return path. */
function dialogueWith(local: string) {
  const lines = [
    { direction: 'C' as const, text: `MAIL FROM:<${local}@bounces.example> SIZE=70000` },
    { direction: 'S' as const, text: '250 2.1.0 OK' },
  ];
  return lines.map((line, index) => ({ atMs: index, ...line }));
}

const sharedPath = (messageId: string): string => tokens.make('bounce', { messageId, isShared: true }, Date.now());

function returnPath(messageId: string, isShared = false): Use {
  return { kind: 'return-path', copy: { messageId, isShared, day: Math.floor(Date.now() / DAY_MS) } };
}
const ABUSE: Use = { kind: 'abuse' };

const addressOf = (use: TokenUse, messageId: string, daysAgo = 0): string =>
  `${tokens.make(use, { messageId }, Date.now() - daysAgo * DAY_MS)}@bounces.example`;

for (const dialect of DIALECTS)
  test(`duplicate bounces, delays, and complaints at two nodes are recorded once (${dialect})`, async () => {
    const r = await rig(dialect, 2);
    const { headerMessageId, ids } = await r.mail('ann@example.com', 'bob@example.com', 'eve@example.com');
    const [ann, bob, eve] = ids as [string, string, string];
    await r.deliver(await r.claim(), sharedPath(ann));
    const twice = [returnPath(ann, true), returnPath(ann, true)];
    await r.receive(deliveryReport({ recipient: 'ann@example.com', headerMessageId }), twice);
    const delayed = { recipient: 'bob@example.com', action: 'delayed', status: '4.4.1' } as const;
    await r.receive(
      deliveryReport({ ...delayed, diagnostic: 'connect to inner.example: Connection timed out' }),
      twice,
    );
    const quoted = `Return-Path: <${addressOf('bounce', eve)}>`;
    await r.receive(feedbackReport({ recipient: 'eve@example.com', headerMessageId, quoted }), [ABUSE, ABUSE]);
    assert.deepEqual(await r.types(ann), ['Send', 'Delivery', 'Bounce']);
    assert.deepEqual(await r.types(bob), ['Send', 'Delivery', 'DeliveryDelay']);
    assert.deepEqual(await r.types(eve), ['Send', 'Delivery', 'Complaint']);
    assert.deepEqual(await r.suppressed(), ['ann@example.com bounce', 'eve@example.com complaint']);
    assert.deepEqual(await r.counted(), { bounce: 1, delay: 1, complaint: 1, repeated: 3 });
    const bounce = await r.last(ann, 'bounce');
    assert.deepEqual(
      [bounce.late, bounce.kind, bounce.category, bounce.smtpCode, bounce.remoteHost, bounce.suppressed],
      [true, 'hard', 'mailbox-not-found', 550, 'inner.example', true],
    );
    const deliveryDelay = await r.last(bob, 'deliveryDelay');
    assert.deepEqual([deliveryDelay.late, deliveryDelay.kind, deliveryDelay.nextAttemptAt], [true, 'soft', undefined]);
    assert.match(await r.metrics.text(), /^postrider_messages_bounced_total\{mode="live"\} 1$/m);
  });

for (const dialect of DIALECTS)
  test(`a shared return path is about the recipients of its transaction only (${dialect})`, async () => {
    const r = await rig(dialect);
    const to = ['x@evil.example', 'y@evil.example', 'ceo@bank.example', 'cfo@bank.example'];
    const { headerMessageId, ids } = await r.mail(...to);
    const [x, y, ceo, cfo] = ids as [string, string, string, string];
    const jobs = await r.claim();
    const jobsOf = (...wanted: string[]) => jobs.filter(({ messageId }) => wanted.includes(messageId));
    const bounce = (recipient: string) => deliveryReport({ recipient, headerMessageId });
    await r.deliver(jobsOf(x, y), sharedPath(x));
    await r.deliver(jobsOf(ceo, cfo), sharedPath(ceo));
    await r.receive(bounce('ceo@bank.example'), [returnPath(x, true)]);
    const complaint = feedbackReport({ recipient: 'cfo@bank.example', headerMessageId });
    await r.receive(complaint, [returnPath(x, true)]);
    const quoted = `Return-Path: <${sharedPath(x)}@bounces.example>`;
    await r.receive(feedbackReport({ recipient: 'ceo@bank.example', headerMessageId, quoted }), [ABUSE]);
    assert.deepEqual(await r.suppressed(), []);
    assert.deepEqual(
      [await r.types(ceo), await r.types(cfo)],
      [
        ['Send', 'Delivery'],
        ['Send', 'Delivery'],
      ],
    );

    await r.receive(bounce('y@evil.example'), [returnPath(x, true)]);
    await r.receive(bounce('cfo@bank.example'), [returnPath(ceo, true)]);
    assert.deepEqual(await r.suppressed(), ['cfo@bank.example bounce', 'y@evil.example bounce']);
  });

test('unproven reports, reports about other mail, and other reports change nothing and are counted', async () => {
  const r = await rig();
  const { headerMessageId, ids } = await r.mail('ann@example.com');
  const [ann] = ids as [string];
  await r.deliver(await r.claim());
  const bounce = deliveryReport({ recipient: 'ann@example.com', headerMessageId });
  await r.receive(bounce, [ABUSE, { kind: 'postmaster' }]);
  assert.deepEqual(await r.counted(), { unproven: 2 });
  await r.receive(bounce, [returnPath('msg_00000000000000000000A')]);
  await r.receive(feedbackReport({ recipient: 'ann@example.com', headerMessageId: '<other@example.org>' }), [ABUSE]);
  const ofOther = deliveryReport({ recipient: 'eve@example.com', headerMessageId: '<other@example.org>' });
  await r.receive(ofOther, [returnPath(ann)]);
  await r.receive(outOfOffice('ann@example.com'), [returnPath(ann)]);
  await r.receive(feedbackReport({ recipient: 'ann@example.com', headerMessageId, type: 'not-spam' }), [ABUSE]);
  assert.deepEqual(await r.counted(), {
    unproven: 2,
    'unknown-mail': 2,
    'other-recipient': 1,
    'auto-reply': 1,
    'not-a-report': 1,
  });
  assert.deepEqual([await r.types(ann), await r.suppressed()], [['Send', 'Delivery'], []]);
  await r.receive(bounce, [returnPath(ann)]);
  assert.deepEqual(await r.types(ann), ['Send', 'Delivery', 'Bounce'], 'control: it is accepted with its token');
});

test('a bounce waits for the delivery to be recorded, and one for a queued message is ignored', async () => {
  const r = await rig();
  for (const isShared of [false, true]) {
    const recipient = `ann${isShared}@example.com`;
    const { headerMessageId, ids } = await r.mail(recipient);
    const [ann] = ids as [string];
    const jobs = await r.claim();
    r.lines.splice(0);
    await r.receive(deliveryReport({ recipient, headerMessageId }), [returnPath(ann, isShared)], 0);
    await waitUntil('the message to be deferred', () =>
      r.lines.some((line) => line.includes('inbound message deferred')),
    );
    await r.deliver(jobs, sharedPath(ann));
    r.clock.advance(70_000);
    await waitUntil('the bounce', async () => (await r.types(ann)).includes('Bounce'));
  }

  const other = await r.mail('bob@example.com');
  const [bob] = other.ids as [string];
  await r.receive(deliveryReport({ recipient: 'bob@example.com' }), [returnPath(bob)]);
  await r.receive(feedbackReport({ recipient: 'bob@example.com', ...other }), [ABUSE]);
  assert.deepEqual([await r.types(bob), (await r.counted()).unfit], [['Send'], 2]);
});

test('a complaint without a recipient suppresses no address unless the token identifies the copy', async () => {
  const r = await rig();
  const [one, two, three] = [
    await r.mail('ann@example.com'),
    await r.mail('bob@example.com', 'eve@example.com'),
    await r.mail('zoe@example.com'),
  ];
  await r.deliver(await r.claim());
  for (const { headerMessageId } of [one, two, two])
    await r.receive(feedbackReport({ recipient: null, headerMessageId }), [ABUSE]);
  await r.receive(feedbackReport({ recipient: null, headerMessageId: '<lost@x.example>' }), [
    returnPath(three.ids[0]!),
  ]);
  assert.deepEqual(await r.suppressed(), ['zoe@example.com complaint']);
  assert.deepEqual(await r.types(one.ids[0]!), ['Send', 'Delivery', 'Complaint']);
  const lasts = await Promise.all(two.ids.map(async (id) => ({ id, type: (await r.types(id)).at(-1)! })));
  assert.deepEqual(lasts.map(({ type }) => type).sort(), ['Complaint', 'Delivery'], 'one of them represents both');
  const complaint = await r.last(lasts.find(({ type }) => type === 'Complaint')!.id, 'complaint');
  assert.deepEqual(
    [complaint.feedbackType, complaint.suppressed, complaint.remoteHost],
    ['abuse', false, 'mx.example'],
  );
});

test('a recipient cannot complain for another one without the token of that copy', async () => {
  const r = await rig();
  const { headerMessageId, ids } = await r.mail('ann@example.com', 'bob@example.com', 'eve@example.com');
  const [ann, bob, eve] = ids as [string, string, string];
  await r.deliver(await r.claim());
  const report = (quoted: string, recipient: string | null = 'ann@example.com') =>
    r.receive(feedbackReport({ recipient, headerMessageId, quoted }), [ABUSE]);
  const old = addressOf('bounce', ann, 16);
  const forged = addressOf('bounce', ann).replace(/^b\+./, (start) => (start === 'b+a' ? 'b+b' : 'b+a'));
  for (const quoted of [
    'X-Nothing: 1',
    `Return-Path: <${old}>`,
    `Return-Path: <${forged}>`,
    `Subject: ${addressOf('bounce', ann)}`,
  ])
    await report(quoted);
  assert.deepEqual(await r.suppressed(), []);
  const types = await Promise.all(ids.map((id) => r.types(id)));
  assert.equal(types.flat().filter((type) => type === 'Complaint').length, 1, 'all reports are one event of the email');
  const stand = ids[types.findIndex((of) => of.includes('Complaint'))]!;
  const other = stand === bob ? 'eve@example.com' : 'bob@example.com';
  await report(`List-Unsubscribe: <mailto:${addressOf('unsubscribe', stand === bob ? eve : bob)}?subject=unsubscribe>`);
  assert.deepEqual(await r.suppressed(), [`${other} complaint`], 'a recipient can complain only about its own copy');
  await report(`Return-Path: <${addressOf('bounce', stand)}>`, null);
  assert.equal((await r.suppressed()).length, 2, "earlier forged reports do not block the recipient's complaint");
  await report(`Return-Path: <${addressOf('bounce', stand)}>`, null);
  assert.deepEqual(await r.types(stand), ['Send', 'Delivery', 'Complaint', 'Complaint']);
  assert.deepEqual(await r.counted(), { complaint: 3, repeated: 4 });
});

test('a message to the List-Unsubscribe address unsubscribes once, whatever its content', async () => {
  const r = await rig();
  const { ids } = await r.mail('ann@example.com');
  await r.deliver(await r.claim());
  const use: Use = { kind: 'unsubscribe', copy: { messageId: ids[0]!, isShared: false, day: 1 } };
  await r.receive(Buffer.from('Subject: unsubscribe\r\n\r\n'), [use, use]);
  await r.receive(Buffer.from(''), [use]);
  const unknown: Use = {
    kind: 'unsubscribe',
    copy: { messageId: 'msg_00000000000000000000A', isShared: false, day: 1 },
  };
  await r.receive(Buffer.from('x'), [unknown]);
  assert.deepEqual(await r.types(ids[0]!), ['Send', 'Delivery', 'Unsubscribe']);
  assert.deepEqual(await r.last(ids[0]!, 'unsubscribe'), { method: 'mail' });
  assert.deepEqual(await r.suppressed(), ['ann@example.com unsubscribe']);
  assert.deepEqual(await r.counted(), { unsubscribe: 1, repeated: 2, 'unknown-mail': 1 });
});
