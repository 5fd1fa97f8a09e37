/**
 * The real service with a clock that is set ahead (libfaketime): how long it caches its knowledge of servers, domains, and policies, and
 * when it retries. Counted at the servers and in the DNS.
 */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { type Answer, apiClient, type JsonObject } from '../kit/api.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { freePort } from '../kit/free-ports.ts';
import { policyAnswer } from '../kit/policy-hosts.ts';
import { missing } from '../kit/requirements.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';
import { peerFolder } from './peer-process.ts';
import { type SetClock, setClock } from './set-clock.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const CERTIFICATE_DAYS = 60;
const net = `127.${randomInt(60, 250)}.${randomInt(256)}`;
const POLICY_HOST = `${net}.200`;

const skip =
  missing('faketime', 'openssl') ||
  (process.getuid?.() === 0 ? false : 'the port of https for a policy host needs root');
let clock: SetClock;
let dns: FakeDns;
let service: Service;
let policyHost: WebhookCatcher;
let port: number;
let folder: string;
const sinks: SmtpSink[] = [];

const policyCertificate = () => testCertificate(['mta-sts.sts.example'], CERTIFICATE_DAYS);
const serverCertificate = () => testCertificate(['mx1.sts.example'], CERTIFICATE_DAYS);

before(async () => {
  if (skip) return;
  folder = peerFolder('ages');
  clock = setClock(folder, { monotonic: true });
  dns = await fakeDns({});
  port = await freePort();
  policyHost = await webhookCatcher({
    certificate: policyCertificate(),
    host: POLICY_HOST,
    port: 443,
    script: () => policyAnswer({ mode: 'enforce', mx: ['mx1.sts.example'], maxAge: (3 * DAY) / 1000 }),
  });
  const authorities = path.join(folder, 'authorities.pem');
  writeFileSync(authorities, `${policyCertificate().cert}\n${serverCertificate().cert}`);
  service = await startService({
    env: {
      ...clock.env,
      NODE_EXTRA_CA_CERTS: authorities,
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_PORT: String(port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
    },
  });
  const { domainId } = await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  // Published, so that the hourly domain check finds nothing missing.
  const { body: records } = await service.api.get(`/domains/${domainId}/dns-records`);
  for (const one of records as unknown as JsonObject[]) {
    if (one.type === 'TXT') dns.zone[one.name] = { TXT: [one.value] };
  }
  assert.equal((await service.api.post(`/domains/${domainId}/verify`)).body.success, true);
});

after(async () => {
  await service?.close();
  for (const sink of sinks) await sink.close();
  await policyHost?.close();
  await dns?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** A domain with these servers as its MX hosts, the first preferred. */
async function domain(name: string, ...servers: SinkOptions[]): Promise<SmtpSink[]> {
  const started: SmtpSink[] = [];
  for (const [index, options] of servers.entries()) {
    const host = `${net}.${sinks.length + 1}`;
    const sink = await smtpSink({ ...options, host, port });
    sinks.push(sink);
    started.push(sink);
    dns.zone[`mx${index + 1}.${name}`] = { A: [host], ttl: 300 };
  }
  dns.zone[name] = { MX: servers.map((_, index) => [10 * (index + 1), `mx${index + 1}.${name}`]), ttl: 300 };
  return started;
}

/** On a new connection: a kept one has been idle for hours when the clock has moved. */
async function call(how: { method: string; path: string; body?: unknown }): Promise<Answer> {
  const client = apiClient(() => service.url, service.live);
  try {
    return await client.call(how);
  } finally {
    client.close();
  }
}

const message = async (id: string): Promise<JsonObject> =>
  (await call({ method: 'GET', path: `/messages/${id}` })).body;

async function send(to: string): Promise<string> {
  const body = { from: 'Shop <orders@shop.example>', to, subject: 'Order', text: 'Thank you' };
  const answer = await call({ method: 'POST', path: '/send', body });
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data.messageId;
}

function settled(id: string, ...statuses: string[]): Promise<JsonObject> {
  return waitUntil(`${id} to be ${statuses}`, async () => {
    const found = await message(id);
    return statuses.includes(found.status) && found;
  }).catch(async (error: Error) => {
    throw new Error(`${error.message}: ${JSON.stringify(await message(id))}\n${service.log.slice(-2000)}`);
  });
}

/** The last attempt of a delivered message. Its session is then ended: no one would have kept it open until the next one. */
async function deliver(to: string): Promise<JsonObject> {
  const { attempts } = await settled(await send(to), 'delivered');
  for (const sink of sinks) sink.dropAll();
  await waitUntil('all sessions to end', () => sinks.every((sink) => sink.connections.now === 0));
  return attempts.at(-1);
}

const asked = (sink: SmtpSink, verb: string): number => sink.commands.filter((line) => line.startsWith(verb)).length;
const questions = (question: string): number => dns.questions.filter((one) => one === question).length;

test('DNS responses are cached for their TTL', { skip, timeout: 120_000 }, async () => {
  await domain('ttl.example', {});
  await deliver('a@ttl.example');
  assert.equal(questions('MX ttl.example'), 1);
  clock.advance(240_000);
  await deliver('b@ttl.example');
  assert.equal(questions('MX ttl.example'), 1);
  clock.advance(90_000);
  await deliver('c@ttl.example');
  assert.equal(questions('MX ttl.example'), 2);
});

test('an MX host that hung up is tried last for 1 minute, then for 2, 5, and 10', {
  skip,
  timeout: 120_000,
}, async () => {
  const [first] = (await domain('sick.example', { script: { banner: { drop: true } } }, {})) as [SmtpSink];
  const connections = async (user: string): Promise<number> => {
    const before = first.connections.total;
    assert.equal((await deliver(`${user}@sick.example`)).host, 'mx2.sick.example');
    return first.connections.total - before;
  };
  const rounds: [afterMs: number, connections: number][] = [
    [0, 1],
    [45_000, 0],
    [30_000, 1],
    [100_000, 0],
    [40_000, 1],
    [280_000, 0],
    [40_000, 1],
    [580_000, 0],
    [40_000, 1],
    [580_000, 0],
  ];
  for (const [index, [afterMs, wanted]] of rounds.entries()) {
    clock.advance(afterMs);
    assert.equal(await connections(`user${index}`), wanted, `round ${index}`);
  }
});

test('a destination that requests five minutes is paused for five', { skip, timeout: 120_000 }, async () => {
  const rule = { rcpt: '421 4.7.0 too fast, try again in 5 minutes' };
  const [sink] = (await domain('rest.example', { script: rule })) as [SmtpSink];
  const id = await send('a@rest.example');
  await settled(id, 'delayed');
  sink.setScript({});
  clock.advance(4.5 * MINUTE);
  const second = await send('b@rest.example');
  await settled(second, 'delayed');
  assert.equal(sink.connections.total, 1);
  clock.advance(2 * MINUTE);
  await settled(id, 'delivered');
  await settled(second, 'delivered');
});

test('after TLS failures, TLS is skipped for an hour, half a day, and three days, then used again', {
  skip,
  timeout: 180_000,
}, async () => {
  const [sink] = (await domain('broken.example', {
    tls: 'starttls',
    script: { starttls: { handshake: 'reset' } },
  })) as [SmtpSink];
  const rounds: [afterMs: number, handshakes: number][] = [
    [0, 1],
    [0.9 * HOUR, 1],
    [0.2 * HOUR, 2],
    [11.5 * HOUR, 2],
    [HOUR, 3],
    [2 * DAY, 3],
    [0.9 * DAY, 3],
  ];
  for (const [index, [afterMs, handshakes]] of rounds.entries()) {
    clock.advance(afterMs);
    const { tls, tlsFallback } = await deliver(`user${index}@broken.example`);
    assert.deepEqual([tls, typeof tlsFallback], [null, 'string'], `round ${index}`);
    assert.equal(asked(sink, 'STARTTLS'), handshakes, `round ${index}`);
  }
  sink.setScript({});
  clock.advance(0.05 * DAY);
  assert.equal((await deliver('still@broken.example')).tls, null, 'three days have not passed');
  clock.advance(0.1 * DAY);
  const { tls, tlsFallback } = await deliver('again@broken.example');
  assert.deepEqual([tls, tlsFallback ?? null], ['TLSv1.3', null]);
});

test('an MTA-STS policy lasts three days without DNS and policy host, and no longer', {
  skip,
  timeout: 180_000,
}, async () => {
  const [sink] = (await domain('sts.example', { tls: 'starttls', certificate: serverCertificate() })) as [SmtpSink];
  dns.zone['mta-sts.sts.example'] = { A: [POLICY_HOST], ttl: 300 };
  dns.zone['_mta-sts.sts.example'] = { TXT: ['v=STSv1; id=1;'], ttl: 300 };
  const { tls, tlsPolicy } = await deliver('a@sts.example');
  assert.deepEqual([tls, tlsPolicy], ['TLSv1.3', 'mta-sts']);
  const fetched = policyHost.requests.length;
  assert.equal(fetched, 1);
  // An attacker in the middle withholds the record and the policy, and removes STARTTLS from the replies.
  dns.zone['_mta-sts.sts.example'] = { fail: 'SERVFAIL' };
  dns.zone['mta-sts.sts.example'] = { fail: 'SERVFAIL' };
  sink.setScript({ ehlo: '250-sink\r\n250 8BITMIME' });
  const mails = asked(sink, 'MAIL');
  const waiting: string[] = [];
  for (const afterMs of [DAY, DAY, DAY - HOUR]) {
    clock.advance(afterMs);
    const id = await send(`later${waiting.length}@sts.example`);
    const { attempts } = await settled(id, 'delayed');
    assert.match(attempts[0].reply, /the MTA-STS policy of sts\.example requires TLS/);
    waiting.push(id);
  }
  assert.equal(asked(sink, 'MAIL'), mails, 'no envelope is sent while it is valid');
  assert.equal(policyHost.requests.length, fetched);
  clock.advance(2 * HOUR);
  assert.equal((await deliver('after@sts.example')).tls, null);
  clock.advance(7 * HOUR);
  for (const id of waiting) assert.equal((await settled(id, 'delivered', 'bounced')).attempts.at(-1).tls, null);
});

test('deferred mail is retried on the published schedule for 72 hours, then bounces', {
  skip,
  timeout: 240_000,
}, async () => {
  const seen: number[] = [];
  const rcpt = (): string => {
    seen.push(clock.now());
    return '451 4.2.0 not now';
  };
  await domain('later.example', { script: { rcpt } });
  await domain('quick.example', {});
  const began = clock.now();
  const id = await send('a@later.example');
  await waitUntil('the first attempt', () => seen.length === 1);
  const hours = (one: number): number => one * HOUR;
  const steps = [1, 5, 15, 30].map((one) => one * MINUTE).concat([1, 2, 4].map(hours), Array(20).fill(hours(6)));
  for (const [index, stepMs] of steps.entries()) {
    await settled(id, 'delayed');
    const last = seen.at(-1)!;
    if (last + 1.1 * stepMs > began + 72 * HOUR) break;
    // A new message is delivered now: everything due has been checked.
    clock.advance(Math.max(0, last + 0.85 * stepMs - clock.now()));
    await deliver(`early${index}@quick.example`);
    const isEarly = clock.now() - last < 0.9 * stepMs;
    if (isEarly) assert.equal(seen.length, index + 1, `step ${index} of ${stepMs / MINUTE} min: too early`);
    clock.advance(Math.max(0, last + 1.1 * stepMs + 2_000 - clock.now()));
    await waitUntil(`attempt ${index + 2}`, () => seen.length === index + 2);
  }
  assert.ok(seen.length >= 16, `${seen.length} attempts`);
  clock.advance(began + 72 * HOUR + MINUTE - clock.now());
  const { timeline } = await settled(id, 'bounced');
  const { bounce } = timeline.find((one: JsonObject) => one.eventType === 'Bounce');
  assert.deepEqual([bounce.category, bounce.suppressed], ['expired', false]);
});
