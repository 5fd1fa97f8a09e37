/** Sending messages: every mix of replies with and without pipelining, content on the wire, refusals of our own. */
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, test } from 'node:test';
import { type SinkOptions, type SmtpSink, smtpSink } from '../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { openSmtpSession, type SmtpMessage, type SmtpSession, type SmtpTimeouts } from './smtp-client.ts';

const open: { close(): Promise<void> | void }[] = [];

after(async () => {
  for (const one of open.reverse()) await one.close();
});

async function begin(
  options: SinkOptions = {},
  timeouts: Partial<SmtpTimeouts> = {},
): Promise<{ sink: SmtpSink; session: SmtpSession }> {
  const sink = await smtpSink(options);
  open.push(sink);
  const result = await openSmtpSession({
    host: 'mx.example.net',
    addresses: ['127.0.0.1'],
    port: sink.port,
    helo: 'mail.example.com',
    tls: 'opportunistic',
    verifyCertificate: false,
    timeouts: { greetingMs: 3000, envelopeMs: 3000, dotMs: 3000, ...timeouts },
  });
  assert.ok(result.ok, JSON.stringify(result));
  open.push({ close: () => result.session.destroy() });
  return { sink, session: result.session };
}

function mail(extra: Partial<SmtpMessage> = {}): SmtpMessage {
  const content = extra.content ?? Buffer.from('Subject: x\r\n\r\nhello\r\n');
  const sizeBytes = Buffer.isBuffer(content) ? content.length : 1000;
  return {
    mailFrom: 'a@example.com',
    recipients: ['b@example.net'],
    content,
    sizeBytes,
    smtpUtf8: false,
    eightBit: false,
    ...extra,
  };
}

const THREE = ['one@example.net', 'two@example.net', 'three@example.net'];
const refuseTwo = (context: { line: string }) => (context.line.includes('two@') ? '550 5.1.1 no such user' : undefined);
const WITHOUT_PIPELINING = ['SIZE 50000000', '8BITMIME', 'SMTPUTF8'];

for (const extensions of [undefined, WITHOUT_PIPELINING]) {
  const how = extensions ? 'without pipelining' : 'pipelined';
  const withScript = (script: NonNullable<SinkOptions['script']>): SinkOptions => ({
    script,
    ...(extensions ? { extensions } : {}),
  });

  test(`${how}: some recipients refused, the others have it; the next message needs no RSET`, async () => {
    const { sink, session } = await begin(withScript({ rcpt: refuseTwo }));
    const result = await session.send(mail({ recipients: THREE }));
    assert.deepEqual(
      result.recipients.map((one) => [one.recipient, one.accepted, one.stage, one.reply?.code]),
      [
        ['one@example.net', true, 'dot', 250],
        ['two@example.net', false, 'rcpt', 550],
        ['three@example.net', true, 'dot', 250],
      ],
    );
    assert.deepEqual(sink.messages[0]?.to, ['one@example.net', 'three@example.net']);
    const again = await session.send(mail());
    assert.equal(again.recipients[0]?.accepted, true);
    assert.ok(!sink.commands.includes('RSET'));
    assert.equal(session.sentCount, 2);
    assert.equal(sink.connections.total, 1);
    assert.deepEqual(sink.violations, []);
  });

  test(`${how}: all recipients refused, RSET before the next message`, async () => {
    const { sink, session } = await begin(withScript({ rcpt: ['550 5.1.1 no', '452 4.2.2 full'] }));
    const result = await session.send(mail({ recipients: THREE.slice(0, 2) }));
    assert.deepEqual(
      result.recipients.map((one) => [one.stage, one.reply?.code, one.accepted]),
      [
        ['rcpt', 550, false],
        ['rcpt', 452, false],
      ],
    );
    const again = await session.send(mail());
    assert.equal(again.recipients[0]?.accepted, true);
    assert.ok(sink.commands.includes('RSET'));
    assert.equal(sink.messages.length, 1);
    assert.deepEqual(sink.violations, []);
  });

  test(`${how}: MAIL refused, then the next message goes`, async () => {
    const { sink, session } = await begin(withScript({ mail: ['451 4.7.1 greylisted'] }));
    const result = await session.send(mail({ recipients: THREE }));
    assert.deepEqual(
      result.recipients.map((one) => [one.stage, one.reply?.enhanced]),
      THREE.map(() => ['mail', '4.7.1']),
    );
    assert.equal((await session.send(mail())).recipients[0]?.accepted, true);
    assert.deepEqual(sink.violations, []);
  });

  test(`${how}: DATA refused: the accepted recipients have its reply`, async () => {
    const { sink, session } = await begin(withScript({ rcpt: refuseTwo, data: ['451 4.3.0 later'] }));
    const result = await session.send(mail({ recipients: THREE }));
    assert.deepEqual(
      result.recipients.map((one) => [one.stage, one.reply?.code]),
      [
        ['data', 451],
        ['rcpt', 550],
        ['data', 451],
      ],
    );
    assert.equal((await session.send(mail())).recipients[0]?.accepted, true);
    assert.deepEqual(sink.violations, []);
  });

  test(`${how}: the dot refused`, async () => {
    const { session } = await begin(withScript({ dot: '554 5.7.1 spam' }));
    const result = await session.send(mail());
    assert.deepEqual([result.recipients[0]?.stage, result.recipients[0]?.reply?.enhanced], ['dot', '5.7.1']);
    assert.equal(result.recipients[0]?.accepted, false);
    assert.equal(session.usable, true);
  });

  test(`${how}: a 421 in the middle answers for all that follow, and ends the session`, async () => {
    const { sink, session } = await begin(withScript({ rcpt: ['250 ok', { reply: '421 4.3.2 closing', drop: true }] }));
    const result = await session.send(mail({ recipients: THREE }));
    assert.deepEqual(
      result.recipients.slice(1).map((one) => [one.accepted, one.reply?.code]),
      [
        [false, 421],
        [false, 421],
      ],
    );
    assert.equal(result.recipients[0]?.accepted, false);
    assert.equal(session.usable, false);
    assert.equal(sink.messages.length, 0);
  });

  test(`${how}: the connection dies at each stage`, async () => {
    for (const stage of ['mail', 'rcpt', 'data', 'dot'] as const) {
      const { session } = await begin(withScript({ [stage]: { drop: true } }));
      const result = await session.send(mail());
      const [only] = result.recipients;
      assert.deepEqual([only?.accepted, only?.stage, only?.reply], [false, stage, undefined], stage);
      assert.match(only?.cause ?? '', /ECONNRESET|EPIPE/);
      assert.ok(only?.message);
      assert.equal(session.usable, false);
    }
  });
}

