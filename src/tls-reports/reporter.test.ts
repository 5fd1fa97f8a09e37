/**
 * Reports to real https servers with a real DNS, on both databases: what is counted, when and how often it is sent, what is retried, and
 * that two nodes send one report. For email reports and every TLS failure, see reports.long.test.ts.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import { DIALECTS, type Dialect, tempDatabase } from '../../test/kit/temp-database.ts';
import { testCertificate } from '../../test/kit/test-certificate.ts';
import { type CatcherScript, webhookCatcher } from '../../test/kit/webhook-catcher.ts';
import { silentLog } from '../base/log.ts';
import { parseCidrs } from '../net/address-guard.ts';
import { type Dns, openDns } from '../net/dns.ts';
import { openHttpClient } from '../net/http-client.ts';
import { openPostgresDatabase } from '../storage/postgres/database.ts';
import { parsePostgresUrl } from '../storage/postgres/url.ts';
import type { TlsSession } from '../tls-policy/tls-policy.ts';
import { openTlsCounters } from './counters.ts';
import type { ReportMail } from './mail.ts';
import { type ReporterOptions, startReporter } from './reporter.ts';
import { lastReportsOperation } from './store.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** In the past of the real clock, which a database server uses. */
const TODAY = Date.now() - (Date.now() % DAY) - DAY;
const YESTERDAY = TODAY - DAY;

interface Written {
  'organization-name': string;
  'date-range': Record<string, string>;
  'report-id': string;
  policies: {
    policy: Record<string, unknown>;
    summary: Record<string, number>;
    'failure-details'?: Record<string, unknown>[];
  }[];
}

const good = (domain: string): TlsSession => ({
  domain,
  host: `mx.${domain}`,
  address: '192.0.2.1',
  localAddress: '192.0.2.9',
  policy: { type: 'sts', domain, lines: ['version: STSv1', 'mode: enforce'], mx: [`mx.${domain}`] },
});
const bad = (domain: string, message = 'it is old'): TlsSession => ({
  ...good(domain),
  failure: { type: 'certificate-expired', message },
});

interface WorldOptions extends Partial<Pick<ReporterOptions, 'isVerified' | 'random'>> {
  zone: (port: number) => FakeZone;
  script?: CatcherScript;
  /** Ranges to which reports can be sent. */
  allow?: string;
  nodes?: number;
}

async function world(t: TestContext, dialect: Dialect, options: WorldOptions) {
  const { database: first, url, close } = await tempDatabase(dialect);
  // Each node has its own connections to a server.
  const databases = [first];
  for (let node = 1; node < (options.nodes ?? 1); node += 1) {
    const address = url === undefined ? undefined : parsePostgresUrl(url);
    databases.push(address ? await openPostgresDatabase({ address, log: silentLog }) : first);
  }
  const certificate = testCertificate(['reports.example']);
  const catcher = await webhookCatcher({ certificate, script: options.script ?? {} });
  const dns = await fakeDns({ 'reports.example': { A: ['127.0.0.1'], ttl: 1 }, ...options.zone(catcher.port) });
  const clock = fakeClock(YESTERDAY + HOUR);
  const allowed = parseCidrs(options.allow ?? '127.0.0.0/8');
  assert.ok(allowed.ok);
  const allow = allowed.cidrs;
  const mails: ReportMail[] = [];
  const nodes = databases.map((database) => {
    const resolver = openDns({ servers: [dns.server], timeoutMs: 2_000, tries: 1 });
    // No time passes on the real clock, so nothing may be cached.
    const resolveTxt: Dns['resolveTxt'] = async (name) => {
      const fresh = openDns({ servers: [dns.server], timeoutMs: 2_000, tries: 1 });
      return fresh.resolveTxt(name).finally(() => fresh.close());
    };
    const http = openHttpClient({ lookup: resolver.lookupHost, allow, ca: certificate.cert });
    const counters = openTlsCounters({ database, clock, log: silentLog, flushMs: 1e9 });
    const reporter = startReporter({
      database,
      clock,
      log: silentLog,
      dns: { resolveTxt },
      http,
      submitter: 'sender.example',
      roundMs: 1e9,
      isVerified: options.isVerified ?? (async () => true),
      sendMail: async (mail) => void mails.push(mail),
      random: options.random ?? (() => 0),
    });
    const stop = async () => {
      await Promise.all([counters.stop(), reporter.stop(), http.close()]);
      resolver.close();
    };
    return { counters, reporter, stop };
  });
  t.after(async () => {
    for (const node of nodes) await node.stop();
    for (const other of databases.filter((one) => one !== first)) await other.close();
    await Promise.all([close(), catcher.close(), dns.close()]);
  });
  const [{ counters }] = nodes as [(typeof nodes)[number]];
  return {
    database: first,
    catcher,
    dns,
    clock,
    mails,
    nodes,
    counters,
    /** Runs all nodes at the same time. */
    round: async () => {
      await Promise.all(nodes.map((node) => node.counters.run()));
      await Promise.all(nodes.map(({ reporter }) => reporter.run()));
    },
    reports: () => catcher.requests.map(({ bytes }) => JSON.parse(gunzipSync(bytes).toString()) as Written),
  };
}

