/**
 * Debian's Postfix and Postrider as senders to the same servers, under the same policies of the recipients' domains: DANE in zones signed
 * by Knot and validated by Unbound, and MTA-STS, which Postfix reads from a policy table. Either both deliver, or neither does. Counted at
 * the servers. Known differences are listed with their reason.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import tls from 'node:tls';
import { silentLog } from '../../src/base/log.ts';
import { parseCidrs } from '../../src/net/address-guard.ts';
import { openDns } from '../../src/net/dns.ts';
import { openSmtpSession } from '../../src/net/smtp-client.ts';
import { openTlsPolicies } from '../../src/tls-policy/tls-policy.ts';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { fakeDns } from '../kit/fake-dns.ts';
import { policyAnswer, policyHosts } from '../kit/policy-hosts.ts';
import { missing, notAllowed } from '../kit/requirements.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { startTlsPeers, trustedCertificates } from '../kit/tls-peers.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { daneRig, type Fate, fateAt, startDanePeers } from './dane-peers.ts';
import { peerFolder } from './peer-process.ts';
import { noPrivateDns } from './private-dns.ts';
import { type PrivatePostfix, startPostfix } from './private-postfix.ts';

const skip =
  missing('postfix', 'openssl', 'unshare') ||
  noPrivateDns() ||
  (process.getuid?.() === 0 ? false : 'a private Postfix needs root') ||
  notAllowed('mount file systems', () => void execFileSync('unshare', ['--mount', 'true'], { stdio: 'pipe' }));

/** For a server that its domain's policy does not name. */
const UNNAMED = testCertificate(['mx.unnamed.example']);
const TRUSTED = [...trustedCertificates(), UNNAMED.cert];

// Before the first verified connection: the CAs are read once.
tls.setDefaultCACertificates([...tls.getCACertificates(), ...TRUSTED]);

const SENDING = {
  smtp_tls_protocols: '>=TLSv1.2',
  mynetworks: '127.0.0.0/8',
  smtpd_relay_restrictions: 'permit_mynetworks, reject_unauth_destination',
  smtp_starttls_timeout: '5s',
  smtp_tls_loglevel: '1',
};

/** Where Postfix differs, and why Postrider does not do the same. */
const DIFFERENCES: Record<string, { postfix: PostfixFate; ours: Fate; why: string }> = {
  s502: {
    postfix: 'bounces',
    ours: 'waits',
    why: 'a TLS rejection does not concern the recipient and can be fixed',
  },
  s554: { postfix: 'bounces', ours: 'waits', why: 'the same' },
};

async function sendBy(postfix: PrivatePostfix, recipients: string[]): Promise<void> {
  const opened = await openSmtpSession({
    host: 'localhost',
    addresses: ['127.0.0.1'],
    port: postfix.port,
    helo: 'tester.example',
    tls: 'never',
    verifyCertificate: false,
  });
  assert.ok(opened.ok, JSON.stringify(opened));
  const content = Buffer.from('From: a@shop.example\r\nSubject: x\r\n\r\nhello\r\n');
  for (const recipient of recipients) {
    const sent = await opened.session.send({
      mailFrom: 'a@shop.example',
      recipients: [recipient],
      content,
      sizeBytes: content.length,
      smtpUtf8: false,
      eightBit: false,
    });
    assert.equal(sent.recipients[0]!.accepted, true, JSON.stringify(sent));
  }
  await opened.session.quit();
}

/** The result of Postfix's first attempt: counted at the server, and read from its log. */
async function fateBy(
  postfix: PrivatePostfix,
  { sink, recipient }: { sink: SmtpSink; recipient: string },
): Promise<{ fate: PostfixFate; said: string }> {
  const said = await statusBy(postfix, recipient);
  const fate = fateAt(sink, recipient);
  if (fate !== 'waits') assert.match(said, /^sent /, recipient);
  else assert.match(said, /^(deferred|bounced) /, recipient);
  return { fate: said.startsWith('bounced') ? 'bounces' : fate, said };
}

function statusBy(postfix: PrivatePostfix, recipient: string): Promise<string> {
  const line = new RegExp(`to=<${recipient}>.* status=(\\w+) (.*)`);
  return waitUntil(`Postfix to try ${recipient}`, () => line.exec(postfix.log())?.slice(1).join(' '), 60_000);
}

type PostfixFate = Fate | 'bounces';

interface Row {
  name: string;
  postfix: PostfixFate;
  ours: Fate;
  said: { postfix: string; ours: string };
}

function compare(t: TestContext, rows: Row[]): void {
  const cell = (text: string): string => text.padEnd(16);
  t.diagnostic(`${cell('server')}${cell('Postfix')}${cell('Postrider')}`);
  for (const { name, postfix, ours } of rows) t.diagnostic(`${cell(name)}${cell(postfix)}${cell(ours)}`);
  const isExplained = ({ name, postfix, ours }: Row): boolean => {
    const { postfix: known = ours, ours: knownOurs = ours } = DIFFERENCES[name] ?? {};
    return postfix === known && ours === knownOurs;
  };
  assert.deepEqual(
    rows.filter((row) => !isExplained(row)),
    [],
  );
  assert.ok(
    rows.some(({ ours }) => ours === 'waits') && rows.some(({ ours }) => ours === 'encrypted'),
    'both are there',
  );
}

