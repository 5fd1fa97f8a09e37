/** Endpoints that are changed or removed while their events wait in memory, as another node would do it: what each receiver gets. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { DIALECTS, type Dialect } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import type { CatcherAnswer, WebhookCatcher } from '../../test/kit/webhook-catcher.ts';
import { type WebhookRig, webhookRig } from '../../test/kit/webhook-rig.ts';
import { changedBy, systemOrigin } from '../audit/audit.ts';
import { LANE_LIMITS } from './lanes.ts';
import {
  dropDeliveriesOperation,
  findEndpointOperation,
  removeEndpointOperation,
  replaceEndpointOperation,
} from './store.ts';

/** Longer than the data of an endpoint may be old. */
const OUTDATED_MS = 1_100;
const EVENTS = 12;
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface Waiting extends WebhookRig {
  id: string;
  hook: WebhookCatcher;
  /** Ends the request in flight. */
  respond(): void;
  replace(fields: { url?: string; enabled?: boolean }): Promise<void>;
  remove(): Promise<void>;
}

/** Returns an endpoint with one request in flight and more events in memory. */
async function waiting(dialect: Dialect, answer: CatcherAnswer = {}): Promise<Waiting> {
  const limits = { ...LANE_LIMITS, perLane: 1 };
  const w = await webhookRig((close) => closers.push(close), {
    dialect,
    limits,
    random: () => 0.5,
    deps: { endpointFreshMs: 0 },
  });
  const held = Promise.withResolvers<void>();
  const hook = await w.catcher({ ...answer, held: held.promise });
  const { id } = await w.endpoint(hook.url);
  const key = { accountId: w.accountId, mode: 'live' as const, id };
  for (let count = 0; count < EVENTS; count += 1) await w.event();
  w.worker.nudge();
  await waitUntil('the events in memory', () => hook.requests.length === 1 && w.worker.leases() === EVENTS);
  const changes = () => changedBy(w.db.database, systemOrigin(Date.now()));
  return {
    ...w,
    id,
    hook,
    respond: () => {
      hook.answer();
      held.resolve();
    },
    replace: async ({ url = hook.url, enabled }) => {
      const fields = { url, events: '["Send"]', enabled: enabled ?? null, secretSealed: null, nowMs: Date.now() };
      assert.equal(typeof (await changes().execute(replaceEndpointOperation, { ...key, ...fields })), 'object');
    },
    remove: async () => {
      assert.equal(await changes().execute(removeEndpointOperation, key), true);
      await w.db.database.execute(dropDeliveriesOperation, { webhookId: id, limit: 1_000 });
    },
  };
}

for (const dialect of DIALECTS)
  describe(dialect, () => {
    test('events that wait are sent to the new URL, and a 410 of the old one does not disable the webhook', async () => {
      const w = await waiting(dialect, { status: 410 });
      const other = await w.catcher();
      await w.replace({ url: other.url });
      w.respond();
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      assert.deepEqual([w.hook.requests.length, other.requests.length], [1, EVENTS]);
      const key = { accountId: w.accountId, mode: 'live' as const, id: w.id };
      const endpoint = await w.db.database.execute(findEndpointOperation, key);
      assert.deepEqual([endpoint?.enabled, endpoint?.failing_since], [1, null]);
      assert.ok((await w.deliveries(w.id)).every((one) => one.status === 'succeeded'));
    });

    test('a removed webhook receives no more events, and its last result leaves no record', async () => {
      const w = await waiting(dialect, { status: 503 });
      await w.remove();
      w.respond();
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      assert.equal(w.hook.requests.length, 1);
      assert.equal(await w.db.database.execute(dropDeliveriesOperation, { webhookId: w.id, limit: 1_000 }), 0);
    });

    test('a disabled webhook receives no more events, and those that waited fail', async () => {
      const w = await waiting(dialect);
      await w.replace({ enabled: false });
      w.respond();
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      assert.equal(w.hook.requests.length, 1);
      const failed = (await w.deliveries(w.id)).filter((one) => one.status === 'failed');
      assert.equal(failed.length, EVENTS - 1);
      assert.ok(failed.every(({ attempts, error }) => attempts === 0 && error?.includes('the webhook is disabled')));
    });

    test('events that waited for an unchanged webhook are sent once', async () => {
      const w = await waiting(dialect);
      w.respond();
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      assert.equal(w.hook.requests.length, EVENTS);
      assert.ok((await w.deliveries(w.id)).every((one) => one.status === 'succeeded' && one.attempts === 1));
    });
  });

test('a stop during the read of an endpoint starts no request', async () => {
  const read = Promise.withResolvers<void>();
  let reads = 0;
  const w = await webhookRig((close) => closers.push(close), {
    deps: { endpointFreshMs: 0 },
    wrap: (database) => ({
      ...database,
      execute: async (op, args) => {
        if (op.name === 'webhooks.presentTargets') {
          reads += 1;
          await read.promise;
        }
        return database.execute(op, args);
      },
    }),
  });
  const hook = await w.catcher();
  await w.endpoint(hook.url);
  await w.event();
  w.worker.nudge();
  await waitUntil('the read', () => reads === 1);
  const stopped = w.worker.stop();
  read.resolve();
  await stopped;
  assert.equal(hook.requests.length, 0);
  assert.equal(await w.depth(), 1, 'the row waits for the next process');
});

test('the endpoints of waiting events are read together, and not for each event', async () => {
  let reads = 0;
  let read = 0;
  const limits = { ...LANE_LIMITS, perLane: 1 };
  const w = await webhookRig((close) => closers.push(close), {
    limits,
    wrap: (database) => ({
      ...database,
      execute: (op, args) => {
        if (op.name === 'webhooks.presentTargets') {
          reads += 1;
          read += (args as { ids: string[] }).ids.length;
        }
        return database.execute(op, args);
      },
    }),
  });
  const held = Promise.withResolvers<void>();
  const hook = await w.catcher({ held: held.promise });
  for (let count = 0; count < 5; count += 1) await w.endpoint(hook.url);
  for (let count = 0; count < 10; count += 1) await w.event();
  w.worker.nudge();
  await waitUntil('the events in memory', () => hook.requests.length === 5 && w.worker.leases() === 50);
  await sleep(OUTDATED_MS);
  const beganMs = performance.now();
  hook.answer();
  held.resolve();
  await waitUntil('all to be settled', async () => (await w.depth()) === 0);
  assert.equal(hook.requests.length, 50);
  assert.ok(reads > 0, 'control: the endpoints were read again');
  const seconds = Math.floor((performance.now() - beganMs) / 1_000);
  assert.ok(read <= 5 * (1 + seconds), `${read} endpoints in ${reads} reads within ${seconds} s`);
});
