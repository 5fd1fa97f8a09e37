/** The states of a destination, driven by server replies and the clock. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../../test/kit/fake-clock.ts';
import { silentLog } from '../../base/log.ts';
import { classify } from '../outcome/outcome.ts';
import type { Signal } from '../outcome/signal.ts';
import { MX_CONNECTIONS } from './limits.ts';
import { type Destination, Registry } from './registry.ts';

const MINUTE = 60_000;
const reply = { code: 421, enhanced: '4.7.0', text: '4.7.0 later', lines: ['4.7.0 later'] };
const refusal = { outcome: classify({ stage: 'mail', reply, relay: false }), host: 'mx.x.example' };
const wait = (ms?: number): Signal => ({ kind: 'wait', request: { ms }, refusal });

function setUp() {
  const clock = fakeClock();
  const registry = new Registry({ clock, log: silentLog, limits: { of: () => MX_CONNECTIONS } });
  const one = registry.of('x.example');
  /** Returns true if a pause started. */
  const hear = (signal: Signal, startedMs = clock.now()): boolean =>
    registry.report(one, signal, startedMs) === 'began';
  /** Returns how many slots can run, each of which opens its session immediately. */
  const allowed = (destination: Destination = one): number => {
    let count = 0;
    for (; registry.mayOpen(destination); count += 1) {
      registry.slotBegan(destination);
      registry.sessionOpened(destination);
    }
    for (let ended = 0; ended < count; ended += 1) registry.slotEnded(destination);
    return count;
  };
  const pausedMs = (): number => (registry.pauseOf('x.example')?.untilMs ?? clock.now()) - clock.now();
  return { clock, registry, one, hear, allowed, pausedMs };
}

const answer: Signal = { kind: 'answered', accepted: true };

test('a destination starts with one connection, gets the initial limit, and grows by one per round', () => {
  const { one, hear, allowed } = setUp();
  assert.equal(allowed(), 1);
  hear({ kind: 'answered', accepted: false });
  assert.equal(allowed(), MX_CONNECTIONS.initial);
  for (let i = 0; i < 6; i += 1) hear(answer);
  assert.equal(allowed(), MX_CONNECTIONS.initial + 1);
  for (let i = 0; i < 2_000; i += 1) hear(answer);
  assert.equal(allowed(), MX_CONNECTIONS.ceiling);
  assert.equal(one.limit, MX_CONNECTIONS.ceiling);
});

test('the limit returns to one connection after 10 minutes without a reply or a reachable host', () => {
  const { clock, hear, allowed } = setUp();
  hear(answer);
  clock.advance(10 * MINUTE - 1);
  assert.equal(allowed(), MX_CONNECTIONS.initial);
  clock.advance(1);
  assert.equal(allowed(), 1);
  hear(answer);
  hear({ kind: 'unreachable' });
  assert.equal(allowed(), 1);
});

test('a silent first connection delays the next one briefly, and a pause ends with a single probe', () => {
  const { clock, registry, one, hear } = setUp();
  const slots = (): number => {
    while (registry.mayOpen(one)) {
      registry.slotBegan(one);
      registry.sessionOpened(one);
    }
    return one.active;
  };
  assert.equal(slots(), 1);
  clock.advance(MX_CONNECTIONS.patienceMs - 1);
  assert.equal(slots(), 1);
  clock.advance(1);
  assert.equal(slots(), 2);
  clock.advance(100 * MX_CONNECTIONS.patienceMs);
  assert.equal(slots(), 3);
  for (let i = 0; i < 20; i += 1) {
    clock.advance(MX_CONNECTIONS.patienceMs);
    assert.ok(slots() <= MX_CONNECTIONS.initial);
  }
  hear(wait());
  clock.advance(MINUTE);
  while (one.active > 0) registry.slotEnded(one);
  assert.equal(slots(), 1);
  clock.advance(10 * MINUTE);
  assert.equal(slots(), 1);
});

test('at most as many sessions are opened as are already open', () => {
  const { registry, one, hear } = setUp();
  hear(answer);
  Object.assign(one, { active: 1, opening: 1 });
  assert.ok(!registry.mayOpen(one));
  Object.assign(one, { active: 3, opening: 1 });
  assert.ok(registry.mayOpen(one));
  Object.assign(one, { active: 4, opening: 2 });
  assert.ok(!registry.mayOpen(one));
});

