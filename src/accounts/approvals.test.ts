/** Requests for a larger email size: what accounts can request, and what only the operator decides. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RouteServer, serveRoutes } from '../../test/kit/call-routes.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { type TempDatabase, tempDatabase } from '../../test/kit/temp-database.ts';
import { accountRoutes, approvalRoutes } from '../api/accounts.ts';
import { cursorOf } from '../http/paging.ts';
import {
  createAccount,
  createAuthenticator,
  createKey,
  createSmtpAuthenticator,
  decideApprovalOperation,
} from './accounts.ts';

let temp: TempDatabase;
let server: RouteServer;
const clock = fakeClock();
before(async () => {
  temp = await tempDatabase();
  const { database } = temp;
  const authenticator = createAuthenticator({ database, clock });
  const routes = [
    ...accountRoutes({
      database,
      clock,
      callers: authenticator,
      logins: createSmtpAuthenticator({ database, clock }),
      submissionPorts: () => ({ port: 587, tlsPort: 465 }),
      signingSecretKey: undefined,
      nudge: () => undefined,
    }),
    ...approvalRoutes({ database, clock }),
  ];
  server = await serveRoutes({ database, clock, routes, authenticator });
});
after(async () => {
  await server.close();
  await temp.close();
});

interface Credentials {
  id: string;
  key: string;
  sandboxKey: string;
}

async function someAccount(): Promise<Credentials> {
  const made = await createAccount({ database: temp.database, clock }, { name: 'Test', plan: 'paid' });
  return { id: made.account.id, key: made.apiKey, sandboxKey: made.sandboxApiKey };
}

const fieldsOf = (answer: { body: { error: { details: { field: string }[] } } }): string[] => [
  ...new Set(answer.body.error.details.map((one) => one.field)),
];
const ask = (caller: Credentials, json: unknown) => server.call('POST', '/approvals', { ...caller, json });
const decide = (id: string, status: 'approved' | 'rejected', reason: string | null = null) =>
  temp.database.execute(decideApprovalOperation, { id, status, reason, nowMs: clock.now() });
const limitOf = async (caller: Credentials): Promise<number> =>
  (await server.call('GET', '/account', caller)).body.approvedEmailBytes;

test('a request is pending until it is decided, and then includes the decision', async () => {
  const caller = await someAccount();
  const first = await ask(caller, { requestedEmailBytes: 10_000_000, reason: 'Invoices with drawings' });
  assert.equal(first.status, 201);
  assert.match(first.body.approvalId, /^apr_/);
  assert.deepEqual(first.body, {
    approvalId: first.body.approvalId,
    requestedEmailBytes: 10_000_000,
    reason: 'Invoices with drawings',
    status: 'pending',
    createdAt: new Date(clock.now()).toISOString(),
  });
  clock.advance(1);
  const second = await ask(caller, { requestedEmailBytes: 40_000_000, reason: 'More' });
  await decide(first.body.approvalId, 'approved');
  await decide(second.body.approvalId, 'rejected', 'Too much for a start');
  const list = await server.call('GET', '/approvals', caller);
  assert.deepEqual(list.body, [
    { ...second.body, status: 'rejected', decisionReason: 'Too much for a start' },
    { ...first.body, status: 'approved' },
  ]);
  assert.deepEqual((await server.call('GET', '/approvals', { ...caller, key: caller.sandboxKey })).body, list.body);
  assert.deepEqual((await server.call('GET', '/approvals', await someAccount())).body, []);
});

test('lists are paginated', async () => {
  const caller = await someAccount();
  for (let i = 1; i <= 3; i += 1) {
    await ask(caller, { requestedEmailBytes: 2_000_000 + i, reason: 'x' });
    clock.advance(1);
  }
  const page = await server.call('GET', '/approvals?limit=2', caller);
  assert.equal(page.body.length, 2);
  const rest = await server.call('GET', `/approvals?limit=2&cursor=${page.headers.get('x-next-cursor')}`, caller);
  assert.deepEqual(
    rest.body.map((one: { requestedEmailBytes: number }) => one.requestedEmailBytes),
    [2_000_001],
  );
  assert.equal(rest.headers.get('link'), null);
  for (const key of ['x', 'key_000000000000000000000']) {
    const refused = await server.call('GET', `/approvals?cursor=${cursorOf([key])}`, caller);
    assert.deepEqual([refused.status, refused.body.error.details[0].field], [400, 'cursor']);
  }
});

test('an approved limit takes effect immediately, is never lowered, and is decided once', async () => {
  const caller = await someAccount();
  const large = (await ask(caller, { requestedEmailBytes: 30_000_000, reason: 'x' })).body.approvalId;
  const small = (await ask(caller, { requestedEmailBytes: 5_000_000, reason: 'x' })).body.approvalId;
  const more = (await ask(caller, { requestedEmailBytes: 40_000_000, reason: 'x' })).body.approvalId;
  assert.equal(await limitOf(caller), 2_000_000);
  const decided = await decide(large, 'approved');
  assert.deepEqual([decided?.decided, decided?.approvedEmailBytes], [true, 30_000_000]);
  assert.equal(await limitOf(caller), 30_000_000);
  assert.equal((await decide(small, 'approved'))?.approvedEmailBytes, 30_000_000);
  assert.equal((await decide(more, 'rejected', 'no'))?.approvedEmailBytes, 30_000_000);
  const again = await decide(more, 'approved');
  assert.deepEqual([again?.decided, again?.approval.status], [false, 'rejected']);
  assert.equal(await limitOf(caller), 30_000_000);
  assert.equal(await decide('apr_000000000000000000000', 'approved'), null);
});

test('sizes outside 2,000,001 to 40,000,000 and blank reasons are rejected', async () => {
  const caller = await someAccount();
  for (const requestedEmailBytes of [2_000_000, 40_000_001, 0, -1, 2.5, '3000000', null, undefined]) {
    const answer = await ask(caller, { requestedEmailBytes, reason: 'x' });
    assert.equal(answer.status, 400, String(requestedEmailBytes));
    assert.deepEqual(fieldsOf(answer), ['requestedEmailBytes']);
  }
  for (const reason of [
    '',
    'x'.repeat(2_001),
    7,
    null,
    undefined,
    'a\u0000b',
    'a\u001b[2Jb',
    'a\u009bb',
    ' ',
    ' \n\t ',
    '\u00a0\u3000',
  ]) {
    const answer = await ask(caller, { requestedEmailBytes: 3_000_000, reason });
    assert.equal(answer.status, 400, JSON.stringify(reason));
    assert.deepEqual(fieldsOf(answer), ['reason']);
  }
  for (const requestedEmailBytes of [2_000_001, 40_000_000])
    assert.equal((await ask(caller, { requestedEmailBytes, reason: 'two\nlines' })).status, 201);
});

test('an account cannot approve its own request', async () => {
  const caller = await someAccount();
  const wanted = { requestedEmailBytes: 40_000_000, reason: 'x' };
  const attempts: Record<string, unknown>[] = [
    { status: 'approved' },
    { decisionReason: 'yes' },
    { approvedEmailBytes: 40_000_000 },
    { accountId: (await someAccount()).id },
    { approvalId: 'apr_1' },
  ];
  for (const more of attempts) assert.equal((await ask(caller, { ...wanted, ...more })).status, 400);
  const { approvalId } = (await ask(caller, wanted)).body;
  for (const [method, path] of [
    ['PUT', `/approvals/${approvalId}`],
    ['PATCH', `/approvals/${approvalId}`],
    ['POST', `/approvals/${approvalId}/approve`],
    ['PATCH', '/approvals'],
  ] as const) {
    const answer = await server.call(method, path, { ...caller, json: { status: 'approved' } });
    assert.ok(answer.status === 404 || answer.status === 405, `${method} ${path}: ${answer.status}`);
  }
  for (const json of [{ approvedEmailBytes: 40_000_000 }, { plan: 'enterprise' }, { limits: {} }]) {
    assert.equal((await server.call('PATCH', '/account', { ...caller, json })).status, 400);
  }
  assert.equal(await limitOf(caller), 2_000_000);
});

test('a key with scope send cannot request approvals, and pending requests are limited', async () => {
  const caller = await someAccount();
  const wish = { accountId: caller.id, mode: 'live', scope: 'send', name: null } as const;
  const made = await createKey({ database: temp.database, clock }, wish);
  assert.ok(made.ok);
  const key = made.value.apiKey;
  assert.equal((await ask({ ...caller, key }, { requestedEmailBytes: 3_000_000, reason: 'x' })).status, 403);
  for (let i = 0; i < 100; i += 1) await ask(caller, { requestedEmailBytes: 3_000_000, reason: 'x' });
  const full = await ask(caller, { requestedEmailBytes: 3_000_000, reason: 'x' });
  assert.equal(full.status, 409);
  assert.equal(full.body.error.code, 'CONFLICT');
});
