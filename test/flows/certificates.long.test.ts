/**
 * The real service orders its certificates from a real CA (Pebble) and renews them while running: verifying clients (openssl over STARTTLS,
 * Node over HTTPS) see each new one on their next connection. A CA outage breaks nothing.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import https from 'node:https';
import { connect, createServer, type Socket } from 'node:net';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import pg from 'pg';
import { startCluster } from '../kit/cluster.ts';
import { freePort } from '../kit/free-ports.ts';
import { noPebble, type Pebble, preparePebble } from '../kit/pebble.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { runCommand, type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MAIL = 'mail.example.com';
const API = 'api.example.com';
const ISSUED = /Issued certificate serial/;
const MAKE_DUE = 'UPDATE acme_certificate SET next_at = 0';
const LIFETIME_SECONDS = 60;
/** Number of certificates that two nodes order, one after another. */
const ORDERS = 4;
/** Interval at which a client checks for another certificate. */
const PAUSE_MS = 400;
const skip = noPebble;
const run = promisify(execFile);

/** The serial number that a verifying client sees over STARTTLS; undefined if it rejects the certificate. */
async function serialOverSmtp(port: number, rootFile: string): Promise<string | undefined> {
  const client = run('openssl', [
    's_client',
    '-starttls',
    'smtp',
    '-connect',
    `127.0.0.1:${port}`,
    '-servername',
    MAIL,
    '-CAfile',
    rootFile,
    '-no-CApath',
    '-verify_return_error',
    '-verify_hostname',
    MAIL,
  ]);
  // A client that rejects the certificate reads no more.
  client.child.stdin!.on('error', () => undefined).end('QUIT\r\n');
  const said = await client.catch(() => undefined);
  await wait(PAUSE_MS);
  const pem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(said?.stdout ?? '')?.[0];
  return pem === undefined ? undefined : new X509Certificate(pem).serialNumber;
}

/** Does this over HTTPS, after an API response; rejects if the certificate is rejected. */
function serialOverHttps(port: number, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, servername: API, ca, agent: false, path: '/health' };
    const request = https.get(options, (response) => {
      const { serialNumber } = (response.socket as TLSSocket).getPeerX509Certificate()!;
      assert.equal(response.statusCode, 200);
      response.resume().once('end', () => resolve(serialNumber));
    });
    request.once('error', reject);
  });
}

async function gauge({ anonymous }: Service, pattern: RegExp): Promise<number> {
  const lines = (await anonymous.get('/metrics')).text.split('\n');
  const found = lines.find((line) => pattern.test(line));
  assert.ok(found, `${pattern} in ${lines.filter((line) => line.includes('certificate')).join('\n')}`);
  return Number(found.split(' ').at(-1));
}

/** What `postrider doctor` reports about the certificate of a name. */
async function checkOf(service: Service, env: Record<string, string>, name: string): Promise<string> {
  const { stdout } = await runCommand(['doctor', '--offline', '--json'], { dataDir: service.dataDir, env });
  const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string; message: string }[] };
  const { status, message } = checks.find((check) => check.name === `certificate ${name}`)!;
  return `${status} ${message}`;
}

async function authority(t: TestContext, httpPort: number, lifetimeSeconds: number): Promise<Pebble> {
  const pebble = await preparePebble({ names: [MAIL, API], httpPort, lifetimeSeconds, nonceReject: 10 });
  t.after(() => pebble.close());
  return pebble;
}

const settingsFor = (pebble: Pebble): Record<string, string> => ({
  POSTRIDER_ACME_EMAIL: 'postmaster@example.com',
  POSTRIDER_ACME_DIRECTORY: pebble.directory,
  POSTRIDER_SMTP_HOSTNAME: MAIL,
  POSTRIDER_DNS_SERVERS: '127.0.0.1:1',
  NODE_EXTRA_CA_CERTS: pebble.caFile,
});

/** As if the time of the next order had come. */
function makeDue({ dataDir }: Service): void {
  const db = new DatabaseSync(path.join(dataDir, 'postrider.db'), { timeout: 10_000 });
  db.exec(MAKE_DUE);
  db.close();
}

