/** Thousands of messages deferred at the same moment are not all retried at the same moment. Counted at the peer. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Rig, RigOptions } from '../kit/delivery-rig.ts';
import { mxRig } from '../kit/mx-rig.ts';
import { relayRig } from '../kit/relay-rig.ts';
import type { SinkOptions, SmtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MAILS = 5_000;
const MINUTE = 60_000;
/** Maximum number of jobs in memory (src/delivery/queue/window.ts). */
const WINDOW = 2_000;

interface World {
  rig: Rig;
  sink: SmtpSink;
}

const deferring: SinkOptions = { script: { rcpt: '451 4.3.0 temporary local problem' } };
const atRandom: RigOptions = { deps: { random: Math.random } };

async function behindRelay(t: TestContext): Promise<World> {
  const { sink, rig } = await relayRig(t, deferring, atRandom);
  return { rig, sink };
}

/** Number of domains, each of which is a destination. */
async function behindMx(t: TestContext, domains: number): Promise<World> {
  const mx = await mxRig({ peer: deferring }, atRandom);
  t.after(() => mx.close());
  mx.serve(
    'peer',
    Array.from({ length: domains }, (_, i) => `d${i}.example`),
  );
  return { rig: mx.rig, sink: mx.sinks.peer! };
}

const places: [name: string, domains: number, open: (t: TestContext) => Promise<World>][] = [
  ['one relay', 50, behindRelay],
  ['one destination', 1, (t) => behindMx(t, 1)],
  ['20 destinations', 20, (t) => behindMx(t, 20)],
];

for (const [name, domains, open] of places) {
  test(`5,000 messages to ${name} deferred together are retried evenly over a fifth of their delay`, async (t) => {
    const { rig, sink } = await open(t);
    await Promise.all(Array.from({ length: MAILS }, (_, i) => rig.store({ to: [`${i}@d${i % domains}.example`] })));
    rig.delivery.nudge();
    let window = 0;
    const look = (): void => {
      window = Math.max(window, rig.delivery.state().window);
    };
    const count = (where: string): number =>
      rig.rows<{ n: number }>(`SELECT count(*) AS n FROM work WHERE ${where}`)[0]!.n;
    await waitUntil(
      'all messages to be deferred',
      () => {
        look();
        return count('attempts = 1 AND leased = 0') === MAILS;
      },
      120_000,
    );
    sink.setScript({});
    const began = rig.clock.now();
    const arrivals: number[] = [];
    rig.clock.advance(0.9 * MINUTE);
    for (let second = 0; second <= 12; second += 1) {
      const due = count(`due <= ${rig.clock.now()}`);
      rig.delivery.nudge();
      const before = sink.messages.length;
      await waitUntil(
        'due messages to arrive',
        () => {
          look();
          return sink.messages.length >= before + due;
        },
        60_000,
      );
      arrivals.push(sink.messages.length - before);
      rig.clock.advance(1_000);
    }
    await waitUntil('all to be recorded', () => count('1 = 1') === 0);
    t.diagnostic(`arrivals each second: ${arrivals.join(' ')}; at most ${window} in memory`);
    assert.ok(rig.clock.now() - began <= 1.15 * MINUTE, 'none arrives later');
    const most = Math.max(...arrivals);
    assert.ok(most <= (MAILS / 12) * 1.4, `${most} of ${MAILS} came within one second`);
    assert.ok(window > 0 && window <= WINDOW, `${window} were in memory`);
    assert.equal(sink.messages.length, MAILS, 'each once');
    assert.equal(new Set(sink.messages.map((mail) => mail.to[0])).size, MAILS);
  });
}
