/** POST /send/batch, and both routes as called over HTTP. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { GOOD, rowsOf, type SendRig, sendRig, settle } from '../../test/kit/send-rig.ts';
import type { Caller } from '../accounts/accounts.ts';
import { createSendRoutes } from '../api/send.ts';
import { failure, OutcomeUnknown, ok, refuse, Unavailable } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import type { Mode } from '../base/mode.ts';
import type { RouteAnswer, RouteDefinition, RouteRequest } from '../http/route.ts';
import { parseStrictJson } from '../http/strict-json.ts';
import { compile } from '../http/validate.ts';
import { keepAnswerOperation, removeExpiredOperation } from '../idempotency/idempotency.ts';
import { cancelMessageOperation, moveMessageOperation } from '../messages/api-store.ts';
import { beginMoveOperation, endMoveOperation } from '../sandbox/clock-store.ts';
import type { Database } from '../storage/database.ts';
import type { Send } from './accept.ts';
import { acceptOperation } from './acceptance.ts';
import { sendBatch } from './batch.ts';
import { batchBody, sendBody } from './request.ts';

const DAY_MS = 86_400_000;

let rig: SendRig;
before(async () => {
  rig = await sendRig();
});
after(() => rig.close());

type Item = {
  status: number;
  data?: { messageId: string };
  error?: { code: string; message: string; details: { field: string }[] };
  reasonCode?: string;
};

interface Call {
  path: string;
  body: unknown;
  keys?: string[];
  query?: Record<string, unknown>;
  routes?: RouteDefinition<Caller>[];
  mode?: Mode;
}

/** Calls a route's handler like the HTTP server does. */
async function call({ path, body, keys = [], query = {}, routes, mode = 'live' }: Call): Promise<RouteAnswer> {
  const route = (routes ?? createSendRoutes(rig.dependencies)).find((one) => one.path === path)!;
  const rawBody = Buffer.from(JSON.stringify(body));
  const validate = compile(path === '/send' ? sendBody : batchBody);
  const request = {
    caller: { account: rig.account, mode, allowedSenders: [], scope: 'send', keyId: 'key_x' },
    rawBody,
    query,
    log: silentLog,
    noteMessage: () => undefined,
    headerValues: () => keys,
    inputIssues: [],
    json: () => parseStrictJson(rawBody),
    parse: () => {
      const json = parseStrictJson(rawBody);
      return json.ok ? validate(json.value) : json;
    },
  };
  return route.handle(request as unknown as RouteRequest<Caller, undefined, undefined>);
}

async function batch(
  messages: unknown[],
  keys: string[] = [],
  routes?: RouteDefinition<Caller>[],
  mode: Mode = 'live',
) {
  const answer = await call({ path: '/send/batch', body: { messages }, keys, mode, ...(routes && { routes }) });
  assert.ok('json' in answer, JSON.stringify(answer));
  return { answer, results: (JSON.parse(answer.json) as { results: Item[] }).results };
}

async function codeOf(answer: Promise<RouteAnswer>): Promise<string> {
  const result = await answer;
  return result.ok ? 'accepted' : result.failure.code;
}

test('each message is validated and stored separately, with results in order', async () => {
  const { answer, results } = await batch([GOOD, { ...GOOD, to: 'x' }, 7, { ...GOOD, from: 'a@other.example' }, GOOD]);
  assert.equal(answer.ok && answer.status, 200);
  assert.deepEqual(
    results.map((one) => one.status),
    [202, 400, 400, 403, 202],
  );
  assert.deepEqual(
    results.map((one) => one.error?.code),
    [undefined, 'INVALID_REQUEST', 'INVALID_REQUEST', 'SENDER_NOT_VERIFIED', undefined],
  );
  assert.deepEqual(
    results.map((one) => one.reasonCode),
    results.map((one) => one.error?.code),
  );
  assert.equal(results[1]?.error?.details[0]?.field, 'to');
  const stored = await rowsOf<{ id: string }>(rig, 'SELECT id FROM message');
  assert.deepEqual(
    new Set(stored.map((row) => row.id)),
    new Set([results[0]!.data!.messageId, results[4]!.data!.messageId]),
  );
});

test('a batch has 1 to 100 messages', async () => {
  assert.equal(
    (await batch(Array.from({ length: 100 }, () => GOOD))).results.every((one) => one.status === 202),
    true,
  );
  for (const messages of [[], Array.from({ length: 101 }, () => GOOD), 'x']) {
    assert.equal(await codeOf(call({ path: '/send/batch', body: { messages } })), 'INVALID_REQUEST');
  }
});

