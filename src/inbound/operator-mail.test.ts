/** Mail to postmaster and abuse: forwarded, listed, or converted to an event. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { afterEach, test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { deliveryReport, feedbackReport } from '../../test/kit/report-mail.ts';
import { DIALECTS, type Dialect, tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { createLog } from '../base/log.ts';
import { createMetrics } from '../base/metrics.ts';
import { createTokenAddresses } from '../mail/token-address.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import type { Use } from './inbound-mail.ts';
import type { ForwardedMail, OperatorMailOptions } from './operator-mail.ts';
import { listOperatorMailOperation } from './operator-mail-store.ts';
import { createReportHandlers } from './report-handlers.ts';
import { type NewInbound, storeInboundOperation } from './store.ts';
import { createKeeper, startInboundWorker } from './worker.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function rig({ dialect = 'sqlite', ...given }: Partial<OperatorMailOptions> & { dialect?: Dialect } = {}) {
  const temp = await tempDatabase(dialect);
  closers.push(() => temp.close());
  const { database } = temp;
  const clock = fakeClock(Date.now());
  const log = createLog('info', () => undefined);
  const blobs = openDiskBlobs(path.join(temp.folder, 'inbound-blobs'));
  const sent: ForwardedMail[] = [];
  const metrics = createMetrics();
  const operators: OperatorMailOptions = {
    postmaster: 'ops@example.net',
    forward: async (mail) => {
      sent.push(mail);
      return true;
    },
    mayForward: () => true,
    ...given,
  };
  const tokens = createTokenAddresses(Buffer.alloc(32, 1));
  const handlers = {
    ...createReportHandlers({ database, clock, tokens, log, metrics, operators }),
    route: createKeeper(database),
  };
  const deps = { database, blobs, clock, log, handlers, random: () => 0.5, onRecorded: () => undefined };
  const worker = startInboundWorker({ ...deps, pollMs: 20 });
  closers.push(() => worker.stop());
  const list = (before: string | null = null, limit = 100) =>
    database.execute(listOperatorMailOperation, { before, limit });
  /** Number of processed messages. */
  const counted = async (): Promise<number> => {
    const all = (await metrics.text()).matchAll(/^postrider_inbound_reports_total\{.*\} (\d+)$/gm);
    return [...all].reduce((sum, [, count]) => sum + Number(count), 0);
  };
  const receive = async (content: string | Buffer, change: Partial<NewInbound> = {}): Promise<string> => {
    const bytes = Buffer.from(content);
    const id = newId('inb', clock.now());
    const client = { address: '198.51.100.7', helo: 'mx.provider.example', tls: null };
    const facts = { id, envelopeFrom: 'ann@provider.example', recipient: 'postmaster@bounces.example', client };
    const use: Use = { kind: 'postmaster' };
    const times = { receivedAtMs: clock.now(), nowMs: clock.now(), sizeBytes: bytes.length };
    await database.execute(storeInboundOperation, [
      { ...facts, ...times, use, content: bytes, blobKey: null, ...change },
    ]);
    worker.nudge();
    return id;
  };
  return { database, temp, clock, worker, sent, list, receive, counted };
}

const mail = (fields: string[], text = 'Please call me.'): string => [...fields, '', text, ''].join('\r\n');
const LETTER = mail([
  'From: Ann <ann@provider.example>',
  'Subject: Your mail =?utf-8?Q?=C3=BC?=',
  'Message-ID: <1@provider.example>',
]);

for (const dialect of DIALECTS)
  test(`a message from a person is forwarded once, with the original, and listed (${dialect})`, async () => {
    const r = await rig({ dialect });
    const id = await r.receive(LETTER);
    const [one] = await waitUntil('the mail to be listed', async () => {
      const all = await r.list();
      return all.length === 1 && all;
    });
    const { text, ...shown } = one!;
    assert.deepEqual(shown, {
      id,
      receivedAtMs: r.clock.now(),
      recipient: 'postmaster@bounces.example',
      envelopeFrom: 'ann@provider.example',
      client: { address: '198.51.100.7', helo: 'mx.provider.example', tls: null },
      sizeBytes: LETTER.length,
      from: 'Ann <ann@provider.example>',
      subject: 'Your mail ü',
      isWhole: true,
      forwarding: 'forwarded',
    });
    assert.equal(text.trim(), 'Please call me.');
    assert.equal(r.sent.length, 1);
    const [{ to, replyTo, subject, original, key, text: body } = assert.fail()] = r.sent;
    assert.deepEqual([to, replyTo, subject], ['ops@example.net', 'ann@provider.example', 'Fwd: Your mail ü']);
    assert.equal(original.toString(), LETTER);
    assert.ok(key.includes(id));
    for (const part of ['postmaster@bounces.example', 'mx.provider.example [198.51.100.7]', 'Please call me.', id])
      assert.ok(body.includes(part), part);
  });