test('pipelined: all refused and yet 354: a lone dot ends it, and nothing is delivered', async () => {
  const { sink, session } = await begin({ script: { rcpt: ['550 5.1.1 no'], data: ['354 go on'] } });
  const result = await session.send(mail());
  assert.deepEqual([result.recipients[0]?.stage, result.recipients[0]?.reply?.code], ['rcpt', 550]);
  assert.equal(sink.messages.length, 0);
  assert.equal((await session.send(mail())).recipients[0]?.accepted, true);
  assert.deepEqual(sink.violations, []);
});

test('pipelined: MAIL refused, yet RCPT and DATA accepted: cut, because nobody knows what a dot would deliver', async () => {
  const server = net.createServer((socket) => {
    socket.on('error', () => {}).write('220 x\r\n');
    socket.on('data', (chunk) => {
      said += chunk.toString();
      if (said.endsWith('DATA\r\n')) socket.write('451 no\r\n250 ok\r\n354 go\r\n');
      else if (said.endsWith('\r\n')) socket.write('250-x\r\n250 PIPELINING\r\n');
    });
  });
  let said = '';
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push({ close: () => void server.close() });
  const result = await openSmtpSession({
    host: 'mx.example.net',
    addresses: ['127.0.0.1'],
    port: (server.address() as net.AddressInfo).port,
    helo: 'mail.example.com',
    tls: 'never',
    verifyCertificate: false,
  });
  assert.ok(result.ok);
  const [only] = (await result.session.send(mail())).recipients;
  assert.deepEqual([only?.accepted, only?.stage, only?.reply?.code], [false, 'mail', 451]);
  assert.equal(result.session.usable, false);
  assert.ok(said.endsWith('DATA\r\n'), 'nothing was written after DATA');
});

test('one message is two writes: the envelope, then content and dot', async () => {
  const { sink, session } = await begin();
  const result = await session.send(mail());
  assert.deepEqual(
    result.dialogue.map((line) => `${line.direction} ${line.text}`),
    [
      'C MAIL FROM:<a@example.com> SIZE=21',
      'C RCPT TO:<b@example.net>',
      'C DATA',
      'S 250 2.1.0 sender ok',
      'S 250 2.1.5 recipient ok',
      'S 354 go ahead',
      'C <21 bytes>',
      'S 250 2.0.0 queued',
    ],
  );
  assert.equal(sink.messages[0]?.content.toString(), 'Subject: x\r\n\r\nhello\r\n');
});

