/** Pauses shared by several nodes with separate registries on one real PostgreSQL, and the notices to operators. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { fakeClock } from '../../../test/kit/fake-clock.ts';
import { noticeText } from '../../../test/kit/notice-text.ts';
import { type TempDatabase, tempDatabase } from '../../../test/kit/temp-database.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { changedBy, systemOrigin } from '../../audit/audit.ts';
import { silentLog } from '../../base/log.ts';
import type { OperatorNotice } from '../../base/notice.ts';
import type { Database } from '../../storage/database.ts';
import { classify, warmingUp } from '../outcome/outcome.ts';
import type { Signal } from '../outcome/signal.ts';
import { blockedNoticeOf, createBlockedNotices } from './blocked-notice.ts';
import { MX_CONNECTIONS } from './limits.ts';
import { resumeDestinationOperation } from './pause-store.ts';
import { openProbePermits } from './probe-permits.ts';
import { Registry } from './registry.ts';
import { openSharedPauses, type SharedPauses } from './shared-pauses.ts';

const MINUTE = 60_000;
const KEY = 'x.example';
const clock = fakeClock();
let storage: TempDatabase;

before(async () => {
  storage = await tempDatabase('postgres');
});
beforeEach(() => storage.empty());
after(() => storage.close());

function signalOf(code: number, text: string, blocked: boolean): Signal {
  const reply = { code, text, lines: [text] };
  const refusal = { outcome: classify({ stage: 'mail', reply, relay: false }), host: 'mx.x.example' };
  return { kind: 'wait', request: { ms: undefined, ...(blocked && { blocked: true as const }) }, refusal };
}
const slowDown = signalOf(421, '4.7.28 too fast', false);
const listed = signalOf(554, '5.7.1 your IP 203.0.113.7 is blocked', true);
const took: Signal = { kind: 'answered', accepted: true };

interface Node {
  registry: Registry;
  pauses: SharedPauses;
  /** Changes made by other nodes. */
  seen(): string[];
  report(signal: Signal): boolean;
  mayOpen(): boolean;
}

interface NodeOptions {
  database?: Database;
  maySend?: () => boolean;
  ownClock?: typeof clock;
}

function openNode(options: NodeOptions = {}): Node {
  const { database = storage.database, maySend, ownClock = clock } = options;
  const basics = { database, clock: ownClock, log: silentLog };
  const permits = openProbePermits(basics);
  const registry = new Registry({
    clock: ownClock,
    log: silentLog,
    limits: { of: () => MX_CONNECTIONS },
    probes: permits,
  });
  const pauses = openSharedPauses({ ...basics, registry, permits, ...(maySend && { maySend }) });
  const changes: string[] = [];
  return {
    registry,
    pauses,
    seen: () => {
      for (const { kind, destination } of pauses.takeChanges()) changes.push(`${kind} ${destination.key}`);
      return changes;
    },
    report: (signal) => {
      const destination = registry.of(KEY);
      const change = registry.report(destination, signal, ownClock.now());
      if (change !== 'none') void pauses.changed(destination);
      return change === 'began';
    },
    mayOpen: () => registry.mayOpen(registry.of(KEY)),
  };
}

const syncAll = async (nodes: readonly Node[]): Promise<void> => {
  for (const { pauses } of nodes) await pauses.sync();
};

test('a pause is shared by all nodes, one node probes, and its result ends the pause', async () => {
  const nodes = [openNode(), openNode(), openNode()];
  await syncAll(nodes);
  const [first, second, third] = nodes as [Node, Node, Node];
  assert.ok(first.report(slowDown));
  await syncAll(nodes);
  assert.deepEqual(
    nodes.map((node) => node.registry.pauseOf(KEY)?.untilMs),
    nodes.map(() => clock.now() + MINUTE),
  );
  assert.deepEqual(second.seen(), [`began ${KEY}`]);
  clock.advance(MINUTE);
  assert.ok(!nodes.some((node) => node.mayOpen()), 'no node has been selected to probe yet');
  await waitUntil('one node to be allowed', () => nodes.some((node) => node.mayOpen()));
  await syncAll(nodes);
  await waitUntil('the other nodes to be denied', () => nodes.filter((node) => node.mayOpen()).length === 1);
  const prober = nodes.find((node) => node.mayOpen())!;
  // Rejected: the next pause length applies to all of them.
  assert.ok(prober.report(slowDown));
  await syncAll([prober, ...nodes]);
  assert.deepEqual(
    nodes.map((node) => node.registry.pauseOf(KEY)?.untilMs),
    nodes.map(() => clock.now() + 2 * MINUTE),
  );
  clock.advance(2 * MINUTE);
  assert.ok(!third.mayOpen());
  await waitUntil('this node to be allowed', () => third.mayOpen());
  third.report(took);
  await syncAll([third, ...nodes]);
  assert.ok(nodes.every((node) => node.mayOpen()));
  assert.equal(first.registry.of(KEY).pause, undefined);
});

