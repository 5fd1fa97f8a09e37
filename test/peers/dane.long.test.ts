/**
 * DANE (RFC 7672) with real DNSSEC: zones signed by Knot and validated by Unbound, servers with each kind of certificate, counted at the
 * servers.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type DanePeers, daneRig, fateAt, mailAt, startDanePeers } from './dane-peers.ts';
import { noPrivateDns } from './private-dns.ts';

const skip = noPrivateDns();
let servers: DanePeers;

before(async () => {
  if (!skip) servers = await startDanePeers();
});

after(() => servers?.close());

test('each server gets exactly the mail that its TLSA records allow', { skip }, async (t) => {
  const { outcomeOf, close } = await daneRig(servers.zones.resolver, servers.port);
  t.after(close);
  for (const { name, fate, policy, reply, sink } of servers.peers) {
    const recipient = `a@${name}.good.test`;
    const { type, attempt, detail } = await outcomeOf(recipient);
    assert.equal(fateAt(sink, recipient), fate, `${name}: ${attempt.reply}`);
    assert.equal(type, fate === 'waits' ? 'DeliveryDelay' : 'Delivery', name);
    if (policy) assert.equal(attempt.tlsPolicy, policy, name);
    if (fate === 'encrypted') assert.equal(attempt.tls, 'TLSv1.3', name);
    if (fate !== 'waits') continue;
    assert.equal(mailAt(sink), 0, `${name}: no envelope is sent`);
    assert.equal(detail.category, 'tls', name);
    assert.match(attempt.reply!, reply!, name);
  }
});

test('matching records satisfy requireTls "verified", and unusable records do not', {
  skip,
}, async (t) => {
  const { outcomeOf, close } = await daneRig(servers.zones.resolver, servers.port);
  t.after(close);
  assert.equal((await outcomeOf('v@key256.good.test', 'verified')).type, 'Delivery');
  assert.equal((await outcomeOf('v@issuer-key.good.test', 'verified')).type, 'Delivery');
  assert.equal((await outcomeOf('v@unusable.good.test', 'verified')).type, 'DeliveryDelay');
});

test('TLSA records of an unsigned zone are ignored', { skip }, async (t) => {
  const { outcomeOf, close } = await daneRig(servers.zones.resolver, servers.port);
  t.after(close);
  const { type, attempt } = await outcomeOf('a@plain.test');
  assert.equal(type, 'Delivery');
  assert.equal(attempt.tlsPolicy, 'opportunistic');
});

test('with expired or wrong DNSSEC signatures nothing is sent', { skip }, async (t) => {
  const before = servers.peers.map(({ sink }) => sink.connections.total);
  const later = await daneRig(servers.zones.laterResolver, servers.port);
  t.after(later.close);
  for (const name of ['key256', 'no-records']) {
    assert.equal((await later.outcomeOf(`b@${name}.good.test`)).type, 'DeliveryDelay', name);
  }
  const now = await daneRig(servers.zones.resolver, servers.port);
  t.after(now.close);
  assert.equal((await now.outcomeOf('b@bogus.test')).type, 'DeliveryDelay');
  assert.deepEqual(
    servers.peers.map(({ sink }) => sink.connections.total),
    before,
  );
});