test('a key replays the entire response, and another body is rejected', async () => {
  const messages = [GOOD, { ...GOOD, to: 'x' }];
  const first = await batch(messages, ['b1']);
  const { from, ...rest } = GOOD;
  // Members in another order are the same value.
  const second = await batch(
    [
      { ...rest, from },
      { ...GOOD, to: 'x' },
    ],
    ['b1'],
  );
  assert.ok('json' in first.answer && 'json' in second.answer);
  assert.equal(second.answer.json, first.answer.json);
  assert.equal(second.answer.headers?.['Idempotent-Replayed'], 'true');
  assert.equal(
    await codeOf(call({ path: '/send/batch', body: { messages: [GOOD] }, keys: ['b1'] })),
    'IDEMPOTENCY_KEY_REUSED',
  );
});

test('messages that share a submission run in order, others concurrently', async () => {
  const began: unknown[] = [];
  const ended = new Map<unknown, (result: Awaited<ReturnType<Send['send']>>) => void>();
  const send: Send = {
    send: ({ read }) => {
      const message = read();
      const name = message.ok ? (message.value as { subject: string }).subject : '';
      began.push(name);
      return new Promise((resolve) => ended.set(name, resolve));
    },
  };
  const names = ['a', 'a', 'b', undefined, undefined, 7, 7, 'a', 'b'];
  const messages = names.map((id, index) => ({ subject: String(index), attachmentSubmissionId: id }));
  const { account } = rig;
  const request = {
    caller: { account, mode: 'live' as const, allowedSenders: [] },
    origin: {},
    parse: () => ok({ messages }),
    log: silentLog,
  };
  const running = sendBatch(send, rig.dependencies, request);
  const end = async (name: string, isAccepted: boolean): Promise<unknown[]> => {
    const json = JSON.stringify({ data: { messageId: `msg_${name}` } });
    ended.get(name)!(isAccepted ? ok({ status: 202, json, replayed: false }) : refuse(failure('CONFLICT')));
    await setImmediate();
    return began;
  };
  assert.deepEqual(began, ['0', '2', '3', '4', '5', '6']);
  await end('4', true);
  assert.equal(began.length, 6);
  assert.deepEqual((await end('0', false)).slice(6), ['1'], 'a rejection lets the next one try');
  assert.deepEqual((await end('2', true)).slice(6), ['1', '8']);
  assert.deepEqual((await end('1', true)).slice(6), ['1', '8', '7']);
  for (const name of ['3', '5', '6', '7', '8']) await end(name, true);
  const result = await running;
  const { results } = JSON.parse(result.ok ? result.value.json : '{}') as { results: Item[] };
  assert.deepEqual(
    results.map((one) => one.data?.messageId),
    names.map((_, index) => (index === 0 ? undefined : `msg_${index}`)),
  );
});

test('a batch without accepted messages leaves its key unused', async () => {
  await batch([{ ...GOOD, to: 'x' }], ['corrected']);
  assert.deepEqual(await rowsOf(rig, "SELECT endpoint FROM idempotency WHERE key = 'corrected'"), []);
  const { results } = await batch([GOOD], ['corrected']);
  assert.equal(results[0]?.status, 202);
});

test('the key of a batch is free after 24 hours if its messages are finished, also in a sandbox that is years ahead', async () => {
  const own = await sendRig();
  try {
    const routes = createSendRoutes(own.dependencies);
    const accountId = own.account.id;
    const toMs = own.clock.now() + 10 * 365 * DAY_MS;
    const move = { accountId, by: 'test', nowMs: own.clock.now() };
    await own.database.execute(beginMoveOperation, { ...move, leaseMs: 1_000 });
    await own.database.execute(endMoveOperation, { ...move, toMs, released: [] });
    for (const mode of ['live', 'sandbox'] as const) {
      const first = await batch([GOOD], ['free'], routes, mode);
      const { messageId } = first.results[0]!.data!;
      await settle(own, messageId, { to: 'delivered' });
      own.clock.advance(DAY_MS - 1);
      assert.deepEqual((await batch([GOOD], ['free'], routes, mode)).results, first.results, mode);
      own.clock.advance(1);
      const second = await batch([{ ...GOOD, text: 'another body' }], ['free'], routes, mode);
      assert.notEqual(second.results[0]!.data!.messageId, messageId, mode);
    }
  } finally {
    await own.close();
  }
});

