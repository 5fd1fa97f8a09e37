/** The operator's API on the complete service without delivery: accounts, approvals, queue, nodes, doctor, and the log of all accounts. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Answer } from '../../test/kit/api.ts';
import { type Browser, type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { assertPaged } from '../../test/kit/list-pages.ts';
import { noticeText } from '../../test/kit/notice-text.ts';
import { acceptance } from '../../test/kit/seed-mail.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { decideProtectionOperation, startSuspensionNotices } from '../accounts/accounts.ts';
import type { Actor } from '../base/actor.ts';
import { silentLog } from '../base/log.ts';
import type { Notice } from '../base/notice.ts';
import { acceptOperation } from '../send/acceptance.ts';
import { createUser } from '../users/users.ts';

let rig: InProcessApi;
let browser: Browser;
let actor: Actor;
before(async () => {
  rig = await inProcessApi();
  const made = await createUser(rig.parts, { email: 'op@example.com', isOperator: true });
  assert.ok(made.ok);
  actor = { kind: 'user', id: made.value.userId, name: made.value.email };
  browser = await rig.signedIn(made.value.email, made.value.password);
});
after(() => rig.close());

const operator = {
  get: (path: string): Promise<Answer> => browser.call('GET', path),
  post: (path: string, body: unknown): Promise<Answer> => browser.call('POST', path, body),
  call: ({ method, path, body }: { method: string; path: string; body?: unknown }): Promise<Answer> =>
    browser.call(method, path, body),
};

type Row = Record<string, unknown>;

const latestOf = async (resourceId: string): Promise<Row & { actor: Actor }> =>
  (
    (await operator.get(`/operator/audit?limit=1&resourceId=${resourceId}`)).body as unknown as (Row & {
      actor: Actor;
    })[]
  )[0]!;

/** The routes below that change something. test/flows/operator-nodes.long.test.ts covers resume. */
const CHANGING: Record<string, string> = {
  'POST /operator/accounts': 'account.create',
  'PATCH /operator/accounts/:id': 'account.set',
  'POST /operator/accounts/:id/resume-sending': 'account.resume-sending',
  'POST /operator/accounts/:id/support-access': 'account.start-support-access',
  'DELETE /operator/accounts/:id/support-access': 'account.end-support-access',
  'POST /operator/approvals/:id/approve': 'approval.decide',
  'POST /operator/approvals/:id/reject': 'approval.decide',
  'POST /operator/destinations/:id/resume': 'destination.resume',
  'POST /operator/keys': 'operator-key.create',
  'DELETE /operator/keys/:id': 'operator-key.revoke',
};

test('every route requires an operator', async () => {
  const routes = rig.routes.filter(({ path }) => path.startsWith('/operator/'));
  assert.ok(routes.length >= 16, `${routes.length} routes`);
  const { email, password } = await rig.user('owner@example.com', 'owner');
  const user = await rig.signedIn(email, password);
  for (const { method, path, access } of routes) {
    assert.equal(access.auth, 'operator', path);
    const call = { method, path: path.replace(':id', 'none'), body: method === 'GET' ? undefined : {} };
    assert.equal((await user.call(method, call.path, call.body)).status, 403, `${method} ${path}`);
    // A key does not belong to a signed-in user: 401, whatever its permissions in its account.
    assert.equal((await rig.live.call(call)).status, 401, `${method} ${path}`);
  }
});

