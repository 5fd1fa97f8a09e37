/**
 * A peer that accepts eight connections and then replies that we send too fast: one pause, one probe, then half as many connections, and
 * one more each time as many messages as there are connections were accepted. Counted at the peer.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Rig } from '../kit/delivery-rig.ts';
import { mxRig } from '../kit/mx-rig.ts';
import type { SinkAction, SinkOptions, SmtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const LIMIT = 8;
const MAILS = 300;
const MINUTE = 60_000;

interface GatedPeer {
  options: SinkOptions;
  /** Its reply to MAIL or RCPT from now on; undefined to accept. */
  saysOfRate: { stage: 'mail' | 'rcpt'; reply: string } | undefined;
  /** Final dots that wait for a reply. */
  readonly held: number;
  /** Closes all sessions, as after an idle timeout. */
  hangUp(sink: SmtpSink): void;
  /** Replies to the dot that has waited longest. */
  releaseOne(): void;
  /** Replies to all dots immediately from now on. */
  releaseAll(): void;
  /** Connections rejected because of their number. */
  readonly refused: number;
  /** Commands rejected because of their rate. */
  readonly tooFast: number;
  /** The number of concurrent connections since the last call. */
  mostSince(): number;
}

function gatedPeer(): GatedPeer {
  const open = new Set<number>();
  const held: (() => void)[] = [];
  let [isOpen, refused, tooFast, most] = [false, 0, 0, 0];
  const rate = ({ stage, session }: { stage: string; session: number }): SinkAction | undefined => {
    if (peer.saysOfRate?.stage !== stage) return undefined;
    tooFast += 1;
    open.delete(session);
    return { reply: peer.saysOfRate.reply, drop: true };
  };
  const peer: GatedPeer = {
    options: {
      script: {
        banner: ({ session }) => {
          if (open.size >= LIMIT) {
            refused += 1;
            return { reply: '421 4.7.0 too many connections from your address', drop: true };
          }
          open.add(session);
          most = Math.max(most, open.size);
          return undefined;
        },
        mail: rate,
        rcpt: rate,
        dot: async () => {
          if (!isOpen) await new Promise<void>((resolve) => held.push(resolve));
          return undefined;
        },
        quit: ({ session }) => {
          open.delete(session);
          return undefined;
        },
      },
    },
    saysOfRate: undefined,
    get held() {
      return held.length;
    },
    hangUp: (sink) => {
      open.clear();
      sink.dropAll();
    },
    releaseOne: () => held.shift()?.(),
    releaseAll: () => {
      isOpen = true;
      for (const answer of held.splice(0)) answer();
    },
    get refused() {
      return refused;
    },
    get tooFast() {
      return tooFast;
    },
    mostSince: () => {
      const answer = most;
      most = open.size;
      return answer;
    },
  };
  return peer;
}

interface World {
  peer: GatedPeer;
  rig: Rig;
  sink: SmtpSink;
  /** Resolves when the current work of the delivery is done: mail to another destination was delivered. */
  settled(): Promise<void>;
}

async function openWorld(t: TestContext): Promise<World> {
  const peer = gatedPeer();
  const mx = await mxRig({ peer: peer.options, other: {} });
  t.after(() => mx.close());
  mx.serve('peer', ['x.example']);
  mx.serve('other', ['other.example']);
  const { rig } = mx;
  const settled = async (): Promise<void> => {
    for (let i = 0; i < 5; i += 1) {
      const [id] = await rig.send({ accountId: 'acc_2', to: ['one@other.example'] });
      await waitUntil('mail to another destination', () => rig.status(id!) === 'delivered');
    }
  };
  return { peer, rig, sink: mx.sinks.peer!, settled };
}

/** Replies to one dot after another until this many connections wait for a reply; returns after how many. */
async function grow({ peer, sink }: World, connections: number): Promise<number> {
  const before = sink.accepted;
  await waitUntil(`${connections} connections at once`, () => {
    if (peer.held >= connections) return true;
    // The session whose dot was answered continues with its next message; no other one is slow.
    if (peer.held > 0 && peer.held === sink.connections.now) peer.releaseOne();
    return false;
  });
  return sink.accepted - before;
}

