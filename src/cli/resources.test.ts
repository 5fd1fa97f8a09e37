/** Commands for the resources of an account, with a running service: lists with filters and pages, changes from files, and errors. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { runInProcess } from '../../test/kit/in-process-command.ts';
import { type Service, startService } from '../../test/kit/start-service.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { RESOURCES } from './resources.ts';

let service: Service;
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-resources-'));

before(async () => {
  service = await startService();
});
after(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const run = (...args: string[]) => runInProcess(args, { ...process.env, POSTRIDER_DATA_DIR: service.dataDir });

async function json(...args: string[]) {
  const ran = await run(...args, '--json');
  assert.equal(ran.code, 0, ran.stdout + ran.stderr);
  return JSON.parse(ran.stdout);
}

function file(name: string, content: unknown): string {
  const target = path.join(folder, name);
  writeFileSync(target, JSON.stringify(content));
  return target;
}

async function send(to: string, tag = 'order'): Promise<string> {
  const mail = { from: 'shop@shop.example', to, subject: `For ${to}`, text: 'Thank you.', tags: [tag] };
  const sent = await service.sandboxApi.post('/send', mail);
  assert.equal(sent.status, 202, sent.text);
  return sent.body.data.messageId;
}

test('every list can be empty, and says so', async () => {
  for (const { noun, plural, verbs } of RESOURCES.filter((one) => one.verbs.includes('list'))) {
    assert.ok(verbs.includes('list'));
    const { stdout, code } = await run(noun, 'list');
    assert.deepEqual([code, stdout], [0, `no ${plural}\n`], noun);
  }
  assert.deepEqual(await json('inbound-route', 'list'), { inboundRoutes: [], hasMore: false });
});

test('messages are listed in pages, filtered, shown, canceled, and sent again', async () => {
  const ids = [];
  for (let i = 0; i < 3; i += 1) ids.push(await send(`ann${i}@example.com`));
  const other = await send('bob@example.com', 'invoice');
  const two = await json('message', 'list', '--limit', '2');
  assert.deepEqual([two.messages.length, two.hasMore], [2, true]);
  const all = await json('message', 'list');
  assert.deepEqual([all.messages.length, all.hasMore], [4, false]);
  const invoices = await json('message', 'list', '--tag', 'invoice');
  assert.deepEqual(
    invoices.messages.map((one: { messageId: string }) => one.messageId),
    [other],
  );
  const { stdout } = await run('message', 'list', '--to', 'ann1@example.com');
  assert.match(stdout, new RegExp(`^${ids[1]}  .*  ann1@example\\.com  For ann1@example\\.com\\n$`));
  assert.equal((await json('message', 'show', other)).to, 'bob@example.com');
  await waitUntil('the delivery', async () => (await json('message', 'show', other)).status === 'delivered');
  const refused = await run('message', 'cancel', other);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /returned 409/);
  await json('message', 'resend', other);
  assert.equal((await json('message', 'list', '--to', 'bob@example.com')).messages.length, 2);
  const events = await json('event', 'list', '--message-id', other, '--event-type', 'Delivery');
  assert.deepEqual(
    events.events.map((one: { recipient: string }) => one.recipient),
    ['bob@example.com'],
  );
});

test('webhooks are created, changed, and deleted from files', async () => {
  const hook = file('webhook.json', { url: 'https://hooks.example/one', events: ['Bounce'] });
  const { webhookId, secret } = await json('webhook', 'create', hook);
  assert.match(secret, /^whsec_/);
  const changed = await json('webhook', 'set', webhookId, file('changes.json', { enabled: false }));
  assert.deepEqual([changed.enabled, changed.url], [false, 'https://hooks.example/one']);
  assert.equal((await json('webhook', 'list')).webhooks.length, 1);
  await json('webhook', 'delete', webhookId);
  assert.deepEqual(await json('webhook', 'list'), { webhooks: [], hasMore: false });
});

test('suppressions are named by their address', async () => {
  await json('suppression', 'create', file('suppression.json', { email: 'o+1@example.com', reason: 'manual' }));
  assert.equal((await json('suppression', 'show', 'o+1@example.com')).reason, 'manual');
  await json('suppression', 'delete', 'o+1@example.com');
  assert.deepEqual((await json('suppression', 'list')).suppressions, []);
});

test('errors of the API and of files name the cause', async () => {
  const invalid = await run(
    'webhook',
    'create',
    file('invalid.json', { url: 'ftp://hooks.example', events: ['Bounce'] }),
  );
  assert.equal(invalid.code, 1);
  assert.match(invalid.stderr, /400 INVALID_REQUEST.*\n {2}url /s);
  const list = await run('webhook', 'create', file('list.json', []));
  assert.equal(list.code, 2);
  assert.match(list.stderr, /list\.json is not a JSON object/);
  const missing = await run('webhook', 'create', path.join(folder, 'missing.json'));
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /missing\.json/);
  const unknown = await run('template', 'show', 'tpl_0');
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /404 NOT_FOUND/);
  const wrong = await run('message', 'list', '--limit', '0');
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /--limit/);
  const folderAsFile = await run('webhook', 'create', folder);
  assert.equal(folderAsFile.code, 1);
  assert.match(folderAsFile.stderr, /is a folder; name a file in it/);
  const broken = path.join(folder, 'broken.json');
  writeFileSync(broken, '{\n  "url": "x",\n}');
  const position = await run('webhook', 'create', broken);
  assert.equal(position.code, 2);
  assert.match(position.stderr, /^postrider: \S+broken\.json is not valid JSON: .*line 3 column 1[^\n]*\n$/);
});

test('a JSON file can start with a byte order mark', async () => {
  const marked = path.join(folder, 'marked.json');
  writeFileSync(marked, `\uFEFF${JSON.stringify({ email: 'marked@example.com', reason: 'manual' })}`);
  assert.equal((await json('suppression', 'create', marked)).email, 'marked@example.com');
  await json('suppression', 'delete', 'marked@example.com');
});

test('filters with several values are repeated, and others are refused a second time', async () => {
  const api = service.sandboxApi;
  const sent = [];
  for (const tags of [['north'], ['north', 'south']]) {
    const mail = { from: 'shop@shop.example', to: 'carol@example.com', subject: 'Hello', text: 'Hello', tags };
    sent.push((await api.post('/send', mail)).body.data.messageId);
  }
  const idsOf = async (...args: string[]) =>
    (await json('message', 'list', '--to', 'carol@example.com', ...args)).messages.map(
      (one: { messageId: string }) => one.messageId,
    );
  assert.deepEqual(await idsOf('--tag', 'north', '--tag', 'south'), [sent[1]], 'all tags');
  await waitUntil('both deliveries', async () => (await idsOf('--status', 'delivered')).length === 2);
  assert.equal((await idsOf('--status', 'delivered', '--status', 'bounced')).length, 2, 'any status');
  assert.equal((await idsOf('--status', 'bounced', '--status', 'suppressed')).length, 0);
  const events = await json('event', 'list', '--message-id', sent[0], '--event-type', 'Send', '--event-type', 'Bounce');
  assert.deepEqual(
    events.events.map((one: { eventType: string }) => one.eventType),
    ['Send'],
  );
  const twice = await run('message', 'list', '--to', 'a@example.com', '--to', 'b@example.com');
  assert.equal(twice.code, 2);
  assert.match(twice.stderr, /--to .*can be given only once/);
});

test('a failed webhook test gives exit code 1', async () => {
  const { webhookId } = await json(
    'webhook',
    'create',
    file('unreachable.json', { url: 'https://hooks.invalid/one', events: ['Bounce'] }),
  );
  const failed = await run('webhook', 'test', webhookId);
  assert.equal(failed.code, 1, failed.stdout);
  assert.match(failed.stderr, /^postrider: the test failed: \S/);
  await json('webhook', 'delete', webhookId);
});

test('a sandbox key contradicts --live', async () => {
  const { accountId, apiKey } = service.sandbox;
  const credentials = ['--id', accountId, '--key', apiKey, '--url', service.url];
  for (const command of [
    ['message', 'list'],
    ['send', '--from', 'a@b.example', '--to', 'c@d.example', '--subject', 'x'],
  ]) {
    const refused = await run(...command, ...credentials, '--live');
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /the selected key is a sandbox key; omit --live/);
  }
  const live = ['--id', service.live.accountId, '--key', service.live.apiKey, '--url', service.url];
  assert.equal((await run('message', 'list', ...live, '--live')).code, 0);
});

test('a URL with a password, query, or fragment is refused, and the password is not displayed', async () => {
  for (const [url, message] of [
    ['http://ann:secret@localhost:3000', /--url must not contain a user name or password/],
    ['http://localhost:3000/?x=1', /--url must not contain a query or fragment/],
    ['http://localhost:3000#y', /--url must not contain a query or fragment/],
  ] as const) {
    const refused = await run('message', 'list', '--url', url, '--id', 'acc_1', '--key', 'pr_test_1');
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, message);
    assert.doesNotMatch(refused.stderr, /secret/);
  }
});