test('creates, finds, updates, and suspends an account, each with an audit row', async () => {
  const made = await operator.post('/operator/accounts', { name: ' Läden & Co ' });
  assert.equal(made.status, 201);
  const { accountId, apiKey, sandboxApiKey } = made.body as Record<string, string>;
  assert.match(apiKey!, /^pr_live_/);
  assert.match(sandboxApiKey!, /^pr_test_/);
  const found = await operator.get('/operator/accounts?name=den%20%26&status=active&plan=paid');
  assert.deepEqual(
    (found.body as Row[]).map((one) => [one.accountId, one.name]),
    [[accountId, 'Läden & Co']],
  );
  const byName = await operator.get(`/operator/accounts?name=${encodeURIComponent('LÄDEN')}&limit=1`);
  assert.equal((byName.body as Row[])[0]?.accountId, accountId);
  assert.deepEqual(
    (await operator.get('/operator/accounts?name=den%25')).body,
    [],
    'a percent sign is matched literally',
  );
  const first = await operator.get('/operator/accounts?limit=1');
  const next = await operator.get(`/operator/accounts?limit=1&cursor=${first.headers['x-next-cursor']}`);
  assert.deepEqual(
    [(first.body as Row[])[0]!.accountId, (next.body as Row[])[0]!.accountId],
    [accountId, rig.accountId],
  );
  const path = `/operator/accounts/${accountId}`;
  const change = { plan: 'enterprise', approvedEmailBytes: 30_000_000, limits: { webhooks: 7, domains: null } };
  const changed = await operator.call({ method: 'PATCH', path, body: change });
  assert.equal(changed.status, 200, changed.text);
  const { plan, approvedEmailBytes, limits } = changed.body as Row & { limits: Row };
  assert.deepEqual([plan, approvedEmailBytes, limits.webhooks, limits.domains], ['enterprise', 30_000_000, 7, 1_000]);
  const row = await latestOf(accountId!);
  assert.deepEqual([row.action, row.accountId, row.actor], ['account.set', accountId, actor]);
  assert.equal((row.before as Row).plan, 'paid');
  for (const body of [{}, { plan: 'gold' }, { approvedEmailBytes: 40_000_001 }, { limits: { webhooks: -1 } }])
    assert.equal((await operator.call({ method: 'PATCH', path, body })).status, 400, JSON.stringify(body));
  const unknown = { method: 'PATCH', path: '/operator/accounts/acc_none', body: { plan: 'free' } } as const;
  assert.equal((await operator.call(unknown)).status, 404);
});

test('previews the effect of a suspension, which then rejects keys', async () => {
  const { accountId, live } = rig;
  const path = `/operator/accounts/${accountId}`;
  const { database } = rig.parts;
  await database.execute(acceptOperation, acceptance({ accountId, recipients: ['a@x.example', 'b@x.example'] }));
  const later = acceptance({ accountId, sendAtMs: Date.now() + 3_600_000 });
  await database.execute(acceptOperation, later);
  await database.execute(acceptOperation, acceptance({ accountId, mode: 'sandbox' }));
  assert.deepEqual((await operator.get(`${path}/suspension`)).body, {
    accountId,
    status: 'active',
    apiKeys: 2,
    smtpCredentials: 0,
    sessions: 1,
    mail: { queued: 2, scheduled: 1, delayed: 0, sending: 0, isComplete: true },
  });
  const detail = (await operator.get(path)).body as Row & { usage: Row; health: Row };
  assert.deepEqual([detail.usage.queued, detail.health.bounceRate], [3, 0]);
  assert.ok(Date.parse(detail.lastActivityAt as string) > Date.now() - 60_000);
  assert.equal((await live.get('/account')).status, 200);
  const notices: Notice[] = [];
  const notify = async (notice: Notice) => void notices.push(notice);
  const sender = startSuspensionNotices({ database, log: silentLog, notify, roundMs: 3_600_000 });
  const reason = { suspensionReason: ' Unpaid invoices ' };
  const early = await operator.call({ method: 'PATCH', path, body: reason });
  assert.deepEqual([early.status, early.body.error.details[0].field], [400, 'suspensionReason']);
  const suspend = { method: 'PATCH', path, body: { status: 'suspended', ...reason } };
  assert.equal((await operator.call(suspend)).body.suspensionReason, 'Unpaid invoices');
  assert.equal((await operator.call(suspend)).status, 200, 'repeated');
  assert.equal((await operator.get(path)).body.suspensionReason, 'Unpaid invoices');
  await sender.run();
  assert.deepEqual(
    notices.map((one) => [one.accountId, one.subject, /Unpaid invoices/.test(noticeText(one))]),
    [[accountId, 'Your account was suspended', true]],
  );
  await waitUntil('the key to be rejected', async () => (await live.get('/account')).status === 403);
  const activated = await operator.call({ method: 'PATCH', path, body: { status: 'active' } });
  assert.deepEqual([activated.status, activated.body.suspensionReason], [200, null]);
  await sender.run();
  await sender.stop();
  assert.deepEqual(
    notices.map(({ subject }) => subject),
    ['Your account was suspended', 'Your account is active again'],
  );
  for (const unknown of ['', '/suspension'])
    assert.equal((await operator.get(`/operator/accounts/acc_none${unknown}`)).status, 404);
});

