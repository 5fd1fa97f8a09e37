import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import tls from 'node:tls';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { againIfPaused } from '../../test/kit/running-time.ts';
import { type SmtpRig, smtpRig } from '../../test/kit/smtp-rig.ts';
import { connectTalker, type Talker } from '../../test/kit/smtp-talker.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { silentLog } from '../base/log.ts';
import { openTlsIdentity, selfSigned } from './tls-identity.ts';

let rig: SmtpRig;
before(async () => {
  rig = await smtpRig();
});
after(() => rig.close());

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-tls-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('a self-signed certificate is valid: names, times, signature, key', () => {
  const nowMs = Date.UTC(2026, 10, 20);
  const { cert, key } = selfSigned(['mail.example.com', 'localhost', '127.0.0.1', '::1'], nowMs);
  const certificate = new X509Certificate(cert);
  assert.ok(certificate.verify(certificate.publicKey));
  assert.equal(certificate.checkHost('mail.example.com'), 'mail.example.com');
  assert.equal(certificate.checkIP('127.0.0.1'), '127.0.0.1');
  assert.equal(certificate.checkHost('other.example.com'), undefined);
  assert.equal(certificate.ca, false);
  assert.ok(
    Date.parse(certificate.validFrom) < nowMs && Date.parse(certificate.validTo) > nowMs + 9 * 365 * 86_400_000,
  );
  tls.createSecureContext({ cert, key });
  // Times after 2049 have another format, and long names have two-byte lengths.
  const late = new X509Certificate(selfSigned([`${'long-label.'.repeat(20)}example`], Date.UTC(2045, 0)).cert);
  assert.ok(late.verify(late.publicKey) && late.validTo.includes('2054'));
});

test('the self-signed certificate is kept while it is valid', (t) => {
  const folder = folderOf(t);
  const clock = fakeClock(Date.now());
  const file = path.join(folder, 'smtp-tls.pem');
  const openFor = (hostname: string): string => {
    openTlsIdentity({ files: undefined, folder, hostname, clock, log: silentLog });
    return readFileSync(file, 'utf8');
  };
  const first = openFor('a.example');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(openFor('a.example'), first);
  const other = openFor('b.example');
  assert.notEqual(other, first);
  clock.advance(9.99 * 365 * 86_400_000);
  const renewed = openFor('b.example');
  assert.notEqual(renewed, other);
  writeFileSync(file, 'garbage');
  assert.match(openFor('b.example'), /BEGIN CERTIFICATE/);
});

async function secure(port: number, options: tls.ConnectionOptions = {}): Promise<Talker> {
  const talker = await connectTalker(port);
  await talker.reply();
  await talker.say('EHLO a');
  await talker.say('STARTTLS');
  await talker.startTls(options);
  return talker;
}

const peerOf = (talker: Talker): string =>
  (talker.socket as tls.TLSSocket).getPeerX509Certificate()?.fingerprint256 ?? '';

test('changed certificate files are used once they match, and open sessions continue', async (t) => {
  const folder = folderOf(t);
  const [certFile, keyFile] = [path.join(folder, 'cert.pem'), path.join(folder, 'key.pem')];
  const put = (): string => {
    const made = selfSigned(['mail.example.com'], Date.now());
    writeFileSync(certFile, made.cert);
    writeFileSync(keyFile, made.key);
    return new X509Certificate(made.cert).fingerprint256;
  };
  const first = put();
  const identity = openTlsIdentity({
    files: { certFile, keyFile },
    folder,
    hostname: 'x',
    clock: rig.clock,
    log: silentLog,
  });
  t.after(() => identity.stop());
  const { port } = await rig.listen({ tls: identity });
  const old = await secure(port);
  assert.equal(peerOf(old), first);
  assert.equal(identity.reload(), false);

  writeFileSync(certFile, selfSigned(['mail.example.com'], Date.now()).cert);
  assert.equal(identity.reload(), false, 'a certificate without its key is not used');
  const between = await secure(port);
  assert.equal(peerOf(between), first);
  const second = put();
  assert.equal(identity.reload(), true);
  const fresh = await secure(port);
  assert.equal(peerOf(fresh), second);
  rmSync(keyFile);
  assert.equal(identity.reload(), false);
  // A folder without access, or a link to itself, cannot be inspected.
  symlinkSync(keyFile, keyFile);
  assert.equal(identity.reload(), false);
  rmSync(keyFile);
  for (const talker of [old, between, fresh]) {
    assert.equal(await talker.say('NOOP'), '250 2.0.0 OK');
    talker.destroy();
  }
  const wrong = { certFile: path.join(folder, 'none.pem'), keyFile };
  assert.throws(
    () => openTlsIdentity({ files: wrong, folder, hostname: 'x', clock: rig.clock, log: silentLog }),
    /none\.pem/,
  );
});

