/** Authentication: key before session, X-Id and X-Mode, roles, and requests from other sites. */
import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import { failure, ok, refuse } from '../base/failure.ts';
import { crossSiteFailure, isOwnOrigin } from './cross-site.ts';
import { type Access, createIdentify, notPermitted } from './identify.ts';
import { type CallerKey, MEMBER_ROLES, type MemberRole } from './route.ts';

const BASE = 'https://mail.example.com';
const caller = (keyId: string, mode: 'live' | 'sandbox' = 'live'): CallerKey => ({
  keyId,
  mode,
  scope: 'full',
  actor: { kind: keyId.startsWith('usr') ? 'user' : 'key', id: keyId, name: keyId },
});
const READ: Access = { method: 'GET', auth: 'key' };

/** The user ann is a member of acc_1, in this role. */
function identifyAs(role: MemberRole, isOperator = false) {
  return createIdentify<CallerKey>({
    authenticate: (headers) =>
      headers['x-api-key'] === 'good' ? ok(caller('key_1')) : refuse(failure('UNAUTHORIZED')),
    operatorKeys: (key) =>
      key === 'pr_operator_good'
        ? ok({ ...caller('opk_1'), operatorScopes: ['read'] })
        : refuse(failure('UNAUTHORIZED')),
    sessions: {
      isGiven: (headers) => headers.cookie !== undefined,
      signedIn: (request, accountId) => {
        if (request.headers.cookie !== 'ann') return refuse(failure('UNAUTHORIZED'));
        const crossSite = crossSiteFailure(request, BASE);
        if (crossSite !== undefined) return refuse(crossSite);
        const user = { ...caller('usr_ann'), isOperator };
        if (accountId !== 'acc_1') return ok({ user });
        return ok({ user, member: { callerIn: (mode) => ok({ ...caller('usr_ann', mode), role }) } });
      },
    },
  });
}

async function outcome(
  headers: IncomingHttpHeaders,
  access: Partial<Access> = {},
  { role = 'owner', isOperator = false, url = '/x' }: { role?: MemberRole; isOperator?: boolean; url?: string } = {},
): Promise<string> {
  const full = { ...READ, ...access };
  const found = await identifyAs(role, isOperator)({ method: full.method, url, headers }, full);
  const refusal = found.ok ? notPermitted(found.value, full) : found.failure;
  return found.ok && refusal === undefined ? `${found.value.keyId} ${found.value.mode}` : (refusal?.code ?? '');
}

test('a key takes precedence over a session even if invalid, and neither returns 401', async () => {
  const cookie = 'ann';
  assert.equal(await outcome({ 'x-api-key': 'good', cookie }), 'key_1 live');
  assert.equal(await outcome({ 'x-api-key': 'bad', cookie, 'x-id': 'acc_1' }), 'UNAUTHORIZED');
  assert.equal(await outcome({ cookie, 'x-id': 'acc_1' }), 'usr_ann live');
  assert.equal(await outcome({ cookie: 'stolen', 'x-id': 'acc_1' }), 'UNAUTHORIZED');
  assert.equal(await outcome({}), 'UNAUTHORIZED');
  assert.equal(await outcome({ 'x-api-key': 'good' }, { auth: 'user' }), 'UNAUTHORIZED', 'a key is not a session');
});

test('X-Id selects the account and X-Mode the mode', async () => {
  const cookie = 'ann';
  assert.equal(await outcome({ cookie, 'x-id': 'acc_2' }), 'NOT_FOUND');
  assert.equal(await outcome({ cookie }), 'INVALID_REQUEST');
  assert.equal(await outcome({ cookie, 'x-id': 'acc_1', 'x-mode': 'sandbox' }), 'usr_ann sandbox');
  assert.equal(await outcome({ cookie, 'x-id': 'acc_1', 'x-mode': 'test' }), 'INVALID_REQUEST');
  const url = '/events/stream?account=acc_1&mode=sandbox';
  assert.equal(await outcome({ cookie }, { accountInQuery: true }, { url }), 'usr_ann sandbox');
  assert.equal(await outcome({ cookie }, {}, { url }), 'INVALID_REQUEST', 'on other routes the query selects nothing');
  const shared = { method: 'POST', changesShared: true } as const;
  const trusted = { 'x-requested-with': 'postrider', origin: BASE };
  assert.equal(await outcome({ cookie, ...trusted, 'x-id': 'acc_1', 'x-mode': 'sandbox' }, shared), 'FORBIDDEN');
  assert.equal(await outcome({ cookie, ...trusted, 'x-id': 'acc_1' }, shared), 'usr_ann live');
});