test('shows a size request with its account, and decides it once', async () => {
  const ask = async (): Promise<string> =>
    (await rig.live.post('/approvals', { requestedEmailBytes: 30_000_000, reason: 'scans' })).body.approvalId;
  const [first, second] = [await ask(), await ask()];
  const reject = (id: string, body: unknown) => operator.post(`/operator/approvals/${id}/reject`, body);
  assert.equal((await reject(first, {})).status, 400);
  assert.equal((await reject(first, { reason: ' ' })).status, 400);
  const rejected = await reject(first, { reason: 'links, please' });
  assert.deepEqual(
    [rejected.status, rejected.body.status, rejected.body.decisionReason],
    [200, 'rejected', 'links, please'],
  );
  assert.equal((await operator.post(`/operator/approvals/${first}/approve`, {})).status, 409);
  const pending = (await operator.get('/operator/approvals?status=pending')).body as (Row & { sender: Row })[];
  assert.deepEqual(
    pending.map(({ approvalId, sender }) => [
      approvalId,
      sender.name,
      sender.rejectedBefore,
      sender.approvedEmailBytes,
    ]),
    [[second, 'One', 1, 2_000_000]],
  );
  const approved = await operator.post(`/operator/approvals/${second}/approve`, undefined);
  assert.deepEqual([approved.status, approved.body.sender.approvedEmailBytes], [200, 30_000_000]);
  const row = await latestOf(second);
  assert.deepEqual([row.action, row.accountId, row.actor], ['approval.decide', rig.accountId, actor]);
  assert.equal((await operator.post('/operator/approvals/apr_none/approve', {})).status, 404);
});

test('queue, nodes, destinations, and doctor respond', async () => {
  const queue = (await operator.get('/operator/queue')).body as Row & { accounts: Row[] };
  assert.deepEqual([queue.depth, queue.due, queue.isComplete], [4, 3, true]);
  const { due, leased, held, waiting } = queue as Record<string, number>;
  assert.equal(due! + leased! + held! + waiting!, queue.depth, 'each message is counted once');
  assert.deepEqual(
    [queue.accounts[0]!.accountId, queue.accounts[0]!.name, queue.accounts[0]!.depth],
    [rig.accountId, 'One', 4],
  );
  const [node] = (await operator.get('/operator/nodes')).body as Row[];
  assert.equal(node!.host, 'postrider.test');
  await assertPaged('/operator/nodes', operator.get, ({ nodeId }) => nodeId);
  const destinations = (await operator.get('/operator/destinations')).body as Row[];
  assert.equal(
    destinations.reduce((sum, one) => sum + Number(one.depth), 0),
    3,
    'every live message has a destination, and one message is in the sandbox',
  );
  assert.equal((await operator.post('/operator/destinations/x.example/resume', {})).status, 404);
  const own = (await operator.get(`/operator/accounts/${rig.accountId}/queue`)).body as Row & { domains: Row[] };
  assert.deepEqual([own.depth, own.isComplete], [3, true]);
  assert.equal(
    own.domains.reduce((sum, one) => sum + Number(one.depth), 0),
    3,
    'only live messages',
  );
  const doctor = (await operator.get('/operator/doctor')).body as { healthy: boolean; checks: Row[] };
  const names = doctor.checks.map(({ name }) => name);
  for (const name of ['configuration', 'database', 'disk space', 'DNS', 'port 25'])
    assert.ok(names.includes(name), name);
  assert.equal(
    doctor.healthy,
    doctor.checks.every(({ status }) => status !== 'fail'),
  );
  assert.deepEqual((await operator.get('/operator/doctor')).body, doctor, 'as found before');
});

test('the users, queue, and changes of one account contain nothing of other accounts', async () => {
  const { accountId } = (await operator.post('/operator/accounts', { name: 'On its own' })).body as Record<
    string,
    string
  >;
  const path = `/operator/accounts/${accountId}`;
  assert.deepEqual((await operator.get(`${path}/users`)).body, []);
  assert.deepEqual((await operator.get(`${path}/queue`)).body, { depth: 0, isComplete: true, domains: [] });
  const members = (await operator.get(`/operator/accounts/${rig.accountId}/users`)).body as unknown as Row[];
  assert.ok(members.some(({ email, role }) => email === 'owner@example.com' && role === 'owner'));
  for (const what of ['users', 'queue'])
    assert.equal((await operator.get(`/operator/accounts/acc_none/${what}`)).status, 404, what);

  assert.equal((await operator.call({ method: 'PATCH', path, body: { plan: 'free' } })).status, 200);
  const changes = (await operator.get(`/operator/audit?accountId=${accountId}`)).body as unknown as Row[];
  assert.deepEqual([...new Set(changes.map((one) => one.accountId))], [accountId]);
  assert.equal(changes[0]!.action, 'account.set');
  const exported = (await operator.get(`/operator/audit.jsonl?accountId=${accountId}`)).text;
  assert.equal(exported.trim().split('\n').length, changes.length);
  assert.equal((await rig.live.call({ method: 'GET', path: `/audit?accountId=${accountId}` })).status, 400);
});