test('only TLS 1.2 and 1.3 with forward secrecy are supported', async () => {
  const { port } = await rig.listen();
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const talker = await secure(port, { minVersion: version, maxVersion: version });
    const socket = talker.socket as tls.TLSSocket;
    assert.equal(socket.getProtocol(), version);
    assert.match(socket.getCipher().name, /^(TLS_|ECDHE-)/);
    talker.destroy();
  }
  const weak: tls.ConnectionOptions[] = [
    { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' },
    ...['ECDHE-ECDSA-AES128-SHA', 'ECDHE-ECDSA-AES256-SHA384', 'ECDHE-ECDSA-AES128-CCM'].map(
      (ciphers): tls.ConnectionOptions => ({ maxVersion: 'TLSv1.2', ciphers: `${ciphers}:@SECLEVEL=0` }),
    ),
  ];
  for (const options of weak) {
    await assert.rejects(secure(port, options), JSON.stringify(options));
    // Control: this client resumes with a server that supports it.
    assert.ok(await laxServerTakes(options), JSON.stringify(options));
  }
});

async function laxServerTakes(options: tls.ConnectionOptions): Promise<boolean> {
  const { cert, key } = selfSigned(['lax.example'], Date.now());
  const server = tls.createServer({ cert, key, minVersion: 'TLSv1', ciphers: 'ALL:@SECLEVEL=0' }, (socket) =>
    socket.end(),
  );
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await new Promise((resolve) => {
      const socket = tls.connect({
        port: (server.address() as AddressInfo).port,
        rejectUnauthorized: false,
        ...options,
      });
      socket.once('secureConnect', () => resolve(true));
      socket.once('error', () => resolve(false));
      socket.resume();
    });
  } finally {
    server.close();
  }
}

test('a returning client resumes its TLS session', async () => {
  const { port } = await rig.listen();
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const limits = { minVersion: version, maxVersion: version };
    const first = await secure(port, limits);
    const ticket = new Promise<Buffer>((resolve) => (first.socket as tls.TLSSocket).once('session', resolve));
    const session = version === 'TLSv1.3' ? await ticket : (first.socket as tls.TLSSocket).getSession();
    first.destroy();
    const again = await secure(port, { ...limits, session: session! });
    assert.equal((again.socket as tls.TLSSocket).isSessionReused(), true, version);
    again.destroy();
  }
});

test('a missing or invalid handshake closes the connection', async () => {
  const { port, server } = await rig.listen({ limits: { handshakeMs: 150 } });
  for (const bytes of ['', 'NOOP\r\nNOOP\r\n', '\x16\x03\x01\x00\x05garbage']) {
    const talker = await connectTalker(port);
    await talker.reply();
    await talker.say('EHLO a');
    assert.match(await talker.say('STARTTLS'), /^220 /);
    if (bytes !== '') talker.send(bytes);
    await talker.closed();
  }
  await waitUntil('all sessions to end', () => server.count() === 0);
  await againIfPaused(async () => {
    const talker = await secure(port);
    assert.equal(await talker.say('NOOP'), '250 2.0.0 OK');
    talker.destroy();
  });
});