test('each role includes the previous ones, and the default depends on the method', async () => {
  const headers = { cookie: 'ann', 'x-id': 'acc_1', 'x-requested-with': 'postrider', origin: BASE };
  const granted = async (access: Partial<Access>): Promise<string[]> => {
    const found = await Promise.all(MEMBER_ROLES.map((role) => outcome(headers, access, { role })));
    return MEMBER_ROLES.filter((_, index) => found[index] === 'usr_ann live');
  };
  assert.deepEqual(await granted({ method: 'GET' }), ['viewer', 'member', 'owner']);
  assert.deepEqual(await granted({ method: 'POST' }), ['member', 'owner']);
  assert.deepEqual(await granted({ method: 'DELETE', role: 'owner' }), ['owner']);
  assert.equal(await outcome({ cookie: 'ann' }, { auth: 'operator' }), 'FORBIDDEN');
  assert.equal(await outcome({ cookie: 'ann' }, { auth: 'operator' }, { isOperator: true }), 'usr_ann live');
});

test("state-changing calls require the header and this service's origin", async () => {
  const headers = { cookie: 'ann', 'x-id': 'acc_1', 'x-requested-with': 'postrider', origin: BASE };
  const access = { method: 'POST' } as const;
  assert.equal(await outcome(headers, access), 'usr_ann live');
  const { origin: _, ...withoutOrigin } = headers;
  for (const wrong of [
    withoutOrigin,
    { ...headers, origin: 'https://evil.example' },
    { ...headers, origin: 'null' },
    { ...headers, origin: 'http://mail.example.com' },
    { ...headers, origin: `${BASE}.evil.example` },
    { ...headers, 'x-requested-with': 'XMLHttpRequest' },
    { cookie: 'ann', 'x-id': 'acc_1', origin: BASE },
  ])
    assert.equal(await outcome(wrong, access), 'FORBIDDEN', JSON.stringify(wrong));
  assert.equal(await outcome({ cookie: 'ann', 'x-id': 'acc_1' }), 'usr_ann live', 'control: reading requires neither');
});

test('the origin is matched against the base URL or the host of the request', () => {
  assert.ok(isOwnOrigin({ headers: { origin: 'http://localhost:3000' } }, 'http://localhost:3000'));
  assert.ok(
    isOwnOrigin({ headers: { origin: 'http://127.0.0.1:3000', host: '127.0.0.1:3000' } }, 'http://localhost:3000'),
  );
  assert.ok(
    isOwnOrigin({ headers: { origin: 'https://mail.example.com', host: 'MAIL.example.com' } }, 'http://localhost:3000'),
    'a proxy with TLS',
  );
  assert.ok(
    !isOwnOrigin(
      { headers: { origin: 'http://mail.example.com', host: 'mail.example.com' } },
      'https://mail.example.com',
    ),
  );
  const overHttp = { headers: { origin: 'http://mail.example.com', host: 'mail.example.com' } };
  assert.ok(isOwnOrigin(overHttp, 'http://localhost:3000'));
  assert.ok(
    !isOwnOrigin({ ...overHttp, isSecure: true }, 'http://localhost:3000'),
    'the page was loaded over http, the call was made over https',
  );
  assert.ok(
    !isOwnOrigin({ headers: { origin: 'http://127.0.0.1:3001', host: '127.0.0.1:3000' } }, 'http://localhost:3000'),
    'another port',
  );
  assert.ok(
    !isOwnOrigin({ headers: { origin: 'http://localhost:3000/' } }, 'http://localhost:3000'),
    'an origin has no path',
  );
});

