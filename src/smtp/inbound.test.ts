/** Inbound mail: what is accepted and rejected by size, content, and the state of the service, and what is stored. */
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { bringMail, type InboundRig, inboundRig, openInbound } from '../../test/kit/inbound-rig.ts';
import { againIfPaused, runningMs } from '../../test/kit/running-time.ts';
import { connectTalker, type Talker } from '../../test/kit/smtp-talker.ts';
import { SMUGGLING } from '../../test/kit/smuggling.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { Unavailable } from '../base/failure.ts';
import { claimInboundOperation } from '../inbound/store.ts';
import { createInboundReader } from './inbound-transfer.ts';

let rig: InboundRig;
let bounce: string;
before(async () => {
  rig = await inboundRig();
  bounce = `${rig.words.bounce}@bounces.example`;
});
after(() => rig.close());

async function countBlobs(): Promise<number> {
  let count = 0;
  for await (const _ of rig.blobs.list()) count += 1;
  return count;
}

test("the recipient's purpose, the client, and the unchanged content are stored", async () => {
  const { port } = await rig.listen();
  const talker = await connectTalker(port);
  await talker.reply();
  await talker.secure();
  const content = `Subject: x\r\n\r\n\x80\xff ${'y'.repeat(5_000)}\r\n..dots\r\n.`;
  talker.send(
    `MAIL FROM:<Mailer-Daemon@mx.example> SIZE=5000\r\nRCPT TO:<${bounce}>\r\nRCPT TO:<support@in.example>\r\nDATA\r\n`,
  );
  for (let i = 0; i < 4; i += 1) assert.match(await talker.reply(), /^[23]/);
  talker.send(Buffer.from(`${content.replace(/^\./gm, '..')}\r\n.\r\n`, 'latin1'));
  const reply = await talker.reply();
  const request = { nowMs: Date.now(), leaseMs: 60_000, limit: 10, quarantined: false, overQuota: [] };
  const { jobs } = await rig.database.execute(claimInboundOperation, request);
  assert.equal(reply, `250 2.0.0 queued as ${jobs[0]!.mail.id}`);
  const { messageId } = rig;
  const day = Math.floor(Date.now() / 86_400_000);
  assert.deepEqual(
    jobs.map(({ mail }) => mail.use),
    [{ kind: 'return-path', copy: { messageId, isShared: false, day } }, rig.route],
  );
  for (const { mail, content: stored } of jobs) {
    assert.equal(Buffer.from(stored!).toString('latin1'), `${content}\r\n`);
    assert.deepEqual([mail.envelopeFrom, mail.sizeBytes], ['Mailer-Daemon@mx.example', content.length + 2]);
    assert.deepEqual(mail.client, { address: '127.0.0.1', helo: 'client.example', tls: 'TLSv1.3' });
  }
  talker.destroy();
});

test('mail for a route is limited to 25,000,000 bytes, and the session continues', async () => {
  const { port } = await rig.listen();
  const talker = await openInbound(port);
  const line = `${'x'.repeat(98)}\r\n`;
  const body = (bytes: number): string => `${line.repeat(bytes / 100 - 1)}${line.slice(bytes % 100)}`;
  const blobs = await countBlobs();
  assert.match(await bringMail(talker, 'support@in.example', body(25_000_000)), /^250 /);
  assert.match(await bringMail(talker, 'support@in.example', `${body(25_000_000)}\r\n`), /^552 5\.3\.4 /);
  assert.match(await bringMail(talker, bounce), /^250 /);
  await waitUntil('the blobs of rejected messages to be removed', async () => (await countBlobs()) === blobs + 1);
  talker.destroy();
});

test('messages with ambiguous end-of-data sequences are rejected', async () => {
  const { port } = await rig.listen();
  const talker = await openInbound(port);
  for (const sequence of SMUGGLING) {
    const before = rig.accepted.length;
    for (const step of [1, 7, 10_000]) {
      const smuggled = `MAIL FROM:<>\r\nRCPT TO:<support@in.example>\r\nDATA\r\nsmuggled\r\n`;
      const mail = Buffer.from(`Subject: outer\r\n\r\nouter${sequence}${smuggled}.\r\n`, 'latin1');
      talker.send(`MAIL FROM:<>\r\nRCPT TO:<${bounce}>\r\nDATA\r\n`);
      for (let i = 0; i < 3; i += 1) assert.match(await talker.reply(), /^[23]/);
      for (let at = 0; at < mail.length; at += step) talker.send(mail.subarray(at, at + step));
      assert.match(await talker.reply(), /^550 5\.6\.0 /, JSON.stringify(sequence));
      assert.equal(await talker.say('NOOP'), '250 2.0.0 OK');
    }
    assert.equal(rig.accepted.length, before);
  }
  assert.match(await bringMail(talker, bounce, 'outer\r\nhonest\r\n'), /^250 /, 'control');
  talker.destroy();
});

