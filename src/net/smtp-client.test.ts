/** Opening a session: addresses, banner, STARTTLS and attacks on it, AUTH, deadlines, and limits. */
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, type TestContext, test } from 'node:test';
import tls from 'node:tls';
import { runningMs } from '../../test/kit/running-time.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from '../../test/kit/smtp-sink.ts';
import { testCertificate } from '../../test/kit/test-certificate.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import {
  type OpenSmtpOptions,
  openSmtpSession,
  type SmtpError,
  type SmtpMessage,
  type SmtpSession,
} from './smtp-client.ts';

// Before the first verified connection, because the CAs are read only once.
const trusted = testCertificate(['localhost']);
tls.setDefaultCACertificates([...tls.getCACertificates(), trusted.cert]);

const sinks: SmtpSink[] = [];
const sessions: SmtpSession[] = [];

after(async () => {
  for (const session of sessions) session.destroy();
  for (const sink of sinks) await sink.close();
});

async function start(options: SinkOptions = {}): Promise<SmtpSink> {
  const sink = await smtpSink(options);
  sinks.push(sink);
  return sink;
}

function dial(sink: { port: number }, options: Partial<OpenSmtpOptions> = {}) {
  // Reached only by a failing test. Tests of deadlines set their own.
  const rest = { bannerMs: 30_000, greetingMs: 30_000, tlsMs: 30_000, envelopeMs: 30_000, dotMs: 30_000 };
  return openSmtpSession({
    host: 'localhost',
    addresses: ['127.0.0.1'],
    port: sink.port,
    helo: 'mail.example.com',
    tls: 'opportunistic',
    verifyCertificate: false,
    ...options,
    timeouts: { ...rest, ...options.timeouts },
  });
}

async function opened(sink: { port: number }, options: Partial<OpenSmtpOptions> = {}): Promise<SmtpSession> {
  const result = await dial(sink, options);
  assert.ok(result.ok, JSON.stringify(result));
  sessions.push(result.session);
  return result.session;
}

async function refused(sink: { port: number }, options: Partial<OpenSmtpOptions> = {}): Promise<SmtpError> {
  const result = await dial(sink, options);
  if (result.ok) sessions.push(result.session);
  assert.ok(!result.ok, 'the session to open');
  return result.error;
}

const mail: SmtpMessage = {
  mailFrom: 'a@example.com',
  recipients: ['b@example.net'],
  content: Buffer.from('Subject: x\r\n\r\nhello\r\n'),
  sizeBytes: 21,
  smtpUtf8: false,
  eightBit: false,
};

test('opens unencrypted if TLS is not offered, and reports the extensions', async () => {
  const sink = await start();
  const session = await opened(sink);
  assert.equal(session.tls, undefined);
  assert.equal(session.extensions.get('SIZE'), '50000000');
  assert.ok(session.extensions.has('PIPELINING'));
  assert.deepEqual(sink.commands, ['EHLO mail.example.com']);
  assert.deepEqual(
    session.opening.slice(0, 2).map((line) => [line.direction, line.text]),
    [
      ['S', '220 sink ESMTP'],
      ['C', 'EHLO mail.example.com'],
    ],
  );
  await session.quit();
  assert.equal(session.usable, false);
  assert.equal(sink.commands.at(-1), 'QUIT');
});

test('falls back to HELO if EHLO is unknown', async () => {
  const sink = await start({ script: { ehlo: '502 5.5.1 what' } });
  const session = await opened(sink);
  assert.deepEqual(sink.commands, ['EHLO mail.example.com', 'HELO mail.example.com']);
  assert.equal(session.extensions.size, 0);
  const result = await session.send(mail);
  assert.equal(result.recipients[0]?.accepted, true);
  assert.ok(sink.commands.includes('MAIL FROM:<a@example.com>'), 'no parameters are sent to a HELO server');
});

test('a rejecting banner is reported with its reply', async () => {
  const error = await refused(await start({ script: { banner: '554 5.7.1 go away' } }));
  assert.equal(error.stage, 'banner');
  assert.equal(error.reply?.code, 554);
  assert.equal(error.reply?.enhanced, '5.7.1');
  assert.equal(error.dialogue[0]?.text, '554 5.7.1 go away');
});

/** Sends these bytes to each connection and closes it. */
async function curt(t: TestContext, bytes: string): Promise<{ port: number }> {
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    socket.end(bytes);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return { port: (server.address() as net.AddressInfo).port };
}

