import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { deliveryRig, type Rig, type RigOptions } from '../../test/kit/delivery-rig.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from '../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function rigWithSink(
  sinkOptions: SinkOptions = {},
  options: RigOptions = {},
): Promise<{ rig: Rig; sink: SmtpSink }> {
  const sink = await smtpSink(sinkOptions);
  const rig = await deliveryRig({ relayPort: sink.port, ...options });
  closers.push(async () => {
    await rig.close();
    await sink.close();
  });
  return { rig, sink };
}

const settled = (rig: Rig, id: string, status: string): Promise<unknown> =>
  waitUntil(`${id} to be ${status}, it is ${rig.status(id)}`, () => rig.status(id) === status);

test('a dispatched message is delivered and recorded, with Received above its content', async () => {
  const { rig, sink } = await rigWithSink();
  const [id] = await rig.send({ to: ['a@x.example'] });
  await settled(rig, id!, 'delivered');
  const mail = sink.messages[0]!;
  assert.deepEqual(mail.to, ['a@x.example']);
  assert.match(
    mail.content.toString(),
    new RegExp(
      `^Received: by postrider.test \\(Postrider\\) with HTTP id ${id};\r\n Fri, 20 Nov 2026 09:44:00 \\+0000\r\nFrom: `,
    ),
  );
  const events = rig.events(id!);
  assert.deepEqual(
    events.map((event) => event.type),
    ['Send', 'Delivery'],
  );
  assert.deepEqual(events[1]!.detail.delivery, {
    remoteHost: '127.0.0.1',
    reply: '250 2.0.0 queued',
    tls: null,
    attempts: 1,
    latencyMs: 0,
  });
  const [attempt] = rig.attempts(id!) as unknown as {
    dialogue: { direction: string; text: string }[];
    address: string;
  }[];
  assert.equal(attempt!.address, '127.0.0.1');
  assert.ok(attempt!.dialogue.some((line) => line.text === 'RCPT TO:<a@x.example>'));
  assert.deepEqual(rig.rows('SELECT * FROM work'), []);
  assert.deepEqual(sink.violations, []);
});

test('a stored message without a dispatch is claimed', async () => {
  const { rig, sink } = await rigWithSink();
  const [id] = await rig.store({ to: ['a@x.example'] });
  rig.delivery.nudge();
  await settled(rig, id!, 'delivered');
  assert.equal(sink.accepted, 1);
});

test('recipients of one email share a transaction and have separate outcomes', async () => {
  const { rig, sink } = await rigWithSink({
    script: {
      rcpt: ({ line }) =>
        line.includes('gone') ? '550 5.1.1 no such user' : line.includes('later') ? '450 4.2.1 later' : undefined,
    },
  });
  const [ok, gone, later] = await rig.send({ to: ['ok@x.example', 'gone@y.example', 'later@x.example'] });
  await settled(rig, ok!, 'delivered');
  await settled(rig, gone!, 'bounced');
  await settled(rig, later!, 'delayed');
  assert.equal(sink.messages.length, 1);
  assert.deepEqual(sink.messages[0]!.to, ['ok@x.example']);
  const { bounce } = rig.events(gone!)[1]!.detail;
  assert.deepEqual(
    { ...bounce, advice: typeof bounce!.advice },
    {
      kind: 'hard',
      category: 'mailbox-not-found',
      smtpCode: 550,
      enhancedCode: '5.1.1',
      reply: '550 5.1.1 no such user',
      remoteHost: '127.0.0.1',
      owner: 'recipient',
      advice: 'string',
      suppressed: true,
    },
  );
  assert.deepEqual(
    rig.rows('SELECT email, reason, source_message_id FROM suppression').map((row) => ({ ...row })),
    [{ email: 'gone@y.example', reason: 'bounce', source_message_id: gone }],
  );
  const { deliveryDelay } = rig.events(later!)[1]!.detail;
  assert.equal(deliveryDelay!.nextAttemptAt, '2026-11-20T09:45:00.000Z');
});

/** Replies of servers to recipients above their limit per transaction. */
const TOO_MANY = [
  '452 4.5.3 too many recipients',
  '552 Too many recipients',
  '552 5.5.3 Error: too many recipients',
  '550 5.5.3 maximum number of recipients exceeded',
  '550 5.5.3 sorry',
  '554 Zu viele Empfänger',
];

