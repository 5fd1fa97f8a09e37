/**
 * Tests sends of the Resend interface: attachments of older SDKs, the published senders of templates, and strict batches near a quota.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  sink = await smtpSink();
  service = await startService({
    env: { POSTRIDER_DOORS: 'resend', POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  await service.close();
  await sink.close();
});

interface Reply {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: an answer is what is being tested
  body: any;
}

async function call(
  method: string,
  path: string,
  options: { key?: string; body?: unknown; headers?: object } = {},
): Promise<Reply> {
  const { key = service.live.apiKey, body, headers = {} } = options;
  const answer = await fetch(new URL(path, service.url), {
    method,
    headers: {
      ...(key !== '' && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json/, `${method} ${path}`);
  return { status: answer.status, headers: answer.headers, body: await answer.json() };
}

const mail = (extra: object = {}) => ({
  from: 'hello@shop.example',
  to: ['ann@example.com'],
  subject: 'Hello',
  text: 'Hello',
  ...extra,
});

const received = (to: string) =>
  waitUntil(`the message to ${to}`, () => sink.messages.find((one) => one.to.includes(to))?.content.toString());

test('attachments of older SDKs are inline by inline_content_id, and an empty path counts as absent', async () => {
  const attachments = [
    { filename: 'logo.png', content: 'YQ==', path: '', inline_content_id: 'logo', content_id: '' },
    { filename: 'both.png', content: 'Yg==', path: '', inline_content_id: 'old', content_id: '<new>' },
  ];
  const sent = await call('POST', '/emails', {
    body: mail({ to: 'inline@example.com', html: '<p>x</p>', attachments }),
  });
  assert.equal(sent.status, 200, JSON.stringify(sent.body));
  assert.equal(sent.headers.get('x-ignored-fields'), null);
  const text = await received('inline@example.com');
  assert.deepEqual(text.match(/^Content-ID: .*$/gm), ['Content-ID: <logo>', 'Content-ID: <new>']);
  const refused = await call('POST', '/emails', { body: mail({ attachments: [{ filename: 'a.png', path: '' }] }) });
  assert.equal(refused.body.name, 'invalid_attachment');
});

test('a send uses the published sender and reply addresses of a template, not those of the draft', async () => {
  const { id } = (
    await call('POST', '/templates', {
      body: {
        name: 'Senders',
        subject: 's',
        html: '<p>x</p>',
        from: 'Old <old@shop.example>',
        reply_to: 'old-help@shop.example',
      },
    })
  ).body;
  await call('POST', `/templates/${id}/publish`);
  const changed = await call('PATCH', `/templates/${id}`, {
    body: { from: 'New <new@shop.example>', reply_to: ['new-help@shop.example'] },
  });
  assert.equal(changed.status, 200, JSON.stringify(changed.body));
  const sendersFor = async (to: string) => {
    const sent = await call('POST', '/emails', { body: { to, template: { id } } });
    assert.equal(sent.status, 200, JSON.stringify(sent.body));
    return (await received(to)).match(/^(?:From|Reply-To): .*$/gm)!.toSorted();
  };
  const old = ['From: Old <old@shop.example>', 'Reply-To: old-help@shop.example'];
  assert.deepEqual(await sendersFor('senders-1@example.com'), old);
  const shown = (await call('GET', `/templates/${id}`)).body;
  assert.deepEqual([shown.from, shown.reply_to], ['New <new@shop.example>', ['new-help@shop.example']], 'of the draft');
  const copy = (await call('POST', `/templates/${id}/duplicate`)).body.id;
  assert.equal((await call('GET', `/templates/${copy}`)).body.from, 'New <new@shop.example>');
  await call('POST', `/templates/${id}/publish`);
  const next = ['From: New <new@shop.example>', 'Reply-To: new-help@shop.example'];
  assert.deepEqual(await sendersFor('senders-2@example.com'), next);
});

test('templates without an alias can have the same name', async () => {
  const make = (extra: object = {}) =>
    call('POST', '/templates', { body: { name: 'Same', html: '<p>x</p>', subject: 's', ...extra } });
  const made = [await make(), await make(), await make({ alias: 'same-1' })];
  for (const { status, body } of made) assert.equal(status, 201, JSON.stringify(body));
  const ids: string[] = made.map(({ body }) => body.id);
  assert.equal(new Set(ids).size, 3);
  for (const id of ids) {
    const changed = await call('PATCH', `/templates/${id}`, { body: { subject: 'changed' } });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
    await call('POST', `/templates/${id}/publish`);
    const shown = (await call('GET', `/templates/${id}`)).body;
    assert.deepEqual([shown.name, shown.subject, shown.status], ['Same', 'changed', 'published']);
  }
  assert.equal((await call('PATCH', `/templates/${ids[2]}`, { body: { alias: null } })).status, 200);
  const taken = await make({ alias: 'same-2' });
  assert.equal(taken.status, 201);
  const again = await make({ alias: 'same-2' });
  assert.deepEqual([again.status, again.body.name], [422, 'validation_error'], 'an alias is unique');
});

test('the name of a template without an alias does not take an alias', async () => {
  const make = (extra: object) =>
    call('POST', '/templates', { body: { html: '<p>x</p>', subject: 's', from: 'hello@shop.example', ...extra } });
  const named = (await make({ name: 'welcome' })).body.id;
  await call('POST', `/templates/${named}/publish`);
  const draft = (await make({ name: 'goodbye' })).body.id;
  const aliased = await make({ name: 'Hi', alias: 'welcome' });
  assert.equal(aliased.status, 201, JSON.stringify(aliased.body));
  assert.equal((await call('GET', '/templates/welcome')).body.id, aliased.body.id);
  const changed = await call('PATCH', `/templates/${aliased.body.id}`, { body: { alias: 'goodbye' } });
  assert.equal(changed.status, 200, JSON.stringify(changed.body));
  assert.equal((await call('GET', '/templates/goodbye')).body.id, aliased.body.id);
  for (const [id, name, status] of [
    [named, 'welcome', 'published'],
    [draft, 'goodbye', 'draft'],
  ]) {
    const shown = (await call('GET', `/templates/${id}`)).body;
    assert.deepEqual([shown.name, shown.alias, shown.status], [name, null, status]);
    assert.equal(shown.has_unpublished_versions, status === 'draft');
  }
  const sent = await call('POST', '/emails', { body: { to: 'renamed@example.com', template: { id: named } } });
  assert.equal(sent.status, 200, JSON.stringify(sent.body));
});

test('a strict batch that exceeds a quota sends nothing', async () => {
  const made = await service.cli('account', 'create', '--name', 'Limited', '--plan', 'paid');
  const key = String(made.apiKey);
  const accountId = String(made.accountId);
  await service.cli('domain', 'add', accountId, 'limited.example', '--verified');
  await service.cli('account', 'set', accountId, '--limit', 'messagesPerDay=7');
  const to = (name: string) => mail({ from: 'hello@limited.example', to: [`${name}@example.com`] });
  const batch = (names: string[], headers: object = {}) =>
    call('POST', '/emails/batch', { key, body: names.map(to), headers });
  const five = {
    ...to('q1'),
    to: ['q1@example.com', 'Q2 <q2@example.com>'],
    cc: 'q3@example.com',
    bcc: ['q4@example.com'],
  };
  const tooMany = await call('POST', '/emails/batch', { key, body: [five, to('q5'), to('q6'), to('q7'), to('q8')] });
  assert.equal(tooMany.body.name, 'daily_quota_exceeded', JSON.stringify(tooMany.body));
  const list = async () => (await call('GET', '/emails?limit=100', { key })).body.data as object[];
  assert.deepEqual(await list(), []);
  const keyed = { 'idempotency-key': 'quota-1' };
  assert.equal((await call('POST', '/emails/batch', { key, body: [five, to('q5')], headers: keyed })).status, 200);
  const refused = await batch(['q6', 'q7', 'q8', 'q9']);
  assert.deepEqual([refused.status, refused.body.name], [429, 'daily_quota_exceeded'], JSON.stringify(refused.body));
  assert.match(refused.body.message, /has 2 left, but this batch needs 4/);
  assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
  assert.equal((await list()).length, 2, 'nothing of the refused batch was sent');
  assert.equal((await batch(['q6', 'q7'])).status, 200);
  const repeated = await call('POST', '/emails/batch', { key, body: [five, to('q5')], headers: keyed });
  assert.equal(repeated.status, 200, 'a repeat needs no quota');
});

test('a quota that ends within a strict batch lists the emails that were sent', async () => {
  // The quota of sandbox messages is not checked before the batch, like one that parallel sends use up after the check.
  await service.cli('account', 'set', service.live.accountId, '--limit', 'messagesPerDay=3');
  const body = ['s1', 's2', 's3', 's4'].map((name) => mail({ to: [`${name}@example.com`] }));
  const headers = { 'idempotency-key': 'partial-1' };
  const first = await call('POST', '/emails/batch', { key: service.sandbox.apiKey, body, headers });
  assert.deepEqual([first.status, first.body.name], [422, 'validation_error'], 'clients do not repeat the request');
  assert.equal(first.headers.get('retry-after'), null);
  assert.match(first.body.message, /^Email \d: .* These emails of the batch were sent: \d, \d, \d\./);
  await service.cli('account', 'set', service.live.accountId, '--limit', 'messagesPerDay=4');
  const again = await call('POST', '/emails/batch', { key: service.sandbox.apiKey, body, headers });
  assert.equal(again.status, 200, JSON.stringify(again.body));
  const full = await call('POST', '/emails/batch', { key: service.sandbox.apiKey, body });
  assert.deepEqual([full.status, full.body.name], [429, 'daily_quota_exceeded'], 'nothing was sent');
  assert.match(full.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
  const inbox = (await call('GET', '/emails?limit=100', { key: service.sandbox.apiKey })).body.data;
  assert.equal(inbox.length, 4, 'the repeat sent only the other email');
  await service.cli('account', 'set', service.live.accountId, '--limit', 'messagesPerDay=none');
});

test('errors of domains and tags name the field that the client sent', async () => {
  const domain = await call('POST', '/domains', { body: { name: 'not a domain' } });
  assert.deepEqual([domain.status, domain.body.name], [422, 'validation_error']);
  assert.match(domain.body.message, /^The `name` field /);
  const tagged = (length: number) =>
    call('POST', '/emails', { body: mail({ tags: [{ name: 'n'.repeat(length), value: 'v' }] }) });
  assert.equal((await tagged(255)).status, 200);
  const refused = await tagged(256);
  assert.deepEqual([refused.status, refused.body.name], [422, 'validation_error']);
  assert.match(refused.body.message, /^The `tags\[0\]\.name` field .*255/);
});
