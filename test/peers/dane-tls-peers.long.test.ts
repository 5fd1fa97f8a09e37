/**
 * Servers with good and bad TLS, in a signed zone with matching TLSA records (RFC 7672): if the records match, mail is encrypted regardless
 * of the other certificate fields; if TLS fails in any way, nothing is sent. Counted at the servers.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { testCertificate } from '../kit/test-certificate.ts';
import { fateAt, startTlsPeers, type TlsPeer } from '../kit/tls-peers.ts';
import { daneRig, tlsa } from './dane-peers.ts';
import { noPrivateDns, type PrivateDns, startPrivateDns } from './private-dns.ts';

const skip = noPrivateDns();
/** Its certificate matches the record; it may be self-signed, for another name, or expired. */
const GOOD = ['valid', 'self-signed', 'wrong-name', 'expired'];
let receivers: Awaited<ReturnType<typeof startTlsPeers>>;
let zones: PrivateDns;

before(async () => {
  if (skip) return;
  receivers = await startTlsPeers();
  const { peers, port } = receivers;
  const signed = peers.flatMap(({ name, address, certificate }) => [
    `${name} MX 10 mx.${name}`,
    `mx.${name} A ${address}`,
    `_${port}._tcp.mx.${name} ${tlsa([3, 1, 1, (certificate ?? testCertificate()).cert])}`,
  ]);
  const plain = peers.flatMap(({ name, address }) => [`${name} MX 10 mx.${name}`, `mx.${name} A ${address}`]);
  zones = await startPrivateDns({ example: { signed: 'nsec3', records: signed }, test: { records: plain } });
});

after(async () => {
  await zones?.close();
  await receivers?.close();
});

const mailAt = (peer: TlsPeer): number => peer.sink.commands.filter((line) => line.startsWith('MAIL')).length;

type DaneRig = Awaited<ReturnType<typeof daneRig>>;

async function assertHeldToDane({ outcomeOf }: DaneRig, user: string): Promise<void> {
  const before = new Map(receivers.peers.map((peer) => [peer, mailAt(peer)]));
  await Promise.all(
    receivers.peers.map(async (peer) => {
      const { name, domain } = peer;
      const recipient = `${user}@${domain}`;
      const { type, attempt, detail } = await outcomeOf(recipient);
      const isGood = GOOD.includes(name);
      assert.equal(fateAt(peer, recipient), isGood ? 'encrypted' : 'waits', `${name}: ${attempt.reply}`);
      assert.equal(type, isGood ? 'Delivery' : 'DeliveryDelay', name);
      assert.equal(attempt.tlsPolicy, 'dane', name);
      assert.doesNotMatch(attempt.reply!, /error:|routines|ssl3/, name);
      if (isGood) return;
      assert.equal(mailAt(peer), before.get(peer), `${name}: no envelope is sent`);
      assert.equal(detail.category, 'tls', name);
      if (name !== 'injected') assert.match(attempt.reply!, /DANE policy of mx\..* requires TLS/, name);
    }),
  );
}

test('each server gets exactly the mail that its TLSA records allow', { skip }, async (t) => {
  const rig = await daneRig(zones.resolver, receivers.port);
  t.after(rig.close);
  await assertHeldToDane(rig, 'first');
});

test('falling back to plaintext for a domain without a policy does not affect one with a policy', {
  skip,
}, async (t) => {
  const rig = await daneRig(zones.resolver, receivers.port);
  t.after(rig.close);
  await Promise.all(
    receivers.peers.map(async (peer) => {
      const recipient = `a@${peer.name}.test`;
      await rig.outcomeOf(recipient);
      assert.equal(fateAt(peer, recipient), peer.fates.false, peer.name);
    }),
  );
  await assertHeldToDane(rig, 'second');
});
