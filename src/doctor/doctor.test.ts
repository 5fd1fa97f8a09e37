/** All checks together: which are repeated and when, counted at the queried servers; relays; PostgreSQL backups. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test, { type TestContext } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { fakeDns } from '../../test/kit/fake-dns.ts';
import { smtpSink } from '../../test/kit/smtp-sink.ts';
import { type Config, readConfig } from '../config.ts';
import type { SenderDomain } from '../domains/domains.ts';
import { openDns } from '../net/dns.ts';
import { cacheSuccessfulChecks, examine, type Subject } from './doctor.ts';
import { checkBackup } from './secrets.ts';
import { checkReturnPath, checkTlsReports } from './tls-reports.ts';

const FACTS = { domains: [], backedUpMs: undefined, secretKeyComparedMs: undefined };

async function world(t: TestContext, settings: Record<string, string> = {}) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-doctor-'));
  const sink = await smtpSink({ host: '127.0.0.2' });
  const dns = await fakeDns({
    'big.example': { MX: [[10, 'mx.big.example']] },
    'mx.big.example': { A: ['127.0.0.2'] },
    '2.0.0.127.list.example': { A: ['127.0.0.2'] },
    '7.10.199.185.in-addr.arpa': { PTR: ['mail.shop.example'] },
    'mail.shop.example': { A: ['185.199.10.7'] },
  });
  t.after(async () => {
    rmSync(folder, { recursive: true, force: true });
    await Promise.all([sink.close(), dns.close()]);
  });
  const config = readConfig({
    POSTRIDER_DATA_DIR: folder,
    POSTRIDER_DNS_SERVERS: dns.server,
    POSTRIDER_MX_PORT: String(sink.port),
    POSTRIDER_SMTP_HOSTNAME: 'mail.shop.example',
    POSTRIDER_DOCTOR_DOMAINS: 'big.example',
    POSTRIDER_DOCTOR_BLOCKLISTS: 'list.example',
    POSTRIDER_DOCTOR_CLOCK_URL: 'http://clock.example',
    ...settings,
  });
  const clock = fakeClock();
  const subject: Subject = {
    config,
    clock,
    network: true,
    answered: cacheSuccessfulChecks(clock),
    database: async () => ({ checks: [], facts: FACTS }),
    probeBlobs: async () => undefined,
  };
  const asked = (what: string): number => dns.questions.filter((one) => one === what).length;
  return { sink, dns, clock, subject, asked };
}

test('successful checks of other servers are cached for ten minutes', async (t) => {
  const { sink, clock, subject } = await world(t);
  for (let looks = 0; looks < 20; looks += 1) {
    await examine(subject);
    clock.advance(29_000);
  }
  assert.equal(sink.connections.total, 1);
  clock.advance(60_000);
  await examine(subject);
  assert.equal(sink.connections.total, 2);
});

test('failed checks and local checks are never cached', async (t) => {
  const { sink, subject, asked } = await world(t);
  sink.setScript({ banner: '554 5.7.1 not you' });
  await examine(subject);
  await examine(subject);
  assert.equal(sink.connections.total, 2);
  assert.equal(asked('A mail.shop.example'), 2);
});

test('configured source addresses are checked', async (t) => {
  const { subject, asked } = await world(t);
  const { checks } = await examine({ ...subject, localAddresses: ['185.199.10.7'] });
  const status = (name: string) => checks.find((one) => one.name === name)?.status;
  assert.deepEqual([status('reverse DNS'), status('HELO name'), status('blocklist')], ['ok', 'ok', 'ok']);
  assert.equal(asked('A 7.10.199.185.list.example'), 1);
});

test('the relay is checked instead of the addresses if one is configured', async (t) => {
  const { sink, dns, subject } = await world(t);
  const config: Config = {
    ...subject.config,
    route: { kind: 'relay', relay: { host: '127.0.0.2', port: sink.port, implicitTls: false } },
  };
  const { checks } = await examine({ ...subject, config });
  assert.equal(checks.find(({ name }) => name === 'relay')?.status, 'ok');
  const others = ['reverse DNS', 'HELO name', 'blocklist', `port ${sink.port}`];
  assert.deepEqual(
    checks.filter(({ name }) => others.includes(name)),
    [],
  );
  assert.equal(dns.questions.filter((one) => one.startsWith('PTR')).length, 0);
});

test('the return path is compared with the source addresses, unless a relay sends', async (t) => {
  const { sink, dns, subject } = await world(t, { POSTRIDER_BOUNCE_DOMAIN: 'big.example' });
  dns.zone['big.example'] = { ...dns.zone['big.example'], TXT: ['v=spf1 ip4:185.199.10.7 -all'] };
  const bounces = async (config: Config) => {
    const { checks } = await examine({ ...subject, config, localAddresses: ['185.199.10.7', '185.199.10.8'] });
    return checks.filter(({ name }) => name === 'bounces').map(({ status, message }) => `${status}: ${message}`);
  };
  assert.deepEqual(await bounces(subject.config), [
    'warn: the SPF record of big.example does not include 185.199.10.8',
  ]);
  const relay = { host: '127.0.0.2', port: sink.port, implicitTls: false };
  const [, relayed] = await bounces({ ...subject.config, route: { kind: 'relay', relay } });
  assert.match(relayed!, /^skip: SPF of big\.example skipped/);
});

test('docs/guides/go-live.md names every check', async (t) => {
  const blobs = path.join(os.tmpdir(), 'blobs');
  const settings = { POSTRIDER_BOUNCE_DOMAIN: 'big.example', POSTRIDER_BLOB_URL: `file://${blobs}` };
  const { sink, subject } = await world(t, settings);
  const key = { algorithm: 'rsa', selector: 's', publicKey: 'v=DKIM1; k=rsa; p=', state: 'active' };
  const domain = { id: 'dom_1', domain: 'shop.example', status: 'verified', keys: [key] } as unknown as SenderDomain;
  const database = async () => ({ checks: [], facts: { ...FACTS, domains: [domain] } });
  const fallbackRoute = { host: '127.0.0.2', port: sink.port, implicitTls: false };
  const config: Config = { ...subject.config, fallbackRoute };
  const { checks } = await examine({ ...subject, config, database, localAddresses: ['185.199.10.7'] });
  const document = readFileSync(path.join(import.meta.dirname, '../../docs/guides/go-live.md'), 'utf8');
  const names = new Set(
    checks.map(({ name }) => name.replace(/^port \d+/, 'port 25').replace(/^domain .*/, 'domain …')),
  );
  assert.ok(names.size > 15, [...names].join(', '));
  for (const name of names) assert.ok(document.includes(`\`${name}\``), name);
});

