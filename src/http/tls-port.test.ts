/** The TLS port: the same responses as the other port, the current certificate, and the same shutdown. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import https from 'node:https';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import tls, { createSecureContext, type SecureContext } from 'node:tls';
import { httpShell, KEY_HEADERS, type Shell } from '../../test/kit/http-shell.ts';
import { expiredCertificate, type TestCertificate, testCertificate } from '../../test/kit/test-certificate.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';

const [first, second] = [testCertificate(['localhost']), expiredCertificate('localhost')];
const contextOf = ({ key, cert }: TestCertificate): SecureContext => createSecureContext({ key, cert });

interface SecureShell extends Shell {
  tlsPort: number;
  current: SecureContext;
}

async function secureShell(t: TestContext): Promise<SecureShell> {
  const made = { current: contextOf(first) };
  const shell = await httpShell({ tls: { port: 0, context: () => made.current } });
  t.after(() => shell.close());
  const { port: tlsPort } = (await shell.app.listenTls())!;
  return Object.assign(made, shell, { tlsPort });
}

interface Got {
  status: number;
  body: string;
}

function ask(port: number, options: https.RequestOptions = {}, body?: string): Promise<Got> {
  return new Promise((resolve, reject) => {
    const request = https.request(
      { host: '127.0.0.1', port, servername: 'localhost', ca: first.cert, agent: false, path: '/notes/1', ...options },
      async (response) => {
        let text = '';
        for await (const chunk of response) text += chunk;
        resolve({ status: response.statusCode!, body: text });
      },
    );
    request.once('error', reject);
    request.end(body);
  });
}

test('the TLS port serves the same routes to a client that verifies the certificate', async (t) => {
  const { tlsPort, url } = await secureShell(t);
  const [plain, secure] = [
    await fetch(`${url}/notes/1`, { headers: KEY_HEADERS }),
    await ask(tlsPort, { headers: KEY_HEADERS }),
  ];
  assert.deepEqual(secure, { status: 200, body: await plain.text() });
  assert.equal((await ask(tlsPort)).status, 401);
  const headers = { ...KEY_HEADERS, 'Content-Type': 'application/json' };
  const posted = await ask(
    tlsPort,
    { method: 'POST', path: '/parsed', headers },
    JSON.stringify({ name: 'ä'.repeat(30) }),
  );
  assert.deepEqual([posted.status, JSON.parse(posted.body).name], [201, 'ä'.repeat(30)]);
  await assert.rejects(ask(tlsPort, { servername: 'other.example' }), /altnames/);
});

test('a connection uses the certificate that was current when it opened', async (t) => {
  const shell = await secureShell(t);
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  assert.equal((await ask(shell.tlsPort, { agent })).status, 401);
  shell.current = contextOf(second);
  assert.equal((await ask(shell.tlsPort, { agent })).status, 401);
  await assert.rejects(ask(shell.tlsPort), /self.signed|expired/);
  const fresh = tls.connect({ port: shell.tlsPort, host: '127.0.0.1', rejectUnauthorized: false });
  await once(fresh, 'secureConnect');
  assert.equal(fresh.getPeerX509Certificate()!.validTo, new X509Certificate(second.cert).validTo);
  fresh.destroy();
});

test('non-TLS bytes and disconnecting clients do not affect the port', async (t) => {
  const { tlsPort } = await secureShell(t);
  for (const bytes of ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', '\x16\x03\x01\x00\x05garbage']) {
    const socket = connect(tlsPort, '127.0.0.1', () => socket.write(bytes, 'latin1'));
    socket.on('error', () => undefined).resume();
    await once(socket, 'close');
  }
  const leaving = connect(tlsPort, '127.0.0.1');
  await once(leaving, 'connect');
  leaving.resetAndDestroy();
  assert.equal((await ask(tlsPort)).status, 401);
});

test('stopping completes requests in progress and closes both ports', async (t) => {
  const { app, held, tlsPort } = await secureShell(t);
  const begun = ask(tlsPort, { method: 'POST', path: '/held' });
  await waitUntil('the request', () => held.started === 1);
  const silent = connect(tlsPort, '127.0.0.1');
  silent.on('error', () => undefined);
  await once(silent, 'connect');
  const idle = tls.connect({ port: tlsPort, host: '127.0.0.1', rejectUnauthorized: false });
  idle.on('error', () => undefined).resume();
  await once(idle, 'secureConnect');
  const stopped = app.stop({ deadlineMs: 5_000 });
  assert.equal((await ask(tlsPort, { headers: KEY_HEADERS })).status, 503, 'during the drain');
  held.release();
  assert.equal((await begun).status, 200);
  const began = performance.now();
  await stopped;
  assert.ok(performance.now() - began < 4_000);
  await Promise.all([silent, idle].map((socket) => socket.closed || once(socket, 'close')));
  await assert.rejects(ask(tlsPort), /ECONNREFUSED/);
});
