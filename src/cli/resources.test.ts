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
});
