/**
 * TLS reports from end to end: mail to servers whose TLS fails in every way, under every kind of policy, counted at the servers. After the
 * day the reports arrive at a real mail server and a real https server with the same numbers. mailauth checks their signature, and their
 * content is read without Postrider code.
 */
import assert from 'node:assert/strict';
import { createHash, X509Certificate } from 'node:crypto';
import { after, before, test } from 'node:test';
import tls from 'node:tls';
import { gunzipSync } from 'node:zlib';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { createAccount } from '../../src/accounts/accounts.ts';
import { silentLog } from '../../src/base/log.ts';
import { addDomain, signingAccountOperation } from '../../src/domains/domains.ts';
import { parseCidrs } from '../../src/net/address-guard.ts';
import { openDns } from '../../src/net/dns.ts';
import { openHttpClient } from '../../src/net/http-client.ts';
import type { Parts } from '../../src/roles/parts.ts';
import { createKeysFor } from '../../src/roles/tls-reports.ts';
import { createSystemMail, SYSTEM_ACCOUNT } from '../../src/send/send.ts';
import { openTlsPolicies } from '../../src/tls-policy/tls-policy.ts';
import { openTlsCounters, startReporter } from '../../src/tls-reports/tls-reports.ts';
import { testAddressHash } from '../kit/address-hash.ts';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type PolicyHosts, policyAnswer, policyHosts } from '../kit/policy-hosts.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { startTlsPeers, trustedCertificates } from '../kit/tls-peers.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

const HOUR = 3_600_000;
const SENDER = 'sender.example';

/** What a domain publishes, the expected report, and the expected number of connections at its server. */
interface Case {
  name: string;
  /** The MTA-STS policy, if it has one. */
  sts?: 'enforce' | 'testing';
  policy: 'sts' | 'tlsa' | 'no-policy-found';
  failure?: string;
  /** 2 if delivery falls back to plaintext after broken TLS; 0 if no connection is allowed. */
  connections: number;
}

const STS = { sts: 'enforce', policy: 'sts' } as const;
const NONE = { policy: 'no-policy-found' } as const;
/** Peers of test/kit/tls-peers.ts. */
const PEERS: Case[] = [
  { name: 'valid', ...STS, connections: 1 },
  { name: 'self-signed', ...STS, failure: 'certificate-not-trusted', connections: 1 },
  { name: 'wrong-name', ...STS, failure: 'certificate-host-mismatch', connections: 1 },
  { name: 'expired', ...STS, failure: 'certificate-expired', connections: 1 },
  { name: 'without', ...STS, failure: 'starttls-not-supported', connections: 1 },
  { name: 's454', ...STS, failure: 'starttls-not-supported', connections: 1 },
  { name: 'old', ...NONE, failure: 'validation-failure', connections: 2 },
  { name: 'alert', ...STS, sts: 'testing', failure: 'validation-failure', connections: 2 },
  { name: 'reset', ...NONE, failure: 'validation-failure', connections: 2 },
  { name: 'stalled', ...NONE, failure: 'validation-failure', connections: 2 },
  { name: 'garbage', ...NONE, failure: 'validation-failure', connections: 2 },
  { name: 's502', ...NONE, failure: 'starttls-not-supported', connections: 1 },
  { name: 's554', ...NONE, failure: 'starttls-not-supported', connections: 1 },
  { name: 'injected', ...NONE, failure: 'validation-failure', connections: 1 },
];
/** Servers with working TLS: something else is wrong, or nothing. */
const OTHERS: Case[] = [
  { name: 'fetch', policy: 'sts', failure: 'sts-policy-fetch-error', connections: 1 },
  { name: 'invalid', policy: 'sts', failure: 'sts-policy-invalid', connections: 1 },
  { name: 'webpki', policy: 'sts', failure: 'sts-webpki-invalid', connections: 1 },
  { name: 'unnamed', ...STS, failure: 'validation-failure', connections: 0 },
  { name: 'unnamed-testing', sts: 'testing', policy: 'sts', failure: 'validation-failure', connections: 1 },
  { name: 'opportunistic', ...NONE, connections: 1 },
  { name: 'dane', policy: 'tlsa', connections: 1 },
  { name: 'dane-other', policy: 'tlsa', failure: 'validation-failure', connections: 1 },
  { name: 'dane-unusable', policy: 'tlsa', failure: 'tlsa-invalid', connections: 1 },
  { name: 'dane-withheld', policy: 'tlsa', failure: 'dnssec-invalid', connections: 0 },
];
const CASES = [...PEERS, ...OTHERS];

