import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { createAccount } from '../accounts/accounts.ts';

let app: InProcessApi;
before(async () => {
  app = await inProcessApi();
});
after(() => app.close());

test('an erasure is started once, shown as running, and scoped to one account and mode', async () => {
  const { live, sandbox } = app;
  const started = await live.post('/recipients/erase', { email: 'Ann@x.example' });
  assert.equal(started.status, 201, started.text);
  const { erasureId, ...rest } = started.body;
  assert.match(erasureId, /^ers_\w{21}$/);
  assert.deepEqual(rest, {
    status: 'running',
    createdAt: rest.createdAt,
    completedAt: null,
    removed: { messages: 0, events: 0, inboundMessages: 0 },
  });
  const again = await live.post('/recipients/erase', { email: ' ann@X.example' });
  assert.deepEqual([again.status, again.body.erasureId], [201, erasureId]);
  assert.deepEqual((await live.get(`/recipients/erasures/${erasureId}`)).body, started.body);
  assert.deepEqual((await live.get('/recipients/erasures')).body, [started.body]);
  assert.equal((await live.get('/suppressions/ann@x.example')).status, 200, 'suppressed immediately');
  assert.equal((await sandbox.get(`/recipients/erasures/${erasureId}`)).status, 404);
  assert.deepEqual((await sandbox.get('/recipients/erasures')).body, []);
  const other = await createAccount(app.parts, { name: 'Other', plan: 'paid' });
  const foreign = { 'x-api-key': other.apiKey, 'x-id': other.account.id };
  const shown = await live.call({ method: 'GET', path: `/recipients/erasures/${erasureId}`, headers: foreign });
  assert.equal(shown.status, 404);
  const entries = (await live.get('/audit?action=recipient.erase')).body as unknown as { resourceId: string }[];
  assert.deepEqual(
    entries.map(({ resourceId }) => resourceId),
    [erasureId],
    'the second call changed nothing',
  );
});

test('erasures are listed in pages, newest first', async () => {
  const ids: string[] = [];
  for (const email of ['a@y.example', 'b@y.example', 'c@y.example'])
    ids.push((await app.sandbox.post('/recipients/erase', { email })).body.erasureId);
  const idsOf = (body: unknown) => (body as { erasureId: string }[]).map(({ erasureId }) => erasureId);
  const first = await app.sandbox.get('/recipients/erasures?limit=2');
  const second = await app.sandbox.get(`/recipients/erasures?limit=2&cursor=${first.headers['x-next-cursor']}`);
  assert.deepEqual([...idsOf(first.body), ...idsOf(second.body)].sort(), ids.sort());
});

test('the address must be a bare address', async () => {
  for (const body of [
    {},
    { email: '' },
    { email: 'ann' },
    { email: 'Ann <ann@x.example>' },
    { email: 'a@x.example', x: 1 },
  ]) {
    const refused = await app.live.post('/recipients/erase', body);
    assert.deepEqual([refused.status, refused.body.error.code], [400, 'INVALID_REQUEST'], JSON.stringify(body));
  }
});
