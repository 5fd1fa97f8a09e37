/** One event for thousands of endpoints, one of which is dead: all others get it, in few transactions. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { webhookRig } from '../../test/kit/webhook-rig.ts';

const ENDPOINTS = 3_000;
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

test('an unreachable endpoint among thousands does not delay the others', async () => {
  const calls = new Map<string, number>();
  const w = await webhookRig((close) => closers.push(close), {
    wrap: (database) => ({
      ...database,
      execute: (op, args) => {
        calls.set(op.name, (calls.get(op.name) ?? 0) + 1);
        return database.execute(op, args);
      },
    }),
  });
  const dead = await w.catcher({ silent: true });
  const live = await w.catcher();
  const { id: deadId } = await w.endpoint(dead.url);
  for (let i = 0; i < ENDPOINTS; i += 1) await w.endpoint(`${live.url}/${i}`);
  calls.clear();
  await w.event();
  w.worker.nudge();
  await waitUntil('all others to have it', () => live.requests.length === ENDPOINTS, 30_000);
  assert.equal(new Set(live.requests.map((one) => one.path)).size, ENDPOINTS);
  assert.equal(dead.requests.length, 1);
  await waitUntil('one row to be left', async () => (await w.depth()) === 1, 30_000);
  assert.deepEqual(await w.deliveries(deadId), [], 'its request is still under way');
  const [claims, settles] = [calls.get('webhooks.claim') ?? 0, calls.get('webhooks.settle') ?? 0];
  // Claims come in batches, and their results are recorded together.
  assert.ok(claims < ENDPOINTS / 20, `${claims} claims`);
  assert.ok(settles < ENDPOINTS / 5, `${settles} settles`);
  await dead.close();
});
