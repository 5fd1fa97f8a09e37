/** A peer that serves three connections and rejects more. Counted at the peer. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Rig } from '../kit/delivery-rig.ts';
import { mxRig } from '../kit/mx-rig.ts';
import { relayRig } from '../kit/relay-rig.ts';
import type { SinkOptions, SmtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const LIMIT = 3;
const MAILS = 400;

interface Peer {
  options: SinkOptions;
  refused(): number;
}

/** `at` is the stage at which it rejects; which connections, is decided when they arrive. */
function limitedPeer(at: 'banner' | 'mail', reply: string): Peer {
  let refused = 0;
  // A session that has sent QUIT no longer counts, as for a server that counts sessions itself.
  const open = new Set<number>();
  const over = new Set<number>();
  const banner = ({ session }: { session: number }) => {
    open.add(session);
    if (open.size > LIMIT) over.add(session);
    return at === 'banner' ? refuse({ session }) : undefined;
  };
  const refuse = ({ session }: { session: number }) => {
    if (!over.has(session)) return undefined;
    refused += 1;
    open.delete(session);
    return { reply, drop: true };
  };
  const quit = ({ session }: { session: number }) => {
    open.delete(session);
    return undefined;
  };
  const script = at === 'banner' ? { banner, quit } : { banner, mail: refuse, quit };
  return { options: { script }, refused: () => refused };
}

async function floodAndCount(t: TestContext, parts: { rig: Rig; sink: SmtpSink; refused(): number }): Promise<void> {
  const { rig, sink, refused } = parts;
  await Promise.all(Array.from({ length: MAILS }, (_, i) => rig.store({ to: [`${i}@x.example`] })));
  rig.delivery.nudge();
  await waitUntil('all messages to be delivered', () => rig.rows('SELECT 1 FROM work').length === 0);
  t.diagnostic(`${sink.connections.total} connections, ${refused()} refused`);
  assert.ok(refused() <= 2 * LIMIT, `${refused()} connections were refused`);
  assert.equal(new Set(sink.messages.map((mail) => mail.to[0])).size, MAILS);
  assert.equal(sink.messages.length, MAILS);
  assert.deepEqual(rig.rows("SELECT 1 FROM event WHERE type = 'DeliveryDelay'"), []);
  assert.deepEqual(rig.rows('SELECT 1 FROM attempt WHERE number > 1'), [], 'no rejection counted as an attempt');
}

const refusals: [at: 'banner' | 'mail', reply: string][] = [
  ['banner', '421 4.7.0 too many connections'],
  ['mail', '421 4.7.0 too many concurrent sessions from your address'],
];

for (const [at, reply] of refusals) {
  test(`a relay that replies "${reply}" at ${at}: few rejections from a cold start, no attempts counted`, async (t) => {
    const peer = limitedPeer(at, reply);
    const { sink, rig } = await relayRig(t, peer.options);
    await floodAndCount(t, { rig, sink, refused: peer.refused });
  });

  test(`an MX host that replies "${reply}" at ${at}: few rejections from a cold start, no attempts counted`, async (t) => {
    const peer = limitedPeer(at, reply);
    const mx = await mxRig({ peer: peer.options });
    t.after(() => mx.close());
    mx.serve('peer', ['x.example']);
    await floodAndCount(t, { rig: mx.rig, sink: mx.sinks.peer!, refused: peer.refused });
  });
}

test('one more connection is tried after a minute; if rejected, the next after two minutes', async (t) => {
  const peer = limitedPeer('banner', '421 4.7.0 too many connections');
  const { rig } = await relayRig(t, peer.options);
  const flood = async (): Promise<void> => {
    await Promise.all(Array.from({ length: MAILS }, (_, i) => rig.store({ to: [`${i}@x.example`] })));
    rig.delivery.nudge();
    await waitUntil('all messages to be delivered', () => rig.rows('SELECT 1 FROM work').length === 0);
  };
  await flood();
  let before = peer.refused();
  await flood();
  assert.equal(peer.refused(), before, 'the limit is known');
  rig.clock.advance(60_000);
  await flood();
  assert.ok(peer.refused() - before <= 1, `${peer.refused() - before} refused after a minute`);
  before = peer.refused();
  rig.clock.advance(60_000);
  await flood();
  assert.equal(peer.refused(), before, 'and then it is kept for longer');
});
