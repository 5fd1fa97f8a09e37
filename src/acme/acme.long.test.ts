/**
 * ACME orders at a real server (Pebble), counted in its log: on both databases, with one node and two, and with failures. Each start checks
 * due names immediately.
 */
import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { after, before, type TestContext, test } from 'node:test';
import '../roles/operations.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { freePort } from '../../test/kit/free-ports.ts';
import { noPebble, type Pebble, preparePebble } from '../../test/kit/pebble.ts';
import { DIALECTS, type TempDatabase, tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { challengeRoutes } from '../api/acme.ts';
import { systemClock } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { createLog, silentLog } from '../base/log.ts';
import { createHttpApp, type HttpApp } from '../http/app.ts';
import type { CallerKey } from '../http/route.ts';
import type { Database } from '../storage/database.ts';
import { type Acme, type AcmeOptions, type CertificateRow, createAcme, renewalAt, retryAt } from './acme.ts';
import { AcmeError } from './client.ts';
import { certificatesOperation, orderFailedOperation, publishChallengeOperation } from './store.ts';

const SECRET_KEY = Buffer.alloc(32, 7);
const MINUTE = 60_000;
const ISSUED = /Issued certificate serial/;
const ORDERED = /Added order/;
const CHECKED = /Attempting to validate/;

const skip = noPebble;
let pebble: Pebble;
let httpPort: number;
let names = 0;

before(async () => {
  if (skip) return;
  httpPort = await freePort();
  pebble = await preparePebble({ names: [], httpPort, nonceReject: 25 });
  await pebble.start();
});
after(() => pebble?.close());

interface Node extends Acme {
  /** Received challenges, newest last. */
  shown: { name: string; key: string; cert: string }[];
  log: string[];
}

interface Rig {
  temp: TempDatabase;
  database: Database;
  /** A name that resolves to the port of this rig and is used by no other test. */
  name: string;
  /** Another process with this database; not started. */
  node(options?: Partial<AcmeOptions>): Node;
  /** Starts a node, waits until `isDone`, and stops it. */
  run(isDone: (node: Node) => boolean | Promise<boolean>, options?: Partial<AcmeOptions>): Promise<Node>;
  row(): Promise<CertificateRow | undefined>;
  /** How often the authority's log mentions this name. */
  count(what: RegExp): number;
  app: HttpApp;
}

async function rigOf(t: TestContext, dialect: (typeof DIALECTS)[number] = 'sqlite'): Promise<Rig> {
  const temp = await tempDatabase(dialect);
  const { database } = temp;
  names += 1;
  const name = `mail${names}.example.com`;
  pebble.zone[name] = { A: ['127.0.0.1'] };
  const app = createHttpApp<CallerKey>({
    host: '127.0.0.1',
    port: httpPort,
    log: silentLog,
    routes: challengeRoutes({ database }),
    authenticate: () => refuse(failure('UNAUTHORIZED')),
  });
  await app.listen();
  t.after(async () => {
    await app.stop({ deadlineMs: 500 });
    await temp.close();
  });
  const before = pebble.log.length;
  const node = (options: Partial<AcmeOptions> = {}): Node => {
    const shown: Node['shown'] = [];
    const log: string[] = [];
    const acme = createAcme({
      database,
      clock: systemClock,
      log: createLog('info', (line) => log.push(line)),
      secretKey: SECRET_KEY,
      directory: pebble.directory,
      email: 'postmaster@example.com',
      names: () => [name],
      userAgent: 'postrider/test',
      fetch: pebble.fetch,
      onCertificate: (of, { key, cert }) => shown.push({ name: of, key, cert }),
      ...options,
    });
    return { ...acme, shown, log };
  };
  return {
    temp,
    database,
    name,
    app,
    node,
    run: async (isDone, options) => {
      const one = node(options);
      await one.load();
      one.start();
      await waitUntil('the node to finish', () => isDone(one)).finally(() => one.stop());
      return one;
    },
    row: async () => (await database.execute(certificatesOperation, pebble.directory)).find((row) => row.name === name),
    count: (what) =>
      pebble.log
        .slice(before)
        .split('\n')
        .filter((line) => what.test(line)).length,
  };
}

const isShown = (node: Node): boolean => node.shown.length > 0;

/** Simulates the end of the delay. `fence` is the number of orders so far. */
async function makeDue({ database, name }: Rig, fence: number): Promise<void> {
  const { directory } = pebble;
  assert.ok(await database.execute(orderFailedOperation, { directory, name, fence, error: 'made due', nextAt: 0 }));
}

for (const dialect of DIALECTS) {
  test(`${dialect}: the first certificate is valid, encrypted, and used by nodes that start later`, {
    skip,
  }, async (t) => {
    const rig = await rigOf(t, dialect);
    const first = await rig.run(isShown);
    const [{ key, cert }] = first.shown as [Node['shown'][0]];
    const leaf = new X509Certificate(cert);
    assert.equal(leaf.checkHost(rig.name), rig.name);
    assert.ok(leaf.checkPrivateKey(createPrivateKey(key)));
    const chain = cert.split(/(?=-----BEGIN)/).map((one) => new X509Certificate(one));
    const root = new X509Certificate(await pebble.root());
    assert.ok(chain.length > 1 && leaf.verify(chain[1]!.publicKey) && chain.at(-1)!.verify(root.publicKey));
    assert.deepEqual([rig.count(ORDERED), rig.count(ISSUED)], [1, 1]);
    const row = (await rig.row())!;
    assert.deepEqual([row.failures, row.error, row.expiresAt], [0, null, Date.parse(leaf.validTo)]);
    const leftAtRenewal = (row.expiresAt! - row.nextAt) / (row.expiresAt! - Date.parse(leaf.validFrom));
    assert.ok(leftAtRenewal > 0.33 && leftAtRenewal < 0.39, String(leftAtRenewal));
    assert.ok(!Buffer.from(row.keySealed!).includes('PRIVATE KEY'), 'the key is sealed');
    // A restart loads the stored certificate and makes no request.
    const second = rig.node();
    await second.load();
    assert.deepEqual(second.shown, first.shown);
    await rig.run((one) => one.failures()[0]?.failures === 0);
    assert.equal(rig.count(ORDERED), 1);
  });

  test(`${dialect}: only one of two nodes orders, and both use the certificate`, { skip }, async (t) => {
    const rig = await rigOf(t, dialect);
    const nodes = [rig.node(), rig.node(), rig.node()];
    for (const one of nodes) one.start();
    await waitUntil('a node to show it', () => nodes.some(isShown)).finally(() =>
      Promise.all(nodes.map((one) => one.stop())),
    );
    for (const one of nodes) await one.load();
    assert.deepEqual([rig.count(ORDERED), rig.count(ISSUED)], [1, 1]);
    assert.equal(new Set(nodes.map((one) => one.shown[0]!.cert)).size, 1);
  });

  test(`${dialect}: a failed validation is retried later, and the current certificate stays in use`, {
    skip,
  }, async (t) => {
    const rig = await rigOf(t, dialect);
    await rig.run(isShown);
    await makeDue(rig, 1);
    // No process listens there.
    pebble.zone[rig.name] = { A: ['127.0.0.9'] };
    const failed = await rig.run(async () => ((await rig.row())?.error ?? 'made due') !== 'made due');
    assert.equal(rig.count(ORDERED), 2);
    const row = (await rig.row())!;
    assert.match(row.error!, new RegExp(`could not validate ${rig.name}: .*connection`, 'i'));
    assert.equal(row.failures, 1);
    assert.ok(row.certificate !== null && row.expiresAt! > Date.now());
    assert.ok(row.nextAt > Date.now() + 12 * MINUTE && row.nextAt < Date.now() + 17 * MINUTE);
    assert.ok(failed.log.some((line) => line.includes('certificate order failed') && line.includes(rig.name)));
    assert.equal(failed.shown.length, 1, 'the certificate stays in use');
    // A restart does not order sooner.
    for (let starts = 0; starts < 3; starts += 1) await rig.run((one) => one.failures()[0]?.failures === 1);
    assert.deepEqual([rig.count(ORDERED), rig.count(ISSUED)], [2, 1]);

    pebble.zone[rig.name] = { A: ['127.0.0.1'] };
    await makeDue(rig, 2);
    const renewed = await rig.run((one) => one.shown.length === 2);
    assert.notEqual(renewed.shown[1]!.cert, renewed.shown[0]!.cert);
    assert.notEqual(renewed.shown[1]!.key, renewed.shown[0]!.key, 'with a new key');
    assert.deepEqual([(await rig.row())!.failures, (await rig.row())!.error], [0, null]);
    assert.equal(rig.count(ISSUED), 2);
  });

  test(`${dialect}: an order that another node took over changes nothing`, { skip }, async (t) => {
    const rig = await rigOf(t, dialect);
    await rig.run(isShown);
    const { directory } = pebble;
    const late = { directory, name: rig.name, fence: 0 };
    assert.equal(await rig.database.execute(publishChallengeOperation, { ...late, token: 't', answer: 'a' }), false);
    assert.equal(await rig.database.execute(orderFailedOperation, { ...late, error: 'late', nextAt: 0 }), false);
    assert.equal((await rig.row())!.error, null);
  });
}

test('rejected nonces are replaced', { skip }, async (t) => {
  const rig = await rigOf(t);
  let refused = 0;
  const counting = (async (url: string, init: RequestInit) => {
    const response = await pebble.fetch(url, init);
    if (response.status === 400 && (await response.clone().text()).includes('badNonce')) refused += 1;
    return response;
  }) as typeof fetch;
  for (let orders = 1; refused === 0; orders += 1) {
    await rig.run((one) => one.shown.length === (orders > 1 ? 2 : 1), { fetch: counting });
    assert.equal(rig.count(ISSUED), orders);
    await makeDue(rig, orders);
  }
  assert.equal((await rig.row())!.error, 'made due');
});

test('an unreachable CA is retried within a minute and used when it recovers', {
  skip,
}, async (t) => {
  const rig = await rigOf(t);
  await pebble.kill();
  t.after(() => pebble.start());
  const failed = await rig.run(async () => (await rig.row())?.error != null);
  const row = (await rig.row())!;
  assert.match(row.error!, /cannot be reached: .*ECONNREFUSED/);
  assert.ok(row.nextAt > Date.now() && row.nextAt < Date.now() + 70_000);
  assert.deepEqual([failed.shown.length, failed.failures()], [0, [{ name: rig.name, failures: 1 }]]);
  // The CA has forgotten the account, but the key is kept.
  await pebble.start();
  await makeDue(rig, 1);
  await rig.run(isShown);
  await pebble.kill();
});

test('stopping does not wait for an order, which becomes due again soon', { skip }, async (t) => {
  const rig = await rigOf(t);
  // The CA never validates the challenge, because its DNS does not respond.
  pebble.zone[rig.name] = { fail: 'timeout' };
  const one = rig.node();
  one.start();
  await waitUntil('the validation attempt', () => rig.count(CHECKED) > 0);
  const began = performance.now();
  await one.stop();
  assert.ok(performance.now() - began < 3_000);
  const row = (await rig.row())!;
  assert.match(row.error!, /stopped/);
  assert.ok(row.nextAt < Date.now() + 70_000);
});

test('a challenge is answered for its token only, while the order is in progress', { skip }, async (t) => {
  const rig = await rigOf(t);
  const ask = async (token: string): Promise<[number, string | null, string]> => {
    const response = await fetch(`http://127.0.0.1:${httpPort}/.well-known/acme-challenge/${token}`);
    return [response.status, response.headers.get('content-type'), response.ok ? await response.text() : ''];
  };
  const token = 'abcdefghijklmnopqrstuv_-';
  await rig.run(isShown);
  const claim = { directory: pebble.directory, name: rig.name, fence: 1 };
  await rig.database.execute(publishChallengeOperation, { ...claim, token, answer: `${token}.thumb` });
  assert.deepEqual(await ask(token), [200, 'application/octet-stream', `${token}.thumb`]);
  for (const other of ['abcdefghijklmnopqrstuv_x', 'short', '%27%20OR%201=1', 'x'.repeat(201)])
    assert.equal((await ask(other))[0], 404, other);
  await makeDue(rig, 1);
  assert.equal((await ask(token))[0], 404);
});

test('a key that cannot be decrypted does not stop the process', { skip }, async (t) => {
  const rig = await rigOf(t);
  await rig.run(isShown);
  const other = await rig.run((one) => one.failures()[0]?.failures === 0, { secretKey: Buffer.alloc(32, 8) });
  assert.equal(other.shown.length, 0);
  assert.equal(other.log.filter((line) => line.includes('stored certificate ignored')).length, 1, 'logged once');
  assert.equal(rig.count(ORDERED), 1);
});

test('the Retry-After of the CA is respected', async (t) => {
  const temp = await tempDatabase();
  t.after(() => temp.close());
  const clock = fakeClock(Date.now());
  const directory = 'https://ca.example/dir';
  let asked = 0;
  const limited = (async (url: string) => {
    const headers = { 'Replay-Nonce': 'n', 'Retry-After': '90000' };
    const at = (path: string): string => `https://ca.example/${path}`;
    if (url === directory) return Response.json({ newNonce: at('n'), newAccount: at('a'), newOrder: at('o') });
    if (url.endsWith('/n')) return new Response(null, { headers });
    asked += 1;
    const problem = { type: 'urn:ietf:params:acme:error:rateLimited', detail: 'too many accounts' };
    return Response.json(problem, { status: 429, headers });
  }) as typeof fetch;
  const acme = createAcme({
    database: temp.database,
    clock,
    log: silentLog,
    secretKey: SECRET_KEY,
    directory,
    email: 'a@example.com',
    names: () => ['a.example'],
    userAgent: 'x',
    fetch: limited,
    onCertificate: () => assert.fail(),
  });
  acme.start();
  t.after(() => acme.stop());
  const row = async (): Promise<CertificateRow | undefined> =>
    (await temp.database.execute(certificatesOperation, directory))[0];
  await waitUntil('the error to be stored', async () => (await row())?.error != null);
  const { error, nextAt } = (await row())!;
  assert.match(error!, /^ca\.example returned 429: rateLimited: too many accounts$/);
  assert.ok(nextAt >= clock.now() + 90_000_000);
  assert.equal(asked, 1);
});

test('delays grow from 15 minutes to a day, with fewer than five attempts in any hour', () => {
  const refused = new AcmeError('x');
  const after = (failures: number, error = refused): number => retryAt(0, failures, error) / MINUTE;
  const base = [15, 30, 60, 120, 240, 480, 1440, 1440];
  for (const [index, minutes] of base.entries()) {
    for (let draws = 0; draws < 50; draws += 1) {
      const delay = after(index + 1);
      assert.ok(delay >= 0.9 * minutes && delay <= 1.1 * minutes, `${index + 1}: ${delay}`);
    }
  }
  const away = new AcmeError('x', { isAway: true });
  assert.ok(after(1, away) <= 1.1 && after(3, away) <= 4.4 && after(30, away) <= 1440 * 1.1);
  assert.equal(after(1, new AcmeError('x', { retryAfterMs: 1e12 })), 7 * 24 * 60);
});

test('a certificate is renewed when a third of its lifetime is left, whatever the clock says', () => {
  const day = 86_400_000;
  const issued = { expiresAtMs: 90 * day, lifetimeMs: 90 * day };
  assert.equal(renewalAt(0, issued, 0), 60 * day);
  assert.ok(Math.abs(renewalAt(0, issued, 1) - 55.5 * day) < day / 10);
  // A clock that is a year ahead does not cause a second order soon, and one that is a year behind does not wait for a year.
  assert.equal(renewalAt(400 * day, issued, 0), 430 * day);
  assert.equal(renewalAt(-400 * day, issued, 0), -340 * day);
});
