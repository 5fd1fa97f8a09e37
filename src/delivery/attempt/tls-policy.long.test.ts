/**
 * Messages to servers with good and bad TLS if the recipient's domain has a policy (MTA-STS), counted at the servers: the same fourteen as
 * in tls-ladder.long.test.ts, with policies from a real policy host.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import tls from 'node:tls';
import { deliveryRig, type Rig } from '../../../test/kit/delivery-rig.ts';
import { type FakeDns, fakeDns } from '../../../test/kit/fake-dns.ts';
import { type PolicyHosts, policyAnswer, policyHosts } from '../../../test/kit/policy-hosts.ts';
import { type Fate, fateAt, startTlsPeers, type TlsPeer, trustedCertificates } from '../../../test/kit/tls-peers.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { silentLog } from '../../base/log.ts';
import { parseCidrs } from '../../net/address-guard.ts';
import { openDns } from '../../net/dns.ts';
import { openTlsPolicies } from '../../tls-policy/tls-policy.ts';

// Before the first checked connection: the CAs are read once.
tls.setDefaultCACertificates([...tls.getCACertificates(), ...trustedCertificates()]);

let dns: FakeDns;
let hosts: PolicyHosts;
let receivers: Awaited<ReturnType<typeof startTlsPeers>>;

before(async () => {
  receivers = await startTlsPeers();
  const domains = [...receivers.peers.map(({ domain }) => domain), 'unnamed.example'];
  hosts = await policyHosts({ good: domains });
  dns = await fakeDns({ 'unnamed.example': { MX: [[10, 'mx.valid.example']] } });
  for (const domain of domains) {
    dns.zone[`mta-sts.${domain}`] = { A: [hosts.addressOf(domain)] };
    dns.zone[`_mta-sts.${domain}`] = { TXT: ['v=STSv1; id=1;'] };
  }
  for (const { domain, exchanger, address } of receivers.peers) {
    dns.zone[domain] = { MX: [[10, exchanger]] };
    dns.zone[exchanger] = { A: [address] };
  }
});

after(async () => {
  await dns?.close();
  await hosts?.close();
  await receivers?.close();
});

interface PolicyRig extends Rig {
  /** Sends one message, and returns its first outcome. */
  outcomeOf(to: string, requireTls?: boolean | 'verified', further?: { tlsOptional: true }): Promise<Outcome>;
}

interface Outcome {
  type: string;
  id: string;
  detail: Record<string, unknown>;
  attempt: Record<string, unknown>;
}

/** Returns a delivery whose domains have this policy. */
async function policyRig(mode: 'enforce' | 'testing'): Promise<PolicyRig> {
  for (const { domain, exchanger } of receivers.peers)
    hosts.answers.set(domain, policyAnswer({ mode, mx: [exchanger] }));
  hosts.answers.set('unnamed.example', policyAnswer({ mode, mx: ['mx.other.example'] }));
  const allowed = parseCidrs('127.0.0.0/8');
  assert.ok(allowed.ok);
  const allow = allowed.cidrs;
  const resolver = openDns({ servers: [dns.server] });
  let policies: ReturnType<typeof openTlsPolicies>;
  const rig = await deliveryRig({
    routing: {
      route: { kind: 'mx' },
      dns: resolver,
      mxPort: receivers.port,
      mxAllow: allow,
      policies: { ofDomain: (domain) => policies.ofDomain(domain) },
    },
    deps: { timeouts: { tlsMs: 5_000 } },
  });
  const { database } = rig.storage;
  policies = openTlsPolicies({ database, dns: resolver, clock: rig.clock, log: silentLog, allow, https: hosts.https });
  return {
    ...rig,
    get delivery() {
      return rig.delivery;
    },
    outcomeOf: async (to, requireTls = false, further = undefined) => {
      const [id] = await rig.send({ to: [to], options: { requireTls, ...further } });
      const event = await waitUntil(`an outcome for ${to}`, () => rig.events(id!).find((one) => one.type !== 'Send'));
      const attempt = rig.attempts(id!).at(-1) as unknown as Record<string, unknown>;
      return { type: event.type, id: id!, detail: Object.values(event.detail)[0]!, attempt };
    },
    close: async () => {
      await rig.close();
      await policies.stop();
      resolver.close();
    },
  };
}

const mailAt = (peer: TlsPeer): number => peer.sink.commands.filter((line) => line.startsWith('MAIL')).length;

/** An enforced policy requires a valid certificate; one in testing changes nothing. */
const FATES = {
  enforce: (peer: TlsPeer): Fate => (peer.name === 'valid' ? 'encrypted' : 'waits'),
  testing: (peer: TlsPeer): Fate => peer.fates.false,
};

for (const mode of ['enforce', 'testing'] as const) {
  test(`policies in mode ${mode}: each server gets exactly the expected messages`, async (t) => {
    const rig = await policyRig(mode);
    t.after(() => rig.close());
    const before = new Map(receivers.peers.map((peer) => [peer, mailAt(peer)]));
    await Promise.all(
      receivers.peers.map(async (peer) => {
        const { name } = peer;
        const recipient = `${mode}@${peer.domain}`;
        const { type, attempt, detail } = await rig.outcomeOf(recipient);
        const wanted = FATES[mode](peer);
        assert.equal(fateAt(peer, recipient), wanted, `${name}: ${attempt.reply}`);
        assert.equal(type, wanted === 'waits' ? 'DeliveryDelay' : 'Delivery', name);
        assert.equal(attempt.tlsPolicy, mode === 'enforce' ? 'mta-sts' : 'mta-sts-testing', name);
        if (wanted === 'encrypted') {
          assert.equal(attempt.tls, 'TLSv1.3');
          assert.match(String(attempt.tlsCipher), /^TLS_/);
          assert.equal(attempt.tlsPeerName, name === 'wrong-name' ? 'mx.somewhere-else.example' : peer.exchanger);
        }
        if (wanted !== 'waits') return;
        assert.equal(mailAt(peer), before.get(peer), `${name}: no envelope is sent`);
        assert.equal(detail.category, 'tls', name);
        if (mode === 'enforce' && name !== 'injected') {
          assert.match(String(attempt.reply), new RegExp(`the MTA-STS policy of ${peer.domain} requires TLS`), name);
          assert.equal(detail.owner, 'remote');
          assert.match(String(detail.advice), /domain requires TLS/);
        }
        assert.doesNotMatch(String(attempt.reply), /error:|routines|ssl3/, name);
      }),
    );
  });
}

