/**
 * Operations around a send: schedule and cancel, retry safely, dry run, batch, and suppression; and the responses when something is not
 * possible.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { closeShop, openShop } from '../kit/shop.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import type { Service } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  ({ sink, service } = await openShop());
});
after(() => closeShop({ sink, service }));

const mail = (extra: JsonObject = {}): JsonObject => ({
  from: 'orders@shop.example',
  to: 'ann@example.com',
  subject: 'Hello',
  text: 'Hello Ann',
  ...extra,
});

const inAnHour = (): string => new Date(Date.now() + 3_600_000).toISOString();

test('a scheduled message waits, can be rescheduled and canceled, and is then never sent', async () => {
  const sent = await service.api.post('/send', mail({ to: 'later@example.com', sendAt: inAnHour() }));
  assert.equal(sent.status, 202, sent.text);
  assert.equal(sent.body.data.status, 'scheduled');
  const path = `/messages/${sent.body.data.messageId}`;
  const moved = new Date(Date.now() + 7_200_000).toISOString();
  const patched = await service.api.patch(path, { sendAt: moved });
  assert.equal(patched.status, 200, patched.text);
  assert.equal((await service.api.get(path)).body.sendAt, moved);
  const cancelled = await service.api.post(`${path}/cancel`);
  assert.equal(cancelled.status, 200, cancelled.text);
  const after = (await service.api.get(path)).body;
  assert.equal(after.status, 'cancelled');
  assert.deepEqual(
    after.timeline.map((one: JsonObject) => one.eventType),
    ['Send', 'Reject'],
  );
  const again = await service.api.post(`${path}/cancel`);
  assert.equal(again.status, 409);
  assert.equal(again.body.error.code, 'CONFLICT');
});

test('an email is returned with all recipients by the id of any of its messages', async () => {
  for (const extra of [{}, { listUnsubscribe: true }]) {
    const to = ['one@example.com', 'two@example.com'];
    const wish = mail({ to, cc: 'three@example.com', bcc: 'four@example.com', sendAt: inAnHour(), ...extra });
    const sent = (await service.api.post('/send', wish)).body.data;
    const recipients = sent.recipients as { messageId: string }[];
    for (const { messageId } of recipients) {
      const { status, body } = await service.api.get(`/emails/${messageId}`);
      assert.equal(status, 200);
      assert.equal(body.emailId, sent.messageId);
      assert.deepEqual(body.recipients, recipients, 'in the order of the recipients');
    }
    assert.equal((await service.sandboxApi.get(`/emails/${sent.messageId}`)).status, 404);
  }
  assert.equal((await service.api.get('/emails/msg_none')).status, 404);
});

test('a message rescheduled to now is sent now', async () => {
  const sent = await service.api.post('/send', mail({ to: 'soon@example.com', sendAt: inAnHour() }));
  const { messageId } = sent.body.data;
  await service.api.patch(`/messages/${messageId}`, { sendAt: new Date(Date.now() + 1000).toISOString() });
  await waitUntil('the rescheduled message', () => sink.messages.find((one) => one.to.includes('soon@example.com')));
});

test('canceling a delivered message is a conflict', async () => {
  const sent = await service.api.post('/send', mail({ to: 'gone@example.com' }));
  const { messageId } = sent.body.data;
  await waitUntil(
    'delivery',
    async () => (await service.api.get(`/messages/${messageId}`)).body.status === 'delivered',
  );
  const answer = await service.api.post(`/messages/${messageId}/cancel`);
  assert.equal(answer.status, 409);
  assert.equal(answer.body.reasonCode, 'CONFLICT');
});

test('an identical retry returns the stored response byte for byte; another body is rejected', async () => {
  const headers = { 'Idempotency-Key': 'order-17' };
  const first = await service.api.post('/send', mail({ to: 'once@example.com' }), headers);
  const retry = await service.api.post('/send', mail({ to: 'once@example.com' }), headers);
  assert.equal(first.status, 202);
  assert.equal(retry.status, 202);
  assert.equal(retry.text, first.text);
  assert.equal(retry.headers['idempotent-replayed'], 'true');
  assert.equal(first.headers['idempotent-replayed'], undefined);
  const withNull = await service.api.post('/send', mail({ to: 'once@example.com', cc: null }), headers);
  assert.equal(withNull.text, first.text, 'null means the same as leaving the field out');
  const file = { name: 'a.txt', contentType: 'text/plain', content: 'eA==' };
  const values = { templateVariables: { order: { note: null } } };
  const withFile = (attachment: object, more = values) =>
    service.api.post('/send', mail({ attachments: [attachment], ...more }), { 'Idempotency-Key': 'file-17' });
  const filed = await withFile(file);
  assert.equal((await withFile({ ...file, contentId: null })).text, filed.text);
  assert.equal(
    (await withFile(file, { templateVariables: { order: {} } } as never)).status,
    422,
    'a value is no field',
  );
  const other = await service.api.post('/send', mail({ to: 'twice@example.com' }), headers);
  assert.equal(other.status, 422);
  const batch = { 'Idempotency-Key': 'batch-17' };
  const sent = await service.api.post('/send/batch', { messages: [mail({ to: 'once@example.com' })] }, batch);
  const again = await service.api.post(
    '/send/batch',
    { messages: [mail({ to: 'once@example.com', cc: null })] },
    batch,
  );
  assert.deepEqual([again.status, again.text], [sent.status, sent.text]);
  assert.equal(other.body.error.code, 'IDEMPOTENCY_KEY_REUSED');
});

test('a used key is answered before any other check', async () => {
  const headers = { 'Idempotency-Key': 'judged-in-order' };
  const first = await service.sandboxApi.post('/send', mail(), headers);
  assert.equal(first.status, 202, first.text);
  const repeat = await service.sandboxApi.post('/send?unknown=1', mail(), headers);
  assert.deepEqual([repeat.status, repeat.text], [202, first.text]);
  const other = await service.sandboxApi.post('/send?unknown=1', mail({ subject: 'Other' }), headers);
  assert.deepEqual([other.status, other.body.error.code], [422, 'IDEMPOTENCY_KEY_REUSED']);
});

test('a rejected request does not use up its key', async () => {
  const headers = { 'Idempotency-Key': 'mended' };
  assert.equal((await service.api.post('/send', mail({ to: 'not an address' }), headers)).status, 400);
  assert.equal((await service.api.post('/send', mail(), headers)).status, 202);
});

const badKeys: [string, string][] = [
  ['empty', ''],
  ['256 characters', 'k'.repeat(256)],
  ['not ASCII', 'schl\u00fcssel'],
];
for (const [name, key] of badKeys) {
  test(`rejects an Idempotency-Key that is ${name}`, async () => {
    const answer = await service.api.post('/send', mail(), { 'Idempotency-Key': key });
    assert.equal(answer.status, 400, answer.text);
    assert.equal(answer.body.error.code, 'INVALID_REQUEST');
  });
}

test('two 255-character keys that differ in the last character are different keys', async () => {
  const key = 'k'.repeat(254);
  const one = await service.api.post('/send', mail(), { 'Idempotency-Key': `${key}a` });
  const two = await service.api.post('/send', mail(), { 'Idempotency-Key': `${key}b` });
  assert.equal(one.status, 202);
  assert.equal(two.status, 202);
  assert.notEqual(one.body.data.messageId, two.body.data.messageId);
});

test('a batch is validated message by message, in order', async () => {
  const messages = [mail({ to: 'b1@example.com' }), mail({ subject: undefined }), mail({ to: 'b3@example.com' })];
  const answer = await service.api.post('/send/batch', { messages });
  assert.equal(answer.status, 200, answer.text);
  const statuses = answer.body.results.map((one: JsonObject) => one.status);
  assert.deepEqual(statuses, [202, 400, 202]);
  assert.equal(answer.body.results[1].error.code, 'INVALID_REQUEST');
  assert.match(answer.body.results[0].data.messageId, /^msg_/);
});

test('a dry run renders the message, warns, and sends nothing', async () => {
  const ids = async (): Promise<string[]> =>
    ((await service.api.get('/messages?limit=100')).body as unknown as JsonObject[]).map((one) => one.messageId);
  const before = await ids();
  const body = mail({ to: 'dry@example.com', subject: 'Hi {{name}}', text: undefined, html: '<b>Hi {{name}}</b>' });
  const answer = await service.api.post('/send?dryRun=true', { ...body, templateVariables: { name: '<Ann>' } });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.body.subject, 'Hi <Ann>');
  assert.equal(answer.body.html, '<b>Hi &lt;Ann&gt;</b>');
  assert.ok(answer.body.sizeBytes > 0);
  assert.equal(answer.body.limitBytes, 2_000_000);
  for (const one of answer.body.warnings) assert.ok(one.code && one.message && one.remedy, JSON.stringify(one));
  assert.deepEqual(await ids(), before);
  assert.equal(
    sink.messages.some((one) => one.to.includes('dry@example.com')),
    false,
  );
});

test('rejects a variable without a value by its name', async () => {
  const answer = await service.api.post('/send', mail({ text: 'Hi {{name}}, {{place}}' }));
  assert.equal(answer.status, 400);
  assert.equal(answer.body.error.code, 'TEMPLATE_VARIABLE_MISSING');
  assert.match(JSON.stringify(answer.body.error.details), /name.*place/);
  assert.match(answer.body.error.message, /render: false/);
  const literal = await service.api.post('/send', mail({ to: 'lit@example.com', text: 'Hi {{name}}', render: false }));
  assert.equal(literal.status, 202);
  const found = await waitUntil('the literal message', () =>
    sink.messages.find((one) => one.to.includes('lit@example.com')),
  );
  assert.match(found.content.toString('latin1'), /Hi \{\{name\}\}/);
});

test('a suppressed address gets no mail until it is removed from the list', async () => {
  const added = await service.api.post('/suppressions', { email: 'Off@Example.com' });
  assert.equal(added.status, 201, added.text);
  const sent = await service.api.post('/send', mail({ to: ['off@example.com', 'on@example.com'] }));
  assert.deepEqual(
    sent.body.data.recipients.map((one: JsonObject) => one.status),
    ['suppressed', 'queued'],
  );
  const only = await service.api.post('/send', mail({ to: 'off@example.com' }));
  assert.equal(only.status, 202);
  assert.equal(only.body.data.status, 'suppressed');
  assert.equal((await service.api.delete('/suppressions/off@example.com')).status, 200);
  const after = await service.api.post('/send', mail({ to: 'off@example.com' }));
  assert.equal(after.body.data.status, 'queued');
});

test('an unverified domain cannot send, but its verified subdomain can', async () => {
  const other = await service.api.post('/send', mail({ from: 'x@other.example' }));
  assert.equal(other.status, 403);
  assert.equal(other.body.error.code, 'SENDER_NOT_VERIFIED');
  assert.equal((await service.api.post('/send', mail({ from: 'x@mail.shop.example' }))).status, 202);
  assert.equal((await service.api.post('/send', mail({ from: 'x@evilshop.example' }))).status, 403);
});

test('accepts 2,000,000 bytes of composed mail and rejects one more', async () => {
  /** Text of this many encoded bytes, in lines of 77 and a last one up to twice as long. */
  const text = (bytes: number): string => {
    const lines = Math.floor(bytes / 77) - 1;
    return `${`${'y'.repeat(75)}\n`.repeat(lines)}${'z'.repeat(bytes - lines * 77 - 2)}\n`;
  };
  const sizeOf = async (bytes: number): Promise<number> => {
    const answer = await service.api.post('/send?dryRun=true', mail({ to: 'big@example.com', text: text(bytes) }));
    assert.equal(answer.status, 200, answer.text.slice(0, 500));
    return answer.body.sizeBytes;
  };
  const near = 1_990_000;
  const edge = near + 2_000_000 - (await sizeOf(near));
  assert.equal(await sizeOf(edge), 2_000_000);
  assert.equal((await service.api.post('/send', mail({ to: 'big@example.com', text: text(edge) }))).status, 202);
  const over = await service.api.post('/send', mail({ to: 'big@example.com', text: text(edge + 1) }));
  assert.equal(over.status, 413);
  assert.equal(over.body.error.code, 'EMAIL_SIZE_EXCEEDED');
  assert.match(over.body.error.message, /2,?000,?001/);
  assert.match(over.body.error.message, /2,?000,?000/);
});