test('a new node loads the pause, and a node that died while probing does not block it for long', async () => {
  const first = openNode();
  await first.pauses.loaded();
  first.report(slowDown);
  await first.pauses.sync();
  clock.advance(MINUTE);
  first.mayOpen();
  await waitUntil('the node to be allowed', () => first.mayOpen());
  first.report(slowDown);
  await first.pauses.sync();

  const later = openNode();
  assert.ok(!later.pauses.isLoaded);
  await later.pauses.loaded();
  assert.equal(later.registry.pauseOf(KEY)?.untilMs, clock.now() + 2 * MINUTE);
  clock.advance(2 * MINUTE);
  first.mayOpen();
  await waitUntil('the first node to be allowed', () => first.mayOpen());
  assert.ok(!later.mayOpen());
  clock.advance(MINUTE);
  await waitUntil('the later node to be allowed', () => later.mayOpen());
  later.report(slowDown);
  assert.equal(later.registry.pauseOf(KEY)!.untilMs, clock.now() + 5 * MINUTE, 'the third pause length');
});

test('a warm-up pauses only the nodes whose addresses may not send any more, and hides no other pause', async () => {
  const hour = 60 * MINUTE;
  const refusal = { outcome: warmingUp('warm-up day 1: 50 of 50 messages to google today'), host: null };
  const usedUp: Signal = { kind: 'wait', request: { ms: 5 * hour }, refusal };
  const warming = openNode();
  const alike = openNode();
  const established = openNode({ maySend: () => true });
  const nodes = [warming, alike, established];
  await syncAll(nodes);
  assert.ok(warming.report(usedUp));
  await syncAll(nodes);
  const paused = (): boolean[] => nodes.map(({ registry }) => registry.pauseOf(KEY) !== undefined);
  assert.deepEqual(paused(), [true, true, false]);
  assert.equal(established.registry.of(KEY).pause, undefined);

  // A pause that the server requires applies to all, and ends by the probe of the established node.
  assert.ok(established.report(slowDown));
  await syncAll([established, ...nodes]);
  assert.equal(warming.registry.pauseOf(KEY)?.untilMs, clock.now() + MINUTE);
  clock.advance(MINUTE);
  assert.ok(warming.report(usedUp));
  await syncAll([warming, ...nodes]);
  established.mayOpen();
  await waitUntil('the established node to be allowed', () => established.mayOpen());
  established.report(took);
  await syncAll([established, ...nodes]);
  assert.deepEqual(paused(), [true, true, false]);

  const nowMs = clock.now();
  const changes = changedBy(storage.database, systemOrigin(nowMs));
  await changes.execute(resumeDestinationOperation, { destination: KEY, nowMs });
  await syncAll(nodes);
  assert.deepEqual(paused(), [false, false, false]);
  for (const node of nodes) assert.ok(node.seen().includes(`resumed ${KEY}`));
});

test('an operator ends the warm-up pause of a node that has regained a share', async () => {
  let hasShare = false;
  const node = openNode({ maySend: () => hasShare });
  await node.pauses.sync();
  const refusal = { outcome: warmingUp('warm-up day 1: 50 of 50 messages to google today'), host: null };
  assert.ok(node.report({ kind: 'wait', request: { ms: 300 * MINUTE }, refusal }));
  await node.pauses.sync();
  hasShare = true;
  const nowMs = clock.now();
  await changedBy(storage.database, systemOrigin(nowMs)).execute(resumeDestinationOperation, {
    destination: KEY,
    nowMs,
  });
  await node.pauses.sync();
  assert.equal(node.registry.pauseOf(KEY), undefined);
});