test('certificate and STARTTLS failures are reported with a readable reason', async (t) => {
  const rig = await policyRig('enforce');
  t.after(() => rig.close());
  const words: [string, RegExp][] = [
    [
      'wrong-name',
      /requires TLS with a certificate for mx\.wrong-name\.example, but the certificate is for mx\.somewhere-else\.example$/,
    ],
    ['self-signed', /, but the certificate is self-signed$/],
    ['expired', /, but the certificate has expired$/],
    ['without', /policy of without\.example requires TLS; mx\.without\.example does not offer STARTTLS/],
    ['s454', /requires TLS; .*454 4\.7\.0 TLS not available/],
    ['old', /requires TLS; the server only supports outdated TLS versions/],
  ];
  for (const [name, pattern] of words) {
    const { attempt } = await rig.outcomeOf(`words@${name}.example`);
    assert.match(String(attempt.reply), pattern);
  }
});

test('an MX host outside the policy gets no messages, unless the policy is in testing mode', async (t) => {
  const peer = receivers.peers.find((one) => one.name === 'valid')!;
  const before = mailAt(peer);
  const enforced = await policyRig('enforce');
  t.after(() => enforced.close());
  const { type, id, detail, attempt } = await enforced.outcomeOf('a@unnamed.example');
  assert.deepEqual([type, attempt.tlsPolicy], ['DeliveryDelay', 'mta-sts']);
  assert.match(String(detail.reply), /policy of unnamed\.example does not name mx\.valid\.example/);
  assert.equal(mailAt(peer), before);
  enforced.clock.advance(73 * 3_600_000);
  const bounce = await waitUntil('a bounce', () => enforced.events(id).find((one) => one.type === 'Bounce'));
  assert.equal(bounce.detail.bounce!.category, 'expired');
  assert.equal(mailAt(peer), before);
  const testing = await policyRig('testing');
  t.after(() => testing.close());
  assert.equal((await testing.outcomeOf('b@unnamed.example')).type, 'Delivery');
});

test('a verifying policy satisfies messages that require a certificate, and TLS alone does not', async (t) => {
  const rig = await policyRig('enforce');
  t.after(() => rig.close());
  assert.equal((await rig.outcomeOf('c@valid.example', 'verified')).type, 'Delivery');
  assert.equal((await rig.outcomeOf('d@valid.example')).type, 'Delivery');
  assert.equal((await rig.outcomeOf('e@self-signed.example', true)).type, 'DeliveryDelay');
});

test('a session opened for a domain without a policy is not reused for one with a policy', async (t) => {
  const rig = await policyRig('enforce');
  t.after(() => rig.close());
  const peer = receivers.peers.find((one) => one.name === 'self-signed')!;
  dns.zone['no-policy.example'] = { MX: [[10, peer.exchanger]] };
  const before = peer.sink.connections.total;
  assert.equal((await rig.outcomeOf('f@no-policy.example')).type, 'Delivery');
  assert.equal((await rig.outcomeOf('g@no-policy.example')).type, 'Delivery');
  assert.equal(peer.sink.connections.total, before + 1, 'the session stays open');
  const mails = mailAt(peer);
  const { type, attempt } = await rig.outcomeOf('h@self-signed.example');
  assert.equal(type, 'DeliveryDelay');
  assert.match(String(attempt.reply), /the certificate is self-signed/);
  assert.equal(mailAt(peer), mails);
});

test('REQUIRETLS is passed on to a verified server that offers it', async (t) => {
  const rig = await policyRig('enforce');
  t.after(() => rig.close());
  const peer = receivers.peers.find((one) => one.name === 'valid')!;
  peer.sink.setScript({ ehlo: '250-sink\r\n250-STARTTLS\r\n250 REQUIRETLS' });
  t.after(() => peer.sink.setScript({}));
  const parametersOf = async (to: string, requireTls: boolean | 'verified'): Promise<string> => {
    assert.equal((await rig.outcomeOf(to, requireTls)).type, 'Delivery');
    return peer.sink.messages.find((one) => one.to.includes(to))!.mailParameters;
  };
  assert.match(await parametersOf('i@valid.example', 'verified'), /REQUIRETLS/);
  assert.match(await parametersOf('j@valid.example', true), /REQUIRETLS/);
  assert.doesNotMatch(await parametersOf('k@valid.example', false), /REQUIRETLS/);
});

test("TLS-Required: No overrides the domain's policy, unless the message requires TLS", async (t) => {
  const rig = await policyRig('enforce');
  t.after(() => rig.close());
  const further = { tlsOptional: true } as const;
  const { type, attempt } = await rig.outcomeOf('f@without.example', false, further);
  assert.deepEqual([type, attempt.tls, attempt.tlsPolicy], ['Delivery', null, 'opportunistic']);
  assert.equal((await rig.outcomeOf('g@without.example', true, further)).type, 'DeliveryDelay');
  assert.equal(
    (await rig.outcomeOf('h@without.example')).type,
    'DeliveryDelay',
    'next to other messages of the same domain',
  );
});