test('a 250 KB header that arrives byte by byte uses memory only for its bytes', () => {
  const reader = createInboundReader({ sink: () => undefined, maxBytes: 1_000_000 });
  const header = Buffer.from(`${'Received: from a by b;\r\n now\r\n'.repeat(31)}X: ${'x'.repeat(250_000)}\r\n\r\n`);
  const began = process.threadCpuUsage();
  for (let at = 0; at < header.length; at += 1) reader.write(header.subarray(at, at + 1));
  const { user, system } = process.threadCpuUsage(began);
  assert.match(reader.refusal() ?? '', /^554 5\.4\.6/);
  assert.ok(user + system < 2_000_000, `${user + system} microseconds`);
});

test('more than 30 Received fields are a loop in any chunks, but not in a body', () => {
  const fields = (count: number): string => 'Received: from a by b;\r\n now\r\n'.repeat(count);
  const refusalOf = (content: string, step: number): string | undefined => {
    const reader = createInboundReader({ sink: () => undefined, maxBytes: 1_000_000 });
    for (let at = 0; at < content.length; at += step) reader.write(Buffer.from(content.slice(at, at + step)));
    return reader.refusal();
  };
  for (const step of [1, 3, 29, 100_000]) {
    assert.equal(refusalOf(`${fields(30)}Subject: x\r\n\r\nx\r\n`, step), undefined);
    assert.match(refusalOf(`${fields(30)}RECEIVED : x\r\n\r\nx\r\n`, step)!, /^554 5\.4\.6 /);
    assert.match(refusalOf(fields(31), step)!, /^554 5\.4\.6 /, 'only a header');
    assert.equal(refusalOf(`Subject: x\r\n\r\n${fields(40)}`, step), undefined);
    assert.equal(refusalOf(`\r\n${fields(40)}`, step), undefined);
  }
});

test("every rejection takes the same work and text, except for Postrider's own tokens", async () => {
  const counts = { returnPath: 0, route: 0, token: 0 };
  const { port } = await rig.listen({
    limits: { maxRefusedRecipients: 1_000 },
    recipients: {
      tokens: {
        ...rig.tokens,
        open: (...args) => {
          counts.token += 1;
          return rig.tokens.open(...args);
        },
      },
      returnPathState: async () => {
        counts.returnPath += 1;
        return 'none';
      },
      findRoute: async () => {
        counts.route += 1;
        return undefined;
      },
    },
  });
  const talker = await openInbound(port);
  await talker.say('MAIL FROM:<>');
  const refusals = new Set<string>();
  const somebody = [bounce, 'abuse@bounces.example', 'postmaster@bounces.example', 'postmaster@postrider.test'];
  const unknown = [
    `${rig.words.old}@bounces.example`,
    `${rig.words.bounce}a@bounces.example`,
    'b+@bounces.example',
    `${bounce.slice(0, 20)}z${bounce.slice(21)}`,
    'ann@bounces.example',
    'ann@in.example',
    'abuse@other.example',
  ];
  let asked = 0;
  let opened = 0;
  for (const address of [...somebody, ...unknown]) {
    const reply = await talker.say(`RCPT TO:<${address}>`);
    opened += 1;
    if (address !== bounce) asked += 1;
    assert.deepEqual(counts, { returnPath: asked, route: asked, token: opened }, address);
    assert.equal(/^250 /.test(reply), somebody.includes(address), `${address}: ${reply}`);
    if (!/^250 /.test(reply)) refusals.add(reply);
  }
  assert.equal(refusals.size, 1);
  talker.destroy();
});

