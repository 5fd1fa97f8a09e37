/**
 * Every route that changes something writes a row in the audit log: the table below, compared with the router, has a successful call of
 * each route and the expected action. A route without a row fails.
 */
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import type { Answer, Api } from '../../test/kit/api.ts';
import { type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { TEST_LOGO } from '../../test/kit/test-logo.ts';
import { decideProtectionOperation } from '../accounts/accounts.ts';
import { recordCheckOperation } from '../domains/check-store.ts';
import { addDomain } from '../domains/domains.ts';
import { recordMxOperation } from '../inbound-routes/store.ts';

let rig: InProcessApi;
let live: Api;
let sandbox: Api;
before(async () => {
  rig = await inProcessApi();
  ({ live, sandbox } = rig);
});
after(() => rig.close());

/** Accepted messages are recorded with their own events. Uploads, reports, and tracking also belong to a message. */
const OWN_RECORD = new Set([
  'POST /send',
  'POST /send/batch',
  'POST /attachments',
  'PUT /uploads/:token',
  'POST /unsubscribe/:token',
]);
const NO_CHANGE = new Set(['POST /webhooks/:id/test', 'POST /templates/:id/render', 'POST /templates/render']);

const hook = { url: 'https://93.184.216.34/hook', events: ['Delivery'] };
const span = { since: '2026-01-01T00:00:00.000Z', until: '2026-01-02T00:00:00.000Z' };
const later = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString();
const mail = (change: object = {}) => ({
  from: 'a@shop.example',
  to: 'b@x.example',
  subject: 's',
  text: 't',
  ...change,
});
const made = async (answer: Promise<Answer>): Promise<Answer['body']> => (await answer).body;
const scheduled = async (): Promise<string> =>
  (await made(sandbox.post('/send', mail({ sendAt: later(2) })))).data.messageId;
const captured = async (): Promise<string> => (await made(sandbox.post('/send', mail()))).data.messageId;

/** By route: the action, and a function that creates the prerequisites and then calls the route. */
const ROUTES: Record<string, [action: string, call: () => Promise<Answer>]> = {
  'PATCH /messages/:id': [
    'message.move',
    async () => sandbox.call({ method: 'PATCH', path: `/messages/${await scheduled()}`, body: { sendAt: later(3) } }),
  ],
  'POST /messages/:id/cancel': [
    'message.cancel',
    async () => sandbox.post(`/messages/${await scheduled()}/cancel`, {}),
  ],
  'POST /messages/:id/resend': [
    'message.resend',
    async () => {
      const id = await scheduled();
      await sandbox.post(`/messages/${id}/cancel`, {});
      return sandbox.post(`/messages/${id}/resend`, {});
    },
  ],
  'POST /messages/:id/share': [
    'message.share',
    async () => sandbox.post(`/messages/${await captured()}/share`, { hideSubject: true }),
  ],
  'DELETE /shares/:id': [
    'message.revoke-share',
    async () => {
      const { shareId } = await made(sandbox.post(`/messages/${await captured()}/share`, {}));
      return sandbox.delete(`/shares/${shareId}`);
    },
  ],
  'POST /webhooks': ['webhook.create', () => live.post('/webhooks', hook)],
  'PUT /webhooks/:id': [
    'webhook.replace',
    async () =>
      live.put(`/webhooks/${(await made(live.post('/webhooks', hook))).webhookId}`, { ...hook, description: 'new' }),
  ],
  'PATCH /webhooks/:id': [
    'webhook.replace',
    async () => {
      const { webhookId } = await made(live.post('/webhooks', hook));
      return live.call({ method: 'PATCH', path: `/webhooks/${webhookId}`, body: { description: 'new' } });
    },
  ],
  'DELETE /webhooks/:id': [
    'webhook.delete',
    async () => live.delete(`/webhooks/${(await made(live.post('/webhooks', hook))).webhookId}`),
  ],
  'POST /webhooks/:id/rotate-secret': [
    'webhook.rotate-secret',
    async () => live.post(`/webhooks/${(await made(live.post('/webhooks', hook))).webhookId}/rotate-secret`, {}),
  ],
  'POST /webhooks/:id/replay': [
    'webhook.replay',
    async () => live.post(`/webhooks/${(await made(live.post('/webhooks', hook))).webhookId}/replay`, span),
  ],
  'POST /recipients/erase': ['recipient.erase', () => live.post('/recipients/erase', { email: 'four@x.example' })],
  'POST /suppressions': ['suppression.add', () => live.post('/suppressions', { email: 'one@x.example' })],
  'POST /suppressions/import': [
    'suppression.import',
    () => live.post('/suppressions/import', 'email\r\ntwo@x.example\r\n', { 'content-type': 'text/csv' }),
  ],
  'DELETE /suppressions/:email': [
    'suppression.delete',
    async () => {
      await live.post('/suppressions', { email: 'three@x.example' });
      return live.delete('/suppressions/three@x.example');
    },
  ],
  'POST /sandbox/inbox/:id/outcome': [
    'message.simulate-outcome',
    async () => sandbox.post(`/sandbox/inbox/${await captured()}/outcome`, { outcome: 'bounced' }),
  ],
  'POST /sandbox/clock/advance': [
    'sandbox-clock.advance',
    () => sandbox.post('/sandbox/clock/advance', { seconds: 1 }),
  ],
  'POST /sandbox/clock/reset': ['sandbox-clock.reset', () => sandbox.post('/sandbox/clock/reset')],
  'DELETE /sandbox/inbox': [
    'sandbox-inbox.clear',
    async () => {
      await captured();
      return sandbox.delete('/sandbox/inbox');
    },
  ],
  'POST /templates': ['template.create', () => live.post('/templates', { name: 'a', subject: 's', text: 't' })],
  'PUT /templates/:id': [
    'template.replace',
    async () => {
      const { templateId } = await made(live.post('/templates', { name: 'b', subject: 's', text: 't' }));
      return live.put(`/templates/${templateId}`, { name: 'b', subject: 's', text: 'u' });
    },
  ],
  'PATCH /templates/:id': [
    'template.replace',
    async () => {
      const { templateId } = await made(live.post('/templates', { name: 'e', subject: 's', text: 't' }));
      return live.call({ method: 'PATCH', path: `/templates/${templateId}`, body: { text: 'u' } });
    },
  ],
  'PUT /templates/:id/samples': [
    'template.replace-samples',
    async () => {
      const { templateId } = await made(live.post('/templates', { name: 'f', subject: 's', text: 't' }));
      return live.put(`/templates/${templateId}/samples`, { samples: [{ name: 'One', values: { x: 1 } }] });
    },
  ],
  'POST /templates/:id/versions/:version/restore': [
    'template.restore-version',
    async () => {
      const { templateId } = await made(live.post('/templates', { name: 'c', subject: 's', text: 't' }));
      return live.post(`/templates/${templateId}/versions/1/restore`, {});
    },
  ],
  'POST /templates/:id/share': [
    'template.share',
    async () => {
      const { templateId } = await made(live.post('/templates', { name: 'g', subject: 's', text: 't' }));
      return live.post(`/templates/${templateId}/share`, {});
    },
  ],
  'DELETE /template-shares/:id': [
    'template.revoke-share',
    async () => {
      const { templateId } = await made(live.post('/templates', { name: 'h', subject: 's', text: 't' }));
      const { shareId } = await made(live.post(`/templates/${templateId}/share`, {}));
      return live.delete(`/template-shares/${shareId}`);
    },
  ],
  'DELETE /templates/:id': [
    'template.delete',
    async () =>
      live.delete(
        `/templates/${(await made(live.post('/templates', { name: 'd', subject: 's', text: 't' }))).templateId}`,
      ),
  ],
  'POST /inbound-routes': [
    'inbound-route.create',
    () => sandbox.post('/inbound-routes', { match: 'a@in.shop.example' }),
  ],
  'POST /sandbox/inbound': [
    'inbound.simulate',
    async () => {
      await sandbox.post('/inbound-routes', { match: 'play@in.shop.example' });
      return sandbox.post('/sandbox/inbound', { to: 'play@in.shop.example', from: 'ann@x.example', text: 'hello' });
    },
  ],
  'PUT /inbound-routes/:id': [
    'inbound-route.replace',
    async () => {
      const { inboundRouteId } = await made(sandbox.post('/inbound-routes', { match: 'b@in.shop.example' }));
      return sandbox.put(`/inbound-routes/${inboundRouteId}`, { match: '*@in.shop.example' });
    },
  ],
  'PATCH /inbound-routes/:id': [
    'inbound-route.replace',
    async () => {
      const { inboundRouteId } = await made(sandbox.post('/inbound-routes', { match: 'd@in.shop.example' }));
      return sandbox.call({ method: 'PATCH', path: `/inbound-routes/${inboundRouteId}`, body: { maxBytes: 2_000 } });
    },
  ],
  'DELETE /inbound-routes/:id': [
    'inbound-route.delete',
    async () => {
      const { inboundRouteId } = await made(sandbox.post('/inbound-routes', { match: 'c@in.shop.example' }));
      return sandbox.delete(`/inbound-routes/${inboundRouteId}`);
    },
  ],
  'POST /inbound-routes/:id/verify': [
    'inbound-route.check',
    async () => {
      const { accountId, parts } = rig;
      await addDomain(parts, { accountId, domain: 'verified.example.com', verified: true });
      const { inboundRouteId } = await made(live.post('/inbound-routes', { match: 'a@in.verified.example.com' }));
      const mx = { status: 'pending', found: null, checkedAt: null } as const;
      await parts.database.execute(recordMxOperation, { id: inboundRouteId, accountId, mode: 'live', mx });
      return live.post(`/inbound-routes/${inboundRouteId}/verify`, {});
    },
  ],
  'POST /domains': ['domain.add', () => live.post('/domains', { domain: 'one.example.com' })],
  'PUT /domains': ['domain.add', () => live.put('/domains', { domain: 'two.example.com' })],
  'POST /domains/:id/verify': [
    'domain.check',
    async () => {
      const { accountId, parts } = rig;
      const wish = { accountId, domain: 'gone.example.com', verified: true };
      const added = await addDomain(parts, wish);
      assert.ok(added.ok);
      const { id, keys } = added.value.domain;
      // Its record was found once and is gone now, so it fails from now on.
      await parts.database.execute(recordCheckOperation, {
        id,
        status: 'verified',
        nowMs: Date.now(),
        keys: keys.map(({ selector }) => ({ selector, isPublished: true, isEverywhere: true })),
        isReturnPath: null,
        promotes: false,
      });
      return live.post(`/domains/${id}/verify`, {});
    },
  ],
  'POST /domains/:id/rotate-keys': [
    'domain.rotate-keys',
    async () => {
      const { domainId } = await made(live.post('/domains', { domain: 'rotated.example.com' }));
      return live.post(`/domains/${domainId}/rotate-keys`, {});
    },
  ],
  'DELETE /domains/:id': [
    'domain.delete',
    async () =>
      live.delete(`/domains/${(await made(live.post('/domains', { domain: 'three.example.com' }))).domainId}`),
  ],
  'PATCH /account': [
    'account.update',
    () => live.call({ method: 'PATCH', path: '/account', body: { missingVariables: 'keep' } }),
  ],
  'PUT /account/logo': ['account.set-logo', () => live.put('/account/logo', { content: TEST_LOGO })],
  'DELETE /account/logo': [
    'account.remove-logo',
    async () => {
      await live.put('/account/logo', { content: TEST_LOGO });
      return live.delete('/account/logo');
    },
  ],
  'POST /account/resume-sending': [
    'account.resume-sending',
    async () => {
      const { accountId: id, parts } = rig;
      await parts.database.execute(decideProtectionOperation, { id, from: 'good', to: 'held', reason: null, nowMs: 1 });
      return live.post('/account/resume-sending', { confirm: true });
    },
  ],
  'POST /approvals': [
    'approval.request',
    () => live.post('/approvals', { requestedEmailBytes: 30_000_000, reason: 'catalogues' }),
  ],
  'POST /users': ['user.invite', () => live.post('/users', { email: 'one@x.example' })],
  'PATCH /users/:id': [
    'user.change-role',
    async () => {
      const { userId } = await made(live.post('/users', { email: 'two@x.example' }));
      return live.patch(`/users/${userId}`, { role: 'viewer' });
    },
  ],
  'DELETE /users/:id': [
    'user.remove',
    async () => live.delete(`/users/${(await made(live.post('/users', { email: 'three@x.example' }))).userId}`),
  ],
  'POST /api-keys': ['api-key.create', () => live.post('/api-keys', { name: 'shop' })],
  'PATCH /api-keys/:keyId': [
    'api-key.update',
    async () => live.patch(`/api-keys/${(await made(live.post('/api-keys', {}))).keyId}`, { name: 'renamed' }),
  ],
  'DELETE /api-keys/:keyId': [
    'api-key.revoke',
    async () => live.delete(`/api-keys/${(await made(live.post('/api-keys', {}))).keyId}`),
  ],
  'POST /smtp-credentials': ['smtp-credential.create', () => live.post('/smtp-credentials', {})],
  'PATCH /smtp-credentials/:id': [
    'smtp-credential.update',
    async () => {
      const { smtpCredentialId } = await made(live.post('/smtp-credentials', {}));
      return live.patch(`/smtp-credentials/${smtpCredentialId}`, { allowedNetworks: ['192.0.2.0/24'] });
    },
  ],
  'DELETE /smtp-credentials/:id': [
    'smtp-credential.revoke',
    async () => live.delete(`/smtp-credentials/${(await made(live.post('/smtp-credentials', {}))).smtpCredentialId}`),
  ],
};

interface Entry {
  auditId: string;
  action: string;
  resourceId: string | null;
  actor: { kind: string; id: string };
  address: string;
  requestId: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
}

const log = async (query = ''): Promise<Entry[]> => (await live.get(`/audit?limit=100${query}`)).body as Entry[];

test('every state-changing route is in the table and writes its audit row', async (t) => {
  const changing = rig.routes
    // Session routes belong to users (src/users/audit.test.ts), and operator routes to operators (src/operator/routes.test.ts).
    .filter(({ method, access, tag }) => method !== 'GET' && tag !== 'session' && access.auth !== 'operator')
    .map(({ method, path }) => `${method} ${path}`)
    .filter((name) => !OWN_RECORD.has(name) && !NO_CHANGE.has(name));
  // A retry requires an attempted delivery or message: covered by test/contract and test/flows.
  const tabled = [
    ...Object.keys(ROUTES),
    'POST /webhooks/:id/deliveries/:deliveryId/retry',
    'POST /incidents/:id/retry',
    // People decide in a session: src/mcp/approvals.test.ts.
    'POST /agent-requests/:id/approve',
    'POST /agent-requests/:id/decline',
    // Changes by an owner are tested in src/users/two-factor.test.ts.
    'PUT /account/two-factor',
    // Changes by users: src/users/saved-filters.test.ts.
    'POST /saved-filters',
    'PATCH /saved-filters/:id',
    'DELETE /saved-filters/:id',
    // Users choose their notices in a session: src/users/notices.test.ts.
    'PATCH /account/notices',
  ];
  assert.deepEqual(changing.sort(), tabled.sort());
  for (const [name, [action, call]] of Object.entries(ROUTES)) {
    await t.test(name, async () => {
      const [latest] = await log();
      const answer = await call();
      assert.ok(answer.status < 300, `${name}: ${answer.status} ${JSON.stringify(answer.body)}`);
      const rows = (await log()).filter((one) => one.auditId > (latest?.auditId ?? ''));
      const row = rows.find((one) => one.action === action);
      assert.ok(row, `${action} among ${rows.map((one) => one.action)}`);
      assert.equal(row.actor.kind, 'key');
      assert.match(row.actor.id, /^key_/);
      assert.equal(row.requestId, answer.headers['x-request-id']);
      assert.match(row.address, /127\.0\.0\.1/);
      assert.ok(row.before ?? row.after);
    });
  }
});

test('a row contains the state before and after, without secrets', async () => {
  const webhook = await made(live.post('/webhooks', { ...hook, secret: `whsec_${'A'.repeat(32)}` }));
  const key = await made(live.post('/api-keys', { name: 'of the shop' }));
  const credential = await made(live.post('/smtp-credentials', {}));
  await live.put(`/webhooks/${webhook.webhookId}`, { ...hook, events: ['Bounce'] });
  const [replaced] = await log(`&resourceId=${webhook.webhookId}`);
  assert.deepEqual(replaced?.before?.events, ['Delivery']);
  assert.deepEqual(replaced?.after?.events, ['Bounce']);
  const everything = JSON.stringify(await log());
  for (const secret of [webhook.secret, key.apiKey, credential.password]) {
    assert.ok(secret.length > 20);
    assert.ok(!everything.includes(secret));
  }
  const database = new DatabaseSync(rig.databaseFile, { readOnly: true });
  const rows = JSON.stringify(database.prepare('SELECT * FROM audit').all());
  const sealed = database.prepare('SELECT password_hash FROM smtp_credential').all() as { password_hash: string }[];
  database.close();
  for (const { password_hash: hash } of sealed) assert.ok(!rows.includes(hash));
});

test('a change that the row cannot show writes a row too', async () => {
  const newest = async (): Promise<string> => JSON.stringify((await log())[0]);
  const { webhookId } = await made(live.post('/webhooks', { ...hook, headers: { Authorization: 'Bearer 1' } }));
  const secret = 'Bearer 2';
  const isRecorded = async (change: () => Promise<Answer>): Promise<void> => {
    const before = await newest();
    const { status, text } = await change();
    assert.ok(status < 300, text);
    assert.notEqual(await newest(), before);
  };
  const path = `/webhooks/${webhookId}`;
  await isRecorded(() => live.call({ method: 'PATCH', path, body: { headers: { Authorization: secret } } }));
  assert.ok(!(await live.get('/audit?limit=1')).text.includes(secret));
  const long = 'x'.repeat(3_000);
  const set = (text: string) => live.call({ method: 'PATCH', path: '/account', body: { variables: { long: text } } });
  await set(`${long}a`);
  await isRecorded(() => set(`${long}b`));
  const entry = { email: 'again@x.example', reason: 'manual' };
  await live.post('/suppressions', entry);
  await isRecorded(() => live.post('/suppressions', { ...entry, reason: 'bounce' }));
});

test('rejected requests and requests without a change write no row', async () => {
  const { webhookId } = await made(live.post('/webhooks', hook));
  const listed = { email: 'listed@x.example', reason: 'manual' };
  await live.post('/suppressions', listed);
  const rows = (await log()).length;
  assert.equal((await live.post('/suppressions', listed)).status, 201);
  assert.equal((await live.post('/webhooks', { url: 'nonsense', events: [] })).status, 400);
  assert.equal((await live.delete('/webhooks/whk_none')).status, 404);
  assert.equal((await live.post(`/webhooks/${webhookId}/replay?dryRun=true`, span)).status, 200);
  assert.equal(
    (await live.call({ method: 'PATCH', path: '/account', body: { missingVariables: 'keep' } })).status,
    200,
  );
  assert.equal((await log()).length, rows);
});

test('the audit log is filtered, paginated, scoped to account and mode, and exported', async () => {
  const webhooks = await log('&resource=webhook&action=webhook.delete');
  assert.ok(webhooks.length > 0 && webhooks.every((one) => one.action === 'webhook.delete'));
  const first = await live.get('/audit?limit=2');
  const second = await live.get(`/audit?limit=2&cursor=${first.headers['x-next-cursor']}`);
  const ids = [first, second].flatMap(({ body }) => (body as Entry[]).map((one) => one.auditId));
  assert.deepEqual(ids, [...ids].sort().reverse());
  assert.equal(new Set(ids).size, 4);
  const ofSandbox = (await sandbox.get('/audit?limit=100')).body as { mode: string }[];
  assert.ok(ofSandbox.length > 0 && ofSandbox.every((one) => one.mode === 'sandbox'));
  const all = await log();
  const lines = (await live.get('/audit.jsonl')).text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Entry);
  assert.deepEqual(lines, all);
  const csv = (await live.get('/audit.csv?resource=webhook')).text.trim().split('\r\n');
  assert.match(csv[0]!, /^auditId,time,accountId/);
  assert.equal(csv.length - 1, all.filter((one) => one.action.startsWith('webhook.')).length);
  assert.deepEqual((await live.get(`/audit?until=${encodeURIComponent('2026-01-01T00:00:00Z')}`)).body, []);
});

test('the entries of calls in the sandbox have the real time, although its clock is ahead', async () => {
  const aheadSeconds = 3_600;
  assert.equal((await sandbox.post('/sandbox/clock/advance', { seconds: aheadSeconds })).status, 200);
  const cases = Object.entries(ROUTES).filter(
    ([route]) => /^[A-Z]+ \/(?:messages|shares|sandbox)\b/.test(route) && !route.endsWith('/clock/reset'),
  );
  for (const [route, [action, call]] of cases) {
    const answer = await call();
    assert.ok(answer.status < 300, `${route}: ${answer.text}`);
    const [entry] = (await sandbox.get(`/audit?limit=1&action=${action}`)).body as { time: string }[];
    assert.ok(Math.abs(Date.parse(entry!.time) - Date.now()) < (aheadSeconds * 1_000) / 2, `${route}: ${entry!.time}`);
  }
  assert.ok(cases.length > 6, cases.map(([route]) => route).join(', '));
  assert.equal((await sandbox.post('/sandbox/clock/reset')).status, 200);
});
