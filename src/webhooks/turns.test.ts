/** Ordered endpoints: what arrives at the receiver, and when. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import pg from 'pg';
import { DIALECTS, type Dialect } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import type { CaughtRequest, WebhookCatcher } from '../../test/kit/webhook-catcher.ts';
import { type WebhookRig, type WorldOptions, webhookRig } from '../../test/kit/webhook-rig.ts';
import { changedBy, systemOrigin } from '../audit/audit.ts';
import type { DeliveryRow } from './endpoints.ts';
import { retryDeliveryOperation } from './log-store.ts';
import { createReplay } from './replay.ts';
import { replaceEndpointOperation } from './store.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface OrderedWorld extends WebhookRig {
  hook: WebhookCatcher;
  id: string;
  /** Creates one event for each address, in order; returns the messages. */
  events(...addresses: string[]): Promise<string[]>;
  /** The messages that the receiver got, in order. */
  received(recipient?: string): string[];
}

interface SentEvent {
  messageId: string;
  recipient: string;
}

const eventOf = ({ body }: CaughtRequest): SentEvent => JSON.parse(body) as SentEvent;

async function world(dialect: Dialect, options: WorldOptions = {}): Promise<OrderedWorld> {
  const made = await webhookRig((close) => closers.push(close), { dialect, random: () => 0.5, ...options });
  const hook = await made.catcher();
  const { id } = await made.endpoint(hook.url, { ordered: true });
  return {
    ...made,
    hook,
    id,
    events: async (...addresses) => {
      const messages: string[] = [];
      for (const address of addresses) messages.push(await made.event(address));
      return messages;
    },
    received: (recipient) =>
      hook.requests
        .map(eventOf)
        .filter((event) => recipient === undefined || event.recipient === recipient)
        .map((event) => event.messageId),
  };
}

/** Attempts of the schedule. */
const MOST_ATTEMPTS = 10;
const ANN = 'ann@example.com';
const BOB = 'bob@example.com';
const isFor =
  (recipient: string) =>
  (request: CaughtRequest): boolean =>
    eventOf(request).recipient === recipient;

async function replace(w: OrderedWorld, fields: { enabled?: boolean; ordered?: boolean }): Promise<void> {
  const nowMs = w.clock.now();
  const events = JSON.stringify(['Send']);
  const { accountId, id, hook } = w;
  const change = { accountId, mode: 'live' as const, id, url: hook.url, events, secretSealed: null, nowMs };
  await changedBy(w.db.database, systemOrigin(nowMs)).execute(replaceEndpointOperation, {
    ...change,
    enabled: fields.enabled ?? null,
    ...(fields.ordered !== undefined && { ordered: fields.ordered }),
  });
}

/** Sends a delivery again now. */
async function retry({ db, accountId, id, worker }: OrderedWorld, deliveryId: string): Promise<void> {
  const nowMs = Date.now();
  await changedBy(db.database, systemOrigin(nowMs)).execute(retryDeliveryOperation, {
    accountId,
    mode: 'live',
    id,
    deliveryId,
    nowMs,
  });
  worker.nudge();
}

/** Returns the delivery that waits for its next attempt after this many. */
function pendingAfter(w: OrderedWorld, attempts: number): Promise<string> {
  return waitUntil(
    `attempt ${attempts} to be recorded`,
    async () => (await w.deliveries(w.id)).find((one) => one.status === 'pending' && one.attempts === attempts)?.id,
  );
}