async function rootOf(pebble: Pebble, { dataDir }: Service): Promise<{ file: string; pem: string }> {
  const pem = await pebble.root();
  const file = path.join(dataDir, 'root-of-the-authority.pem');
  writeFileSync(file, pem);
  return { file, pem };
}

test('starts self-signed, orders, and renews without a restart; a CA outage changes nothing', {
  skip,
  timeout: 500_000,
}, async (t) => {
  const httpPort = await freePort();
  const pebble = await authority(t, httpPort, LIFETIME_SECONDS);
  const env = {
    ...settingsFor(pebble),
    POSTRIDER_HTTP_PORT: String(httpPort),
    POSTRIDER_HTTPS_PORT: '0',
    POSTRIDER_BASE_URL: `https://${API}`,
  };
  const service = await startService({ env });
  t.after(() => service.close());
  const { pid } = service;
  const failedOrders = new RegExp(`^postrider_certificate_failed_orders.*name="${MAIL}"`);
  const expiry = (source: string): RegExp =>
    new RegExp(`^postrider_certificate_expiry_seconds.*port="smtp".*name="${MAIL}".*source="${source}"`);
  await waitUntil('both orders to fail', () => service.log.split('certificate order failed').length === 3);
  assert.equal((await service.api.get('/account')).status, 200, 'it serves');
  assert.ok((await gauge(service, expiry('self-signed'))) > 86_400);
  assert.equal(await gauge(service, failedOrders), 1);
  assert.match(await checkOf(service, env, MAIL), /^fail none yet; the last order failed: .*ECONNREFUSED/);
  const session = await connectTalker(service.smtpPort);
  t.after(() => session.destroy());
  await session.reply();
  await session.secure();

  await pebble.start();
  const { file, pem } = await rootOf(pebble, service);
  assert.equal(await serialOverSmtp(service.smtpPort, file), undefined, 'a verifying client still rejects it');
  // Within the minute after which the order is retried at a CA that was unavailable.
  const first = await waitUntil('a certificate', () => serialOverSmtp(service.smtpPort, file), 120_000);
  await waitUntil(
    'the certificate of the API',
    () => serialOverHttps(service.httpsPort, pem).catch(() => undefined),
    120_000,
  );
  assert.match(await checkOf(service, env, MAIL), /^ok valid until .*, renewed from /);
  assert.match(await checkOf(service, env, API), /^ok /);
  const left = await gauge(service, expiry('authority'));
  assert.ok(left > 0 && left <= LIFETIME_SECONDS, String(left));
  assert.equal(await gauge(service, failedOrders), 0);

  // A real-time renewal before the certificate expires: no new connection is ever rejected.
  const serials = new Set([first]);
  await waitUntil(
    'a renewal',
    async () => {
      const serial = await serialOverSmtp(service.smtpPort, file);
      assert.ok(serial, `every certificate is valid; ${service.log.slice(-2_000)}`);
      serials.add(serial);
      return serials.size === 2;
    },
    120_000,
  );
  await serialOverHttps(service.httpsPort, pem);
  assert.ok(pebble.count(ISSUED) <= 6, `${pebble.count(ISSUED)} for two names`);
  assert.equal(await session.say('NOOP'), '250 2.0.0 OK', 'an open session continues');

  await pebble.kill();
  await waitUntil('the end of the last one', async () => (await gauge(service, expiry('authority'))) < 0, 120_000);
  assert.match(await checkOf(service, env, MAIL), /^fail expired at .*; the last order failed: .*ECONNREFUSED/);
  const mail = await connectTalker(service.smtpPort);
  await mail.reply();
  await mail.logIn(service.smtpCredential);
  mail.destroy();
  assert.equal(service.pid, pid);
  assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null });
});

test('a restart reuses the stored certificate, and a CA that lost its state issues a new one', {
  skip,
  timeout: 200_000,
}, async (t) => {
  const httpPort = await freePort();
  const pebble = await authority(t, httpPort, 86_400);
  await pebble.start();
  const env = { ...settingsFor(pebble), POSTRIDER_HTTP_PORT: String(httpPort) };
  const service = await startService({ env });
  t.after(() => service.close());
  const shown = async (): Promise<string> => {
    const { file } = await rootOf(pebble, service);
    const looks = waitUntil('a certificate', () => serialOverSmtp(service.smtpPort, file), 60_000);
    return looks.catch((error: Error) => assert.fail(`${error.message}\n${service.log}\n${pebble.log.slice(-3_000)}`));
  };
  const first = await shown();
  await service.kill('SIGTERM');
  await service.restart({ env });
  assert.equal(await serialOverSmtp(service.smtpPort, (await rootOf(pebble, service)).file), first);
  assert.equal(pebble.count(ISSUED), 1);
  await pebble.kill();
  await pebble.start();
  makeDue(service);
  assert.notEqual(await shown(), first);
});