interface Written {
  'report-id': string;
  policies: {
    policy: { 'policy-type': string; 'policy-string'?: string[]; 'policy-domain': string; 'mx-host'?: string[] };
    summary: Record<'total-successful-session-count' | 'total-failure-session-count', number>;
    'failure-details'?: Record<string, string | number>[];
  }[];
}

let dns: FakeDns;
let hosts: PolicyHosts;
let receivers: Awaited<ReturnType<typeof startTlsPeers>>;
let collector: SmtpSink;
let httpsCollector: WebhookCatcher;
const sinks = new Map<string, SmtpSink>();
const addresses = new Map<string, string>();

const certificateOf = (name: string) => testCertificate([`mx.${name}.example`]);

// Before the first connection that is checked: the CAs are read once. The server that its policy does not name is otherwise correct.
const trusted = [...trustedCertificates(), certificateOf('unnamed-testing').cert];
tls.setDefaultCACertificates([...tls.getCACertificates(), ...trusted]);

function tlsaOf(name: string): string {
  const { publicKey } = new X509Certificate(certificateOf(name).cert);
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex');
}

before(async () => {
  dns = await fakeDns();
  receivers = await startTlsPeers();
  const { port } = receivers;
  for (const { name, address, sink } of receivers.peers) {
    sinks.set(name, sink);
    addresses.set(name, address);
  }
  for (const [index, { name }] of OTHERS.entries()) {
    const host = `127.0.4.${index + 1}`;
    sinks.set(name, await smtpSink({ tls: 'starttls', certificate: certificateOf(name), host, port }));
    addresses.set(name, host);
  }
  // Where the reports are sent: its policy is enforced, and it has no TLS.
  collector = await smtpSink({ host: '127.0.5.1', port });
  httpsCollector = await webhookCatcher({ certificate: testCertificate(['reports.example']), host: '127.0.5.2' });
  const domains = [...CASES.filter(({ sts }) => sts).map(({ name }) => name), 'collector', 'fetch', 'invalid'];
  hosts = await policyHosts({ good: domains.map((name) => `${name}.example`), expired: 'webpki.example' });
  publish();
});

function publish(): void {
  const zone: FakeDns['zone'] = {
    'reports.example': { A: ['127.0.5.2'] },
  };
  for (const { name, sts, policy } of [...CASES, { name: 'collector', ...STS }]) {
    const [domain, exchanger] = [`${name}.example`, `mx.${name}.example`];
    const secure = policy === 'tlsa';
    zone[domain] = { MX: [[10, exchanger]], secure };
    zone[exchanger] = { A: [addresses.get(name) ?? collector.host], secure };
    zone[`_smtp._tls.${domain}`] = { TXT: ['v=TLSRPTv1; rua=mailto:tls@collector.example'], ttl: 1 };
    if (policy !== 'sts') continue;
    zone[`mta-sts.${domain}`] = { A: [hosts.addressOf(domain)] };
    zone[`_mta-sts.${domain}`] = { TXT: ['v=STSv1; id=1;'] };
    const mx = name.startsWith('unnamed') ? 'mx.elsewhere.example' : exchanger;
    if (sts) hosts.answers.set(domain, policyAnswer({ mode: sts, mx: [mx] }));
  }
  hosts.answers.set('invalid.example', { headers: { 'content-type': 'text/plain' }, body: 'version: STSv2\n' });
  const { port } = receivers;
  const tlsa = (name: string) => `_${port}._tcp.mx.${name}.example`;
  zone[tlsa('dane')] = { TLSA: [[3, 1, 1, tlsaOf('dane')]], secure: true };
  zone[tlsa('dane-other')] = { TLSA: [[3, 1, 1, tlsaOf('dane')]], secure: true };
  zone[tlsa('dane-unusable')] = { TLSA: [[1, 1, 1, tlsaOf('dane-unusable')]], secure: true };
  zone[tlsa('dane-withheld')] = { fail: 'SERVFAIL' };
  const both = `mailto:tls@collector.example,https://reports.example:${httpsCollector.port}/tls`;
  zone['_smtp._tls.valid.example'] = { TXT: [`v=TLSRPTv1; rua=${both}`], ttl: 1 };
  zone['_smtp._tls.mx.dane.example'] = { TXT: ['v=TLSRPTv1; rua=mailto:tls@collector.example'], ttl: 1 };
  Object.assign(dns.zone, zone);
}