for (const dialect of DIALECTS)
  describe(dialect, () => {
    test('one delivery at a time per recipient, in the order of events, while other recipients continue', async () => {
      const w = await world(dialect);
      const held = Promise.withResolvers<void>();
      w.hook.answer((request) => (isFor(ANN)(request) && w.received(ANN).length === 1 ? { held: held.promise } : {}));
      const first = await w.events(ANN, ANN, 'ANN@example.com', ANN);
      const others = await w.events(BOB, BOB, 'cy@example.com');
      const later = await w.events(ANN);
      await waitUntil('the others to be sent', () => w.hook.requests.length === 1 + others.length);
      assert.deepEqual(w.received(ANN), [first[0]]);
      assert.deepEqual(w.received(BOB), others.slice(0, 2));
      held.resolve();
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      const toAnn = w.hook.requests.map(eventOf).filter(({ recipient }) => recipient.toLowerCase() === ANN);
      assert.deepEqual(
        toAnn.map(({ messageId }) => messageId),
        [...first, ...later],
      );
    });

    test('a failed delivery holds only later events of its recipient, until it succeeds', async () => {
      const w = await world(dialect);
      const plain = await w.catcher();
      await w.endpoint(plain.url);
      let failures = 2;
      w.hook.answer((request) => {
        if (!isFor(ANN)(request) || failures === 0) return {};
        failures -= 1;
        return { status: 500 };
      });
      const toAnn = await w.events(ANN, ANN, ANN);
      const toBob = await w.events(BOB, BOB);
      await waitUntil('the first attempts', () => w.received(BOB).length === 2 && plain.requests.length === 5);
      const first = await pendingAfter(w, 1);
      assert.deepEqual(w.received(ANN), [toAnn[0]]);
      assert.deepEqual(w.received(BOB), toBob);
      await retry(w, first);
      await retry(w, await pendingAfter(w, 2));
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      assert.deepEqual(w.received(ANN), [toAnn[0], toAnn[0], ...toAnn]);
    });

    test('when a delivery finally fails, the next one continues', async () => {
      const w = await world(dialect);
      let failing: string | undefined;
      w.hook.answer((request) => {
        failing ??= eventOf(request).messageId;
        return eventOf(request).messageId === failing ? { status: 500 } : {};
      });
      const [first, second] = await w.events(ANN, ANN);
      for (let attempts = 1; attempts < MOST_ATTEMPTS; attempts += 1) {
        const id = await pendingAfter(w, attempts);
        assert.equal(w.received().includes(second!), false);
        await retry(w, id);
      }
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      assert.deepEqual(w.received(), [...Array.from({ length: MOST_ATTEMPTS }, () => first), second]);
      const statuses = (await w.deliveries(w.id)).map((one) => [one.event_id, one.status, one.attempts]);
      assert.deepEqual(
        statuses.map(([, status, attempts]) => [status, attempts]),
        [
          ['succeeded', 1],
          ['failed', MOST_ATTEMPTS],
        ],
      );
    });

    test('when the endpoint is disabled, waiting events end, and enabling it again starts with new events', async () => {
      const w = await world(dialect);
      const held = Promise.withResolvers<void>();
      w.hook.answer({ status: 410, held: held.promise });
      await w.events(ANN, ANN, ANN);
      held.resolve();
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      assert.equal(w.hook.requests.length, 1);
      const ended = await w.deliveries(w.id);
      assert.deepEqual(ended.map(({ status, attempts }) => [status, attempts]).toSorted(), [
        ['failed', 0],
        ['failed', 0],
        ['failed', 1],
      ]);
      w.hook.answer();
      await replace(w, { enabled: true });
      const [again] = await w.events(ANN);
      await waitUntil('the next event', () => w.hook.requests.length === 2);
      assert.equal(w.received().at(-1), again);
    });

    test('events that wait are sent immediately when the endpoint is no longer ordered', async () => {
      const w = await world(dialect);
      const held = Promise.withResolvers<void>();
      w.hook.answer((request) => (w.received()[0] === eventOf(request).messageId ? { held: held.promise } : {}));
      await w.events(ANN, ANN, ANN);
      await waitUntil('the first request', () => w.hook.requests.length === 1);
      await replace(w, { ordered: false });
      w.worker.nudge();
      await waitUntil('the other requests', () => w.hook.requests.length === 3);
      held.resolve();
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
    });

    test('a replay sends the events of a recipient in order, and before events that are still queued', async () => {
      const w = await world(dialect);
      const sinceMs = w.clock.now() - 60_000;
      const sent = await w.events(ANN, ANN, BOB, ANN);
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      const held = Promise.withResolvers<void>();
      const [newest] = await w.events(ANN);
      w.hook.answer((request) => (eventOf(request).messageId === newest ? { held: held.promise } : {}));
      const isNewestSent = (): boolean => w.received().includes(newest!);
      const untilMs = w.clock.now() + 60_000;
      const { accountId, id, db } = w;
      const replay = createReplay({ database: db.database, clock: w.clock });
      const replayed = {
        accountId,
        mode: 'live' as const,
        webhookId: id,
        eventTypes: ['Send' as const],
        sinceMs,
        untilMs,
      };
      await waitUntil('the newest event to be sent', isNewestSent);
      const [later] = await w.events(ANN);
      const queued = await replay(replayed);
      assert.deepEqual(queued, { ok: true, value: sent.length }, 'the others are queued already');
      held.resolve();
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      const toAnn = sent.filter((_, index) => index !== 2);
      assert.deepEqual(w.received(ANN), [...toAnn, newest, ...toAnn, later]);
    });

    test('a replay sends the events that wait for a retry now, in order and once', async () => {
      const w = await world(dialect);
      w.hook.answer((request) => (isFor(ANN)(request) ? { status: 503, headers: { 'retry-after': '3600' } } : {}));
      const toAnn = await w.events(ANN, ANN, ANN);
      await pendingAfter(w, 1);
      w.hook.answer();
      const { accountId, id, db } = w;
      const period = { sinceMs: w.clock.now() - 60_000, untilMs: w.clock.now() + 60_000 };
      const replayed = { accountId, mode: 'live' as const, webhookId: id, eventTypes: ['Send' as const], ...period };
      const queued = await createReplay({ database: db.database, clock: w.clock })(replayed);
      assert.deepEqual(queued, { ok: true, value: 1 }, 'the others wait for the first one');
      await waitUntil('all to be settled', async () => (await w.depth()) === 0);
      assert.deepEqual(w.received(ANN), [toAnn[0], ...toAnn]);
    });

    test('the order holds with several nodes, failures, and restarts, and no recipient gets two requests at a time', async () => {
      const w = await world(dialect);
      const people = Array.from({ length: 6 }, (_, index) => `p${index}@example.com`);
      const running = new Map<string, number>();
      let most = 0;
      let requests = 0;
      const done: SentEvent[] = [];
      w.hook.answer((request) => {
        const event = eventOf(request);
        requests += 1;
        const isFailing = requests % 10 === 0;
        running.set(event.recipient, (running.get(event.recipient) ?? 0) + 1);
        most = Math.max(most, running.get(event.recipient)!);
        const held = new Promise<void>((resolve) => setTimeout(resolve, requests % 4)).then(() => {
          running.set(event.recipient, running.get(event.recipient)! - 1);
          if (!isFailing) done.push(event);
        });
        return { held, status: isFailing ? 500 : 200 };
      });
      const others = [w.start(), w.start()];
      const wanted: string[] = [];
      for (let round = 0; round < 12; round += 1) {
        wanted.push(...(await w.events(...people)));
        if (round === 4) await w.worker.stop();
        if (round === 6) others.push(w.start());
        if (round === 8) await others[0]!.stop();
      }
      await waitUntil('all to be settled', async () => {
        const isWaiting = ({ status, next_attempt_at: at }: DeliveryRow): boolean =>
          status === 'pending' && (at ?? 0) > Date.now() + 1_000;
        for (const one of (await w.deliveries(w.id)).filter(isWaiting)) await retry(w, one.id);
        return (await w.depth()) === 0;
      });
      assert.equal(most, 1);
      for (const [index, person] of people.entries()) {
        assert.deepEqual(
          // A retry that comes after the event was accepted sends it again.
          [...new Set(done.filter(({ recipient }) => recipient === person).map(({ messageId }) => messageId))],
          wanted.filter((_, at) => at % people.length === index),
          person,
        );
      }
    });
  });