test('a rejection cut off by a closed connection keeps its code and text', async (t) => {
  for (const bytes of ['421-cox.example too many\r\n', '421-cox.example too many', '421 cox.example too many']) {
    const { stage, reply, dialogue } = await refused(await curt(t, bytes));
    assert.deepEqual([stage, reply?.code, reply?.text], ['banner', 421, 'cox.example too many'], bytes);
    assert.equal(dialogue.at(-1)?.text, '421 cox.example too many');
  }
  for (const bytes of ['220-mx.example\r\n', '220 mx.exam', '42', '']) {
    const { stage, cause, reply } = await refused(await curt(t, bytes));
    assert.deepEqual([stage, cause, reply], ['banner', 'ECONNRESET', undefined], bytes);
  }
});

test('the last code of a multi-line reply applies, and each line keeps its own', async (t) => {
  const peer = await curt(t, '220-mx.example\r\n550-5.7.1 listed\r\n421 4.7.0 come back later\r\n');
  const { stage, reply, dialogue } = await refused(peer);
  assert.deepEqual([stage, reply?.code, reply?.enhanced], ['banner', 421, '4.7.0']);
  assert.equal(reply?.text, 'mx.example 5.7.1 listed 4.7.0 come back later');
  assert.deepEqual(
    dialogue.map(({ text }) => text),
    ['220-mx.example', '550-5.7.1 listed', '421 4.7.0 come back later'],
  );
});

test('STARTTLS encrypts, repeats EHLO, and forgets earlier extensions', async () => {
  const sink = await start({
    tls: 'starttls',
    script: { ehlo: (context) => (context.tls ? '250-sink\r\n250 8BITMIME' : undefined) },
  });
  const session = await opened(sink, { tls: 'required' });
  assert.equal(session.tls, 'TLSv1.3');
  assert.deepEqual([...session.extensions.keys()], ['8BITMIME']);
  const result = await session.send(mail);
  assert.equal(result.recipients[0]?.accepted, true);
  assert.equal(sink.messages[0]?.tls, 'TLSv1.3');
});

test('name and issuer are verified with STARTTLS and implicit TLS', async () => {
  for (const tls of ['starttls', 'implicit'] as const) {
    const mode = { tls: tls === 'implicit' ? ('implicit' as const) : ('required' as const), verifyCertificate: true };
    const sink = await start({ tls, certificate: trusted });
    assert.equal((await opened(sink, mode)).tls, 'TLSv1.3');
    const otherName = await refused(sink, { ...mode, host: 'mx.example.net' });
    assert.deepEqual([otherName.stage, otherName.cause], ['tls', 'ERR_TLS_CERT_ALTNAME_INVALID']);
    const selfMade = await start({ tls, certificate: testCertificate(['localhost', 'unknown.example']) });
    const otherIssuer = await refused(selfMade, mode);
    assert.deepEqual([otherIssuer.stage, otherIssuer.cause], ['tls', 'DEPTH_ZERO_SELF_SIGNED_CERT']);
    assert.equal((await opened(selfMade, { ...mode, verifyCertificate: false })).tls, 'TLSv1.3');
    assert.ok(!selfMade.commands.includes('MAIL'));
  }
});

test('required TLS that is not offered is a temporary failure, never unencrypted', async () => {
  const error = await refused(await start(), { tls: 'required' });
  assert.deepEqual([error.stage, error.cause, error.local], ['starttls', 'ENOTLS', undefined]);
});

test('discards unencrypted bytes after the 220 of STARTTLS and never uses them as a reply', async () => {
  const sink = await start({ tls: 'starttls', script: { starttls: { reply: '220 go', inject: '250 injected\r\n' } } });
  const error = await refused(sink);
  assert.equal(error.stage, 'tls');
  assert.equal(error.cause, 'EINJECTED');
  await waitUntil('the connection to be closed', () => sink.connections.now === 0);
  assert.deepEqual(sink.commands, ['EHLO mail.example.com', 'STARTTLS']);
  const half = await start({ tls: 'starttls', script: { starttls: { reply: '220 go', inject: '250-half' } } });
  assert.equal((await refused(half)).stage, 'tls');
});

test('a broken handshake ends the attempt without an unencrypted command', async () => {
  const sink = await start({ tls: 'starttls', script: { starttls: { handshake: 'garbage' } } });
  const error = await refused(sink);
  assert.equal(error.stage, 'tls');
  assert.match(error.cause ?? '', /SSL|EPROTO|ECONNRESET/);
  await waitUntil('the connection to be closed', () => sink.connections.now === 0);
  assert.deepEqual(sink.commands, ['EHLO mail.example.com', 'STARTTLS']);
});