test('content: dots, missing last line end, nothing, chunks cut anywhere, a stream, a large one', async () => {
  const { sink, session } = await begin();
  const dotted = '.\r\n..\r\n.a\r\nb\r\n.\r\n.';
  const chunks = [...dotted].map((character) => Buffer.from(character));
  async function* stream() {
    yield* chunks;
  }
  const large = Buffer.from(`${'.'.repeat(500)}\r\n`.repeat(4000));
  const contents = [Buffer.from(dotted), chunks, stream(), Buffer.alloc(0), large];
  for (const content of contents) {
    const result = await session.send(mail({ content }));
    assert.equal(result.recipients[0]?.accepted, true, JSON.stringify(result));
  }
  const got = sink.messages.map((message) => message.content.toString());
  assert.deepEqual(got.slice(0, 4), [`${dotted}\r\n`, `${dotted}\r\n`, `${dotted}\r\n`, '']);
  assert.equal(got[4], large.toString());
  assert.deepEqual(sink.violations, []);
});

test('a dot behind a bare LF or CR is never written', async () => {
  const { sink, session } = await begin();
  for (const text of ['a\n.\nb\r\n', 'a\n.\r\nMAIL FROM:<x@y>\r\n', 'a\r.\r\n']) {
    for (const content of [Buffer.from(text), [...text].map((character) => Buffer.from(character))]) {
      const result = await session.send(mail({ content }));
      assert.equal(result.recipients[0]?.local?.enhanced, '5.6.0', JSON.stringify(text));
    }
  }
  assert.ok(!sink.commands.includes('DATA'));
});

test('a stream that breaks or turns out 8-bit cuts the connection before the dot', async () => {
  async function* broken() {
    yield Buffer.from('a\r\n');
    throw new Error('disk');
  }
  async function* eightBit() {
    yield Buffer.from('ä\r\n');
  }
  const first = await begin();
  const result = await first.session.send(mail({ content: broken() }));
  assert.deepEqual([result.recipients[0]?.stage, result.recipients[0]?.cause], ['data', 'ECONTENT']);
  const second = await begin({ extensions: ['PIPELINING'] });
  const refusal = await second.session.send(mail({ content: eightBit() }));
  assert.equal(refusal.recipients[0]?.local?.enhanced, '5.6.3');
  for (const { sink, session } of [first, second]) {
    assert.equal(session.usable, false);
    await waitUntil('the peer to notice', () => sink.connections.now === 0);
    assert.equal(sink.messages.length, 0);
  }
});

test('8-bit content: declared where offered, refused where not, and no byte of it sent', async () => {
  const content = Buffer.from('Subject: x\r\n\r\nGrüße\r\n');
  const { sink, session } = await begin();
  await session.send(mail({ content, eightBit: true }));
  assert.match(sink.messages[0]?.mailParameters ?? '', /BODY=8BITMIME/);
  const plain = await begin({ extensions: ['PIPELINING'] });
  for (const eightBit of [true, false]) {
    const result = await plain.session.send(mail({ content, eightBit }));
    assert.deepEqual([result.recipients[0]?.stage, result.recipients[0]?.local?.enhanced], ['mail', '5.6.3']);
  }
  assert.deepEqual(plain.sink.commands, ['EHLO mail.example.com']);
});

test('SMTPUTF8: used when needed, refused where not offered, for one recipient or for all', async () => {
  const { sink, session } = await begin();
  await session.send(mail({ recipients: ['jürgen@müller.example'], smtpUtf8: false }));
  assert.deepEqual(sink.messages[0]?.to, ['jürgen@müller.example']);
  assert.match(sink.messages[0]?.mailParameters ?? '', /SMTPUTF8/);

  const plain = await begin({ extensions: ['PIPELINING', '8BITMIME'] });
  const result = await plain.session.send(mail({ recipients: ['jürgen@example.net', 'b@müller.example'] }));
  assert.deepEqual(
    result.recipients.map((one) => [one.accepted, one.local?.enhanced]),
    [
      [false, '5.6.7'],
      [true, undefined],
    ],
  );
  assert.deepEqual(plain.sink.messages[0]?.to, ['b@xn--mller-kva.example']);
  const all = await plain.session.send(mail({ smtpUtf8: true }));
  assert.equal(all.recipients[0]?.local?.enhanced, '5.6.7');
});

test('the size limit of the peer is respected before a byte is sent', async () => {
  const { sink, session } = await begin({ extensions: ['SIZE 1000'] });
  const result = await session.send(mail({ sizeBytes: 1001 }));
  assert.equal(result.recipients[0]?.local?.enhanced, '5.3.4');
  assert.equal(sink.commands.length, 1);
});

