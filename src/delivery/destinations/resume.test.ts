/** Messages deferred by a pause, after a restart: they are counted for their destination, and sent when the pause is ended. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { mxRig } from '../../../test/kit/mx-rig.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { changedBy, systemOrigin } from '../../audit/audit.ts';
import { destinationsOf } from '../../operator/destinations.ts';
import { resumeDestinationOperation } from './pause-store.ts';

const KEY = 'mx.peer.example';
const SLOW_DOWN = '421 4.7.28 too fast, try again in 3600 seconds';
const COUNTED_EVERY_MS = 10_000;

/** Two destinations each reject a message, more messages are deferred without an attempt, and the process restarts. */
async function putOff(t: TestContext, domains: number) {
  const mx = await mxRig({ peer: { script: { mail: SLOW_DOWN } }, other: { script: { mail: SLOW_DOWN } } });
  t.after(() => mx.close());
  const { rig } = mx;
  const names = Array.from({ length: domains }, (_, index) => `d${index}.example`);
  mx.exchange('peer', KEY, ['first.example', ...names]);
  mx.exchange('other', 'mx.other.example', ['other.example']);
  const store = async (of: readonly string[]) => {
    const ids = await Promise.all(of.map(async (domain) => (await rig.store({ to: [`a@${domain}`] }))[0]!));
    rig.delivery.nudge();
    await waitUntil('all to be delayed', () => ids.every((id) => rig.status(id) === 'delayed'));
    return ids;
  };
  await store(['first.example', 'other.example']);
  const [other, ...ids] = await store(['other.example', ...names]);
  assert.deepEqual(
    [other!, ...ids].flatMap((id) => rig.attempts(id)),
    [],
  );
  await rig.restart();
  const shown = () => rig.delivery.published().find(({ key }) => key === KEY);
  return { ...mx, ids, other: other!, shown };
}

test('deferred messages are counted with their reason after a restart, beyond the listed domains', async (t) => {
  const { rig, shown } = await putOff(t, 120);
  await waitUntil('all to be counted', () => (shown()?.deferred ?? 0) >= 120);
  const { domains, requested: asked, replies, pausedUntil } = shown()!;
  assert.deepEqual([domains!.length, asked, replies[0]?.reply], [100, true, SLOW_DOWN]);
  const node = { id: 'a', host: 'h', version: '1', roles: [], startedAt: 0, seenAt: 0 };
  const nodes = [1, 2].map(() => ({ ...node, state: { destinations: [shown()!] } }));
  const [view] = destinationsOf(nodes, [{ domain: domains![0]!, depth: 1, nextDueMs: null, failedSeq: null }], {
    isRelayed: false,
  });
  assert.equal(view!.depth, shown()!.deferred, 'the same messages are counted on both nodes');
  rig.clock.set(pausedUntil!);
  await waitUntil('the pause to end', () => rig.delivery.state().pausedDestinations.length === 0);
  rig.clock.advance(COUNTED_EVERY_MS);
  await waitUntil('the count to be zero', () => (shown()?.deferred ?? 0) === 0);
});

test('ending a pause after a restart sends only the messages it deferred', async (t) => {
  const { rig, sinks, ids, other } = await putOff(t, 6);
  await waitUntil('the pause to be loaded', () => rig.delivery.state().pausedDestinations.length === 2);
  sinks.peer!.setScript({});
  const nowMs = rig.clock.now();
  const changes = changedBy(rig.storage.database, systemOrigin(nowMs));
  await changes.execute(resumeDestinationOperation, { destination: KEY, nowMs });
  await waitUntil('all to be delivered', () => ids.every((id) => rig.status(id) === 'delivered'));
  assert.ok(sinks.peer!.accepted >= ids.length);
  const [{ due }] = rig.rows<{ due: number }>('SELECT due FROM work WHERE subject = ?', other) as [{ due: number }];
  assert.ok(due - rig.clock.now() > 3_400_000, `the other message is due in ${due - rig.clock.now()} ms`);
});
