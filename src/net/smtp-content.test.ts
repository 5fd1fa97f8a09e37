/** Sending messages: content on the wire, local rejections, and deadlines. */
import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import { againIfPaused } from '../../test/kit/running-time.ts';
import { begin, mail, open } from '../../test/kit/smtp-session.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { openSmtpSession } from './smtp-client.ts';

test('content is sent with dot-stuffing, in any chunks, sizes, and streams', async () => {
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

test('chunk memory can be reused, and the chunk after Base64 starts a new line', async () => {
  const { sink, session } = await begin({ extensions: ['PIPELINING'] });
  const memory = Buffer.alloc(200_000);
  // More than the operating system accepts in one write.
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'.repeat(3);
  async function* stream() {
    yield Buffer.from('.head\r\n\r\n');
    for (const letter of letters) {
      memory.write(`${letter.repeat(76)}\r\n`.repeat(2500), 'latin1');
      yield { base64: memory.subarray(0, 195_000) };
      yield { base64: memory.subarray(0, 78) };
      memory.fill('!');
      yield Buffer.from('.tail\r\n');
    }
  }
  const result = await session.send(mail({ content: stream() }));
  assert.equal(result.recipients[0]?.accepted, true, JSON.stringify(result));
  const lines = [...letters].map((letter) => `${`${letter.repeat(76)}\r\n`.repeat(2501)}.tail\r\n`);
  assert.ok(sink.messages[0]?.content.equals(Buffer.from(`.head\r\n\r\n${lines.join('')}`)));
  assert.deepEqual(sink.violations, []);
});

test('never writes a dot after a bare LF or CR', async () => {
  const { sink, session } = await begin();
  for (const text of ['a\n.\nb\r\n', 'a\n.\r\nMAIL FROM:<x@y>\r\n', 'a\r.\r\n']) {
    for (const content of [Buffer.from(text), [...text].map((character) => Buffer.from(character))]) {
      const result = await session.send(mail({ content }));
      assert.equal(result.recipients[0]?.local?.enhanced, '5.6.0', JSON.stringify(text));
    }
  }
  assert.ok(!sink.commands.includes('DATA'));
});

test('a stream that fails or contains 8-bit data closes the connection before the dot', async () => {
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
    await waitUntil('the server to notice', () => sink.connections.now === 0);
    assert.equal(sink.messages.length, 0);
  }
});

test('a message that must not complete is cut before its dot at any size', async () => {
  for (const bytes of [10, 400_000]) {
    const { sink, session } = await begin();
    const content = Buffer.from(`${'x'.repeat(8)}\r\n`.repeat(bytes / 10));
    const result = await session.send(mail({ content, sizeBytes: content.length, mayEnd: () => true }));
    assert.equal(result.recipients[0]?.accepted, true, 'control');
    let asked = 0;
    const mayEnd = (): boolean => {
      asked += 1;
      return false;
    };
    const kept = await session.send(mail({ content, sizeBytes: content.length, mayEnd }));
    const { stage, cause } = kept.recipients[0]!;
    assert.deepEqual({ stage, cause, asked }, { stage: 'data', cause: 'ECANCELLED', asked: 1 });
    assert.equal(session.usable, false);
    await waitUntil('the server to see the end', () => sink.connections.now === 0);
    assert.equal(sink.accepted, 1);
  }
});

test('8-bit content is declared if offered, and rejected unsent otherwise', async () => {
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

test('SMTPUTF8 is used when required and rejected if not offered, for one or all recipients', async () => {
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

test("the server's size limit is checked before a byte is sent", async () => {
  const { sink, session } = await begin({ extensions: ['SIZE 1000'] });
  const result = await session.send(mail({ sizeBytes: 1001 }));
  assert.equal(result.recipients[0]?.local?.enhanced, '5.3.4');
  assert.equal(sink.commands.length, 1);
});

test('a message that requires TLS is rejected on an unencrypted connection', async () => {
  const { sink, session } = await begin();
  const result = await session.send(mail({ requireTls: true }));
  assert.equal(result.recipients[0]?.local?.enhanced, '5.7.10');
  assert.equal(sink.commands.length, 1);
});

test('no command contains control characters or brackets', async () => {
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

test('envelope, dot, and unread content have deadlines', async () => {
  await againIfPaused(async () => {
    const slow = await begin({ script: { rcpt: { silent: true } } }, { envelopeMs: 60 });
    const first = (await slow.session.send(mail())).recipients[0];
    assert.deepEqual([first?.stage, first?.cause], ['rcpt', 'EPIPELINING']);
  });
  const dot = await begin({ script: { dot: { silent: true } } }, { dotMs: 60 });
  const second = (await dot.session.send(mail())).recipients[0];
  assert.deepEqual([second?.stage, second?.cause], ['dot', 'ETIMEDOUT']);
});

test('a reply before the dot of a large message applies and ends the connection', async () => {
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
  await waitUntil('the server to notice', () => sink.connections.now === 0);
});

test('a reply before the content is not used for the dot', async () => {
  const { sink, session } = await begin({ script: { data: { reply: '354 go on', inject: '250 2.0.0 queued\r\n' } } });
  const [only] = (await session.send(mail())).recipients;
  assert.deepEqual([only?.accepted, only?.stage, only?.cause], [false, 'data', 'EPROTOCOL']);
  assert.equal(session.usable, false);
  assert.equal(sink.messages.length, 0);
});

test('a server that stops reading a large message times out', async () => {
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
  assert.ok(pulled < 1000, 'the stream waits for the server');
});

test('a rejected RSET closes the session', async () => {
  const { session } = await begin({ script: { rcpt: ['550 no'], rset: '502 5.5.1 what' } });
  await session.send(mail());
  const result = await session.send(mail());
  assert.deepEqual([result.recipients[0]?.stage, result.recipients[0]?.reply?.code], ['reset', 502]);
  assert.equal(session.usable, false);
});

test('a session sends one message at a time', async () => {
  const { session } = await begin();
  const first = session.send(mail());
  await assert.rejects(session.send(mail()), /under way/);
  assert.equal((await first).recipients[0]?.accepted, true);
});
