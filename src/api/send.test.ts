/** POST /send and /send/batch through the real HTTP server: statuses, headers, and the error format. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type IncomingMessage, request } from 'node:http';
import { after, before, test } from 'node:test';
import { GOOD, rowsOf, type SendRig, sendRig } from '../../test/kit/send-rig.ts';
import type { Caller } from '../accounts/accounts.ts';
import { ok } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import { createHttpApp, type HttpApp } from '../http/app.ts';
import { createOpenapi } from '../http/openapi.ts';
import { compile } from '../http/validate.ts';
import { keepAnswerOperation } from '../idempotency/idempotency.ts';
import { findQueuedOperation } from '../messages/messages.ts';
import { dryRunResponse } from '../send/answer-schema.ts';
import { createSendRoutes } from './send.ts';

const CALLER: Omit<Caller, 'account'> = {
  mode: 'live' as const,
  allowedSenders: [],
  allowedNetworks: [],
  scope: 'send' as const,
  keyId: 'key_x',
  actor: { kind: 'key', id: 'key_x', name: 'x' },
};
let rig: SendRig;
let app: HttpApp;
let port: number;

before(async () => {
  rig = await sendRig();
  app = createHttpApp<Caller>({
    host: '127.0.0.1',
    port: 0,
    log: silentLog,
    routes: createSendRoutes(rig.dependencies),
    authenticate: () => ok({ ...CALLER, account: rig.account }),
  });
  ({ port } = await app.listen());
});
after(async () => {
  await app.stop();
  await rig.close();
});

interface Answer {
  status: number;
  headers: IncomingMessage['headers'];
  text: string;
  json: {
    success?: boolean;
    error?: { code: string; details: { field: string }[] };
    reasonCode?: string;
    data?: { messageId: string; headerMessageId: string };
  };
}

async function post(
  path: string,
  body: string | Buffer,
  headers: Record<string, string | string[]> = {},
): Promise<Answer> {
  const sent = request({
    port,
    path,
    method: 'POST',
    headers: { 'X-Api-Key': 'k', 'X-Id': 'acc_test', 'Content-Type': 'application/json', ...headers },
  });
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  sent.on('response', resolve).on('error', reject);
  sent.end(body);
  const response = await promise;
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  return { status: response.statusCode!, headers: response.headers, text, json: JSON.parse(text) as Answer['json'] };
}

const good = JSON.stringify(GOOD);

test('returns 202 with the documented response, and replays it', async () => {
  const first = await post('/send', good, { 'Idempotency-Key': 'http' });
  assert.equal(first.status, 202);
  assert.match(first.headers['x-request-id'] as string, /^req_/);
  assert.equal(first.json.success, true);
  const { messageId, headerMessageId } = first.json.data!;
  assert.match(headerMessageId, /^<[^<>@\s]+@verified\.example>$/);
  assert.deepEqual(first.json.data, {
    message: 'queued',
    messageId,
    headerMessageId,
    from: GOOD.from,
    status: 'queued',
    totalRecipients: 1,
    recipients: [{ email: 'a@example.com', role: 'to', status: 'queued', messageId }],
  });
  const queued = await rig.database.execute(findQueuedOperation, messageId);
  assert.match(queued!.clientAddress!, /127\.0\.0\.1$/);
  const second = await post('/send', good, { 'Idempotency-Key': 'http' });
  assert.deepEqual([second.status, second.text, second.headers['idempotent-replayed']], [202, first.text, 'true']);
});

test('a retry is matched by its JSON value, whatever its formatting', async () => {
  const body = { ...GOOD, expiresAfterSeconds: 600, metadata: { a: 'é/', b: '2' }, tags: ['x', 'y'] };
  const texts = [
    JSON.stringify(body),
    JSON.stringify(body, null, 2),
    JSON.stringify(Object.fromEntries(Object.entries({ ...body, metadata: { b: '2', a: 'é/' } }).reverse())),
    JSON.stringify(body).replace('600', '6e2').replace('é/', '\\u00e9\\/'),
  ];
  const first = await post('/send', texts[0]!, { 'Idempotency-Key': 'by value' });
  assert.equal(first.status, 202);
  for (const text of texts) {
    const again = await post('/send', text, { 'Idempotency-Key': 'by value' });
    assert.deepEqual([again.text, again.headers['idempotent-replayed']], [first.text, 'true'], text);
    const item = await post('/send/batch', `{"messages":[${text}]}`, { 'Idempotency-Key': 'by value' });
    assert.equal(item.headers['idempotent-replayed'], text === texts[0] ? undefined : 'true', text);
  }
  for (const other of [
    { ...body, tags: ['y', 'x'] },
    { ...body, expiresAfterSeconds: 601 },
    { ...body, cc: [] },
  ]) {
    const refused = await post('/send', JSON.stringify(other), { 'Idempotency-Key': 'by value' });
    assert.deepEqual([refused.status, refused.json.reasonCode], [422, 'IDEMPOTENCY_KEY_REUSED']);
  }
});

test('an empty text creates a message with an empty body', async () => {
  const { text: _, ...rest } = GOOD;
  assert.equal((await post('/send', JSON.stringify({ ...rest, text: '' }))).status, 202);
  assert.equal((await post('/send', JSON.stringify(rest))).status, 400);
  const content = Buffer.from(rig.offered.at(-1)!.content!).toString();
  assert.match(content, /Content-Type: text\/plain; charset=utf-8\r\n[\s\S]*\r\n\r\n(?:\r\n)?$/);
});

test('a response stored by an earlier version under the hash of the bytes is replayed', async () => {
  const first = await post('/send', good, { 'Idempotency-Key': 'upgrade' });
  await rig.database.execute(keepAnswerOperation, {
    key: { accountId: rig.account.id, mode: 'live', endpoint: '/send', key: 'upgrade' },
    answer: { bodyHash: createHash('sha256').update(good).digest(), status: 202, body: first.text },
    nowMs: rig.clock.now(),
    expiresAtMs: rig.clock.now() + 1000,
  });
  const again = await post('/send', good, { 'Idempotency-Key': 'upgrade' });
  assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [202, first.text, 'true']);
  // Its value cannot be derived from the digest.
  assert.equal((await post('/send', `${good} `, { 'Idempotency-Key': 'upgrade' })).status, 422);
});

test('errors have the common shape and store nothing', async () => {
  const before = await rowsOf(rig, 'SELECT seq FROM email');
  const cases: [status: number, code: string, answer: Promise<Answer>][] = [
    [400, 'INVALID_REQUEST', post('/send', '{"from":')],
    [400, 'INVALID_REQUEST', post('/send', `${'['.repeat(100_000)}`)],
    [400, 'INVALID_REQUEST', post('/send', good.replace('{', '{"to":"b@example.com",'))],
    [400, 'INVALID_REQUEST', post('/send', good.replace('{', '{"__proto__":{},'))],
    [400, 'INVALID_REQUEST', post('/send', good.replace('Hello', '\\ud800'))],
    [400, 'INVALID_REQUEST', post('/send', good.replace('Hello', '\\u0000'))],
    [400, 'INVALID_REQUEST', post('/send?dryRun=maybe', good)],
    [400, 'INVALID_REQUEST', post('/send', good, { 'Idempotency-Key': ['a', 'a'] })],
    [400, 'INVALID_REQUEST', post('/send', good, { 'Idempotency-Key': 'k'.repeat(256) })],
    [403, 'SENDER_NOT_VERIFIED', post('/send', good.replace('verified', 'other'))],
    [404, 'SUBMISSION_NOT_FOUND', post('/send', good.replace('{', '{"attachmentSubmissionId":"sub_1",'))],
    [413, 'EMAIL_SIZE_EXCEEDED', post('/send', JSON.stringify({ ...GOOD, text: 'x'.repeat(2_000_001) }))],
    [413, 'EMAIL_SIZE_EXCEEDED', post('/send', Buffer.alloc(16_000_001, 0x20))],
    [415, 'UNSUPPORTED_MEDIA_TYPE', post('/send', good, { 'Content-Type': 'text/plain' })],
    [422, 'IDEMPOTENCY_KEY_REUSED', post('/send', good.replace('Hello', 'Hallo'), { 'Idempotency-Key': 'http' })],
    [400, 'INVALID_REQUEST', post('/send/batch', good)],
    [413, 'PAYLOAD_TOO_LARGE', post('/send/batch', Buffer.alloc(16_000_001, 0x20))],
  ];
  for (const [status, code, sent] of cases) {
    const { json, ...answer } = await sent;
    assert.equal(answer.status, status, answer.text);
    assert.deepEqual([json.success, json.error?.code, json.reasonCode], [false, code, code]);
    assert.ok(Array.isArray(json.error?.details));
  }
  assert.deepEqual(await rowsOf(rig, 'SELECT seq FROM email'), before);
});

test('a dry run over HTTP returns the documented response', async () => {
  const { status, json } = await post('/send?dryRun=true', good);
  assert.equal(status, 200);
  const described = compile(dryRunResponse)(json);
  assert.ok(described.ok, JSON.stringify(described));
  const document = createOpenapi(createSendRoutes(rig.dependencies), { about: { title: 'x', version: '1' } });
  const { responses } = (document.paths as Record<string, Record<string, { responses: Record<string, unknown> }>>)[
    '/send'
  ]!.post!;
  assert.deepEqual(
    (responses['200'] as { content: Record<string, { schema: unknown }> }).content['application/json']!.schema,
    { $ref: '#/components/schemas/DryRunResponse' },
  );
  const { components } = document as { components: { schemas: Record<string, unknown> } };
  assert.deepEqual(components.schemas.DryRunResponse, JSON.parse(JSON.stringify(dryRunResponse)));
  assert.ok(responses['202']);
  assert.deepEqual(Object.keys(json), [
    'subject',
    'html',
    'text',
    'sizeBytes',
    'limitBytes',
    'suppressed',
    'missingVariables',
    'warnings',
  ]);
});