after(async () => {
  await Promise.all([dns?.close(), hosts?.close(), receivers?.close(), collector?.close(), httpsCollector?.close()]);
  for (const { name } of OTHERS) await sinks.get(name)?.close();
});

async function world() {
  const allowed = parseCidrs('127.0.0.0/8');
  assert.ok(allowed.ok);
  const allow = allowed.cidrs;
  const resolver = openDns({ servers: [dns.server] });
  const late: { policies?: ReturnType<typeof openTlsPolicies>; keysFor?: ReturnType<typeof createKeysFor> } = {};
  const rig = await deliveryRig({
    routing: {
      route: { kind: 'mx' },
      dns: resolver,
      mxPort: receivers.port,
      mxAllow: allow,
      policies: { ofDomain: (domain) => late.policies!.ofDomain(domain) },
    },
    deps: {
      timeouts: { tlsMs: 1_500 },
      keysFor: async (accountId, domain) =>
        accountId === SYSTEM_ACCOUNT ? late.keysFor!(accountId, domain) : undefined,
    },
  });
  const { clock, storage, blobs } = rig;
  const { database } = storage;
  const log = silentLog;
  const secretKey = Buffer.alloc(32, 7);
  const config = { reportDomain: SENDER, smtpHostname: 'postrider.test' };
  late.keysFor = createKeysFor({ config, database, clock, secretKey } as unknown as Parts);
  const counters = openTlsCounters({ database, clock, log });
  const { count } = counters;
  late.policies = openTlsPolicies({ database, dns: resolver, clock, log, allow, https: hosts.https, count });
  const onAccepted = (): void => rig.delivery.nudge();
  const mail = createSystemMail({
    database,
    blobs,
    clock,
    log,
    addressHash: testAddressHash,
    hostnames: ['postrider.test'],
    baseUrl: undefined,
    onAccepted,
  });
  const http = openHttpClient({ lookup: resolver.lookupHost, allow, ca: testCertificate(['reports.example']).cert });
  const reporter = startReporter({
    database,
    clock,
    log,
    dns: resolver,
    http,
    submitter: SENDER,
    sendMail: mail.sendReport,
    roundMs: 1e9,
    isVerified: async () => (await database.execute(signingAccountOperation, SENDER)) !== null,
  });
  return {
    rig,
    verifySender: async () => {
      const { account } = await createAccount({ database, clock }, { name: 'Operator', plan: 'paid' });
      const added = await addDomain(
        { database, clock, secretKey },
        { accountId: account.id, domain: SENDER, verified: true },
      );
      assert.ok(added.ok);
      rig.tamper('UPDATE dkim_key SET published_at = 1');
    },
    /** Waits for the first outcome. */
    send: async (to: string) => {
      const [id] = await rig.send({ to: [to] });
      await waitUntil(`an outcome for ${to}`, () => rig.events(id!).find((one) => one.type !== 'Send'), 20_000);
    },
    /** Four hours after the end of the day. */
    nextDay: async () => {
      await counters.run();
      clock.set(clock.now() - (clock.now() % (24 * HOUR)) + 28 * HOUR);
    },
    report: reporter.run,
    close: async () => {
      await Promise.all([reporter.stop(), rig.delivery.stop()]);
      await counters.stop();
      await rig.close();
      await Promise.all([late.policies!.stop(), http.close()]);
      resolver.close();
    },
  };
}