for (const refusal of TOO_MANY) {
  test(`a server that accepts 10 recipients and answers others "${refusal}" gets all 25 in one attempt`, async () => {
    const { rig, sink } = await rigWithSink({
      script: { rcpt: ({ to }) => (to.length >= 10 ? refusal : undefined) },
    });
    const to = Array.from({ length: 25 }, (_, index) => `${index}@x.example`);
    const ids = await rig.send({ to });
    for (const id of ids) await settled(rig, id, 'delivered');
    assert.deepEqual(
      sink.messages.map((mail) => mail.to.length),
      [10, 10, 5],
    );
    assert.deepEqual(sink.messages.flatMap((mail) => mail.to).sort(), to.sort());
    for (const id of ids) assert.equal(rig.attempts(id).length, 1);
  });
}

test('a server that accepts one recipient per transaction gets all of them', async () => {
  const { rig, sink } = await rigWithSink({
    script: { rcpt: ({ to }) => (to.length >= 1 ? '552 5.5.3 too many recipients' : undefined) },
  });
  const ids = await rig.send({ to: Array.from({ length: 12 }, (_, index) => `${index}@x.example`) });
  for (const id of ids) await settled(rig, id, 'delivered');
  assert.deepEqual(
    sink.messages.map((mail) => mail.to.length),
    new Array(12).fill(1),
  );
  for (const id of ids) assert.equal(rig.attempts(id).length, 1);
});

test('the limits that a server announces are kept: recipients per transaction, and transactions per session', async () => {
  const { rig, sink } = await rigWithSink({ extensions: ['PIPELINING', 'LIMITS MAILMAX=2 RCPTMAX=10'] });
  const to = Array.from({ length: 45 }, (_, index) => `${index}@x.example`);
  const ids = await rig.send({ to });
  for (const id of ids) await settled(rig, id, 'delivered');
  assert.deepEqual(sink.messages.map((mail) => mail.to.length).sort(), [10, 10, 10, 10, 5].sort());
  assert.deepEqual(sink.messages.flatMap((mail) => mail.to).sort(), to.sort());
  const perSession = Map.groupBy(sink.messages, (mail) => mail.session);
  for (const mails of perSession.values()) assert.ok(mails.length <= 2, `${mails.length} transactions`);
  assert.ok(sink.commands.filter((line) => line.startsWith('RCPT')).length === 45);
  for (const id of ids) assert.equal(rig.attempts(id).length, 1);
});

test('"no such user" after the final dot suppresses only a single recipient', async () => {
  const { rig } = await rigWithSink({ script: { dot: () => '550 Unknown user' } });
  const [alone] = await rig.send({ to: ['alone@x.example'] });
  const several = await rig.send({ to: ['one@x.example', 'two@x.example'] });
  for (const id of [alone!, ...several]) await settled(rig, id, 'bounced');
  assert.deepEqual(
    rig.rows('SELECT email FROM suppression').map(({ email }) => email),
    ['alone@x.example'],
  );
  const { bounce } = rig.events(alone!)[1]!.detail;
  assert.deepEqual([bounce!.kind, bounce!.category, bounce!.suppressed], ['hard', 'mailbox-not-found', true]);
});

test('many messages use few connections', async () => {
  const { rig, sink } = await rigWithSink();
  const ids: string[] = [];
  for (let i = 0; i < 200; i += 1) ids.push(...(await rig.send({ to: [`${i}@x.example`] })));
  for (const id of ids) await settled(rig, id, 'delivered');
  assert.equal(sink.accepted, 200);
  assert.ok(sink.connections.total <= 50, `${sink.connections.total} connections`);
});

test('a session that the server closed while idle is not a failure', async () => {
  const { rig, sink } = await rigWithSink({ script: { dot: { reply: '250 ok', drop: true } } });
  for (let i = 0; i < 5; i += 1) {
    const [id] = await rig.send({ to: ['a@x.example'] });
    await settled(rig, id!, 'delivered');
    assert.equal(rig.attempts(id!).length, 1);
  }
  assert.equal(sink.connections.total, 5);
});

test('421 on a reused session leads to a new one without counting an attempt', async () => {
  let mails = 0;
  const { rig } = await rigWithSink({
    script: {
      mail: () => {
        mails += 1;
        return mails === 2 ? { reply: '421 4.4.2 idle too long', drop: true } : undefined;
      },
    },
  });
  for (let i = 0; i < 2; i += 1) {
    const [id] = await rig.send({ to: ['a@x.example'] });
    await settled(rig, id!, 'delivered');
    assert.equal(rig.attempts(id!).length, 1);
  }
  assert.equal(mails, 3);
});

test('SMTP submissions have their protocol and client in Received', async () => {
  const { rig, sink } = await rigWithSink();
  const [id] = await rig.send({
    to: ['a@x.example'],
    source: 'smtp',
    options: { receivedFrom: 'app.example ([192.0.2.1])\r\nX-Evil: 1' },
  });
  await settled(rig, id!, 'delivered');
  assert.match(
    sink.messages[0]!.content.toString(),
    /^Received: from app.example \(\[192.0.2.1\]\)X-Evil: 1\r\n by postrider.test \(Postrider\) with ESMTPSA id msg_/,
  );
});