test('mail is not accepted with a full disk, an unavailable database, or during a stop', async () => {
  const closed: { mail?: string; content?: string } = {};
  let failing: Error | undefined;
  const { port } = await rig.listen({
    closedToMail: () => closed.mail,
    closedToContent: () => closed.content,
    store: async (mails) => {
      if (failing) throw failing;
      rig.accepted.push(...mails);
    },
    blobs: {
      ...rig.blobs,
      putStream: async (source) => {
        for await (const _ of source) break;
        throw new Unavailable('ENOSPC: no space left on device');
      },
    },
  });
  const talker = await openInbound(port);
  const before = rig.accepted.length;
  const large = `${'x'.repeat(98)}\r\n`.repeat(3_000);
  assert.match(await bringMail(talker, 'support@in.example', large), /^451 4\.3\.2 /, 'the blob cannot be written');
  closed.content = 'the disk is full';
  assert.match(await bringMail(talker, bounce), /^451 4\.3\.2 /);
  closed.content = undefined as never;
  closed.mail = 'the disk is full';
  assert.match(await bringMail(talker, bounce), /^MAIL: 451 4\.3\.2 /);
  closed.mail = undefined as never;
  await talker.say('RSET');
  failing = new Unavailable('the database is away');
  assert.match(await bringMail(talker, bounce), /^451 4\.3\.2 /);
  failing = new TypeError('a bug');
  assert.match(await bringMail(talker, bounce), /^451 4\.3\.0 /);
  failing = undefined;
  assert.equal(rig.accepted.length, before);
  assert.match(await bringMail(talker, bounce), /^250 /, 'control');
  talker.destroy();
});

test('with little disk space bounces are accepted and mail for routes is deferred', async () => {
  let isScarce = true;
  const { port } = await rig.listen({ isScarce: () => isScarce });
  const talker = await openInbound(port);
  assert.match(await bringMail(talker, 'support@in.example'), /^RCPT: 451 4\.3\.2 /);
  await talker.say('RSET');
  assert.match(await bringMail(talker, bounce), /^250 /);
  isScarce = false;
  assert.match(await bringMail(talker, 'support@in.example'), /^250 /);
  talker.destroy();
});

test('mail for a route of a suspended account is deferred, and bounces are accepted', async () => {
  let isSuspended = true;
  const findRoute = async () => ({ use: rig.route, maxBytes: 1_000_000, isSuspended });
  const { port } = await rig.listen({ recipients: { findRoute } });
  const talker = await openInbound(port);
  assert.match(await bringMail(talker, 'support@in.example'), /^RCPT: 451 4\.3\.2 /);
  await talker.say('RSET');
  assert.match(await bringMail(talker, bounce), /^250 /);
  isSuspended = false;
  assert.match(await bringMail(talker, 'support@in.example'), /^250 /);
  talker.destroy();
});

test('an empty message to a token is accepted', async () => {
  const { port } = await rig.listen();
  const talker = await openInbound(port);
  const before = rig.accepted.length;
  for (const recipient of [bounce, `${rig.words.unsubscribe}@bounces.example`, 'support@in.example']) {
    assert.match(await bringMail(talker, recipient, ''), /^250 /, recipient);
  }
  assert.deepEqual(
    rig.accepted.slice(before).map(({ content, blobKey, sizeBytes }) => [content?.length, blobKey, sizeBytes]),
    [
      [0, null, 0],
      [0, null, 0],
      [0, null, 0],
    ],
  );
  talker.destroy();
});

test('an account over its hourly limit has mail deferred, and bounces are accepted', async () => {
  const findRoute = async () => ({ use: rig.route, maxBytes: 1_000_000, mailPerHour: 2 });
  const { port } = await rig.listen({ recipients: { findRoute } });
  const talker = await openInbound(port);
  const beyond = async (): Promise<number> => {
    const [, count] = /outcome="over-limit"\} (\d+)/.exec(await rig.metrics.text()) ?? assert.fail();
    return Number(count);
  };
  for (let named = 0; named < 3; named += 1) {
    assert.match(await talker.say('MAIL FROM:<>'), /^250 /);
    assert.match(
      await talker.say('RCPT TO:<support@in.example>'),
      /^250 /,
      'a recipient without a message uses no quota',
    );
    assert.match(await talker.say('RSET'), /^250 /);
  }
  for (let mails = 0; mails < 2; mails += 1) assert.match(await bringMail(talker, 'support@in.example'), /^250 /);
  const before = await beyond();
  assert.match(await bringMail(talker, 'support@in.example'), /^RCPT: 452 4\.2\.2 /);
  assert.equal(await beyond(), before + 1);
  await talker.say('RSET');
  assert.match(await bringMail(talker, bounce), /^250 /);
  talker.destroy();
});

test('stopping completes messages in progress, rejects new ones, and then closes', async () => {
  const { port, server } = await rig.listen();
  const talker = await openInbound(port);
  const idle = await openInbound(port);
  talker.send(`MAIL FROM:<>\r\nRCPT TO:<${bounce}>\r\nDATA\r\n`);
  for (let i = 0; i < 3; i += 1) await talker.reply();
  const draining = server.drain({ deadlineMs: 20_000 });
  const late = await connectTalker(port);
  assert.match(await late.reply(), /^421 /);
  assert.match(await idle.say('MAIL FROM:<>'), /^451 4\.3\.2 /);
  talker.send('Subject: x\r\n\r\nx\r\n.\r\n');
  assert.match(await talker.reply(), /^250 /);
  await draining;
  await server.stop({ deadlineMs: 1_000 });
  await idle.closed();
});