test('a claim that runs while the endpoint stops being ordered leaves no event held back', async () => {
  const w = await world('postgres');
  const held = Promise.withResolvers<void>();
  w.hook.answer(() => ({ held: held.promise }));
  await w.events(ANN);
  await waitUntil('the first request', () => w.hook.requests.length === 1);
  // Another transaction has the turn, so that the claim stops after it has read that the endpoint is ordered.
  const other = new pg.Client({ connectionString: w.db.url });
  await other.connect();
  closers.push(() => other.end());
  const lock = [`${w.id} ${ANN}`];
  await other.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', lock);
  const waiting = async (): Promise<number> => {
    const { rows } = await other.query(
      'SELECT count(*)::int AS n FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE NOT l.granted AND d.datname = current_database()',
    );
    return rows[0].n;
  };
  await w.events(ANN, ANN);
  await waitUntil('the claim to wait for the turn', async () => (await waiting()) === 1);
  const replaced = replace(w, { ordered: false });
  await waitUntil('the change to wait for the claim', async () => (await waiting()) === 2);
  await other.query('SELECT pg_advisory_unlock(hashtextextended($1, 0))', lock);
  await replaced;
  w.worker.nudge();
  await waitUntil('the other requests', () => w.hook.requests.length === 3);
  held.resolve();
  await waitUntil('all to be settled', async () => (await w.depth()) === 0);
});
