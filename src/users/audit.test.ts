/**
 * What users do about themselves leaves rows in the audit log: the table below, compared with the router, has every route of sessions
 * that changes something, and the action that it leaves (those of passkeys in passkeys.test.ts). No row holds a secret.
 */
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { type Browser, type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { totpCode } from '../../test/kit/second-factors.ts';
import { resetPassword } from './create.ts';

let app: InProcessApi;
before(async () => {
  app = await inProcessApi();
});
after(() => app.close());

const ACTIONS: Record<string, string[]> = {
  'POST /session': ['session.begin'],
  'DELETE /session': ['session.end'],
  'DELETE /sessions/:id': ['session.end'],
  'PUT /password': ['password.change', 'password.set'],
  'POST /password-reset': [],
  'POST /session/passkey': ['session.begin'],
  'POST /session/passkey/options': [],
  'POST /user/passkeys/options': [],
  'POST /user/passkeys': ['passkey.add'],
  'DELETE /user/passkeys/:id': ['passkey.remove'],
  'POST /user/totp': [],
  'PUT /user/totp': ['totp.confirm'],
  'DELETE /user/totp': ['totp.remove'],
};

interface Row {
  action: string;
  actor_id: string;
  actor_name: string;
  address: string;
  request_id: string | null;
  resource_id: string;
}

function rows(): Row[] {
  const database = new DatabaseSync(app.databaseFile, { readOnly: true });
  const found = database.prepare('SELECT * FROM audit ORDER BY id').all() as unknown as Row[];
  database.close();
  return found;
}

test('every state-changing session route is in the table and writes its audit row', async () => {
  const changing = app.routes.filter(({ method, tag }) => method !== 'GET' && tag === 'session');
  assert.deepEqual(changing.map(({ method, path }) => `${method} ${path}`).sort(), Object.keys(ACTIONS).sort());

  const { userId, email, password } = await app.user('ann@example.com');
  const secrets = [password, 'a password of mine', 'another one of mine'];
  const browser = await app.signedIn(email, password);
  const other = await app.signedIn(email, password);
  const list = (await other.call('GET', '/sessions')).body as unknown as { sessionId: string; current: boolean }[];
  const calls: [browser: Browser, method: string, path: string, body?: unknown][] = [
    [browser, 'DELETE', `/sessions/${list.find(({ current }) => current)!.sessionId}`],
    [browser, 'PUT', '/password', { currentPassword: password, password: secrets[1] }],
  ];
  for (const [by, ...call] of calls) assert.equal((await by.call(...call)).status, 200, call.join(' '));
  const { secret } = (await browser.call('POST', '/user/totp')).body;
  const confirmed = await browser.call('PUT', '/user/totp', { code: totpCode(String(secret), app.parts.clock.now()) });
  secrets.push(secret, ...confirmed.body.recoveryCodes);
  assert.equal((await browser.call('DELETE', '/user/totp')).status, 200);
  assert.equal((await browser.call('DELETE', '/session')).status, 200);
  const reset = await resetPassword(app.parts, { email, baseUrl: app.url });
  assert.ok(reset.ok);
  const token = reset.value.resetUrl.split('#token=')[1]!;
  secrets.push(token, reset.value.password);
  const set = await app.browser().call('PUT', '/password', { token, password: secrets[2] });
  assert.equal(set.status, 200);
  assert.equal((await app.browser().call('POST', '/session', { email, password: 'wrong' })).status, 401);

  const left = rows().filter(({ actor_id: id }) => id === userId);
  const actions = left.map(({ action }) => action);
  assert.deepEqual(actions, [
    'session.begin',
    'session.begin',
    'session.end',
    'password.change',
    'totp.confirm',
    'totp.remove',
    'session.end',
    'password.set',
    'session.begin',
  ]);
  const tabled = Object.entries(ACTIONS).filter(([name]) => !name.includes('passkey'));
  assert.deepEqual([...new Set(actions)].sort(), [...new Set(tabled.flatMap(([, one]) => one))].sort());
  for (const row of left) {
    assert.equal(row.actor_name, email);
    assert.equal(row.address, '127.0.0.1');
    assert.match(row.request_id ?? '', /^req_/);
  }
  const byCommand = rows().filter(({ action }) => action === 'password.reset' || action === 'user.create');
  assert.deepEqual(
    byCommand.map(({ resource_id: id }) => id),
    [userId, userId],
  );
  const everything = JSON.stringify(rows());
  for (const hidden of secrets) assert.ok(hidden.length > 8 && !everything.includes(hidden));
});