test('DANE: both deliver, or neither', { skip, timeout: 240_000 }, async (t) => {
  const resolverAddress = `127.53.${randomInt(256)}.${randomInt(1, 255)}`;
  const servers = await startDanePeers({ resolverAddress });
  t.after(() => servers.close());
  const { port, peers, zones } = servers;
  const cells = [
    ...peers.map(({ name, sink }) => ({ name, domain: `${name}.good.test`, sink })),
    { name: 'not signed', domain: 'plain.test', sink: peers[0]!.sink },
    { name: 'bogus', domain: 'bogus.test', sink: peers[0]!.sink },
  ];
  const routes = cells.map(({ domain }) => `{ ${domain} = smtp:${domain}:${port} }`);
  const postfix = await startPostfix({
    domain: 'mailboxes.example',
    users: [],
    resolverAddress,
    settings: {
      ...SENDING,
      smtp_tls_security_level: 'dane',
      smtp_dns_support_level: 'dnssec',
      smtp_host_lookup: 'dns',
      // With a port, and still with an MX lookup.
      transport_maps: `inline:{ ${routes.join(', ')} }`,
    },
  });
  t.after(() => postfix.stop());
  const ours = await daneRig(zones.resolver, port);
  t.after(ours.close);
  await sendBy(
    postfix,
    cells.map(({ domain }) => `postfix@${domain}`),
  );
  const rows: Row[] = [];
  for (const { name, domain, sink } of cells) {
    const { attempt } = await ours.outcomeOf(`ours@${domain}`);
    const by = await fateBy(postfix, { sink, recipient: `postfix@${domain}` });
    const said = { postfix: by.said, ours: String(attempt.reply) };
    rows.push({ name, postfix: by.fate, ours: fateAt(sink, `ours@${domain}`), said });
  }
  compare(t, rows);
});

test('enforced MTA-STS: both deliver, or neither', { skip, timeout: 240_000 }, async (t) => {
  const receivers = await startTlsPeers();
  t.after(() => receivers.close());
  const { port, peers } = receivers;
  const host = '127.0.1.200';
  const sink = await smtpSink({ tls: 'starttls', certificate: UNNAMED, host, port });
  t.after(() => sink.close());
  const peer = { exchanger: 'mx.unnamed.example', address: host, sink };
  const unnamed = { name: 'not named', domain: 'unnamed.example', named: 'mx.other.example', peer };
  const cells = [
    ...peers.map((peer) => ({ name: peer.name, domain: peer.domain, named: peer.exchanger, peer })),
    unnamed,
  ];
  const hosts = await policyHosts({ good: cells.map(({ domain }) => domain) });
  t.after(() => hosts.close());
  const dns = await fakeDns({});
  t.after(() => dns.close());
  for (const { domain, named, peer } of cells) {
    hosts.answers.set(domain, policyAnswer({ mode: 'enforce', mx: [named] }));
    dns.zone[`mta-sts.${domain}`] = { A: [hosts.addressOf(domain)] };
    dns.zone[`_mta-sts.${domain}`] = { TXT: ['v=STSv1; id=1;'] };
    dns.zone[domain] = { MX: [[10, peer.exchanger]] };
    dns.zone[peer.exchanger] = { A: [peer.address] };
  }
  const folder = peerFolder('authorities');
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(path.join(folder, 'authorities.pem'), TRUSTED.join('\n'));
  const routes = cells.map(({ domain, peer }) => `{ ${domain} = smtp:[${peer.address}]:${port} }`);
  // Answers as a policy server for Postfix does.
  const answers = cells.map(
    ({ peer, named }) => `[${peer.address}]:${port} secure match=${named} servername=hostname\n`,
  );
  writeFileSync(path.join(folder, 'policies'), answers.join(''));
  const postfix = await startPostfix({
    domain: 'mailboxes.example',
    users: [],
    settings: {
      ...SENDING,
      transport_maps: `inline:{ ${routes.join(', ')} }`,
      smtp_tls_security_level: 'may',
      smtp_tls_CAfile: path.join(folder, 'authorities.pem'),
      smtp_tls_policy_maps: `texthash:${path.join(folder, 'policies')}`,
    },
  });
  t.after(() => postfix.stop());
  const allowed = parseCidrs('127.0.0.0/8');
  assert.ok(allowed.ok);
  const allow = allowed.cidrs;
  const resolver = openDns({ servers: [dns.server] });
  let policies: ReturnType<typeof openTlsPolicies>;
  const rig = await deliveryRig({
    routing: {
      route: { kind: 'mx' },
      dns: resolver,
      mxPort: port,
      mxAllow: allow,
      policies: { ofDomain: (domain) => policies.ofDomain(domain) },
    },
    deps: { timeouts: { tlsMs: 5_000 } },
  });
  const { database } = rig.storage;
  policies = openTlsPolicies({ database, dns: resolver, clock: rig.clock, log: silentLog, allow, https: hosts.https });
  t.after(async () => {
    await rig.close();
    await policies.stop();
    resolver.close();
  });
  await sendBy(
    postfix,
    cells.map(({ domain }) => `postfix@${domain}`),
  );
  const rows: Row[] = [];
  for (const { name, domain, peer } of cells) {
    const [id] = await rig.send({ to: [`ours@${domain}`] });
    await waitUntil(`an outcome for ${domain}`, () => rig.events(id!).find((one) => one.type !== 'Send'));
    const { sink } = peer;
    const by = await fateBy(postfix, { sink, recipient: `postfix@${domain}` });
    const said = { postfix: by.said, ours: String(rig.attempts(id!)[0]!.reply) };
    rows.push({ name, postfix: by.fate, ours: fateAt(sink, `ours@${domain}`), said });
  }
  compare(t, rows);
});