const toHttps = (port: number): string => `https://reports.example:${port}/in`;
const record = (...rua: string[]): FakeZone[string] => ({ TXT: [`v=TLSRPTv1; rua=${rua.join()}`], ttl: 1 });

for (const dialect of DIALECTS) {
  test(`${dialect}: a report contains the counts of its day`, async (t) => {
    const zone = (port: number) => ({ '_smtp._tls.a.example': record(toHttps(port)) });
    const { clock, counters, catcher, round, reports } = await world(t, dialect, { zone });
    for (let count = 0; count < 3; count += 1) counters.count(good('a.example'));
    counters.count(bad('a.example'));
    await counters.run();
    counters.count(bad('a.example', 'it is older'));
    counters.count({ ...bad('a.example'), address: '192.0.2.2' });
    counters.count(good('b.example'));
    clock.set(TODAY - 1);
    counters.count(good('a.example'));
    await round();
    assert.equal(catcher.requests.length, 0, 'the day has not ended');
    clock.set(TODAY + 20 * MINUTE);
    counters.count(bad('a.example'));
    await round();
    await round();
    assert.equal(catcher.requests.length, 1, 'one report, and none for a domain without a record');
    assert.equal(catcher.requests[0]!.headers['content-type'], 'application/tlsrpt+gzip');
    const [report] = reports();
    const date = new Date(YESTERDAY).toISOString().slice(0, 10);
    const failure = {
      'result-type': 'certificate-expired',
      'sending-mta-ip': '192.0.2.9',
      'receiving-mx-hostname': 'mx.a.example',
      'receiving-ip': '192.0.2.1',
      'failed-session-count': 2,
      'failure-reason-code': 'it is older',
    };
    assert.deepEqual(report, {
      'organization-name': 'sender.example',
      'date-range': { 'start-datetime': `${date}T00:00:00Z`, 'end-datetime': `${date}T23:59:59Z` },
      'contact-info': 'postmaster@sender.example',
      'report-id': `${date}.a.example@sender.example`,
      policies: [
        {
          policy: {
            'policy-type': 'sts',
            'policy-string': ['version: STSv1', 'mode: enforce'],
            'policy-domain': 'a.example',
            'mx-host': ['mx.a.example'],
          },
          summary: { 'total-successful-session-count': 4, 'total-failure-session-count': 3 },
          'failure-details': [
            failure,
            { ...failure, 'receiving-ip': '192.0.2.2', 'failed-session-count': 1, 'failure-reason-code': 'it is old' },
          ],
        },
      ],
    });
  });

  test(`${dialect}: two nodes share their counts and send one report`, async (t) => {
    const domains = Array.from({ length: 40 }, (_, index) => `d${index}.example`);
    const zone = (port: number) =>
      Object.fromEntries(
        domains.map((domain) => [`_smtp._tls.${domain}`, record(toHttps(port), `mailto:t@${domain}`)]),
      );
    const { clock, nodes, mails, round, reports, database } = await world(t, dialect, { zone, nodes: 2 });
    for (const { counters } of nodes) for (const domain of domains) counters.count(good(domain));
    await round();
    clock.set(TODAY + 20 * MINUTE);
    await round();
    await round();
    const counted = reports().map(({ policies }) => [
      policies[0]!.policy['policy-domain'],
      policies[0]!.summary['total-successful-session-count'],
    ]);
    assert.deepEqual(counted.sort(), domains.map((domain) => [domain, 2]).sort());
    assert.deepEqual(mails.map(({ to }) => to.domain).sort(), [...domains].sort());
    assert.deepEqual(await database.execute(lastReportsOperation, null), { day: YESTERDAY, counts: { sent: 40 } });
  });
}

test('reports are sent within four hours after the day', async (t) => {
  const zone = (port: number) => ({
    '_smtp._tls.a.example': record(toHttps(port)),
    '_smtp._tls.b.example': record(toHttps(port)),
  });
  const lots = [0, 0.999];
  const { clock, counters, catcher, round } = await world(t, 'sqlite', { zone, random: () => lots.shift()! });
  counters.count(good('a.example'));
  counters.count(good('b.example'));
  const sent: number[] = [];
  for (const minutes of [0, 4, 5, 239, 240]) {
    clock.set(TODAY + minutes * MINUTE);
    await round();
    sent.push(catcher.requests.length);
  }
  assert.deepEqual(sent, [0, 0, 1, 1, 2]);
});

