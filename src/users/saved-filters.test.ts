/** Saved filters: who sees and changes them, what is refused, and what the audit log records. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Answer } from '../../test/kit/api.ts';
import { type Browser, type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { createUser } from './create.ts';

let app: InProcessApi;
const browsers = {} as Record<'owner' | 'member' | 'viewer', Browser>;
before(async () => {
  app = await inProcessApi();
  for (const role of ['owner', 'member', 'viewer'] as const) {
    const { email, password } = await app.user(`${role}@example.com`, role);
    browsers[role] = await app.signedIn(email, password);
  }
});
after(() => app.close());

const call = (browser: Browser, line: string, body?: unknown, mode = 'live'): Promise<Answer> => {
  const [method = '', path = ''] = line.split(' ');
  return browser.call(method, path, body, { 'x-id': app.accountId, 'x-mode': mode });
};
const failureOf = ({ status, body }: Answer): [number, string] => [status, body.error?.code];
const namesOf = async (browser: Browser, query = '', mode?: string): Promise<string[]> => {
  const { status, body, text } = await call(browser, `GET /saved-filters${query}`, undefined, mode);
  assert.equal(status, 200, text);
  return (body as unknown as { name: string }[]).map(({ name }) => name);
};
const BOUNCED = { list: 'messages', name: 'Bounced', query: { status: 'bounced', tags: 'receipt' } };

test('a private filter belongs to one user, a shared one to the account, each in one mode', async () => {
  const { member, viewer, owner } = browsers;
  const own = await call(member, 'POST /saved-filters', BOUNCED);
  assert.equal(own.status, 201, own.text);
  assert.match(own.body.savedFilterId, /^flt_[0-9A-Za-z]{21}$/);
  assert.deepEqual(own.body, {
    savedFilterId: own.body.savedFilterId,
    ...BOUNCED,
    shared: false,
    createdAt: own.body.createdAt,
  });
  const shared = await call(member, 'POST /saved-filters', { ...BOUNCED, name: '  Team ', shared: true });
  assert.deepEqual([shared.status, shared.body.name, shared.body.shared], [201, 'Team', true]);
  const ofViewer = await call(viewer, 'POST /saved-filters', {
    list: 'events',
    name: 'Opens',
    query: { type: 'Open' },
  });
  assert.equal(ofViewer.status, 201, 'every user can save private filters');
  assert.deepEqual(await namesOf(member), ['Team', 'Bounced']);
  assert.deepEqual(await namesOf(viewer), ['Opens', 'Team']);
  assert.deepEqual(await namesOf(viewer, '?list=events'), ['Opens']);
  assert.deepEqual(await namesOf(owner), ['Team']);
  assert.deepEqual(await namesOf(member, '', 'sandbox'), []);

  const at = `/saved-filters/${shared.body.savedFilterId}`;
  assert.deepEqual(failureOf(await call(viewer, `PATCH ${at}`, { name: 'x' })), [403, 'FORBIDDEN']);
  assert.deepEqual(failureOf(await call(viewer, `DELETE ${at}`)), [403, 'FORBIDDEN']);
  assert.deepEqual(failureOf(await call(viewer, 'POST /saved-filters', { ...BOUNCED, name: 'y', shared: true })), [
    403,
    'FORBIDDEN',
  ]);
  const changed = await call(owner, `PATCH ${at}`, { query: { status: 'delayed' } });
  assert.deepEqual([changed.status, changed.body.name, changed.body.query], [200, 'Team', { status: 'delayed' }]);
  const ofMember = `/saved-filters/${own.body.savedFilterId}`;
  for (const line of [`PATCH ${ofMember}`, `DELETE ${ofMember}`])
    assert.deepEqual(failureOf(await call(owner, line, line.startsWith('PATCH') ? { name: 'z' } : undefined)), [
      404,
      'NOT_FOUND',
    ]);
  assert.equal((await call(member, `PATCH ${ofMember}`, { name: 'Receipts' })).body.name, 'Receipts');
  assert.equal((await call(member, `DELETE ${ofMember}`)).status, 200);
  assert.deepEqual(failureOf(await call(member, `DELETE ${ofMember}`)), [404, 'NOT_FOUND']);
  assert.equal((await call(member, `DELETE ${at}`)).status, 200);

  const audit = await call(owner, 'GET /audit?resource=saved-filter&limit=100');
  const entries = audit.body as unknown as { action: string; actor: { name: string }; after: unknown }[];
  assert.deepEqual(
    entries.map(({ action }) => action),
    [
      'saved-filter.delete',
      'saved-filter.delete',
      'saved-filter.update',
      'saved-filter.update',
      'saved-filter.create',
      'saved-filter.create',
      'saved-filter.create',
    ],
  );
  assert.deepEqual(entries.at(-1)?.after, { list: 'messages', shared: false });
  assert.equal(entries.at(-1)?.actor.name, 'member@example.com');
  assert.doesNotMatch(
    audit.text,
    /receipt"|Bounced|Receipts/,
    'names and values are not in the log: they can be addresses',
  );
});

test('a wrong filter is refused with its fields', async () => {
  const { member } = browsers;
  const refusal = async (body: object): Promise<string[]> => {
    const { status, body: said } = await call(member, 'POST /saved-filters', body);
    assert.equal(status, 400);
    return said.error.details.map(({ field, message }: { field: string; message: string }) => `${field}: ${message}`);
  };
  assert.deepEqual(await refusal({ ...BOUNCED, query: { status: 'bounced', account: 'acc_1' } }), [
    'query.account: is not a filter of the list messages; use q, status, range, since, until, to, from, subject, template, tags, metadata',
  ]);
  for (const [change, field] of [
    [{ name: '' }, 'name'],
    [{ name: ' ' }, 'name'],
    [{ name: 'a\nb' }, 'name'],
    [{ name: 'x'.repeat(61) }, 'name'],
    [{ list: 'templates' }, 'list'],
    [{ query: { status: '' } }, 'query.status'],
    [{ query: { q: 'x'.repeat(1_001) } }, 'query.q'],
    [{ query: { status: 1 } }, 'query.status'],
  ] as const)
    assert.ok(
      (await refusal({ ...BOUNCED, ...change })).some((said) => said.startsWith(`${field}: `)),
      field,
    );

  const { body: made } = await call(member, 'POST /saved-filters', { ...BOUNCED, name: 'x'.repeat(60) });
  const at = `PATCH /saved-filters/${made.savedFilterId}`;
  assert.deepEqual(failureOf(await call(member, at, {})), [400, 'INVALID_REQUEST']);
  assert.deepEqual(failureOf(await call(member, at, { query: { recipient: 'x' } })), [400, 'INVALID_REQUEST']);
  assert.deepEqual(failureOf(await call(member, 'POST /saved-filters', { ...BOUNCED, name: 'x'.repeat(60) })), [
    409,
    'CONFLICT',
  ]);
  const byKey = await app.live.get('/saved-filters');
  assert.deepEqual([byKey.status, byKey.body.error.code], [403, 'FORBIDDEN']);
});

test('a user has at most 50 private filters in a mode', async () => {
  const { viewer } = browsers;
  const before = (await namesOf(viewer, '?limit=100')).length;
  for (let count = before; count < 50; count += 1)
    assert.equal((await call(viewer, 'POST /saved-filters', { ...BOUNCED, name: `Filter ${count}` })).status, 201);
  const refused = await call(viewer, 'POST /saved-filters', BOUNCED);
  assert.deepEqual(failureOf(refused), [409, 'LIMIT_REACHED']);
  assert.match(refused.body.error.message, /limit of 50 private saved filters/);
  assert.equal((await call(viewer, 'POST /saved-filters', BOUNCED, 'sandbox')).status, 201);
});

test('an operator with support access sees shared filters and cannot save any', async () => {
  const made = await createUser(app.parts, { email: 'operator@example.com', isOperator: true });
  assert.ok(made.ok);
  const operator = await app.signedIn(made.value.email, made.value.password);
  const started = await operator.call('POST', `/operator/accounts/${app.accountId}/support-access`);
  assert.equal(started.status, 201, started.text);
  await call(browsers.owner, 'POST /saved-filters', { ...BOUNCED, name: 'For all', shared: true });
  assert.deepEqual(await namesOf(operator), ['For all']);
  const refused = await call(operator, 'POST /saved-filters', BOUNCED);
  assert.deepEqual(failureOf(refused), [403, 'FORBIDDEN']);
  assert.match(refused.body.error.message, /support access/);
});