test('a message retention shorter than the bounce period causes a warning', async (t) => {
  const { subject } = await world(t);
  const look = async (change: Partial<Config>): Promise<string[]> => {
    const config = { ...subject.config, bounceDomain: 'b.example', ...change };
    const { checks } = await examine({ ...subject, network: false, config });
    return checks.filter(({ name }) => name === 'retention').map(({ status, message }) => `${status}: ${message}`);
  };
  assert.deepEqual(await look({ eventDays: 90 }), []);
  for (const days of [89, 14]) {
    const warning = `warn: messages are stored for ${days} days: unsubscribe emails that arrive later have no effect`;
    assert.deepEqual(await look({ eventDays: days }), [warning]);
  }
  assert.match((await look({ eventDays: 13 }))[0]!, /^warn: .* bounces, complaints and unsubscribe emails/);
  assert.deepEqual(await look({ eventDays: 7, bounceDomain: undefined }), [], 'no inbound mail');
});

test('backups of a database server are not rated', () => {
  const config = readConfig({ POSTRIDER_DATABASE_URL: 'postgres://u@127.0.0.1/db' });
  assert.equal(checkBackup(config, FACTS, 0)[0]!.status, 'skip');
});

test('scheduled backups can miss one interval', () => {
  const config = readConfig({ POSTRIDER_BACKUP_URL: 'file:///mnt/backups', POSTRIDER_BACKUP_HOURS: '12' });
  const statusAfter = (hours: number | undefined): string => {
    const scheduledBackupMs = hours === undefined ? undefined : 0;
    return checkBackup(config, { ...FACTS, scheduledBackupMs }, (hours ?? 0) * 3_600_000)[0]!.status;
  };
  assert.deepEqual([undefined, 1, 24, 25].map(statusAfter), ['warn', 'ok', 'ok', 'warn']);
  assert.throws(
    () => readConfig({ POSTRIDER_BACKUP_URL: 'file:///mnt/backups', POSTRIDER_DATABASE_URL: 'postgres://u@db/x' }),
    /POSTRIDER_BACKUP_URL backs up the embedded database/,
  );
  assert.throws(() => readConfig({ POSTRIDER_BACKUP_URL: 's3://bucket' }), /POSTRIDER_BACKUP_URL=s3/);
});