test('keys: both headers are required, and every wrong one gets the same response', async () => {
  const { accountId, apiKey } = service.live;
  const wrong: Record<string, string>[] = [
    {},
    { 'x-api-key': apiKey },
    { 'x-id': accountId },
    { 'x-api-key': `${apiKey.slice(0, -1)}${apiKey.endsWith('a') ? 'b' : 'a'}`, 'x-id': accountId },
    { 'x-api-key': apiKey, 'x-id': 'acc_0000000000000000000000' },
    { 'x-api-key': 'nonsense', 'x-id': accountId },
  ];
  const bodies = new Set<string>();
  for (const headers of wrong) {
    const answer = await service.anonymous.call({ method: 'POST', path: '/send', body: mail(), headers });
    assert.equal(answer.status, 401, JSON.stringify(headers));
    bodies.add(JSON.stringify(answer.body.error));
  }
  assert.equal(bodies.size, 1);
});

test('a revoked key is rejected soon, and a sending key can only send', async () => {
  const made = await service.cli('key', 'create', service.live.accountId, '--mode', 'live', '--scope', 'send');
  const headers = { 'x-id': service.live.accountId, 'x-api-key': String(made.apiKey) };
  const call = (method: string, path: string, body?: unknown) =>
    service.anonymous.call({ method, path, body, headers });
  assert.equal((await call('POST', '/send', mail())).status, 202);
  const read = await call('GET', '/messages');
  assert.equal(read.status, 403);
  assert.equal(read.body.error.code, 'FORBIDDEN');
  await service.cli('key', 'revoke', String(made.keyId));
  await waitUntil('the key to be refused', async () => (await call('POST', '/send', mail())).status === 401, 10_000);
});