test('a rejected STARTTLS continues unencrypted only without TLS requirement or password', async () => {
  for (const reply of ['454 4.7.0 not now', '502 5.5.1 what', '554 5.7.3 no']) {
    const sink = await start({ tls: 'starttls', script: { starttls: reply } });
    const session = await opened(sink);
    assert.deepEqual([session.tls, session.verified], [undefined, false]);
    assert.equal(session.tlsFallback, `the server offers STARTTLS but rejects it: ${reply}`);
    assert.equal((await session.send(mail)).recipients[0]?.accepted, true);
    assert.equal(sink.connections.total, 1, 'the same session');
    const auth = { user: 'relay', pass: 'secret' };
    for (const strict of [{ tls: 'required' }, { verifyCertificate: true }, { auth }] as const) {
      const error = await refused(sink, strict);
      assert.deepEqual([error.stage, error.reply?.code], ['starttls', Number(reply.slice(0, 3))]);
    }
    assert.equal(sink.messages.length, 1);
    assert.ok(!sink.commands.some((line) => line.startsWith('AUTH')));
  }
  const closing = await refused(await start({ tls: 'starttls', script: { starttls: '421 4.3.2 closing' } }));
  assert.deepEqual([closing.stage, closing.reply?.code], ['starttls', 421]);
});

for (const mechanism of ['PLAIN', 'LOGIN']) {
  test(`AUTH ${mechanism} works inside TLS and is hidden in the transcript`, async () => {
    const sink = await start({
      tls: 'starttls',
      auth: { user: 'relay', pass: 'sécret' },
      script: { ehlo: (context) => (context.tls ? `250-sink\r\n250 AUTH ${mechanism}` : undefined) },
    });
    const session = await opened(sink, { tls: 'required', auth: { user: 'relay', pass: 'sécret' } });
    const result = await session.send(mail);
    assert.equal(result.recipients[0]?.accepted, true);
    assert.equal(sink.messages[0]?.auth, 'relay');
    const transcript = session.opening.map((line) => line.text).join('\n');
    assert.ok(transcript.includes('***'));
    for (const secret of ['relay', 'sécret', '\0relay\0sécret']) {
      assert.ok(!transcript.includes(Buffer.from(secret).toString('base64')), transcript);
    }
    const wrong = await refused(sink, { tls: 'required', auth: { user: 'relay', pass: 'wrong' } });
    assert.equal(wrong.stage, 'auth');
    assert.equal(wrong.reply?.code, 535);
  });
}

test('a session has the key exchange of its handshake, and none without TLS', async () => {
  const secured = await opened(await start({ tls: 'starttls' }), { tls: 'required' });
  assert.equal(secured.tlsKeyExchange, 'X25519MLKEM768');
  assert.equal((await opened(await start({}))).tlsKeyExchange, undefined);
});

for (const mechanism of ['XOAUTH2', 'OAUTHBEARER'] as const) {
  test(`AUTH ${mechanism} sends a token, hides it in the transcript, and reports one that the server refuses`, async () => {
    const oauth = { user: 'noreply@example.com', mechanism, isValid: (token: string) => token === 'good' };
    const sink = await start({ tls: 'starttls', oauth, host: '127.0.0.1' });
    const refusedTokens: string[] = [];
    const authOf = (token: string) => ({
      user: 'noreply@example.com',
      tokens: { get: async () => token, reject: (one: string) => void refusedTokens.push(one) },
    });
    const session = await opened(sink, { host: sink.host, tls: 'required', auth: authOf('good') });
    assert.equal((await session.send(mail)).recipients[0]?.accepted, true);
    assert.equal(sink.messages[0]?.auth, 'noreply@example.com');
    const transcript = session.opening.map((line) => line.text).join('\n');
    assert.ok(transcript.includes(`AUTH ${mechanism} ***`));
    assert.ok(!transcript.includes(sink.commands.find((line) => line.startsWith('AUTH'))!.split(' ')[2]!));
    assert.deepEqual(refusedTokens, []);
    const wrong = await refused(sink, { host: sink.host, tls: 'required', auth: authOf('expired') });
    assert.deepEqual([wrong.stage, wrong.reply?.code], ['auth', 535]);
    assert.deepEqual(refusedTokens, ['expired']);
    assert.deepEqual(sink.violations, []);
  });
}

test('without an access token or a mechanism for it, the session ends before the mail', async () => {
  const tokens = {
    get: () => Promise.reject(new Error('login.example issued no access token: invalid_client')),
    reject: () => assert.fail('no token was sent'),
  };
  const oauth = { user: 'u', mechanism: 'XOAUTH2' as const, isValid: () => true };
  const none = await refused(await start({ oauth }), { auth: { user: 'u', tokens } });
  assert.deepEqual([none.stage, none.local?.code], ['auth', 454]);
  assert.match(none.message, /login\.example issued no access token: invalid_client/);
  const other = await refused(await start({ auth: { user: 'u', pass: 'p' } }), { auth: { user: 'u', tokens } });
  assert.deepEqual([other.stage, other.local?.code], ['auth', 504]);
});