test('the response of a batch is kept until its last message is settled, even if moved', async () => {
  const own = await sendRig();
  try {
    const routes = createSendRoutes(own.dependencies);
    const sendAt = new Date(own.clock.now() + 3 * DAY_MS).toISOString();
    const messages = [
      { ...GOOD, expiresAfterSeconds: 60 },
      { ...GOOD, sendAt, expiresAfterSeconds: 60 },
    ];
    const prune = async (): Promise<string[]> => {
      const { database, clock } = own;
      await database.execute(removeExpiredOperation, { beforeMs: clock.now(), limit: 1000, after: null });
      const kept = await rowsOf<{ key: string }>(own, "SELECT key FROM idempotency WHERE endpoint = '/send/batch'");
      return kept.map((row) => row.key);
    };
    const first = await batch(messages, ['long'], routes);
    const short = await batch([{ ...GOOD, expiresAfterSeconds: 60 }], ['short'], routes);
    const [now, later] = first.results.map((result) => result.data!.messageId);
    const key = { accountId: own.account.id, mode: 'live' as const, messageId: later! };
    await own.database.execute(moveMessageOperation, {
      ...key,
      sendAtMs: own.clock.now() + 20 * DAY_MS,
      nowMs: own.clock.now(),
    });
    await settle(own, now!, { to: 'delivered' });
    await settle(own, short.results[0]!.data!.messageId, { to: 'delivered' });
    own.clock.advance(10 * DAY_MS);
    assert.deepEqual(await prune(), ['long']);
    const again = await batch(messages, ['long'], routes);
    assert.deepEqual(again.results, first.results);
    await own.database.execute(cancelMessageOperation, { ...key, eventId: 'evt_1', nowMs: own.clock.now() });
    assert.deepEqual(await prune(), []);
  } finally {
    await own.close();
  }
});

test('retrying a batch sends only the messages that were not accepted', async () => {
  let failures = 2;
  const database: Database = {
    dialect: 'sqlite',
    state: () => rig.database.state(),
    close: () => rig.database.close(),
    execute: (op, args) => {
      if (op.name === acceptOperation.name && failures > 0) {
        failures -= 1;
        return Promise.reject(new Unavailable('disk full'));
      }
      return rig.database.execute(op, args);
    },
  };
  const routes = createSendRoutes({ ...rig.dependencies, database });
  const messages = ['a', 'b', 'c'].map((name) => ({ ...GOOD, to: `${name}@example.com` }));
  const first = await batch(messages, ['halfway'], routes);
  assert.deepEqual(
    first.results.map((one) => one.status),
    [503, 503, 202],
  );
  assert.equal(first.results[0]?.error?.code, 'UNAVAILABLE');
  const second = await batch(messages, ['halfway'], routes);
  assert.deepEqual(
    second.results.map((one) => one.status),
    [202, 202, 202],
  );
  assert.equal(second.results[2]?.data?.messageId, first.results[2]?.data?.messageId);
  const third = await batch(messages, ['halfway'], routes);
  assert.deepEqual(third.results, second.results);
});

test('an unknown outcome is 500, and an unstorable response does not reject its messages', async () => {
  let broken: string | undefined = acceptOperation.name;
  const database: Database = {
    dialect: 'sqlite',
    state: () => rig.database.state(),
    close: () => rig.database.close(),
    execute: async (op, args) => {
      if (op.name === keepAnswerOperation.name && broken === op.name) throw new Unavailable('away');
      const done = await rig.database.execute(op, args);
      if (op.name === acceptOperation.name && broken === op.name) throw new OutcomeUnknown('lost');
      return done;
    },
  };
  const routes = createSendRoutes({ ...rig.dependencies, database });
  const messages = [{ ...GOOD, to: 'unknown@example.com' }];
  const [lost] = (await batch(messages, ['unknown'], routes)).results;
  assert.equal(lost?.status, 500);
  assert.equal(lost?.error?.code, 'INTERNAL_ERROR');
  assert.match(lost?.error?.message ?? '', /^Postrider cannot tell whether/);
  broken = keepAnswerOperation.name;
  await assert.rejects(batch(messages, ['unknown'], routes), OutcomeUnknown);
  broken = undefined;
  assert.equal((await batch(messages, ['unknown'], routes)).results[0]?.status, 202);
  const stored = await rowsOf<{ n: number }>(
    rig,
    "SELECT count(*) AS n FROM message WHERE recipient = 'unknown@example.com'",
  );
  assert.equal(stored[0]?.n, 1);
});

test('/send over HTTP supports keys, replay, and query parameters', async () => {
  const first = await call({ path: '/send', body: GOOD, keys: ['r1'] });
  const second = await call({ path: '/send', body: GOOD, keys: ['r1'] });
  assert.ok('json' in first && 'json' in second);
  assert.deepEqual([first.status, second.status, second.json === first.json], [202, 202, true]);
  assert.deepEqual([first.headers, second.headers], [undefined, { 'Idempotent-Replayed': 'true' }]);
  assert.equal(await codeOf(call({ path: '/send', body: GOOD, keys: ['r2', 'r2'] })), 'INVALID_REQUEST');
  assert.equal(await codeOf(call({ path: '/send', body: GOOD, keys: ['ü'] })), 'INVALID_REQUEST');
  const before = await rowsOf<{ n: number }>(rig, 'SELECT count(*) AS n FROM message');
  const dry = await call({ path: '/send', body: GOOD, keys: ['r3'], query: { dryRun: true } });
  assert.ok('json' in dry && dry.status === 200);
  assert.deepEqual(await rowsOf<{ n: number }>(rig, 'SELECT count(*) AS n FROM message'), before);
});