const refusals: { stage: 'mail' | 'rcpt'; reply: string }[] = [
  { stage: 'mail', reply: '421 4.7.28 unusual rate of mail from your address' },
  { stage: 'rcpt', reply: '451 4.7.1 you are sending too fast, rate limited' },
];

for (const refusal of refusals) {
  test(`${refusal.reply.slice(0, 10)} at ${refusal.stage}: one probe, then half of ${LIMIT} connections, then one more at a time`, async (t) => {
    const world = await openWorld(t);
    const { peer, rig, sink, settled } = world;
    await Promise.all(Array.from({ length: MAILS }, (_, i) => rig.store({ to: [`${i}@x.example`] })));
    rig.delivery.nudge();
    await grow(world, LIMIT);
    // After one or two more successes, a connection over the limit is tried.
    await waitUntil('the connection over the limit', () => {
      if (peer.refused > 0) return true;
      if (peer.held === LIMIT) peer.releaseOne();
      return false;
    });
    assert.equal(peer.mostSince(), LIMIT, 'under load, all permitted connections are used');

    await waitUntil('all connections in use', () => peer.held === LIMIT);
    peer.saysOfRate = refusal;
    peer.releaseOne();
    await waitUntil('the rejection', () => peer.tooFast > 0);
    await waitUntil('the pause', () => rig.delivery.state().pausedDestinations.length === 1);
    const takenBefore = sink.accepted;
    const under = peer.held;
    for (let i = 0; i < under; i += 1) peer.releaseOne();
    await waitUntil('the sessions in progress', () => sink.accepted === takenBefore + under);
    await settled();
    // A message rejected in a reused session is sent once more in a new one.
    assert.ok(peer.tooFast <= 2, `${peer.tooFast} refusals: what was under way ends, and nothing more is begun`);
    peer.hangUp(sink);
    await waitUntil('all connections to close', () => sink.connections.now === 0);

    peer.saysOfRate = undefined;
    const sessions = sink.connections.total;
    await waitUntil('all messages to be deferred', () => rig.rows('SELECT 1 FROM work WHERE leased = 1').length === 0);
    rig.clock.advance(1.1 * MINUTE);
    rig.delivery.nudge();
    await waitUntil('the probe', () => peer.held === 1);
    await settled();
    assert.deepEqual([sink.connections.total - sessions, sink.connections.now, peer.held], [1, 1, 1], 'one probe');

    peer.releaseOne();
    await waitUntil('half the connections', () => peer.held === LIMIT / 2);
    await settled();
    assert.deepEqual([sink.connections.now, peer.held], [LIMIT / 2, LIMIT / 2], 'at most half after the probe');
    const taken: number[] = [];
    for (let next = LIMIT / 2 + 1; next <= LIMIT; next += 1) {
      taken.push(await grow(world, next));
      await settled();
      assert.equal(sink.connections.now, next, 'one more at a time');
    }
    t.diagnostic(`messages taken before each connection more: ${taken.join(' ')}`);
    for (const [i, count] of taken.entries()) {
      const connections = LIMIT / 2 + i;
      assert.ok(count >= connections - 2, `one more after ${count} messages at ${connections} connections`);
      assert.ok(count <= connections * 3, `${count} messages at ${connections} connections`);
    }
    const refused = peer.refused;
    peer.releaseAll();
    await waitUntil('all messages to be delivered', () => rig.rows('SELECT 1 FROM work').length === 0);
    assert.ok(peer.refused - refused <= 1, `${peer.refused - refused} connections refused at its limit`);
    assert.equal(new Set(sink.messages.map((mail) => mail.to[0])).size, MAILS);
    assert.equal(sink.messages.length, MAILS, 'no duplicates');
  });
}