test('an operator key opens only operator routes within its scopes', async () => {
  const authorization = 'Bearer pr_operator_good';
  const read = { auth: 'operator' } as const;
  assert.equal(await outcome({ authorization }, read), 'opk_1 live');
  for (const scheme of ['bearer', 'BEARER'])
    assert.equal(await outcome({ authorization: `${scheme}   pr_operator_good ` }, read), 'opk_1 live', scheme);
  assert.equal(await outcome({ authorization }, { ...read, method: 'POST' }), 'FORBIDDEN');
  assert.equal(await outcome({ authorization }, { ...read, peopleOnly: true }), 'FORBIDDEN');
  for (const auth of ['key', 'user'] as const) {
    assert.equal(await outcome({ authorization }, { auth }), 'UNAUTHORIZED', auth);
    assert.equal(await outcome({ authorization, cookie: 'ann', 'x-id': 'acc_1' }, { auth }), 'UNAUTHORIZED', auth);
    assert.equal(await outcome({ 'x-api-key': 'pr_operator_good', 'x-id': 'acc_1' }, { auth }), 'UNAUTHORIZED', auth);
  }
  assert.equal(await outcome({ authorization, 'x-api-key': 'good' }), 'key_1 live', 'the account key takes precedence');
  const smuggled = { ...caller('opk_1'), operatorScopes: ['read', 'write'] } as const;
  assert.equal(notPermitted(smuggled, READ)?.code, 'UNAUTHORIZED', 'however the caller was identified');
});

test('an operator key takes precedence over the session on operator routes', async () => {
  const read = { auth: 'operator' } as const;
  const as = (headers: IncomingHttpHeaders, isOperator = true, access: Partial<Access> = read) =>
    outcome(headers, access, { isOperator });
  const cookie = 'ann';
  assert.equal(await as({ cookie }), 'usr_ann live');
  assert.equal(await as({ cookie, authorization: 'Bearer pr_operator_good' }), 'opk_1 live');
  for (const token of ['pr_operator_wrong', 'pr_operator_', 'pr_live_good', 'pr_test_good'])
    assert.equal(await as({ cookie, authorization: `Bearer ${token}` }), 'UNAUTHORIZED', token);
  assert.equal(await as({ cookie, 'x-api-key': 'pr_operator_good' }), 'UNAUTHORIZED', 'not in X-Api-Key');
  assert.equal(await as({ 'x-api-key': 'good' }), 'UNAUTHORIZED');
  assert.equal(
    await as({ 'x-api-key': 'good', 'x-id': 'acc_1', authorization: 'Bearer pr_operator_good' }),
    'opk_1 live',
  );
  // Authenticating proxies add their own headers.
  for (const authorization of ['Basic YW5uOng=', 'Bearer eyJhbGciOi.x.y', 'Bearer', 'Bearer ', '']) {
    assert.equal(await as({ cookie, authorization }), 'usr_ann live', authorization);
    assert.equal(await as({ cookie, authorization }, false), 'FORBIDDEN', authorization);
    assert.equal(await as({ cookie, authorization }, true, { ...read, method: 'POST' }), 'FORBIDDEN', authorization);
    assert.equal(await as({ authorization }), 'UNAUTHORIZED', authorization);
  }
  for (const authorization of [
    'pr_operator_good',
    'Bearerpr_operator_good',
    'Basic pr_operator_good',
    'Bearer PR_OPERATOR_GOOD',
    'Bearer pr_operator_good, Bearer pr_operator_good',
    'Bearer "pr_operator_good"',
    'Bearer x pr_operator_good',
    'Bearer pr_operator_good x',
    'Bearer\tpr_operator_good',
  ])
    assert.equal(await as({ authorization }), 'UNAUTHORIZED', authorization);
});