/** Returns the body of the part with this type. */
function partOf(mail: string, type: string): string {
  const part = mail
    .split(/\r\n--=_[^\r]+/)
    .find((one) => new RegExp(`^\r\nContent-Type: ${type.replace('+', '\\+')}`, 'm').test(one));
  assert.ok(part, `a part of type ${type}`);
  return part.slice(part.indexOf('\r\n\r\n') + 4);
}

function reportIn(mail: Buffer): Written {
  const part = partOf(mail.toString('latin1'), 'application/tlsrpt+gzip');
  return JSON.parse(gunzipSync(Buffer.from(part, 'base64')).toString()) as Written;
}

const domainOf = (report: Written): string => /^\d{4}-\d\d-\d\d\.(.*)@sender\.example$/.exec(report['report-id'])![1]!;

test('reports count every TLS failure as the server saw it; report mail ignores TLS failures and is never counted', async (t) => {
  const { rig, verifySender, send, nextDay, report, close } = await world();
  t.after(close);

  // The first day: of two messages to one domain, the second uses the session of the first.
  for (const { name } of CASES) await send(`one@${name}.example`);
  await send('two@valid.example');
  await send('two@opportunistic.example');
  const seen = Object.fromEntries(CASES.map(({ name }) => [name, sinks.get(name)!.connections.total]));
  assert.deepEqual(seen, Object.fromEntries(CASES.map(({ name, connections }) => [name, connections])));
  assert.equal(sinks.get('valid')!.messages.length, 2);

  await nextDay();
  await report();
  assert.equal(collector.connections.total, 0, 'the domain that reports come from is not verified');
  await verifySender();
  await report();
  // One per domain, and one for an MX host with its own report address.
  const wanted = CASES.length + 1;
  await waitUntil('the reports', () => collector.messages.length >= wanted, 30_000);
  await report();
  assert.equal(collector.messages.length, wanted);
  const written = new Map(collector.messages.map(({ content }) => [domainOf(reportIn(content)), reportIn(content)]));
  assert.equal(written.size, wanted);
  for (const one of CASES) assertReport(one, written.get(`${one.name}.example`)!);
  assert.deepEqual(written.get('mx.dane.example')!.policies, written.get('dane.example')!.policies);

  assert.equal(httpsCollector.requests.length, 1);
  const [posted] = httpsCollector.requests;
  assert.equal(posted!.headers['content-type'], 'application/tlsrpt+gzip');
  assert.deepEqual(JSON.parse(gunzipSync(posted!.bytes).toString()), written.get('valid.example'));

  const keys = rig.rows<{ selector: string; record: string }>('SELECT selector, public_key AS record FROM dkim_key');
  for (const message of collector.messages) await assertMail(message, keys);

  // As after a crash before the acceptance of the reports was recorded: they are accepted once.
  rig.tamper("UPDATE tls_report SET next_at = 0, outcome = NULL, served = '[]'");
  await report();
  assert.equal(rig.rows('SELECT 1 FROM tls_report WHERE outcome IS NULL').length, 0, 'all are created again');
  assert.equal(rig.rows(`SELECT 1 FROM email WHERE account_id = '${SYSTEM_ACCOUNT}'`).length, wanted);
  assert.equal(httpsCollector.requests.length, 2, 'https identifies a report only by its id');

  // The second day: reports were sent, and one other message to the report domain.
  await send('one@collector.example');
  await nextDay();
  await report();
  await waitUntil('its report', () =>
    collector.messages.some(({ content }) => domainOf(reportIn(content)) === 'collector.example'),
  );
  const [own] = collector.messages
    .map(({ content }) => reportIn(content))
    .filter((one) => domainOf(one) === 'collector.example');
  assert.deepEqual(own!.policies[0]!.summary, {
    'total-successful-session-count': 0,
    'total-failure-session-count': 1,
  });
});