test('at most 10 of 2,000 connections from one address are served, and other addresses are greeted', async () => {
  const { port } = await rig.listen();
  const codes = new Map<string, number>();
  const sockets: net.Socket[] = [];
  for (let batch = 0; batch < 20; batch += 1) {
    await Promise.all(
      Array.from({ length: 100 }, () => {
        const socket = net.connect({ port, host: '127.0.0.1', localAddress: '127.0.0.5' });
        sockets.push(socket);
        socket.on('error', () => undefined);
        return new Promise<void>((resolve) => {
          socket.once('data', (text) => {
            const code = text.toString('latin1', 0, 3);
            codes.set(code, (codes.get(code) ?? 0) + 1);
            resolve();
          });
          socket.once('close', () => resolve());
        });
      }),
    );
  }
  assert.deepEqual([codes.get('220'), codes.get('421')], [10, 1_990]);
  const other = await connectTalker(port, { localAddress: '127.0.0.6' });
  assert.match(await other.reply(), /^220 /);
  assert.match(await bringMail(other, bounce), /^MAIL: 503 /);
  await other.say('EHLO a');
  assert.match(await bringMail(other, bounce), /^250 /);
  other.destroy();
  for (const socket of sockets) socket.destroy();
});

test('a header without an end is not kept in memory', async (t) => {
  let largest = 0;
  const { concat } = Buffer;
  t.mock.method(Buffer, 'concat', (list: readonly Uint8Array[], length?: number) => {
    const joined = concat(list, length);
    largest = Math.max(largest, joined.length);
    return joined;
  });
  const { port } = await rig.listen();
  const talker = await openInbound(port);
  const header = `X-Long: ${'x'.repeat(900)}\r\n`.repeat(5_000);
  assert.match(await bringMail(talker, 'support@in.example', header), /^250 /);
  // Data waiting after a command, and a chunk of content being written to disk.
  assert.ok(largest < 1_000_000, `${largest} bytes in one chunk`);
});

test('pipelined commands of a bounce are answered in one packet, and a closing client is closed', async () => {
  const { port } = await rig.listen();
  const socket = net.connect(port, '127.0.0.1');
  const pieces: string[] = [];
  socket.setEncoding('latin1').on('data', (piece: string) => pieces.push(piece));
  const lines = (): string => pieces.join('');
  await waitUntil('the greeting', () => lines().endsWith('\r\n'));
  pieces.length = 0;
  socket.write(`HELO mx.example\r\nMAIL FROM:<>\r\nRCPT TO:<${bounce}>\r\nDATA\r\n`);
  await waitUntil('354', () => /^354 .*\r\n/m.test(lines()));
  assert.equal(pieces.length, 1);
  socket.write('Subject: x\r\n\r\nx\r\n.\r\n');
  socket.end();
  await waitUntil('the end', () => socket.destroyed);
  assert.match(lines(), /^250 2\.0\.0 queued as inb_\w+\r\n$/m);
});

test('slow content is accepted, but dripping or stalled content is not', async () => {
  await againIfPaused(async () => {
    const { port } = await rig.listen({ limits: { dataMs: 400, dataBytesPerSecond: 10_000 } });
    const begin = async (): Promise<Talker> => {
      const talker = await openInbound(port);
      for (const line of ['MAIL FROM:<>', 'RCPT TO:<support@in.example>', 'DATA'])
        assert.match(await talker.say(line), /^[23]/);
      return talker;
    };
    const [steady, dripping, ending] = [await begin(), await begin(), await begin()];
    ending.send('x'.repeat(1_000_000));
    const since = runningMs();
    let cutOff = 0;
    const cut = [dripping, ending].map(async (one) => {
      assert.match((await one.line()) ?? '', /^421 4\.4\.2 /);
      await one.closed();
      cutOff += 1;
    });
    // Twice the rate, for longer than a message may take otherwise.
    await new Promise<void>((resolve) => {
      const timer = setInterval(() => {
        steady.send(`${'x'.repeat(998)}\r\n`);
        dripping.send('x');
        if (runningMs() - since < 1_500) return;
        clearInterval(timer);
        resolve();
      }, 50);
    });
    await Promise.all(cut);
    assert.equal(cutOff, 2);
    assert.match(await steady.say('.'), /^250 /);
    for (const one of [steady, dripping, ending]) one.destroy();
  });
});
