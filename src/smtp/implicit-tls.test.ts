/** Implicit TLS (RFC 8314): the same session as after STARTTLS, with the same limits, counted together. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { SENDER, type ServerOptions, type SmtpRig, smtpRig, submitMail } from '../../test/kit/smtp-rig.ts';
import { connectTalker, plainResponse, type Talker } from '../../test/kit/smtp-talker.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';

let rig: SmtpRig;
before(async () => {
  rig = await smtpRig();
});
after(() => rig.close());

async function listen(options: ServerOptions = {}) {
  const { server, port } = await rig.listen(options);
  const implicit = await server.listen(0, { isImplicitTls: true });
  return { server, port, tlsPort: implicit.port };
}

/** Connected after the handshake, with nothing read yet. */
async function connectSecurely(port: number): Promise<Talker> {
  const talker = await connectTalker(port);
  await talker.startTls();
  return talker;
}

async function logIn(talker: Talker): Promise<Talker> {
  assert.match(await talker.reply(), /^220 postrider\.test ESMTP /);
  assert.match(await talker.say('EHLO client.example'), /^250-/);
  assert.match(await talker.say(`AUTH PLAIN ${plainResponse(rig.credentials.live)}`), /^235 /);
  return talker;
}

test('implicit TLS greets inside TLS, and offers AUTH but not STARTTLS', async () => {
  const { tlsPort } = await listen();
  const talker = await connectSecurely(tlsPort);
  assert.match(await talker.reply(), /^220 /);
  const offered = (await talker.say('EHLO client.example')).split('\n').map((line) => line.slice(4));
  assert.ok(offered.includes('AUTH PLAIN LOGIN'));
  assert.ok(!offered.includes('STARTTLS'));
  assert.match(await talker.say('STARTTLS'), /^503 5\.5\.1 /);
  assert.match(await talker.say(`AUTH PLAIN ${plainResponse(rig.credentials.live)}`), /^235 /);
  const before = rig.accepted.length;
  assert.match(await submitMail(talker), /^250 2\.0\.0 queued as msg_/);
  assert.equal(rig.accepted.length, before + 1);
  assert.match(await talker.say('QUIT'), /^221 /);
  await talker.closed();
});

test('connections of both ports share a limit, and rejections are sent inside TLS', async () => {
  const { port, tlsPort } = await listen({ limits: { maxConnectionsPerAddress: 2 } });
  const plain = await connectTalker(port);
  assert.match(await plain.reply(), /^220 /);
  const secure = await logIn(await connectSecurely(tlsPort));
  for (let i = 0; i < 2; i += 1) {
    const beyond = await connectSecurely(tlsPort);
    assert.match(await beyond.reply(), /^421 4\.7\.0 too many connections/);
    await beyond.closed();
  }
  const third = await connectTalker(port);
  assert.match(await third.reply(), /^421 4\.7\.0 /);
  // Handshakes that end in a rejection are limited too: these do not start theirs.
  const silent = [await connectTalker(tlsPort), await connectTalker(tlsPort)];
  const cut = await connectTalker(tlsPort);
  await cut.closed();
  assert.match(await submitMail(secure), /^250 /);
  for (const one of [plain, secure, ...silent]) one.destroy();
});

test('an unencrypted or silent client is disconnected', async () => {
  const { server, tlsPort } = await listen({ limits: { handshakeMs: 200 } });
  const clear = await connectTalker(tlsPort);
  clear.send('EHLO client.example\r\n');
  await clear.closed();
  const silent = await connectTalker(tlsPort);
  await silent.closed();
  assert.equal(await silent.line(), undefined, 'nothing is sent unencrypted');
  await waitUntil('their sessions to end', () => server.count() === 0);
});

test('data sent after the handshake and before the greeting is rejected', async () => {
  const { tlsPort } = await listen({ limits: { greetingMs: 20_000, knownGreetingMs: 20_000 } });
  const early = await connectSecurely(tlsPort);
  early.send('EHLO client.example\r\n');
  assert.match(await early.reply(), /^554 5\.5\.0 /);
  await early.closed();
});

test('stopping completes a message and notifies open and new sessions', async () => {
  const { server, tlsPort } = await listen();
  const busy = await logIn(await connectSecurely(tlsPort));
  const idle = await logIn(await connectSecurely(tlsPort));
  busy.send(`MAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n`);
  for (let i = 0; i < 3; i += 1) await busy.reply();
  const stopping = server.stop({ deadlineMs: 30_000 });
  const late = await connectSecurely(tlsPort);
  assert.match(await late.reply(), /^421 4\.3\.2 /);
  await late.closed();
  busy.send(`From: ${SENDER}\r\n\r\nx\r\n.\r\n`);
  assert.match(await busy.reply(), /^250 2\.0\.0 /);
  for (const one of [busy, idle]) {
    assert.match((await one.line()) ?? '', /^421 4\.3\.2 /);
    await one.closed();
  }
  await stopping;
  await assert.rejects(connectTalker(tlsPort), /ECONNREFUSED/);
});
