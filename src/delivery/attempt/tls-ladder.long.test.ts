/**
 * Messages to servers with good and bad TLS, counted at the servers: fourteen servers by the TLS requirement of the message. Without a
 * requirement, failing TLS falls back to an unencrypted connection, which is remembered; with one, nothing is sent.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import tls from 'node:tls';
import { deliveryRig, type Rig } from '../../../test/kit/delivery-rig.ts';
import { type FakeDns, fakeDns } from '../../../test/kit/fake-dns.ts';
import { fateAt, startTlsPeers, type TlsPeer, trustedCertificates } from '../../../test/kit/tls-peers.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { parseCidrs } from '../../net/address-guard.ts';
import { openDns } from '../../net/dns.ts';
import type { DeliveryDeps } from '../delivery.ts';

// Before the first verified connection: the CAs are read once.
tls.setDefaultCACertificates([...tls.getCACertificates(), ...trustedCertificates()]);

let dns: FakeDns;
let rig: Rig;
let receivers: Awaited<ReturnType<typeof startTlsPeers>>;
let resolver: ReturnType<typeof openDns>;

before(async () => {
  receivers = await startTlsPeers();
  const zone = receivers.peers.flatMap(({ domain, exchanger, address }) => [
    [domain, { MX: [[10, exchanger]] }],
    [exchanger, { A: [address] }],
  ]);
  dns = await fakeDns(Object.fromEntries(zone));
  resolver = openDns({ servers: [dns.server] });
  rig = await makeRig();
});

function makeRig(deps: Partial<DeliveryDeps> = {}): Promise<Rig> {
  const allowed = parseCidrs('127.0.0.0/8');
  assert.ok(allowed.ok);
  return deliveryRig({
    routing: { route: { kind: 'mx' }, dns: resolver, mxPort: receivers.port, mxAllow: allowed.cidrs },
    deps: { timeouts: { tlsMs: 5_000 }, ...deps },
  });
}

after(async () => {
  await rig?.close();
  resolver?.close();
  await dns?.close();
  await receivers?.close();
});

interface Attempt {
  tls: string | null;
  tlsFallback?: string;
  reply: string;
}

async function outcomeOf(
  id: string,
  at = rig,
): Promise<{ type: string; attempt: Attempt; detail: Record<string, unknown> }> {
  const event = await waitUntil(`an outcome of ${id}`, () => at.events(id).find((one) => one.type !== 'Send'));
  const attempt = at.attempts(id).at(-1) as unknown as Attempt;
  return { type: event.type, attempt, detail: Object.values(event.detail)[0]! };
}

const verbsAt = (peer: TlsPeer, verb: string): number =>
  peer.sink.commands.filter((line) => line.startsWith(verb)).length;

for (const requireTls of [false, true, 'verified'] as const) {
  test(`requireTls ${requireTls}: each server gets exactly the expected messages`, async () => {
    const before = new Map(receivers.peers.map((peer) => [peer, verbsAt(peer, 'MAIL')]));
    const sent = await Promise.all(
      receivers.peers.map(async (peer) => {
        const recipient = `${requireTls}@${peer.domain}`;
        const [id] = await rig.send({ to: [recipient], options: { requireTls } });
        return { peer, recipient, outcome: await outcomeOf(id!) };
      }),
    );
    for (const { peer, recipient, outcome } of sent) {
      const { name } = peer;
      const wanted = peer.fates[`${requireTls}`];
      assert.equal(fateAt(peer, recipient), wanted, `${name}: ${outcome.attempt.reply}`);
      assert.equal(outcome.type, wanted === 'waits' ? 'DeliveryDelay' : 'Delivery', name);
      if (wanted === 'waits') {
        assert.equal(verbsAt(peer, 'MAIL'), before.get(peer), `${name}: no envelope is sent`);
        assert.equal(outcome.detail.category, 'tls', name);
        assert.doesNotMatch(outcome.attempt.reply, /error:|routines|ssl3/, name);
        continue;
      }
      assert.equal(outcome.attempt.tls, wanted === 'encrypted' ? 'TLSv1.3' : null, name);
      assert.equal(outcome.detail.tls, outcome.attempt.tls, name);
      assert.equal(outcome.detail.tlsFallback, outcome.attempt.tlsFallback, name);
      const { tlsFallback } = outcome.attempt;
      if (wanted === 'clear' && peer.fallback) assert.match(tlsFallback ?? '', peer.fallback, name);
      else assert.equal(tlsFallback, undefined, name);
    }
  });
}

test('TLS is retried later after a failed handshake, and on each connection if STARTTLS is rejected', async (t) => {
  const own = await makeRig();
  t.after(() => own.close());
  const broken = receivers.peers.find((peer) => peer.name === 'reset')!;
  const refusing = receivers.peers.find((peer) => peer.name === 's454')!;
  const send = async (peer: TlsPeer, user: string): Promise<void> => {
    const [id] = await own.send({ to: [`${user}@${peer.domain}`] });
    const { type, attempt } = await outcomeOf(id!, own);
    assert.equal(type, 'Delivery');
    assert.match(attempt.tlsFallback ?? '', peer.fallback!);
    // The next message opens a new session.
    peer.sink.dropAll();
    await waitUntil('all sessions to end', () => own.delivery.state().connections === 0);
  };
  const asked = verbsAt(broken, 'STARTTLS');
  const dialled = broken.sink.connections.total;
  await send(broken, 'first');
  assert.equal(broken.sink.connections.total, dialled + 2, 'a second connection in the same attempt');
  await send(broken, 'second');
  assert.equal(verbsAt(broken, 'STARTTLS'), asked + 1, 'not retried yet');
  assert.equal(broken.sink.connections.total, dialled + 3);
  own.clock.advance(2 * 3_600_000);
  await send(broken, 'third');
  assert.equal(verbsAt(broken, 'STARTTLS'), asked + 2, 'retried after a while');
  own.clock.advance(2 * 3_600_000);
  await send(broken, 'fourth');
  assert.equal(verbsAt(broken, 'STARTTLS'), asked + 2, 'less often after another failure');
  const before = verbsAt(refusing, 'STARTTLS');
  await send(refusing, 'fifth');
  await send(refusing, 'sixth');
  assert.equal(verbsAt(refusing, 'STARTTLS'), before + 2);
  broken.sink.setScript({});
  own.clock.advance(73 * 3_600_000);
  const [id] = await own.send({ to: [`seventh@${broken.domain}`] });
  assert.equal((await outcomeOf(id!, own)).attempt.tls, 'TLSv1.3', 'encrypted again after the repair');
});

test('a pooled session is used only for messages whose TLS requirements it meets', async () => {
  const peer = receivers.peers.find((one) => one.name === 'valid')!;
  peer.sink.dropAll();
  await waitUntil('all sessions to end', () => rig.delivery.state().connections === 0);
  const sessionOf = async (user: string, requireTls: boolean | 'verified'): Promise<number> => {
    const recipient = `${user}@${peer.domain}`;
    const [id] = await rig.send({ to: [recipient], options: { requireTls } });
    assert.equal((await outcomeOf(id!)).type, 'Delivery');
    return peer.sink.messages.find((one) => one.to.includes(recipient))!.session;
  };
  peer.sink.setScript({ ehlo: ({ occurrence }) => (occurrence === 1 ? '250-sink\r\n250 8BITMIME' : undefined) });
  const clear = await sessionOf('pool1', false);
  const encrypted = await sessionOf('pool2', true);
  assert.notEqual(encrypted, clear, 'an unencrypted session is not used');
  const verified = await sessionOf('pool3', 'verified');
  assert.notEqual(verified, encrypted, 'an unverified session is not used');
  assert.equal(await sessionOf('pool4', 'verified'), verified);
  assert.ok([encrypted, verified].includes(await sessionOf('pool5', true)));
  assert.ok(
    [clear, encrypted, verified].includes(await sessionOf('pool6', false)),
    'a message without requirements uses any session',
  );
});

test('a message that requires unavailable TLS does not delay later messages', async (t) => {
  const one = await makeRig({ connectionShare: () => 0.01 });
  t.after(() => one.close());
  const peer = receivers.peers.find((other) => other.name === 'without')!;
  const [strict] = await one.store({ to: [`strict@${peer.domain}`], options: { requireTls: true } });
  const rest: string[] = [];
  for (let user = 0; user < 10; user += 1) rest.push(...(await one.store({ to: [`behind${user}@${peer.domain}`] })));
  one.delivery.nudge();
  assert.equal((await outcomeOf(strict!, one)).type, 'DeliveryDelay');
  for (const id of rest) assert.equal((await outcomeOf(id, one)).type, 'Delivery');
  assert.ok(rest.every((id) => one.attempts(id).length === 1));
});

test('a message that requires TLS bounces when it expires and is never sent unencrypted', async () => {
  const peer = receivers.peers.find((one) => one.name === 'without')!;
  const before = verbsAt(peer, 'MAIL');
  const [id] = await rig.send({ to: [`late@${peer.domain}`], options: { requireTls: true }, lifetimeMs: 3_600_000 });
  assert.equal((await outcomeOf(id!)).type, 'DeliveryDelay');
  rig.clock.advance(3_600_001);
  const bounce = await waitUntil('a bounce', () => rig.events(id!).find((one) => one.type === 'Bounce'));
  assert.equal(bounce.detail.bounce!.category, 'expired');
  assert.match(String(bounce.detail.bounce!.reply), /does not offer STARTTLS, and TLS is required/);
  assert.equal(verbsAt(peer, 'MAIL'), before);
});
