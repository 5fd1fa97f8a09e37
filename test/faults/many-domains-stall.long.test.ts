/** 150 domains of one account stall at RCPT while it also sends to a fast one: counted at the fast peer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { mxRig } from '../kit/mx-rig.ts';
import { runningMs } from '../kit/running-time.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const DOMAINS = 150;
const MAILS_EACH = 8;
const QUICK = 40;
const ENVELOPE_MS = 4_000;
/** More than one account may have in memory. */
const BACKLOG = 1_600;

test('mail to a fast domain arrives immediately while 150 others stall, whether known or new', async (t) => {
  const mx = await mxRig(
    { quick: {}, stalling: { script: { rcpt: { silent: true } } } },
    {
      clock: systemClock,
      idle: true,
      deps: { timeouts: { envelopeMs: ENVELOPE_MS }, stopGraceMs: 200, random: Math.random },
    },
  );
  t.after(() => mx.close());
  const { rig } = mx;
  const { quick, stalling } = mx.sinks as Record<'quick' | 'stalling', SmtpSink>;
  const stallingDomains = Array.from({ length: DOMAINS }, (_, i) => `stall${i}.example`);
  const fresh = Array.from({ length: QUICK / 2 }, (_, i) => `new${i}.example`);
  mx.serve('stalling', stallingDomains);
  mx.serve('quick', ['known.example', ...fresh]);
  const arrived = (to: string): boolean => quick.messages.some((mail) => mail.to[0] === to);
  for (let round = 0; round < MAILS_EACH; round += 1) {
    for (const domain of stallingDomains) await rig.store({ to: [`${round}@${domain}`] });
  }
  await rig.restart();
  await waitUntil('most of them to stall', () => stalling.connections.now > DOMAINS * 0.6);
  const latencies: number[] = [];
  for (let i = 0; i < QUICK; i += 1) {
    const to = i % 2 === 0 ? `${i}@known.example` : `${i}@${fresh[(i - 1) / 2]}`;
    const began = runningMs();
    const mail = { to: [to] };
    if (rig.delivery.hasCapacity(1, 1_000)) await rig.send(mail);
    else {
      await rig.store(mail);
      rig.delivery.nudge();
    }
    await waitUntil('a message to a fast domain', () => arrived(to));
    latencies.push(runningMs() - began);
  }
  const slowest = Math.max(...latencies);
  t.diagnostic(`slowest ${Math.round(slowest)} ms; ${stalling.connections.peak} connections to those that stall`);
  assert.ok(slowest < 1_000, `the slowest took ${Math.round(slowest)} ms`);
  assert.ok(stalling.connections.peak <= DOMAINS * 1.2, `${stalling.connections.peak} connections stalled at once`);
  // Each domain costs one session for one deadline; its other messages are deferred untried.
  const waiting = (): number => rig.rows("SELECT 1 FROM message WHERE status = 'queued'").length;
  await waitUntil('all messages to be deferred', () => waiting() === 0, 60_000);
  const charged = rig.rows<{ n: number }>(
    `SELECT count(*) AS n FROM attempt
     WHERE json_extract(record, '$.outcome') = 'delayed' AND json_extract(record, '$.host') IS NOT NULL`,
  );
  assert.ok(charged[0]!.n <= DOMAINS * 1.2, `${charged[0]!.n} attempts were counted`);
  // If the burst of lookups lost a query, the domain was not contacted at all.
  const paused = rig.delivery.state().pausedDestinations.length;
  assert.ok(paused <= DOMAINS && paused > DOMAINS * 0.5, `${paused} are paused`);
});

test('a backlog for many domains queries DNS only for mail that is next in line', async (t) => {
  const mx = await mxRig(
    { peer: { script: { rcpt: { silent: true } } } },
    { clock: systemClock, idle: true, deps: { stopGraceMs: 200 } },
  );
  t.after(() => mx.close());
  const { rig, dns } = mx;
  const domains = Array.from({ length: BACKLOG }, (_, i) => `d${i}.example`);
  mx.serve('peer', domains);
  for (const domain of domains) await rig.store({ to: [`a@${domain}`] });
  await rig.restart();
  const parked = (): number => rig.rows('SELECT 1 FROM work WHERE held = 1').length;
  await waitUntil(
    'the overflow to be parked',
    () => parked() > 0 && rig.delivery.state().window + parked() === BACKLOG,
  );
  await waitUntil('sessions', () => mx.sinks.peer!.connections.now > 50);
  const asked = new Set(dns.questions.filter((one) => one.startsWith('MX ')));
  assert.ok(asked.size > 50 && asked.size <= BACKLOG - parked(), `${asked.size} domains; ${parked()} are parked`);
});

test('a domain that stalled gets a fifth of the timeout for its next message until it responds', async (t) => {
  const mx = await mxRig(
    { peer: { script: { rcpt: { silent: true } } } },
    { deps: { timeouts: { envelopeMs: 5_000 }, stopGraceMs: 200 } },
  );
  t.after(() => mx.close());
  mx.serve('peer', ['x.example']);
  const { rig } = mx;
  const durationOf = (number: number): number =>
    rig.rows<{ ms: number }>(
      "SELECT json_extract(record, '$.durationMs') AS ms FROM attempt WHERE number = ?",
      number,
    )[0]!.ms;
  const [id] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the first attempt to end', () => rig.attempts(id!).length === 1);
  assert.ok(durationOf(1) >= 5_000);
  rig.clock.advance(60_000);
  await waitUntil('the second attempt to end', () => rig.attempts(id!).length === 2);
  assert.ok(durationOf(2) >= 1_000 && durationOf(2) < 4_000, `it took ${durationOf(2)} ms`);
  mx.sinks.peer!.setScript({});
  rig.clock.advance(5 * 60_000);
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
  assert.deepEqual(rig.delivery.state().pausedDestinations, []);
});
