/** clients/typescript against the real service: every resource method works, lists are paged, and rejections have a reason. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Postrider, PostriderError, verifyWebhook } from '../../clients/typescript/src/index.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

const from = 'Shop <orders@shop.example>';
let service: Service;
let catcher: WebhookCatcher;
let client: Postrider;

before(async () => {
  catcher = await webhookCatcher();
  service = await startService({ env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' } });
  client = new Postrider({ url: `${service.url}/`, ...service.sandbox });
});

after(async () => {
  await service?.close();
  await catcher?.close();
});

async function listed<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'none',
    (error: PostriderError) => error.code,
  );

test('sends single emails and batches, and runs dry runs', async () => {
  const sent = await client.emails.send({
    from,
    to: ['ann@example.com', 'bounced@example.com'],
    subject: 'Order {{ number }}',
    text: 'Thanks, {{ name }}',
    templateVariables: { number: 17, name: 'Ann' },
    attachments: [{ name: 'a.bin', contentType: 'application/octet-stream', content: new Uint8Array([0, 255, 128]) }],
  });
  assert.equal(sent.status, 'queued');
  assert.equal(sent.recipients.length, 2);
  const content = new TextDecoder().decode(await client.messages.content(sent.messageId));
  assert.match(content, /^Subject: Order 17\r$/m);
  assert.match(content, /^AP\+A\r$/m);
  const [good, bad] = await client.emails.sendBatch([
    { from, to: 'ann@example.com', subject: 'One', text: 'x' },
    { from, to: 'nobody', subject: 'Two', text: 'x' },
  ]);
  assert.equal(good?.status, 202);
  assert.equal(bad?.status, 400);
  const dry = await client.emails.dryRun({ from, to: 'ann@example.com', subject: 'Dry', html: '<p>{{ gone }}</p>' });
  assert.deepEqual(dry.missingVariables, ['gone']);
});

test('iterates lists item by item over all pages, and page by page', async () => {
  const messages = Array.from({ length: 7 }, (_, index) => ({
    from,
    to: 'ann@example.com',
    text: 'x',
    tags: ['paged'],
    metadata: { number: String(index) },
    subject: `Paged ${index}`,
  }));
  const sent = await client.emails.sendBatch(messages);
  assert.ok(sent.every((one) => one.status === 202));
  const all = await listed(client.messages.list({ tag: ['paged'], limit: 3 }));
  assert.deepEqual(
    all.map((one) => one.subject).sort(),
    messages.map((one) => one.subject),
  );
  const one = await client.messages.list({ tag: ['paged'], metadata: { number: '3' } }).page();
  assert.deepEqual(
    one.items.map(({ subject }) => subject),
    ['Paged 3'],
  );
  const pages = client.messages.list({ tag: ['paged'], limit: 5 });
  const first = await pages.page();
  assert.equal(first.items.length, 5);
  const second = await pages.page(first.nextCursor);
  assert.deepEqual([second.items.length, second.nextCursor], [2, undefined]);
  await waitUntil('the events', async () => (await listed(client.events.list({ order: 'asc' }))).length >= 7);
});

test('a rejection is one error with code, status, details, and request id, and is not retried', async () => {
  const error: PostriderError = await client.emails.send({ from: 'nobody', to: [], subject: 'x', text: 'x' }).then(
    () => assert.fail('the event was sent'),
    (thrown) => thrown,
  );
  assert.ok(error instanceof PostriderError);
  assert.deepEqual([error.name, error.code, error.status], ['PostriderError', 'INVALID_REQUEST', 400]);
  assert.ok(error.details.some((one) => one.field === 'from'));
  assert.match(error.requestId ?? '', /^req_/);
  assert.ok(error.message.length > 10);
  assert.equal(await codeOf(client.messages.get('msg_none')), 'NOT_FOUND');
  const stranger = new Postrider({ url: service.url, accountId: service.live.accountId, apiKey: 'pr_test_wrong' });
  assert.equal(await codeOf(stranger.account.get()), 'UNAUTHORIZED');
  assert.throws(() => new Postrider({ url: service.url, accountId: '', apiKey: 'x' }), /accountId/);
});

test('retrieves, reschedules, cancels, and resends messages', async () => {
  const later = new Date(Date.now() + 3_600_000);
  const { messageId } = await client.emails.send({
    from,
    to: 'ann@example.com',
    subject: 'Later',
    text: 'x',
    sendAt: later.toISOString(),
  });
  const moved = await client.messages.reschedule(messageId, new Date(later.getTime() + 60_000));
  assert.equal(Date.parse(moved.sendAt ?? ''), later.getTime() + 60_000);
  assert.equal((await client.messages.cancel(messageId)).status, 'cancelled');
  const again = await client.messages.resend(messageId);
  assert.notEqual(again.messageId, messageId);
  assert.ok((await client.messages.get(messageId)).timeline.some((one) => one.eventType === 'Reject'));
});

test('sandbox: waits for a message, simulates outcomes, and moves the clock', async () => {
  const waiting = client.sandbox.inbox.wait({ to: 'wait@example.com', timeoutSeconds: 30 });
  await client.emails.send({ from, to: 'wait@example.com', subject: 'Code 123456', text: 'Your code is 123456' });
  const item = await waiting;
  assert.equal(item.subject, 'Code 123456');
  assert.ok((await client.sandbox.inbox.get(item.messageId)).codes.includes('123456'));
  await client.sandbox.inbox.outcome(item.messageId, 'Complained');
  assert.equal(await codeOf(client.sandbox.inbox.wait({ to: 'none@example.com', timeoutSeconds: 0 })), 'NOT_FOUND');
  assert.ok((await client.sandbox.clock.advance(60)).now);
  assert.ok((await listed(client.sandbox.inbox.list({ limit: 50 }))).length > 0);
});

test('templates with versions and previews', async () => {
  const made = await client.templates.create({ name: 'receipt', subject: 'Order {{ number }}', text: 'Thanks' });
  const { templateId } = made;
  assert.equal((await client.templates.replace(templateId, { name: 'receipt', subject: 'New', text: 'x' })).version, 2);
  const changed = await client.templates.update(templateId, { text: 'y' });
  assert.deepEqual([changed.subject, changed.text, changed.version], ['New', 'y', 3]);
  assert.equal((await client.templates.restore(templateId, 1)).version, 4);
  assert.equal((await client.templates.render(templateId, { templateVariables: { number: 1 } })).subject, 'Order 1');
  assert.equal(
    (await client.templates.renderSources({ subject: '{{ a }}', templateVariables: { a: 'b' } })).subject,
    'b',
  );
  assert.equal((await listed(client.templates.versions(templateId))).length, 4);
  assert.deepEqual(
    (await listed(client.templates.list())).map((one) => one.templateId),
    [templateId],
  );
  assert.equal((await client.templates.get(templateId)).name, 'receipt');
  await client.templates.delete(templateId);
  assert.equal(await codeOf(client.templates.get(templateId)), 'NOT_FOUND');
});

test('webhooks, and verification of their requests with two secrets', async () => {
  const made = await client.webhooks.create({ url: catcher.url, events: ['Delivery'] });
  await client.webhooks.test(made.webhookId);
  const first = await waitUntil('the test event', () => catcher.requests.at(-1));
  const event = await client.webhooks.verify(first.body, first.headers, made.secret);
  assert.equal(event.eventType, 'Delivery');
  const rotated = await client.webhooks.rotateSecret(made.webhookId);
  await client.webhooks.test(made.webhookId);
  const second = await waitUntil('the second event', () => catcher.requests[1]);
  await verifyWebhook(second.body, second.headers, made.secret);
  await verifyWebhook(second.body, new Headers(second.headers as Record<string, string>), rotated.secret);
  assert.equal(await codeOf(verifyWebhook(`${second.body} `, second.headers, rotated.secret)), 'WEBHOOK_INVALID');
  assert.ok((await client.webhooks.get(made.webhookId)).enabled);
  assert.equal((await listed(client.webhooks.list())).length, 1);
  await client.webhooks.delete(made.webhookId);
});

test('domains, suppressions, and account', async () => {
  const live = new Postrider({ url: service.url, ...service.live });
  const domain = await live.domains.add('shop.example');
  assert.equal((await live.domains.add('shop.example')).domainId, domain.domainId);
  assert.ok((await live.domains.dnsRecords(domain.domainId)).length > 0);
  assert.equal((await live.domains.get(domain.domainId)).status, 'pending');
  assert.equal((await listed(live.domains.list())).length, 1);
  await live.domains.delete(domain.domainId);

  await client.suppressions.add({ email: 'Gone@example.com' });
  assert.equal((await client.suppressions.get('gone@example.com')).reason, 'manual');
  const imported = await client.suppressions.importCsv('email,reason\nleft@example.com,manual\n');
  assert.equal(imported.imported, 1);
  assert.match(await client.suppressions.exportCsv(), /left@example\.com/);
  await client.suppressions.delete('gone@example.com');

  assert.equal((await client.account.get()).accountId, service.live.accountId);
  assert.equal(typeof (await client.account.health()).status, 'string');
  const key = await client.account.apiKeys.create({ scope: 'send' });
  assert.ok(key.apiKey);
  const sender = new Postrider({ url: service.url, accountId: service.live.accountId, apiKey: key.apiKey });
  assert.equal(await codeOf(sender.messages.get('msg_x')), 'FORBIDDEN');
  await client.account.apiKeys.revoke(key.keyId);
  assert.equal(
    (await live.account.approvals.request({ requestedEmailBytes: 3_000_000, reason: 'Plans' })).status,
    'pending',
  );
});

test('calls an operation by operationId, and returns non-JSON content as a Response', async () => {
  assert.deepEqual(await client.call('getHealth'), { status: 'ok' });
  const metrics = await client.call('getMetrics');
  assert.match(await metrics.text(), /^# HELP /);
});

test('in a browser, sends what a session needs and no key', async () => {
  const seen: Headers[] = [];
  const fetchIt: typeof fetch = async (_, init) => {
    seen.push(new Headers(init?.headers));
    return Response.json({ status: 'ok' });
  };
  const page = new Postrider({ url: service.url, session: { mode: 'sandbox' }, accountId: 'acc_1', fetch: fetchIt });
  await page.account.get();
  await new Postrider({ url: service.url, session: {}, fetch: fetchIt }).call('getHealth');
  const named = ['x-api-key', 'x-id', 'x-mode', 'x-requested-with'];
  assert.deepEqual(
    seen.map((headers) => named.map((name) => headers.get(name))),
    [
      [null, 'acc_1', 'sandbox', 'postrider'],
      [null, null, null, 'postrider'],
    ],
  );
});

test('an aborted signal ends the call with its reason', async () => {
  const reason = new Error('the user went away');
  const waiting = client.sandbox.inbox.wait({ to: 'never@example.com' }, { signal: AbortSignal.abort(reason) });
  await assert.rejects(waiting, reason);
});