test('pauses grow from 1 to 20 minutes while the probe is rejected, and reset after a success', () => {
  const { clock, hear, allowed, pausedMs } = setUp();
  hear(answer);
  for (const minutes of [1, 2, 5, 10, 20, 20]) {
    assert.ok(hear(wait()));
    assert.equal(pausedMs(), minutes * MINUTE);
    assert.equal(allowed(), 0);
    clock.advance(minutes * MINUTE - 1);
    assert.equal(allowed(), 0);
    clock.advance(1);
    assert.equal(allowed(), 1, 'the probe');
  }
  hear(answer);
  assert.equal(allowed(), Math.floor(MX_CONNECTIONS.initial / 2), 'half of the previous limit');
  hear(wait());
  assert.equal(pausedMs(), MINUTE);
});

test('a retry time named by the server is the length of the pause', () => {
  const { hear, pausedMs } = setUp();
  hear(wait(300_000));
  assert.equal(pausedMs(), 300_000);
});

test('sessions with the same rejection cause one pause, unaffected by earlier successes', () => {
  const { clock, hear, pausedMs, allowed } = setUp();
  const startedMs = clock.now();
  hear(answer);
  clock.advance(10);
  assert.ok(hear(wait(), startedMs));
  assert.ok(!hear(wait(), startedMs));
  assert.ok(!hear(wait(300_000), startedMs));
  assert.equal(pausedMs(), MINUTE);
  hear(answer, startedMs);
  assert.equal(allowed(), 0);
  clock.advance(MINUTE);
  assert.ok(!hear(wait(), startedMs), 'the rejection of an attempt that started before the pause');
  hear(answer, startedMs);
  assert.equal(allowed(), 1, 'not probed yet');
});

test('moving the clock back does not extend a pause', () => {
  const { clock, hear, allowed } = setUp();
  hear(wait(600_000));
  clock.advance(-24 * 60 * MINUTE);
  assert.equal(allowed(), 1);
});

test('a connection limit holds for a minute, then one more is tried, and success lifts it', () => {
  const { clock, registry, one, hear, allowed } = setUp();
  hear(answer);
  hear({ kind: 'connection-limit', open: 3 });
  for (let i = 0; i < 100; i += 1) hear(answer);
  assert.equal(allowed(), 3);
  clock.advance(MINUTE);
  hear(answer);
  assert.equal(allowed(), 4);
  hear({ kind: 'connection-limit', open: 3 });
  clock.advance(2 * MINUTE - 1);
  assert.equal(allowed(), 3, 'rejected again: two minutes');
  clock.advance(1);
  for (let i = 0; i < 100; i += 1) hear(answer);
  assert.equal(allowed(), 4);
  for (let i = 0; i < 4; i += 1) {
    registry.slotBegan(one);
    registry.sessionOpened(one);
  }
  for (let i = 0; i < 100; i += 1) hear(answer);
  while (one.active > 0) registry.slotEnded(one);
  assert.ok(allowed() > 4);
});

test('a rejected connection during a new pause does not raise the halved limit', () => {
  const { clock, one, hear, allowed } = setUp();
  for (let i = 0; i < 2_000; i += 1) hear(answer);
  hear({ kind: 'connection-limit', open: 8 });
  assert.equal(allowed(), 8);
  hear(wait());
  hear({ kind: 'connection-limit', open: 7 });
  assert.equal(one.limit, 4);
  clock.advance(MINUTE);
  assert.equal(allowed(), 1, 'the probe');
  hear(answer);
  assert.equal(allowed(), 4);
});

test('a server that stops replying is paused and gets a shorter deadline until it replies', () => {
  const { clock, registry, hear, pausedMs } = setUp();
  const startedMs = clock.now();
  clock.advance(1);
  assert.ok(hear({ kind: 'stalled', refusal }, startedMs));
  assert.equal(pausedMs(), MINUTE);
  assert.ok(registry.isStalled('x.example'));
  clock.advance(MINUTE);
  hear(answer);
  assert.ok(!registry.isStalled('x.example'));
  assert.ok(
    !hear({ kind: 'stalled', refusal }, clock.now() - 5),
    'replies from other sessions arrived, so the message caused the stall',
  );
});

test('idle destinations are evicted, but pauses are kept', () => {
  const { clock, registry, hear } = setUp();
  hear(wait(3_600_000));
  for (let i = 0; i < 12_000; i += 1) registry.of(`${i}.example`);
  clock.advance(MINUTE);
  assert.deepEqual(
    registry.paused().map(({ key }) => key),
    ['x.example'],
  );
});