test("support access is read-only, lasts an hour, and appears in the account's audit log", async () => {
  const { accountId } = (await operator.post('/operator/accounts', { name: 'Looked at' })).body as Record<
    string,
    string
  >;
  const read = (method = 'GET', path = '/account', by = browser) =>
    by.call(method, path, method === 'GET' ? undefined : {}, { 'x-id': accountId! });
  const path = `/operator/accounts/${accountId}/support-access`;
  assert.equal((await read()).status, 404);
  assert.equal((await operator.post('/operator/accounts/acc_none/support-access', {})).status, 404);
  const access = await operator.post(path, {});
  assert.equal(access.status, 201, access.text);
  const leftMs = Date.parse(access.body.expiresAt) - rig.parts.clock.now();
  assert.ok(leftMs > 3_590_000 && leftMs <= 3_600_000, `${leftMs} ms`);
  assert.equal((await read()).body.accountId, accountId);
  for (const [method, at] of [
    ['PATCH', '/account'],
    ['POST', '/send'],
    ['POST', '/users'],
    ['POST', '/api-keys'],
  ] as const)
    assert.match(String((await read(method, at)).body.error?.message), /Your role in this account is viewer/, at);
  assert.deepEqual((await operator.get('/session')).body.accounts, [
    {
      accountId,
      name: 'Looked at',
      role: 'viewer',
      plan: 'paid',
      status: 'active',
      twoFactorRequired: false,
      supportAccessUntil: access.body.expiresAt,
    },
  ]);
  const rows = (await read('GET', '/audit')).body as unknown as (Row & { actor: Actor })[];
  assert.deepEqual(
    [rows[0]!.action, rows[0]!.actor, rows[0]!.resourceId],
    ['account.start-support-access', actor, accountId],
  );
  assert.deepEqual(rows[0]!.after, { until: access.body.expiresAt });

  const suspended = { method: 'PATCH', path: `/operator/accounts/${accountId}`, body: { status: 'suspended' } };
  assert.equal((await operator.call(suspended)).status, 200);
  assert.equal((await read()).status, 200, 'a suspended account can be read');
  const made = await createUser(rig.parts, { email: 'op2@example.com', isOperator: true });
  assert.ok(made.ok);
  const other = await rig.signedIn(made.value.email, made.value.password);
  assert.equal((await read('GET', '/account', other)).status, 404, 'support access belongs to one session');
  assert.equal((await operator.call({ method: 'DELETE', path })).status, 200);
  assert.equal((await read()).status, 404);
  assert.equal((await operator.call({ method: 'DELETE', path })).status, 404);
  assert.equal((await latestOf(accountId!)).action, 'account.end-support-access');
});

test('an operator sets sending protection thresholds and releases held messages', async () => {
  const { accountId } = rig;
  const path = `/operator/accounts/${accountId}`;
  const sendingProtection = { bounceRate: { critical: 0 } };
  assert.equal((await operator.call({ method: 'PATCH', path, body: { sendingProtection } })).status, 200);
  assert.equal((await operator.post(`${path}/resume-sending`, {})).status, 409);
  const held = { id: accountId, from: 'good', to: 'held', reason: null, nowMs: 1 } as const;
  await rig.parts.database.execute(decideProtectionOperation, held);
  const heldAccounts = (await operator.get('/operator/accounts?sendingProtection=held')).body as unknown as Row[];
  assert.deepEqual(
    heldAccounts.map((one) => [one.accountId, one.status, one.sendingProtection]),
    [[accountId, 'active', { status: 'held' }]],
  );
  const shown = (await operator.get(path)).body.sendingProtection as {
    status: string;
    thresholds: typeof sendingProtection;
  };
  assert.deepEqual([shown.status, shown.thresholds.bounceRate.critical], ['held', 0]);
  const health = (await rig.live.get('/account/health')).body as typeof shown & { sendingProtection: typeof shown };
  assert.deepEqual([health.sendingProtection.status, health.thresholds.bounceRate.critical], ['held', 0]);
  const [incident] = (await rig.live.get('/incidents')).body as unknown as Row[];
  assert.deepEqual([incident!.kind, incident!.state], ['reputation', 'held']);
  assert.equal((await rig.live.post('/account/resume-sending', {})).status, 400, 'without a confirmation');
  assert.equal((await operator.post(`${path}/resume-sending`, {})).status, 200);
  assert.equal((await latestOf(accountId)).action, 'account.resume-sending');
  assert.deepEqual((await rig.live.get('/incidents')).body, []);
});