test('content that is not retained is deleted when the message is settled', async () => {
  const { rig } = await rigWithSink();
  const [id] = await rig.send({ to: ['a@x.example'], retain: 'none', blob: true });
  await settled(rig, id!, 'delivered');
  const left: string[] = [];
  await waitUntil('the blob to be removed', async () => {
    left.length = 0;
    for await (const { key } of rig.blobs.list()) left.push(key);
    return left.length === 0;
  });
  assert.deepEqual(
    rig.rows('SELECT content, blob_key FROM email').map((row) => ({ ...row })),
    [{ content: null, blob_key: null }],
  );
});

test('a message that requires TLS is deferred if none is offered, and no content is sent', async () => {
  const { rig, sink } = await rigWithSink();
  const [id] = await rig.send({ to: ['a@x.example'], options: { requireTls: true } });
  await settled(rig, id!, 'delayed');
  assert.equal(rig.events(id!)[1]!.detail.deliveryDelay!.category, 'tls');
  assert.ok(!sink.commands.some((command) => command.startsWith('MAIL')));
});

test('more than 100 Received fields are rejected as a loop', async () => {
  const { rig, sink } = await rigWithSink();
  const content = `${'Received: from a by b; date\r\n'.repeat(101)}Subject: x\r\n\r\nx\r\n`;
  const [id] = await rig.send({ to: ['a@x.example'], source: 'smtp', content });
  await settled(rig, id!, 'bounced');
  assert.equal(rig.events(id!)[1]!.detail.bounce!.enhancedCode, '5.4.6');
  assert.equal(sink.accepted, 0);
});

test('an address suppressed before delivery receives nothing, scheduled, delayed, or in the sandbox', async () => {
  const { rig, sink } = await rigWithSink({ script: { rcpt: ['451 4.3.0 not now'] } });
  const suppress = (email: string, mode: string, expiresAt = 'NULL'): void =>
    rig.tamper(
      `INSERT INTO suppression (account_id, mode, email, reason, expires_at, created_at)
       VALUES ('acc_1', ?, ?, 'manual', ${expiresAt}, 0)`,
      mode,
      email,
    );
  const [delayed] = await rig.send({ to: ['Later@x.example'], retain: 'none' });
  await settled(rig, delayed!, 'delayed');
  const sendAtMs = rig.clock.now() + 60_000;
  const [scheduled, other] = await rig.store({ to: ['Ada@x.example', 'bob@x.example'], sendAtMs });
  const [lapsed] = await rig.store({ to: ['lapsed@x.example'], sendAtMs });
  const [played] = await rig.store({ to: ['cy@x.example'], sendAtMs, mode: 'sandbox' });
  suppress('later@x.example', 'live');
  suppress('ada@x.example', 'live');
  suppress('lapsed@x.example', 'live', String(sendAtMs));
  suppress('bob@x.example', 'sandbox');
  suppress('cy@x.example', 'sandbox');
  rig.clock.advance(70_000);
  for (const id of [delayed, scheduled, played]) await settled(rig, id!, 'suppressed');
  for (const id of [other, lapsed]) await settled(rig, id!, 'delivered');
  assert.deepEqual(sink.messages.map((mail) => mail.to[0]).sort(), ['bob@x.example', 'lapsed@x.example']);
  for (const id of [delayed, scheduled, played]) {
    const last = rig.events(id!).at(-1)!;
    assert.equal(last.type, 'Reject');
    assert.deepEqual([last.detail.reject!.reason, last.detail.reject!.suppressed], ['suppressed', true]);
  }
  assert.equal(rig.attempts(delayed!).length, 1, 'no second attempt');
  assert.equal(rig.attempts(scheduled!).length, 0);
  assert.equal(rig.rows<{ outcome: string }>('SELECT outcome FROM sandbox_item')[0]!.outcome, 'Suppressed');
  assert.deepEqual(
    rig.rows<{ content: null }>("SELECT content FROM email WHERE retain = 'none'").map((row) => row.content),
    [null],
  );
  assert.deepEqual(rig.rows('SELECT * FROM work'), []);
});

test('a failure without a reply has a null smtpCode', async () => {
  const { rig } = await rigWithSink({ script: { banner: { drop: true } } });
  const [id] = await rig.send({ to: ['a@x.example'] });
  await settled(rig, id!, 'delayed');
  const { deliveryDelay } = rig.events(id!)[1]!.detail;
  assert.equal(deliveryDelay!.category, 'network');
  assert.equal(deliveryDelay!.smtpCode, null);
});
