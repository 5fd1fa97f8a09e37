/** The limits of a session in number, size and time. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { againIfPaused, runningMs } from '../../test/kit/running-time.ts';
import { openSession, SENDER, type SmtpRig, smtpRig, submitMail } from '../../test/kit/smtp-rig.ts';
import { connectTalker, plainResponse } from '../../test/kit/smtp-talker.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { createLoginGuard, type LoginGuard } from './login-guard.ts';

let rig: SmtpRig;
before(async () => {
  rig = await smtpRig();
});
after(() => rig.close());

async function countBlobs(): Promise<number> {
  let count = 0;
  for await (const _ of rig.blobs.list()) count += 1;
  return count;
}

test('50 recipients are accepted and more deferred, and the message goes to the 50', async () => {
  const { port } = await rig.listen();
  const talker = await openSession(port, rig.credentials.live);
  const before = rig.accepted.length;
  talker.send(
    `MAIL FROM:<${SENDER}>\r\n${Array.from({ length: 60 }, (_, i) => `RCPT TO:<r${i}@example.com>\r\n`).join('')}RCPT TO:<R3@example.com>\r\nDATA\r\n`,
  );
  const codes: string[] = [];
  for (let i = 0; i < 63; i += 1) codes.push((await talker.reply()).slice(0, 9));
  assert.deepEqual(codes.slice(1, 51), Array(50).fill('250 2.1.5'));
  assert.deepEqual(codes.slice(51, 61), Array(10).fill('452 4.5.3'));
  assert.deepEqual(codes.slice(61), ['250 2.1.5', '354 end t'], 'a repeated recipient is still accepted');
  talker.send(`From: ${SENDER}\r\n\r\nx\r\n.\r\n`);
  const reply = await talker.reply();
  const jobs = rig.accepted.slice(before);
  assert.equal(jobs.length, 50);
  assert.equal(new Set(jobs.map((job) => job.messageId)).size, 50);
  assert.equal(reply, `250 2.0.0 queued as ${jobs[0]!.messageId}`);
  assert.equal(jobs[0]!.recipient, 'r0@example.com');
  talker.destroy();
});

test('messages are limited to 2,000,000 bytes, the session continues, and large content is a blob', async () => {
  const { port } = await rig.listen();
  const talker = await openSession(port, rig.credentials.live);
  const head = `From: ${SENDER}\r\n\r\n`;
  const body = (bytes: number): string => {
    const line = `${'x'.repeat(98)}\r\n`;
    const rest = bytes - head.length;
    return `${head}${line.repeat(Math.floor(rest / 100) - 1)}${'y'.repeat((rest % 100) + 98)}\r\n`;
  };
  assert.equal(body(2_000_000).length, 2_000_000);
  const before = rig.accepted.length;
  const blobs = await countBlobs();
  assert.match(await submitMail(talker, body(2_000_000)), /^250 2\.0\.0 /);
  assert.match(await submitMail(talker, body(2_000_001)), /^552 5\.3\.4 /);
  assert.match(await submitMail(talker), /^250 2\.0\.0 /);
  const [large, small, none] = rig.accepted.slice(before);
  assert.equal(none, undefined);
  assert.equal(large!.content, null);
  const stored = await rig.blobs.get(large!.blobKey!);
  assert.equal(stored!.length, large!.sizeBytes);
  assert.ok(stored!.toString('latin1').endsWith(body(2_000_000).slice(head.length)));
  assert.ok(small!.content !== null && small!.blobKey === null);
  await waitUntil('the blob of the rejected message to be removed', async () => (await countBlobs()) === blobs + 1);
  talker.destroy();
});

test('lines have the limits of RFC 5321 and 4954, and an endless line uses no memory', async () => {
  const { port } = await rig.listen({ limits: { maxClientErrors: 1_000 } });
  const talker = await openSession(port, rig.credentials.live);
  const padded = (start: string, bytes: number): string => `${start}${'x'.repeat(bytes - start.length - 2)}`;
  assert.match(await talker.say(padded('NOOP ', 512)), /^250 /);
  assert.match(await talker.say(padded('NOOP ', 513)), /^500 5\.5\.2 .*512/);
  const mail = `MAIL FROM:<${SENDER}> AUTH=`;
  assert.match(await talker.say(padded(mail, 1_214)), /^250 /);
  const recipient = 'RCPT TO:<ann@example.com> ORCPT=rfc822;';
  assert.match(await talker.say(padded(recipient, 1_040)), /^501 5\.5\.4 ORCPT/);
  assert.match(await talker.say(padded(recipient, 1_041)), /^500 5\.5\.2 .*1040/);
  assert.match(await talker.say('RSET'), /^250 /);
  assert.match(await talker.say(padded(mail, 1_215)), /^500 5\.5\.2 /);
  assert.match(await talker.say(padded('AUTH PLAIN ', 12_288)), /^503 /);
  assert.match(await talker.say(padded('AUTH PLAIN ', 12_289)), /^501 5\.5\.6 /);
  // Rejected once as soon as it is too long. The rest of the line is not a command.
  const beforeBytes = process.memoryUsage().arrayBuffers;
  talker.send('NOOP ');
  for (let i = 0; i < 100; i += 1) talker.send('QUIT'.repeat(25_000));
  assert.match(await talker.reply(), /^500 5\.5\.2 /);
  talker.send('\r\nNOOP\r\n');
  assert.equal(await talker.reply(), '250 2.0.0 OK');
  assert.ok(process.memoryUsage().arrayBuffers - beforeBytes < 12_000_000);
  talker.destroy();
  const guest = await connectTalker(port);
  await guest.reply();
  await guest.secure();
  assert.match(await guest.say('AUTH PLAIN'), /^334 /);
  assert.match(await guest.say('A'.repeat(65_536)), /^501 5\.5\.6 /);
  assert.equal(await guest.say('NOOP'), '250 2.0.0 OK');
  guest.destroy();
});

test('connections from one address are limited, and another address is served immediately', async () => {
  const { port, server } = await rig.listen({ limits: { maxConnectionsPerAddress: 5 } });
  const crowd = await Promise.all(Array.from({ length: 5 }, () => connectTalker(port, { localAddress: '127.0.0.9' })));
  for (const one of crowd) assert.match(await one.reply(), /^220 /);
  const beyond = await Promise.all(
    Array.from({ length: 40 }, () => connectTalker(port, { localAddress: '127.0.0.9' })),
  );
  for (const one of beyond) {
    assert.match(await one.reply(), /^421 4\.7\.0 /);
    await one.closed();
  }
  const since = runningMs();
  const other = await connectTalker(port, { localAddress: '127.0.0.10' });
  assert.match(await other.reply(), /^220 /);
  assert.ok(runningMs() - since < 1_000);
  crowd[0]!.destroy();
  await waitUntil('room', () => server.count() === 5);
  const again = await connectTalker(port, { localAddress: '127.0.0.9' });
  assert.match(await again.reply(), /^220 /);
  for (const one of [...crowd, other, again]) one.destroy();
});

test('slow bytes do not extend deadlines, in commands or in content', async () => {
  const commands = await rig.listen({ limits: { idleMs: 400 } });
  const contents = await rig.listen({ limits: { dataMs: 400 } });
  const inCommand = await connectTalker(commands.port);
  await inCommand.reply();
  const inContent = await openSession(contents.port, rig.credentials.live);
  inContent.send(`MAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n`);
  for (let i = 0; i < 3; i += 1) await inContent.reply();
  const drip = setInterval(() => {
    inCommand.send('N');
    inContent.send('x');
  }, 50);
  const since = runningMs();
  for (const one of [inCommand, inContent]) {
    assert.match((await one.line()) ?? '', /^421 4\.4\.2 /);
    await one.closed();
  }
  clearInterval(drip);
  assert.ok(runningMs() - since < 3_000);
});

test('a client that does not read its replies is disconnected', async () => {
  await againIfPaused(pourWithoutReading);
});

async function pourWithoutReading(): Promise<void> {
  const { port, server } = await rig.listen({ limits: { idleMs: 300, lingerMs: 100, maxFruitless: 1_000_000 } });
  const talker = await connectTalker(port);
  await talker.reply();
  talker.socket.pause();
  let sentBytes = 0;
  const line = 'NOOP\r\n'.repeat(10_000);
  // The kernel's buffers are passed on. Then the server stops reading, and the client can no longer write.
  while (talker.socket.writableLength < 2_000_000 && sentBytes < 60_000_000) {
    talker.send(line);
    sentBytes += line.length;
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(sentBytes < 60_000_000, 'the server keeps reading');
  await waitUntil('the end of the session', () => server.count() === 0);
  talker.destroy();
}

test('invalid content is rejected after the dot with 5.6.0, and the session continues', async () => {
  const { port } = await rig.listen();
  const talker = await openSession(port, rig.credentials.live);
  const from = `From: ${SENDER}\r\n`;
  const nested = (depth: number): string => {
    const opened = Array.from(
      { length: depth },
      (_, level) => `Content-Type: multipart/mixed; boundary="b${level}"\r\n\r\n--b${level}\r\n`,
    );
    return `${from}MIME-Version: 1.0\r\n${opened.join('')}Content-Type: text/plain\r\n\r\nx\r\n`;
  };
  const received = (count: number): string => `${'Received: from a by b; c\r\n'.repeat(count)}${from}\r\nx\r\n`;
  const before = rig.accepted.length;
  const refused: Record<string, string> = {
    'bare CR': `${from}\r\na\rb\r\n`,
    'bare LF': `${from}\r\na\nb\r\n`,
    NUL: `${from}\r\na\0b\r\n`,
    'bare LF in the header': `${from}Subject: a\nBcc: x@y.example\r\n\r\nx\r\n`,
    'a line of 999': `${from}\r\n${'x'.repeat(999)}\r\n`,
    'a line of a megabyte': `${from}\r\n${'x'.repeat(1_000_000)}\r\n`,
    'depth 101': nested(101),
    '101 Received': received(101),
  };
  for (const [what, content] of Object.entries(refused)) {
    assert.match(await submitMail(talker, content), /^55[04] 5\.6\.0 [\x20-\x7e]+$/, what);
    assert.equal(await talker.say('NOOP'), '250 2.0.0 OK', what);
  }
  assert.equal(rig.accepted.length, before);
  for (const content of [`${from}\r\n${'x'.repeat(998)}\r\n`, nested(99), received(100)]) {
    assert.match(await submitMail(talker, content), /^250 2\.0\.0 /);
  }
  talker.destroy();
});

test('a session ends after twenty errors, and pipelined commands of a rejected message do not count', async () => {
  const { port } = await rig.listen();
  const talker = await openSession(port, rig.credentials.live);
  const rcpt = Array.from({ length: 50 }, (_, i) => `RCPT TO:<r${i}@example.com>\r\n`).join('');
  talker.send(`MAIL FROM:<x@foreign.example>\r\n${rcpt}DATA\r\n`);
  assert.match(await talker.reply(), /^550 5\.7\.1 /);
  for (let i = 0; i < 51; i += 1) assert.match(await talker.reply(), /^503 5\.5\.1 /);
  talker.send('X\r\n'.repeat(30));
  for (let i = 0; i < 20; i += 1) assert.match(await talker.reply(), /^500 5\.5\.2 /);
  assert.match(await talker.reply(), /^421 4\.7\.0 /);
  assert.equal(await talker.line(), undefined);
});

test('malformed MAIL and RCPT commands count as errors, but rejected addresses do not', async () => {
  const { port } = await rig.listen();
  for (const [what, line, expected] of [
    ['MAIL', 'MAIL <a@b.example>', /^501 5\.5\.4 /],
    ['a parameter of MAIL', `MAIL FROM:<${SENDER}> X=y`, /^555 5\.5\.4 /],
    ['RCPT', 'RCPT ann@example.com', /^501 5\.5\.4 /],
    ['a parameter of RCPT', 'RCPT TO:<ann@example.com> X=y', /^555 5\.5\.4 /],
    ['a malformed parameter of RCPT', 'RCPT TO:<ann@example.com> NOTIFY=ALWAYS', /^501 5\.5\.4 /],
  ] as const) {
    const talker = await openSession(port, rig.credentials.live);
    if (line.startsWith('RCPT')) assert.match(await talker.say(`MAIL FROM:<${SENDER}>`), /^250 /);
    talker.send(`${line}\r\n`.repeat(30));
    for (let i = 0; i < 20; i += 1) assert.match(await talker.reply(), expected, what);
    assert.match(await talker.reply(), /^421 4\.7\.0 too many errors/, what);
    assert.equal(await talker.line(), undefined);
  }
  const talker = await openSession(port, rig.credentials.live);
  for (let i = 0; i < 15; i += 1) assert.match(await talker.say('MAIL FROM:<nobody>'), /^501 5\.1\.7 /);
  assert.match(await talker.say(`MAIL FROM:<${SENDER}>`), /^250 /);
  for (let i = 0; i < 30; i += 1) {
    assert.match(await talker.say('RCPT TO:<nobody>'), /^501 5\.1\.3 /);
    assert.match(await talker.say('RCPT TO:<ω@example.com>'), /^553 5\.6\.7 /);
  }
  assert.match(await talker.say('RCPT TO:<ann@example.com>'), /^250 /);
  talker.destroy();
});

test('repeating a recipient does not extend the command limit', async () => {
  const { port } = await rig.listen();
  const talker = await openSession(port, rig.credentials.live);
  talker.send(`MAIL FROM:<${SENDER}>\r\n${'RCPT TO:<ann@example.com>\r\n'.repeat(300)}`);
  let last = '';
  let count = 0;
  for (let line = await talker.line(); line !== undefined; line = await talker.line()) {
    last = line;
    count += 1;
  }
  assert.match(last, /^421 4\.7\.0 too many commands without a message/);
  assert.ok(count <= 203 && count > 190, `${count}`);
});

test('content of only stuffed dots arrives unchanged, in few pieces', async () => {
  let pieces = 0;
  const blobs: Blobs = {
    ...rig.blobs,
    putStream: (source, options) => {
      async function* counted(): AsyncGenerator<Uint8Array> {
        for await (const piece of source) {
          pieces += 1;
          yield piece;
        }
      }
      return rig.blobs.putStream(counted(), options);
    },
  };
  const { port } = await rig.listen({ blobs });
  const talker = await openSession(port, rig.credentials.live);
  const from = `From: ${SENDER}\r\nDate: x\r\nMessage-ID: <1@x.example>\r\n\r\n`;
  const lines = Math.floor((2_000_000 - from.length) / 3);
  const before = rig.accepted.length;
  assert.match(await submitMail(talker, `${from}${'..\r\n'.repeat(lines)}`), /^250 2\.0\.0 /);
  const stored = await rig.blobs.get(rig.accepted[before]!.blobKey!);
  assert.ok(stored!.equals(Buffer.from(`${from}${'.\r\n'.repeat(lines)}`)));
  assert.ok(pieces < 50, `${pieces} pieces`);
  talker.destroy();
});

test('data after a waiting command, or in a slow line, is not copied repeatedly', async (t) => {
  const plain = createLoginGuard();
  const held = Promise.withResolvers<void>();
  const guard: LoginGuard = {
    ...plain,
    enter: async (address, username) => {
      await held.promise;
      return plain.enter(address, username);
    },
  };
  const { port } = await rig.listen({ guard });
  let copiedBytes = 0;
  const { concat } = Buffer;
  t.mock.method(Buffer, 'concat', (list: readonly Uint8Array[], length?: number) => {
    const joined = concat(list, length);
    copiedBytes += joined.length;
    return joined;
  });
  const { copy } = Buffer.prototype;
  t.mock.method(Buffer.prototype, 'copy', function (this: Buffer, ...args: Parameters<typeof copy>) {
    const bytes = copy.apply(this, args);
    copiedBytes += bytes;
    return bytes;
  });
  const talker = await connectTalker(port);
  await talker.reply();
  await talker.secure();
  const auth = `AUTH PLAIN ${plainResponse(rig.credentials.live)}\r\n`;
  // One turn at a time, so each piece is read separately.
  const drip = async (piece: string): Promise<void> => {
    talker.send(piece);
    await new Promise((resolve) => setImmediate(resolve));
  };
  for (const byte of auth) await drip(byte);
  const noops = 3_000;
  for (let i = 0; i < noops; i += 1) await drip(`NOOP ${'x'.repeat(25)}\r\n`);
  const sentBytes = noops * 32;
  await waitUntil('all to be received', () => copiedBytes >= sentBytes);
  held.resolve();
  assert.match(await talker.reply(), /^235 /);
  assert.match(await talker.reply(), /^250 /);
  assert.ok(copiedBytes < 20 * sentBytes, `${copiedBytes} bytes copied of ${sentBytes}`);
  talker.destroy();
});

test('a thousand NOOPs end the session', async () => {
  const { port } = await rig.listen();
  const talker = await openSession(port, rig.credentials.live);
  talker.send('NOOP\r\n'.repeat(500) + 'RSET\r\n'.repeat(500));
  let last = '';
  let count = 0;
  for (let line = await talker.line(); line !== undefined; line = await talker.line()) {
    last = line;
    count += 1;
  }
  assert.match(last, /^421 4\.7\.0 /);
  assert.ok(count <= 201);
});