test('a node whose clock is behind does not end the pause of another node', async () => {
  const ahead = fakeClock();
  ahead.advance(clock.now() + MINUTE - ahead.now());
  const first = openNode({ ownClock: ahead });
  const second = openNode();
  await syncAll([first, second]);
  const destination = second.registry.of(KEY);
  const startedMs = clock.now();
  assert.ok(first.report(slowDown));
  await syncAll([first, second]);
  second.mayOpen();
  await second.pauses.sync();
  assert.ok(!second.mayOpen(), 'it may not probe');
  assert.equal(second.registry.report(destination, took, startedMs), 'none', 'an attempt from before the pause');
  await syncAll([second, first]);
  assert.equal(first.registry.pauseOf(KEY)?.untilMs, ahead.now() + MINUTE);
});

test('after the clock is set back, a pause has expired: one node probes, and the result applies to all nodes', async () => {
  for (const result of [took, slowDown]) {
    await storage.empty();
    const nodes = [openNode(), openNode()];
    await syncAll(nodes);
    const [first, second] = nodes as [Node, Node];
    assert.ok(first.report(slowDown));
    await syncAll(nodes);
    clock.advance(-60 * MINUTE);
    await syncAll(nodes);
    first.mayOpen();
    await waitUntil('the first node to be allowed', () => first.mayOpen());
    second.mayOpen();
    await second.pauses.sync();
    assert.ok(!second.mayOpen(), 'one node probes');
    assert.equal(first.report(result), result === slowDown);
    await syncAll([first, ...nodes]);
    for (const { registry } of nodes) {
      assert.equal(registry.pauseOf(KEY)?.untilMs, result === slowDown ? clock.now() + 2 * MINUTE : undefined);
      assert.equal(registry.of(KEY).pause === undefined, result === took);
    }
  }
});

test('a change that the database rejects is written when it recovers', async () => {
  let isDown = true;
  const execute: Database['execute'] = (op, args) =>
    isDown ? Promise.reject(new Error('it is down')) : storage.database.execute(op, args);
  const first = openNode({ database: { ...storage.database, execute } });
  const second = openNode();
  await assert.rejects(first.pauses.loaded());
  assert.ok(!first.pauses.isLoaded);
  first.report(slowDown);
  await assert.rejects(first.pauses.sync());
  isDown = false;
  await syncAll([first, second]);
  assert.ok(second.registry.pauseOf(KEY));
});

test('operators are notified of a block once a day', async () => {
  const node = openNode();
  const given: OperatorNotice[] = [];
  const notices = createBlockedNotices({
    database: storage.database,
    clock,
    log: silentLog,
    hasFallback: false,
    notifyOperators: async (notice) => void given.push(notice),
  });
  node.report(slowDown);
  await node.pauses.sync();
  await notices({ immediately: true });
  assert.equal(given.length, 0, 'a busy server is not a block');
  clock.advance(MINUTE);
  node.mayOpen();
  await waitUntil('the node to be allowed', () => node.mayOpen());
  node.report(listed);
  await node.pauses.sync();
  await notices({ immediately: true });
  await notices({ immediately: true });
  assert.equal(given.length, 1);
  assert.match(given[0]!.subject, /x\.example/);
  assert.match(noticeText(given[0]!), /554 5\.7\.1 your IP 203\.0\.113\.7 is blocked/);
  clock.advance(24 * 60 * MINUTE);
  await notices({ immediately: true });
  assert.equal(given.length, 2);
  assert.notEqual(given[0]!.key, given[1]!.key);
  const blocked = { destination: KEY, blockedSince: 0, host: null, outcome: JSON.stringify({ reply: null }) };
  const [one, other] = [5, 6].map((nowMs) => blockedNoticeOf(blocked, { nowMs, hasFallback: true }));
  assert.deepEqual(one, other, 'two concurrent nodes create one notice');
});