/** Content, envelope sender, and result: null if it is not for operators. */
const MAILS: Record<string, [content: string | Buffer, forwarding: string | null, envelopeFrom?: string]> = {
  'a notice of a blocklist, which is automatic': [
    mail([
      'From: Blocklist <robot@list.example>',
      'Subject: 192.0.2.1 listed',
      'Auto-Submitted: auto-generated',
      'Precedence: bulk',
    ]),
    'forwarded',
  ],
  'a notice from the null sender': [mail(['From: robot@list.example', 'Subject: 192.0.2.1 listed']), 'forwarded', ''],
  'a postmaster who writes about a refusal': [
    mail(
      ['From: Postmaster <postmaster@provider.example>', 'Subject: Your mail'],
      'We rejected your message with 550 5.7.1 because of spam.',
    ),
    'forwarded',
  ],
  'mail of a list': [mail(['From: ann@list.example', 'Subject: news', 'List-Id: <l.list.example>']), 'forwarded'],
  'mail without a header': ['no header at all', 'forwarded'],
  'a complaint that no message is found for': [
    feedbackReport({ recipient: null, headerMessageId: '<unknown@shop.example>' }),
    'forwarded',
  ],
  'an automatic reply': [
    mail(['From: a@b.example', 'Subject: Re: x', 'Auto-Submitted: auto-replied']),
    'automatic-reply',
    '',
  ],
  'an out-of-office note': [mail(['From: a@b.example', 'Subject: Automatic reply: x']), 'automatic-reply'],
  'a mail that was forwarded': [
    mail(['From: postmaster@us.example', 'Subject: Fwd: x', 'X-Postrider-Forwarded: 1']),
    'loop',
  ],
  'a bounce in words of a mail that was forwarded': [
    mail(
      ['From: MAILER-DAEMON@b.example', 'Subject: failure'],
      'Undeliverable.\r\n\r\n> X-Postrider-Forwarded: 1\r\n> Subject: Fwd: x',
    ),
    'loop',
    '',
  ],
  'a delivery report': [deliveryReport({ recipient: 'ann@example.com' }), null, ''],
};

for (const [what, [content, forwarding, envelopeFrom]] of Object.entries(MAILS))
  test(`${what}: ${forwarding ?? 'not for operators'}`, async () => {
    const r = await rig();
    await r.receive(content, envelopeFrom === undefined ? {} : { envelopeFrom });
    await waitUntil('the message to be processed', async () => (await r.counted()) === 1);
    assert.deepEqual(
      (await r.list()).map((one) => one.forwarding),
      forwarding === null ? [] : [forwarding],
    );
    assert.equal(r.sent.length, forwarding === 'forwarded' ? 1 : 0);
  });

test('mail is only listed without an address or above the hourly limit', async () => {
  const none = await rig({ postmaster: undefined });
  await none.receive(LETTER);
  await waitUntil('the mail', async () => (await none.list())[0]?.forwarding === 'not-set');
  const left = [true];
  const limited = await rig({ mayForward: () => left.pop() ?? false });
  await limited.receive(LETTER);
  await waitUntil('the first', async () => (await limited.list()).length === 1);
  await limited.receive(LETTER);
  await waitUntil('the second', async () => (await limited.list()).length === 2);
  assert.deepEqual((await limited.list()).map((one) => one.forwarding).sort(), ['forwarded', 'over-limit']);
  assert.equal(limited.sent.length, 1);
});

test('a message that cannot be forwarded now is forwarded later under the same key', async () => {
  const keys: string[] = [];
  const r = await rig({
    forward: async ({ key }) => {
      keys.push(key);
      if (keys.length === 1) throw new Unavailable('the disk is full');
      return true;
    },
  });
  await r.receive(LETTER);
  await waitUntil('the mail', async () => {
    r.worker.nudge();
    return (await r.list())[0]?.forwarding === 'forwarded';
  });
  assert.deepEqual([keys.length, new Set(keys).size], [2, 1]);
});

test('the newest 1,000 messages are kept, and lists are paginated', async () => {
  const r = await rig({ postmaster: undefined });
  const client = { address: '198.51.100.7', helo: 'a', tls: null };
  const content = Buffer.from(LETTER);
  const mails = Array.from({ length: 1_010 }, (_, i): NewInbound => {
    const times = { receivedAtMs: r.clock.now() + i, nowMs: r.clock.now(), sizeBytes: content.length };
    const facts = { id: newId('inb', r.clock.now() + i), envelopeFrom: '', recipient: 'abuse@bounces.example', client };
    return { ...facts, ...times, use: { kind: 'abuse' }, content, blobKey: null };
  });
  await r.database.execute(storeInboundOperation, mails);
  r.worker.nudge();
  const ids = mails.map(({ id }) => id).reverse();
  await waitUntil(
    'all to be read',
    async () => {
      r.worker.nudge();
      return (await r.counted()) === 1_010;
    },
    60_000,
  );
  assert.equal((await r.list(null, 2_000)).length, 1_000);
  const first = await r.list(null, 3);
  assert.deepEqual(
    first.map(({ id }) => id),
    ids.slice(0, 3),
  );
  assert.deepEqual(
    (await r.list(first[2]!.id, 2)).map(({ id }) => id),
    ids.slice(3, 5),
  );
});
