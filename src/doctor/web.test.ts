/** The clock, the public address, and certificates, with faulty web servers on loopback. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import test, { type TestContext } from 'node:test';
import { fakeDns } from '../../test/kit/fake-dns.ts';
import { expiredCertificate, type TestCertificate, testCertificate } from '../../test/kit/test-certificate.ts';
import { systemClock } from '../base/clock.ts';
import { readConfig } from '../config.ts';
import { openDns } from '../net/dns.ts';
import { checkPublicAddress, checkSmtpCertificate } from './certificates.ts';
import { checkClock } from './clock.ts';

const NAME = 'mail.shop.example';

async function resolver(t: TestContext) {
  const fake = await fakeDns({ [NAME]: { A: ['127.0.0.1'] } });
  const dns = openDns({ servers: [fake.server], timeoutMs: 300, tries: 1 });
  t.after(() => {
    dns.close();
    return fake.close();
  });
  return dns;
}

async function web(t: TestContext, answer: http.RequestListener, certificate?: TestCertificate): Promise<string> {
  const server = certificate ? https.createServer(certificate, answer) : http.createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `${certificate ? 'https' : 'http'}://${NAME}:${(server.address() as AddressInfo).port}`;
}

/** A server whose clock is off by this amount. */
const dated =
  (offsetMs: number, headers: Record<string, string> = {}): http.RequestListener =>
  (_, response) => {
    response.sendDate = false;
    response.writeHead(204, { Date: new Date(Date.now() + offsetMs).toUTCString(), ...headers }).end();
  };

test('the clock is compared with the date from a server', async (t) => {
  const dns = await resolver(t);
  const found = async (offsetMs: number, headers?: Record<string, string>) => {
    const [check] = await checkClock(await web(t, dated(offsetMs, headers)), { dns, clock: systemClock });
    return check!;
  };
  assert.equal((await found(0)).status, 'ok');
  const behind = await found(6_000);
  assert.equal(behind.status, 'warn');
  assert.match(behind.message, /^the clock is [567] s behind mail\.shop\.example/);
  assert.match((await found(-6_000)).message, /s ahead of/);
  assert.equal((await found(-3_600_000)).status, 'fail');
  assert.equal((await found(-30_000, { Age: '30' })).status, 'ok', 'a cached response includes its age');
});

test('a clock that cannot be compared is not reported as correct', async (t) => {
  const dns = await resolver(t);
  const undated = await web(t, (_, response) => {
    response.sendDate = false;
    response.end();
  });
  const urls = [undated, 'http://127.0.0.1:1', 'http://gone.example'];
  for (const url of urls) assert.equal((await checkClock(url, { dns, clock: systemClock }))[0]!.status, 'skip', url);
});

const health: http.RequestListener = (_, response) => {
  response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"status":"ok"}');
};

test('the public address must reach this service with a valid certificate', async (t) => {
  const dns = await resolver(t);
  const check = async (answer: http.RequestListener, certificate?: TestCertificate) => {
    const baseUrl = await web(t, answer, certificate);
    const found = await checkPublicAddress(readConfig({ POSTRIDER_BASE_URL: baseUrl }), dns, Date.now());
    return found.map(({ status, message }) => `${status} ${message.replace(/^https?:\S+ /, '')}`);
  };
  assert.deepEqual(await check(health), ['ok points to this service']);
  const [stranger] = await check((_, response) => response.end('<h1>Welcome to nginx</h1>'));
  assert.match(stranger!, /^fail (another )?server responds at/);
  const untrusted = await check(health, testCertificate([NAME]));
  assert.match(untrusted[1]!, /^fail clients do not trust the certificate of \S+ \(DEPTH_ZERO_SELF_SIGNED_CERT\)/);
  assert.match((await check(health, expiredCertificate(NAME)))[1]!, /^fail the certificate of \S+ expired/);
  assert.match(
    (await check(health, testCertificate(['other.example'])))[1]!,
    /^fail the certificate of \S+ is not valid for mail\.shop\.example/,
  );
});

test('a public address without a response is a warning', async (t) => {
  const dns = await resolver(t);
  const at = (baseUrl: string) => checkPublicAddress(readConfig({ POSTRIDER_BASE_URL: baseUrl }), dns, Date.now());
  assert.match((await at(`http://${NAME}:1`))[0]!.message, /cannot be reached from here: ECONNREFUSED/);
  assert.match((await at('http://gone.example'))[0]!.message, /ENOTFOUND/);
  assert.deepEqual(await checkPublicAddress(readConfig({}), dns, Date.now()), []);
});

test('the SMTP certificate is checked for expiry, name, and readability', (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-doctor-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const cert = path.join(folder, 'cert.pem');
  const key = path.join(folder, 'key.pem');
  const common = { POSTRIDER_DATA_DIR: folder, POSTRIDER_SMTP_HOSTNAME: NAME };
  const named = { ...common, POSTRIDER_SMTP_TLS_CERT: cert, POSTRIDER_SMTP_TLS_KEY: key };
  const check = (settings: Record<string, string>, nowMs = Date.now()) => {
    const [found] = checkSmtpCertificate(readConfig(settings), nowMs);
    return found === undefined ? undefined : `${found.status} ${found.message}`;
  };
  assert.match(check(named)!, /^fail .*cannot be read/);
  writeFileSync(cert, testCertificate([NAME]).cert);
  assert.match(check(named)!, /^warn the certificate of \S+ is valid for one day/);
  assert.match(check(named, Date.now() + 3 * 86_400_000)!, /^fail .*expired one day ago|^fail .*expired 0 days ago/);
  assert.match(check(named, Date.now() - 3_600_000)!, /not valid before/);
  writeFileSync(cert, testCertificate(['other.example']).cert);
  assert.match(check(named)!, /is not valid for mail\.shop\.example/);
  assert.equal(check(common), undefined, 'created at the first start');
  writeFileSync(path.join(folder, 'smtp-tls.pem'), testCertificate([NAME]).key + testCertificate([NAME]).cert);
  assert.match(check(common)!, /^warn the certificate is self-signed/);
});