test('only addresses that reject a report are retried, for a day', async (t) => {
  const zone = (port: number) => ({ '_smtp._tls.a.example': record('mailto:t@a.example', toHttps(port)) });
  const { clock, counters, catcher, mails, round, database } = await world(t, 'sqlite', {
    zone,
    script: { status: 503 },
  });
  counters.count(good('a.example'));
  const tried: number[] = [];
  for (clock.set(TODAY + 5 * MINUTE); clock.now() < TODAY + 26 * HOUR; clock.advance(5 * MINUTE)) {
    const before = catcher.requests.length;
    await round();
    if (catcher.requests.length > before) tried.push((clock.now() - TODAY) / MINUTE);
  }
  assert.deepEqual(tried, [5, 10, 25, 55, 115, 235, 475, 715, 955, 1195, 1435]);
  assert.equal(mails.length, 1);
  assert.equal(mails[0]!.lifetimeSeconds, 86_400);
  const ids = new Set(catcher.requests.map(({ bytes }) => JSON.parse(gunzipSync(bytes).toString())['report-id']));
  assert.equal(ids.size, 1, 'one report for any number of rounds');
  assert.deepEqual(await database.execute(lastReportsOperation, null), { day: YESTERDAY, counts: { sent: 1 } });
});

test('an undeliverable report is dropped, and a temporary DNS failure loses nothing', async (t) => {
  const zone = (port: number) => ({
    '_smtp._tls.a.example': record(toHttps(port)),
    '_smtp._tls.b.example': { fail: 'SERVFAIL' as const },
  });
  const { clock, counters, catcher, dns, round, database } = await world(t, 'sqlite', {
    zone,
    script: { raw: 'nonsense' },
  });
  counters.count(good('a.example'));
  counters.count(good('b.example'));
  clock.set(TODAY + 6 * MINUTE);
  await round();
  dns.zone['_smtp._tls.b.example'] = { TXT: ['v=TLSRPTv1; rua=mailto:t@b.example'] };
  for (let hours = 0; hours < 30; hours += 1) {
    clock.advance(HOUR);
    await round();
  }
  assert.ok(catcher.requests.length > 5);
  const counts = { 'given up': 1, sent: 1 };
  assert.deepEqual(await database.execute(lastReportsOperation, null), { day: YESTERDAY, counts });
});

test('a report is not sent to a private address unless allowed', async (t) => {
  for (const [allow, arrived] of [
    ['10.0.0.0/8', 0],
    ['127.0.0.0/8', 1],
  ] as const) {
    const zone = (port: number) => ({ '_smtp._tls.a.example': record(toHttps(port)) });
    const { clock, counters, catcher, round } = await world(t, 'sqlite', { zone, allow });
    counters.count(good('a.example'));
    clock.set(TODAY + 6 * MINUTE);
    await round();
    assert.deepEqual([catcher.requests.length, catcher.connections.total], [arrived, arrived]);
  }
});

test('reports wait for the sender domain to be verified, for up to two days', async (t) => {
  const zone = (port: number) => ({ '_smtp._tls.a.example': record(toHttps(port)) });
  let verified = false;
  const { clock, counters, catcher, dns, round, reports } = await world(t, 'sqlite', {
    zone,
    isVerified: async () => verified,
  });
  for (let day = 0; day < 4; day += 1) {
    counters.count(good('a.example'));
    await round();
    clock.advance(DAY);
  }
  assert.deepEqual([catcher.requests.length, dns.questions.length], [0, 0]);
  verified = true;
  await round();
  const days = reports().map((report) => Date.parse(report['date-range']['start-datetime']!));
  assert.deepEqual(days.sort(), [YESTERDAY + 2 * DAY, YESTERDAY + 3 * DAY]);
});

test('a DANE policy of an MX host is reported to its domain', async (t) => {
  const zone = (port: number) => ({
    '_smtp._tls.a.example': record(toHttps(port)),
    '_smtp._tls.mx.a.example': record(toHttps(port)),
  });
  const { clock, counters, round, reports } = await world(t, 'sqlite', { zone });
  const policy = { type: 'tlsa' as const, domain: 'mx.a.example', lines: ['3 1 1 ab'], mx: [] };
  counters.count({ ...good('a.example'), policy });
  counters.count({ ...good('other.example'), host: 'mx.a.example', policy });
  clock.set(TODAY + 6 * MINUTE);
  await round();
  const seen = reports().map(({ policies, ...report }) => [
    report['report-id'].slice(11),
    policies[0]!.policy,
    policies[0]!.summary['total-successful-session-count'],
  ]);
  const written = { 'policy-type': 'tlsa', 'policy-string': ['3 1 1 ab'], 'policy-domain': 'mx.a.example' };
  assert.deepEqual(seen.sort(), [
    ['a.example@sender.example', written, 1],
    ['mx.a.example@sender.example', written, 2],
  ]);
});