test('a warning threshold must be below the hold threshold, including defaults', async () => {
  const { accountId } = (await operator.post('/operator/accounts', { name: 'Strict' })).body as Record<string, string>;
  const path = `/operator/accounts/${accountId}`;
  const set = (sendingProtection: object) =>
    operator.call({ method: 'PATCH', path, body: { sendingProtection, plan: 'free' } });
  const REFUSED = [
    [{ bounceRate: { warning: 0.2, critical: 0.1 } }, 'bounceRate', 'must be below critical (0.1), but is 0.2'],
    [{ bounceRate: { warning: 0.1 } }, 'bounceRate', 'must be below critical (0.1), but is 0.1'],
    [{ complaintRate: { critical: 0.0005 } }, 'complaintRate', 'must be below critical (0.0005), but is 0.001'],
  ] as const;
  const before = (await operator.get(path)).body;
  for (const [protection, rate, message] of REFUSED) {
    const { status, body } = await set(protection);
    assert.deepEqual([status, body.error.code], [400, 'INVALID_REQUEST']);
    assert.deepEqual(body.error.details, [
      { field: `sendingProtection.${rate}.warning`, code: 'INVALID_VALUE', message },
    ]);
  }
  assert.deepEqual((await operator.get(path)).body, before, 'neither the thresholds nor the plan have changed');
  for (const protection of [
    { bounceRate: { warning: 0.2, critical: 0 } },
    { bounceRate: { warning: 0, critical: 0.01 } },
    { bounceRate: { warning: 0.09 }, complaintRate: { warning: 0.0005, critical: 0.0006 } },
  ]) {
    assert.equal((await set(protection)).status, 200, JSON.stringify(protection));
  }
});

test('the audit log of all accounts can be exported', async () => {
  const key = await operator.post('/operator/keys', { name: 'monitoring', scopes: ['read'] });
  await operator.call({ method: 'DELETE', path: `/operator/keys/${key.body.operatorKeyId}` });
  const lines = (await operator.get('/operator/audit.jsonl')).text.trim().split('\n');
  const actions = new Set(lines.map((line) => (JSON.parse(line) as Row).action));
  const changing = rig.routes.filter(({ method, access }) => method !== 'GET' && access.auth === 'operator');
  assert.deepEqual(changing.map(({ method, path }) => `${method} ${path}`).sort(), Object.keys(CHANGING).sort());
  for (const action of Object.values(CHANGING)) {
    if (action !== 'destination.resume') assert.ok(actions.has(action), action);
  }
  const accounts = new Set(lines.map((line) => (JSON.parse(line) as Row).accountId));
  assert.ok(accounts.size >= 2, 'from several accounts');
  assert.match((await operator.get('/operator/audit.csv')).text, /^auditId,time,/);
});

test('shows how much of each limit and quota an account uses', async () => {
  const made = (await operator.post('/operator/accounts', { name: 'Limited' })).body as Record<string, string>;
  const path = `/operator/accounts/${made.accountId}`;
  const usageOf = async () => ((await operator.get(path)).body as Row & { limitUsage: Row }).limitUsage;
  const none = { webhooks: 0, domains: 0, templates: 0, smtpCredentials: 0, inboundRoutes: 0, openSubmissions: 0 };
  assert.deepEqual(await usageOf(), { ...none, apiKeys: 2, messagesPerDay: null, messagesPerMonth: null });
  const account = { 'x-api-key': made.apiKey!, 'x-id': made.accountId! };
  const key = await rig.live.call({ method: 'POST', path: '/api-keys', headers: account, body: { scope: 'full' } });
  assert.equal(key.status, 201, key.text);
  assert.equal((await usageOf()).apiKeys, 3);
  const { keyId } = key.body as Record<string, string>;
  await rig.live.call({ method: 'DELETE', path: `/api-keys/${keyId}`, headers: account });
  assert.equal((await usageOf()).apiKeys, 2, 'revoked keys do not count');
  await operator.call({ method: 'PATCH', path, body: { limits: { messagesPerMonth: 5 } } });
  const accepted = acceptance({ accountId: made.accountId!, recipients: ['a@x.example', 'b@x.example'] });
  await rig.parts.database.execute(acceptOperation, accepted);
  const { messagesPerDay, messagesPerMonth } = await usageOf();
  assert.deepEqual([messagesPerDay, messagesPerMonth], [null, 2]);
});
