/** Route calls within the process: every check of the route applies, with the caller of the outer request. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failure, refuse } from '../base/failure.ts';
import { createInnerCalls } from './inner-calls.ts';
import { answer, type CallerKey, defineRoute, type RouteDefinition, type RouteRequest } from './route.ts';
import { Type } from './schema-type.ts';
import { closed } from './validate.ts';

const caller: CallerKey = {
  keyId: 'key_1',
  scope: 'full',
  mode: 'live',
  actor: { kind: 'key', id: 'key_1', name: 'a' },
};

const outer = (change: Partial<RouteRequest<CallerKey>> = {}): RouteRequest<CallerKey> =>
  ({
    caller,
    requestId: 'req_1',
    remoteAddress: '192.0.2.1',
    rawBody: Buffer.from('{"sent":1}'),
    backPressure: undefined,
    ...change,
  }) as RouteRequest<CallerKey>;

const routes: RouteDefinition<CallerKey>[] = [
  defineRoute({
    method: 'GET',
    path: '/things/:id',
    summary: '',
    tag: '',
    access: { auth: 'key' },
    response: { status: 200 },
    query: closed({ limit: Type.Optional(Type.Integer({ minimum: 1 })) }),
    handle: ({ params, query, remoteAddress, requestId }) =>
      answer({ params, query, remoteAddress, requestId }, { A: 'b' }),
  }),
  defineRoute({
    method: 'POST',
    path: '/things',
    summary: '',
    tag: '',
    access: { auth: 'key', changesShared: true },
    response: { status: 201 },
    body: { schema: closed({ name: Type.String() }) },
    handle: ({ body }) => answer(body),
  }),
  defineRoute<CallerKey>({
    method: 'POST',
    path: '/send',
    summary: '',
    tag: '',
    access: { auth: 'key', scope: 'send' },
    response: { status: 202 },
    body: { rawFirst: true },
    load: { acceptsMail: true },
    idempotencyKey: true,
    handle: (request) => {
      if (request.backPressure !== undefined) return refuse(request.backPressure);
      const json = JSON.stringify({
        json: request.json(),
        submitted: request.submitted,
        keys: request.headerValues('Idempotency-Key'),
        raw: request.rawBody.toString(),
      });
      return { ok: true, json };
    },
  }),
];
const call = createInnerCalls(routes);

const refusalOf = async (asked: ReturnType<typeof call>): Promise<string> => {
  const made = await asked;
  return made.ok ? 'none' : made.failure.code;
};

test('parameters, query, and headers reach the route, and its response is returned as a value', async () => {
  const made = await call(outer(), { method: 'GET', path: '/things/a%2Fb', query: { limit: 5, cursor: undefined } });
  // Parameters have no prototype.
  assert.deepEqual(JSON.parse(JSON.stringify(made)), {
    ok: true,
    status: 200,
    headers: { A: 'b' },
    body: { params: { id: 'a/b' }, query: { limit: 5 }, remoteAddress: '192.0.2.1', requestId: 'req_1' },
  });
});

test('an error of the route is returned', async () => {
  const body = { name: 'x' };
  assert.equal(await refusalOf(call(outer(), { method: 'GET', path: '/nothing' })), 'NOT_FOUND');
  assert.equal(
    await refusalOf(call(outer(), { method: 'GET', path: '/things/1', query: { limit: 0 } })),
    'INVALID_REQUEST',
  );
  assert.equal(
    await refusalOf(call(outer(), { method: 'GET', path: '/things/1', query: { x: 1 } })),
    'INVALID_REQUEST',
  );
  assert.equal(
    await refusalOf(call(outer(), { method: 'POST', path: '/things', body: { name: 1 } })),
    'INVALID_REQUEST',
  );
  assert.equal(
    await refusalOf(call(outer(), { method: 'POST', path: '/things', body: { ...body, y: 1 } })),
    'INVALID_REQUEST',
  );
  const sandbox = outer({ caller: { ...caller, mode: 'sandbox' } });
  assert.equal(await refusalOf(call(sandbox, { method: 'POST', path: '/things', body })), 'FORBIDDEN');
  const sender = outer({ caller: { ...caller, scope: 'send' } });
  assert.equal(await refusalOf(call(sender, { method: 'GET', path: '/things/1' })), 'FORBIDDEN');
  assert.equal(await refusalOf(call(sender, { method: 'POST', path: '/send', body: {} })), 'none');
  assert.equal(await refusalOf(call(outer(), { method: 'POST', path: '/things', body })), 'none');
});

test('a send receives the original body, its key, and the back-pressure reason', async () => {
  const submitted = { ok: true as const, value: { sent: 1 } };
  const headers = { 'idempotency-key': 'k' };
  const made = await call(outer(), { method: 'POST', path: '/send', body: { made: 2 }, headers, submitted });
  assert.deepEqual(made.ok && made.body, {
    json: { ok: true, value: { made: 2 } },
    submitted,
    keys: ['k'],
    raw: '{"sent":1}',
  });
  const closedToMail = outer({ backPressure: failure('OVERLOADED') });
  assert.equal(await refusalOf(call(closedToMail, { method: 'POST', path: '/send', body: {} })), 'OVERLOADED');
});
