/**
 * A sandbox key cannot change live data: the table below lists, for every state-changing route of the router, what a sandbox key with full
 * scope can do. A route without a row fails. Rejected calls are made, and the database, read independently of the service, must be
 * unchanged.
 */
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import type { Answer, Api } from '../../test/kit/api.ts';
import { type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { TEST_LOGO } from '../../test/kit/test-logo.ts';
import { decideProtectionOperation } from '../accounts/accounts.ts';
import type { RouteDefinition } from '../http/route.ts';

/**
 * `refused`: changes state shared by both modes. `own`: changes only the mode of the key. `by mode`: keys and credentials, of which it can
 * create and revoke those of the sandbox. `none`: changes nothing. `no key`: access is granted by the URL itself. `people`: no key can call
 * it, of either mode.
 */
type Power = 'refused' | 'own' | 'by mode' | 'none' | 'no key' | 'people';

const POWERS: Record<string, Power> = {
  'POST /send': 'own',
  'POST /send/batch': 'own',
  'POST /attachments': 'own',
  'PUT /uploads/:token': 'no key',
  'PATCH /messages/:id': 'own',
  'POST /messages/:id/cancel': 'own',
  'POST /messages/:id/resend': 'own',
  'POST /messages/:id/share': 'own',
  'DELETE /shares/:id': 'own',
  'POST /webhooks': 'own',
  'PUT /webhooks/:id': 'own',
  'PATCH /webhooks/:id': 'own',
  'DELETE /webhooks/:id': 'own',
  'POST /webhooks/:id/rotate-secret': 'own',
  'POST /webhooks/:id/test': 'none',
  'POST /webhooks/:id/deliveries/:deliveryId/retry': 'own',
  'POST /webhooks/:id/replay': 'own',
  'POST /incidents/:id/retry': 'own',
  'POST /agent-requests/:id/approve': 'refused',
  'POST /agent-requests/:id/decline': 'refused',
  'POST /recipients/erase': 'own',
  'POST /suppressions': 'own',
  'POST /suppressions/import': 'own',
  'DELETE /suppressions/:email': 'own',
  'POST /sandbox/inbox/:id/outcome': 'own',
  'POST /sandbox/clock/advance': 'own',
  'POST /sandbox/clock/reset': 'own',
  'POST /sandbox/inbound': 'own',
  'DELETE /sandbox/inbox': 'own',
  'POST /templates': 'own',
  'PUT /templates/:id': 'own',
  'PUT /templates/:id/samples': 'own',
  'PATCH /templates/:id': 'own',
  'DELETE /templates/:id': 'own',
  'POST /templates/:id/versions/:version/restore': 'own',
  'POST /templates/:id/render': 'none',
  'POST /templates/render': 'none',
  'POST /templates/:id/share': 'own',
  'DELETE /template-shares/:id': 'own',
  'POST /domains': 'refused',
  'PUT /domains': 'refused',
  'POST /domains/:id/verify': 'refused',
  'POST /domains/:id/rotate-keys': 'refused',
  'DELETE /domains/:id': 'refused',
  'PATCH /account': 'refused',
  'PUT /account/logo': 'refused',
  'DELETE /account/logo': 'refused',
  'PATCH /account/notices': 'refused',
  'PUT /account/two-factor': 'refused',
  'POST /account/resume-sending': 'refused',
  'POST /approvals': 'refused',
  'POST /api-keys': 'by mode',
  'PATCH /api-keys/:keyId': 'by mode',
  'DELETE /api-keys/:keyId': 'by mode',
  'POST /smtp-credentials': 'by mode',
  'PATCH /smtp-credentials/:id': 'by mode',
  'DELETE /smtp-credentials/:id': 'by mode',
  'POST /inbound-routes': 'own',
  'POST /inbound-routes/:id/verify': 'own',
  'PUT /inbound-routes/:id': 'own',
  'PATCH /inbound-routes/:id': 'own',
  'DELETE /inbound-routes/:id': 'own',
  'POST /unsubscribe/:token': 'no key',
  'POST /users': 'refused',
  'PATCH /users/:id': 'refused',
  'DELETE /users/:id': 'refused',
  'POST /saved-filters': 'people',
  'PATCH /saved-filters/:id': 'people',
  'DELETE /saved-filters/:id': 'people',
};

const BODIES: Record<string, unknown> = {
  'POST /agent-requests/:id/approve': { digest: '0'.repeat(64) },
  'POST /agent-requests/:id/decline': { digest: '0'.repeat(64) },
  'POST /account/resume-sending': { confirm: true },
  'POST /domains': { domain: 'new.example.com' },
  'PUT /domains': { domain: 'other.example.com' },
  'PATCH /account': { missingVariables: 'keep' },
  'PUT /account/logo': { content: TEST_LOGO },
  'PATCH /account/notices': { webhooks: false },
  'PUT /account/two-factor': { required: true },
  'POST /approvals': { requestedEmailBytes: 30_000_000, reason: 'catalogues' },
  'POST /users': { email: 'new@example.com' },
  'PATCH /users/:id': { role: 'viewer' },
};

let rig: InProcessApi;
let routes: InProcessApi['routes'];
let live: Api;
let sandbox: Api;

before(async () => {
  rig = await inProcessApi();
  ({ routes, live, sandbox } = rig);
});
after(() => rig.close());

const code = (answer: Answer): string => `${answer.status} ${answer.body.error?.code ?? ''}`.trim();

/**
 * Every database row that is not marked as sandbox, by table, except rejected calls and last uses of keys, which are recorded in the
 * background.
 */
function liveRows(): Record<string, unknown[]> {
  const database = new DatabaseSync(rig.databaseFile, { readOnly: true });
  try {
    const tables = database
      .prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('request_log', 'request_log_hour', 'credential_use', 'node')",
      )
      .all() as { name: string }[];
    return Object.fromEntries(
      tables.map(({ name }) => {
        const columns = database.prepare(`PRAGMA table_info(${name})`).all();
        const narrow = columns.some((column) => column.name === 'mode') ? "WHERE mode <> 'sandbox'" : '';
        return [name, database.prepare(`SELECT * FROM ${name} ${narrow}`).all()];
      }),
    );
  } finally {
    database.close();
  }
}