test('one of two nodes orders, both answer the CA, and both serve each new certificate', {
  skip,
  timeout: 300_000,
}, async (t) => {
  // Port 80 is forwarded to each of them in turn, as behind a balancer; a CA sends several requests per order.
  const targets: number[] = [];
  const led = new Map<number, number>();
  const lead = (client: Socket, [port = 0, ...others]: number[]): void => {
    const node = connect(port, '127.0.0.1', () => {
      led.set(port, (led.get(port) ?? 0) + 1);
      client.pipe(node).pipe(client);
    });
    // A node that is not up yet is skipped.
    node.once('error', () => (others.length > 0 ? lead(client, others) : client.destroy()));
    client.once('close', () => node.destroy());
  };
  const balancer = createServer((client) => {
    client.on('error', () => undefined);
    targets.push(targets.shift()!);
    lead(client, [...targets]);
  });
  const httpPort = await freePort();
  await new Promise<void>((resolve) => balancer.listen(httpPort, '127.0.0.1', resolve));
  t.after(() => balancer.close());
  const pebble = await authority(t, httpPort, 86_400);
  await pebble.start();
  const cluster = await startCluster({
    nodes: 2,
    env: settingsFor(pebble),
    envOf: async () => {
      const port = await freePort();
      targets.push(port);
      return { POSTRIDER_HTTP_PORT: String(port) };
    },
  });
  t.after(() => cluster.close());
  const { file } = await rootOf(pebble, cluster.nodes[0]!);
  const client = new pg.Client({ connectionString: cluster.env.POSTRIDER_DATABASE_URL });
  await client.connect();
  const seen: string[] = [];
  try {
    for (let orders = 1; orders <= ORDERS; orders += 1) {
      const serial = await waitUntil(
        'both nodes to show a new certificate',
        async () => {
          const shown = await Promise.all(cluster.nodes.map((node) => serialOverSmtp(node.smtpPort, file)));
          return shown[0] !== undefined && shown[0] === shown[1] && !seen.includes(shown[0]) && shown[0];
        },
        60_000,
      ).catch((error: Error) => assert.fail(`${error.message}\n${cluster.logs()}`));
      seen.push(serial);
      assert.equal(pebble.count(ISSUED), orders, 'one order each time');
      await client.query(MAKE_DUE);
    }
    const [first, second] = cluster.nodes as [Service, Service];
    await waitUntil('the last one to be replaced', () => pebble.count(ISSUED) === ORDERS + 1);
    await first.kill('SIGKILL');
    const before = await serialOverSmtp(second.smtpPort, file);
    await client.query(MAKE_DUE);
    const isNew = async (): Promise<boolean> => {
      const serial = await serialOverSmtp(second.smtpPort, file);
      return serial !== undefined && serial !== before && !seen.includes(serial);
    };
    await waitUntil('the other node to order', isNew, 60_000);
    // It shows the certificate before its log says so.
    await waitUntil('its log to say so', () => second.log.includes('certificate issued'));
  } finally {
    await client.end();
  }
  const issuedBy = cluster.nodes.map((node) => node.log.split('certificate issued').length - 1);
  // The killed node may not have recorded its last one.
  const unrecorded = pebble.count(ISSUED) - issuedBy[0]! - issuedBy[1]!;
  assert.ok(issuedBy[1]! > 0 && (unrecorded === 0 || unrecorded === 1), `${issuedBy} of ${pebble.count(ISSUED)}`);
  assert.ok(
    targets.length === 2 && targets.every((port) => (led.get(port) ?? 0) >= ORDERS - 1),
    'both answered the CA',
  );
  t.diagnostic(`orders of each node: ${issuedBy}`);
});