test('the age of a backup is unknown if its time is in the future', () => {
  const checkOf = (settings: Record<string, string>, aheadMs: number) => {
    const facts = { ...FACTS, backedUpMs: aheadMs, scheduledBackupMs: aheadMs };
    return checkBackup(readConfig(settings), facts, 0)[0]!;
  };
  for (const settings of [{}, { POSTRIDER_BACKUP_URL: 'file:///mnt/backups' }]) {
    const { status, message } = checkOf(settings, 3_600_000);
    assert.equal(status, 'warn');
    assert.match(message, /is unknown, because its recorded time is in the future/);
    assert.equal(checkOf(settings, 600_000).status, 'ok', 'a small correction of the clock is ignored');
  }
});

test('TLS reports are checked, with the reason if they are not sent', () => {
  const config = readConfig({ POSTRIDER_REPORT_DOMAIN: 'shop.example' });
  const day = Date.UTC(2026, 10, 19);
  const resultOf = (facts: Parameters<typeof checkTlsReports>[1], of: Partial<Config> = {}): string => {
    const [check] = checkTlsReports({ ...config, ...of }, facts);
    return `${check!.status} ${check!.message}`;
  };
  const relay: Partial<Config> = { route: { kind: 'relay', relay: { host: 'x', port: 25, implicitTls: false } } };
  assert.match(resultOf(undefined, { reportDomain: undefined }), /^skip not sent: POSTRIDER_REPORT_DOMAIN is not set/);
  assert.match(resultOf({ isSigned: true, last: null }, relay), /^skip not sent: all mail goes to the relay/);
  assert.match(
    resultOf({ isSigned: false, last: null }),
    /^warn not sent: .* no account has shop\.example as a verified domain/,
  );
  assert.equal(resultOf({ isSigned: true, last: null }), 'ok sent from shop.example; none due yet');
  const counts = { sent: 3, 'not asked for': 40, waiting: 1, 'given up': 2 };
  assert.equal(
    resultOf({ isSigned: true, last: { day, counts } }),
    'ok sent from shop.example; of 2026-11-19: 3 sent, 1 pending, 2 abandoned, 40 domains request none',
  );
});

test('missing MTA-STS and TLS-RPT records of the return path are listed with their values', async (t) => {
  const MX: [number, string][] = [[10, 'mail.shop.example']];
  const dns = await fakeDns({
    'both.example': { MX },
    'wrong.example': { MX },
    'away.example': { MX },
    '_mta-sts.both.example': { TXT: ['v=STSv1; id=1;'] },
    '_smtp._tls.both.example': { TXT: ['v=TLSRPTv1; rua=mailto:a@both.example'] },
    '_smtp._tls.wrong.example': { TXT: ['v=TLSRPTv1; rua=nowhere'] },
    '_mta-sts.away.example': { fail: 'SERVFAIL' },
  });
  const resolver = openDns({ servers: [dns.server], timeoutMs: 500, tries: 1 });
  t.after(() => {
    resolver.close();
    return dns.close();
  });
  const checkOf = async (domain: string) => (await checkReturnPath(domain, resolver))[0]!;
  assert.equal((await checkOf('both.example')).status, 'ok');
  assert.equal((await checkOf('away.example')).status, 'skip');
  assert.deepEqual(await checkReturnPath('takes-none.example', resolver), []);
  const wrong = await checkOf('wrong.example');
  assert.equal(wrong.message, 'wrong.example has no record for MTA-STS and TLS-RPT');
  assert.match(
    wrong.remedy!,
    /^Publish _mta-sts\.wrong\.example TXT "v=STSv1; id=1;"\..* Publish _smtp\._tls\.wrong\.example TXT "v=TLSRPTv1; rua=mailto:postmaster@wrong\.example"\. .*syntax error/,
  );
});

test('the return path is checked if it is configured', async (t) => {
  for (const [settings, seen] of [
    [{}, false],
    [{ POSTRIDER_BOUNCE_DOMAIN: 'big.example' }, true],
  ] as const) {
    const { subject } = await world(t, settings);
    const { checks } = await examine(subject);
    assert.equal(
      checks.some(({ name }) => name === 'return path'),
      seen,
    );
  }
});