const nameOf = ({ method, path: at }: Pick<RouteDefinition, 'method' | 'path'>): string => `${method} ${at}`;

/** People with a session decide on the requests of agents, on two-factor authentication, and on their notices; no key can. */
const isForPeople = (name: string): boolean => /\/agent-requests\/|\/two-factor$|\/notices$/.test(name);

async function callAs(api: Api, name: string, id = 'none'): Promise<Answer> {
  const [method = '', pattern = ''] = name.split(' ');
  const body = method === 'DELETE' ? undefined : (BODIES[name] ?? {});
  return api.call({ method, path: pattern.replace(/:\w+/, id), body });
}

test('the table lists exactly the state-changing routes', () => {
  const withKey = routes.filter(
    ({ access: { auth }, tag }) => auth === 'key' || (auth === 'none' && tag !== 'session'),
  );
  const changing = withKey.filter(({ method }) => method !== 'GET').map(nameOf);
  assert.deepEqual([...changing].sort(), Object.keys(POWERS).sort());
  for (const route of withKey) {
    const power = POWERS[nameOf(route)];
    assert.equal(route.access.changesShared === true, power === 'refused', nameOf(route));
    if (power !== undefined) assert.equal(route.access.auth === 'none', power === 'no key', nameOf(route));
  }
});

test('a sandbox key cannot change settings shared by both modes, but a live key can', async () => {
  const { domainId } = (await live.post('/domains', { domain: 'example.com' })).body;
  const refused = Object.keys(POWERS).filter((name) => POWERS[name] === 'refused');
  const held = { id: rig.accountId, from: 'good', to: 'held', reason: null, nowMs: 1 } as const;
  await rig.parts.database.execute(decideProtectionOperation, held);
  const before = liveRows();
  for (const name of refused) {
    const answer = await callAs(sandbox, name, domainId);
    assert.equal(code(answer), '403 FORBIDDEN', name);
    assert.match(answer.body.error.message, isForPeople(name) ? /Only a person/ : /live key/, name);
    assert.deepEqual(liveRows(), before, name);
  }
  for (const name of ['/account', '/domains', '/approvals', '/api-keys', '/smtp-credentials', '/templates'])
    assert.equal((await sandbox.get(name)).status, 200, `${name} can be read`);
  for (const name of refused.filter((one) => !isForPeople(one))) {
    const control = await callAs(live, name, domainId);
    assert.ok(control.status < 300 || control.status === 404, `${name}: ${code(control)}`);
    if (control.status < 300 && name !== 'POST /domains/:id/verify')
      assert.notDeepEqual(liveRows(), before, `control: ${name} changes something`);
  }
});

test('no key can change what belongs to a user', async () => {
  const before = liveRows();
  for (const name of Object.keys(POWERS).filter((one) => POWERS[one] === 'people'))
    for (const key of [sandbox, live]) {
      const answer = await callAs(key, name);
      assert.equal(code(answer), '403 FORBIDDEN', name);
      assert.match(answer.body.error.message, /Only a person/, name);
    }
  assert.deepEqual(liveRows(), before);
});

test('a sandbox key can change what belongs to the sandbox', async () => {
  const open = Object.keys(POWERS).filter((name) => POWERS[name] === 'own' || POWERS[name] === 'none');
  for (const name of open) assert.notEqual((await callAs(sandbox, name)).status, 403, name);
});

test('a sandbox key creates and revokes only sandbox keys and credentials', async () => {
  for (const [at, idOf] of [
    ['/api-keys', (one: Answer['body']) => one.keyId],
    ['/smtp-credentials', (one: Answer['body']) => one.smtpCredentialId],
  ] as const) {
    const liveKey = await live.post(at, {});
    assert.deepEqual([liveKey.status, liveKey.body.mode], [201, 'live'], 'in the mode of the calling key by default');
    const before = liveRows();
    assert.equal(code(await sandbox.post(at, { mode: 'live' })), '403 FORBIDDEN');
    assert.equal(code(await sandbox.delete(`${at}/${idOf(liveKey.body)}`)), '403 FORBIDDEN');
    for (const body of [{}, { mode: 'sandbox' }]) {
      const made = await sandbox.post(at, body);
      assert.deepEqual([made.status, made.body.mode], [201, 'sandbox']);
      assert.equal((await sandbox.delete(`${at}/${idOf(made.body)}`)).status, 200);
      assert.equal(code(await sandbox.delete(`${at}/${idOf(made.body)}`)), '404 NOT_FOUND');
    }
    assert.deepEqual(liveRows(), before);
    const made = await live.post(at, { mode: 'sandbox' });
    assert.equal((await live.delete(`${at}/${idOf(made.body)}`)).status, 200, 'a live key revokes both');
    assert.equal((await live.delete(`${at}/${idOf(liveKey.body)}`)).status, 200);
  }
});