test('a password is sent unencrypted only to this machine', async (t) => {
  const sink = await start({ auth: { user: 'relay', pass: 'secret' } });
  const session = await opened(sink, { auth: { user: 'relay', pass: 'secret' } });
  assert.equal((await session.send(mail)).recipients[0]?.accepted, true);
  const address = Object.values((await import('node:os')).networkInterfaces())
    .flat()
    .find((one) => one && !one.internal && one.family === 'IPv4')?.address;
  if (!address) {
    t.diagnostic('no address besides loopback: the refusal is not tested here');
    return;
  }
  const remote = await start({ auth: { user: 'relay', pass: 'secret' }, host: address });
  const error = await refused(remote, { addresses: [address], auth: { user: 'relay', pass: 'secret' } });
  assert.equal(error.local?.enhanced, '5.7.11');
  assert.deepEqual(remote.commands, ['EHLO mail.example.com']);
});

test('addresses are tried in order, and a rejected one is skipped', async () => {
  const sink = await start();
  const session = await opened(sink, { addresses: ['127.0.0.2', '::1', '127.0.0.1'] });
  assert.equal(session.remoteAddress, '127.0.0.1');
});

test('no listener, no address, and an unknown name have their stage and cause', async () => {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  const error = await refused({ port });
  assert.deepEqual([error.stage, error.cause], ['connect', 'ECONNREFUSED']);
  const none = await refused({ port }, { addresses: [] });
  assert.deepEqual([none.stage, none.cause], ['dns', 'ENOADDRESS']);
});

test('deadlines apply to the entire reply, whether the server is silent, slow, or endless', async () => {
  const silent = await refused(await start({ script: { banner: { silent: true } } }), { timeouts: { bannerMs: 60 } });
  assert.deepEqual([silent.stage, silent.cause], ['banner', 'ETIMEDOUT']);
  const begun = runningMs();
  const drip = await refused(await start({ script: { ehlo: { dripMs: 20, reply: `250 ${'x'.repeat(500)}` } } }), {
    timeouts: { greetingMs: 120 },
  });
  assert.deepEqual([drip.stage, drip.cause], ['ehlo', 'ETIMEDOUT']);
  assert.ok(runningMs() - begun < 1500);
  const endless = await refused(await start({ script: { ehlo: { endless: true } } }));
  assert.deepEqual([endless.stage, endless.cause], ['ehlo', 'EPROTOCOL']);
  assert.ok(endless.dialogue.length <= 60);
});

test('a line that is not an SMTP reply is a protocol error', async () => {
  const error = await refused(await start({ script: { banner: 'HTTP/1.1 400 Bad Request' } }));
  assert.deepEqual([error.stage, error.cause], ['banner', 'EPROTOCOL']);
});

test('a signal cancels opening the session', async () => {
  const controller = new AbortController();
  const sink = await start({ script: { banner: { silent: true } } });
  const pending = dial(sink, { signal: controller.signal });
  await waitUntil('the connection', () => sink.connections.now === 1);
  controller.abort();
  const result = await pending;
  assert.ok(!result.ok);
  assert.equal(result.error.cause, 'ECANCELLED');
});

test('a server that closes an idle session is noticed, with or without 421', async () => {
  const sink = await start();
  const session = await opened(sink);
  let closed = 0;
  session.onClose(() => {
    closed += 1;
  });
  assert.equal(session.usable, true);
  sink.dropAll();
  await waitUntil('the session to notice', () => !session.usable);
  assert.equal(closed, 1);
  const result = await session.send(mail);
  assert.deepEqual([result.recipients[0]?.stage, result.recipients[0]?.accepted], ['mail', false]);
});

test('a token too long for a command line follows the server’s empty challenge', async () => {
  const token = 'x'.repeat(2_000);
  const oauth = { user: 'u', mechanism: 'XOAUTH2' as const, isValid: (one: string) => one === token };
  const sink = await start({ oauth });
  const tokens = { get: async () => token, reject: () => assert.fail('the token is valid') };
  const session = await opened(sink, { auth: { user: 'u', tokens } });
  assert.equal((await session.send(mail)).recipients[0]?.accepted, true);
  assert.ok(sink.commands.includes('AUTH XOAUTH2'));
  const transcript = session.opening.map((line) => line.text).join('\n');
  assert.ok(!transcript.includes(Buffer.from(token).toString('base64').slice(0, 40)));
  assert.deepEqual(sink.violations, []);
});