function assertReport({ name, policy, failure }: Case, report: Written): void {
  assert.ok(report, name);
  assert.equal(report.policies.length, 1, name);
  const [result] = report.policies;
  assert.equal(result!.policy['policy-type'], policy, name);
  const isDane = policy === 'tlsa';
  assert.equal(result!.policy['policy-domain'], isDane ? `mx.${name}.example` : `${name}.example`);
  const summary = { 'total-successful-session-count': failure ? 0 : 1, 'total-failure-session-count': failure ? 1 : 0 };
  assert.deepEqual(result!.summary, summary, name);
  if (name === 'dane') assert.deepEqual(result!.policy['policy-string'], [`3 1 1 ${tlsaOf('dane')}`]);
  if (name === 'valid') {
    const lines = ['version: STSv1', 'mode: enforce', 'mx: mx.valid.example', 'max_age: 604800'];
    assert.deepEqual(result!.policy['policy-string'], lines);
    assert.deepEqual(result!.policy['mx-host'], ['mx.valid.example']);
  }
  if (!failure) {
    assert.equal(result!['failure-details'], undefined, name);
    return;
  }
  assert.equal(result!['failure-details']!.length, 1, name);
  const { 'failure-reason-code': reason, ...detail } = result!['failure-details']![0]!;
  const isDialled = sinks.get(name)!.connections.total > 0;
  assert.deepEqual(
    detail,
    {
      'result-type': failure,
      ...(isDialled && { 'sending-mta-ip': detail['sending-mta-ip'] }),
      'receiving-mx-hostname': `mx.${name}.example`,
      ...(isDialled && { 'receiving-ip': addresses.get(name) }),
      'failed-session-count': 1,
    },
    name,
  );
  if (isDialled) assert.ok(sinks.get(name)!.connections.from.includes(String(detail['sending-mta-ip'])), name);
  assert.match(String(reason), /\w+ \w+/, name);
}

/** RFC 8460 §5.3, and its signature. */
async function assertMail(
  { content, from, tls: version }: SmtpSink['messages'][number],
  keys: { selector: string; record: string }[],
): Promise<void> {
  const report = reportIn(content);
  const domain = domainOf(report);
  const mail = content.toString('latin1');
  const header = mail.slice(0, mail.indexOf('\r\n\r\n')).replace(/\r\n(?=[ \t])/g, '');
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(header)?.[1]?.trim();
  assert.equal(version, undefined, 'it is sent in plaintext if necessary');
  assert.equal(from, `postmaster@${SENDER}`);
  assert.equal(field('From'), `postmaster@${SENDER}`);
  assert.equal(field('TLS-Report-Domain'), domain);
  assert.equal(field('TLS-Report-Submitter'), SENDER);
  assert.equal(field('TLS-Required'), 'No');
  assert.equal(field('Subject'), `Report Domain: ${domain} Submitter: ${SENDER} Report-ID: <${report['report-id']}>`);
  assert.match(field('Content-Type')!, /^multipart\/report; report-type="tlsrpt"; boundary="/);
  assert.match(partOf(mail, 'text/plain; charset=utf-8'), /TLS results of .* with the mail servers of /);
  const file = new RegExp(`filename="${SENDER}!${domain.replaceAll('.', '\\.')}!\\d{10}!\\d{10}\\.json\\.gz"`);
  assert.match(mail, file);
  const resolver = async (name: string): Promise<string[][]> => {
    const key = keys.find(({ selector }) => name === `${selector}._domainkey.${SENDER}`);
    return [[key?.record ?? 'v=DKIM1; p=']];
  };
  const { results } = await dkimVerify(content, { resolver });
  const verdicts = results.map(({ status, signingDomain }) => [status.result, signingDomain]);
  assert.deepEqual(verdicts, [
    ['pass', SENDER],
    ['pass', SENDER],
  ]);
}