test('TLS required for one message is refused on a line in the clear', async () => {
  const { sink, session } = await begin();
  const result = await session.send(mail({ requireTls: true }));
  assert.equal(result.recipients[0]?.local?.enhanced, '5.7.10');
  assert.equal(sink.commands.length, 1);
});

test('no command with control characters or brackets is ever written', async () => {
  const { sink, session } = await begin();
  for (const bad of [
    'x@example.net\r\nRCPT TO:<y@z>',
    'x\n@example.net',
    'x\0@example.net',
    'x@example.net> SIZE=1',
    '',
  ]) {
    const result = await session.send(mail({ recipients: [bad] }));
    assert.equal(result.recipients[0]?.local?.enhanced, '5.1.3', JSON.stringify(bad));
  }
  const sender = await session.send(mail({ mailFrom: 'a@b>\r\nRSET' }));
  assert.equal(sender.recipients[0]?.local?.enhanced, '5.1.7');
  assert.equal(sink.commands.length, 1);
  await session.send(mail({ mailFrom: '' }));
  assert.equal(sink.messages[0]?.from, '');
});

test('deadlines: envelope and dot; a peer that does not read a large message', async () => {
  const slow = await begin({ script: { rcpt: { silent: true } } }, { envelopeMs: 60 });
  const first = (await slow.session.send(mail())).recipients[0];
  assert.deepEqual([first?.stage, first?.cause], ['rcpt', 'ETIMEDOUT']);
  const dot = await begin({ script: { dot: { silent: true } } }, { dotMs: 60 });
  const second = (await dot.session.send(mail())).recipients[0];
  assert.deepEqual([second?.stage, second?.cause], ['dot', 'ETIMEDOUT']);
});

test('a reply before the dot of a large message is believed, and the connection ended', async () => {
  const { sink, session } = await begin({ script: { data: { reply: '354 go on', inject: '552 5.3.4 too much\r\n' } } });
  async function* endless() {
    for (;;) {
      yield Buffer.alloc(65_536, 'x\r\n');
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  const result = await session.send(mail({ content: endless() }));
  assert.equal(result.recipients[0]?.accepted, false);
  assert.equal(session.usable, false);
  await waitUntil('the peer to notice', () => sink.connections.now === 0);
});

test('a reply that comes before its content is not taken for the one to the dot', async () => {
  const { sink, session } = await begin({ script: { data: { reply: '354 go on', inject: '250 2.0.0 queued\r\n' } } });
  const [only] = (await session.send(mail())).recipients;
  assert.deepEqual([only?.accepted, only?.stage, only?.cause], [false, 'data', 'EPROTOCOL']);
  assert.equal(session.usable, false);
  assert.equal(sink.messages.length, 0);
});

test('a peer that stops reading a large message is given up', async () => {
  const server = net.createServer((socket) => {
    socket.on('error', () => {}).write('220 x\r\n');
    socket.on('data', (chunk) => {
      const line = chunk.toString();
      socket.write(line.startsWith('DATA') ? '354 go\r\n' : '250 ok\r\n');
      if (line.startsWith('DATA')) socket.pause();
    });
    open.push({ close: () => void socket.destroy() });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push({ close: () => void server.close() });
  const { port } = server.address() as net.AddressInfo;
  const result = await openSmtpSession({
    host: 'mx.example.net',
    addresses: ['127.0.0.1'],
    port,
    helo: 'mail.example.com',
    tls: 'never',
    verifyCertificate: false,
    timeouts: { contentMs: 150 },
  });
  assert.ok(result.ok);
  let pulled = 0;
  async function* endless() {
    for (;;) {
      pulled += 1;
      yield Buffer.alloc(65_536, 'x');
    }
  }
  const [only] = (await result.session.send(mail({ content: endless() }))).recipients;
  assert.deepEqual([only?.stage, only?.cause], ['data', 'ETIMEDOUT']);
  assert.ok(pulled < 1000, 'the stream waits for the peer');
});

test('a refused RSET closes the session', async () => {
  const { session } = await begin({ script: { rcpt: ['550 no'], rset: '502 5.5.1 what' } });
  await session.send(mail());
  const result = await session.send(mail());
  assert.deepEqual([result.recipients[0]?.stage, result.recipients[0]?.reply?.code], ['reset', 502]);
  assert.equal(session.usable, false);
});

test('one message at a time', async () => {
  const { session } = await begin();
  const first = session.send(mail());
  await assert.rejects(session.send(mail()), /under way/);
  assert.equal((await first).recipients[0]?.accepted, true);
});
