/**
 * Invalid input to the running service: each request gets a clear 4xx in the common error format, with the field if there is one, and has
 * no side effects. The service works as before afterwards.
 */

import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, test } from 'node:test';
import type { Answer, JsonObject } from '../kit/api.ts';
import { runningMs } from '../kit/running-time.ts';
import { type Service, startService } from '../kit/start-service.ts';

let service: Service;

before(async () => {
  service = await startService();
});

after(() => service?.close());

const good: JsonObject = { from: 'a@x.example', to: 'b@x.example', subject: 'Hi', text: 'Hi' };
const withField = (fields: string): string =>
  `{"from":"a@x.example","to":"b@x.example","subject":"s","text":"t",${fields}}`;

function assertRefusal(answer: Answer, status: number, code: string): void {
  assert.equal(answer.status, status, answer.text.slice(0, 400));
  assert.equal(answer.body.success, false);
  assert.equal(answer.body.error.code, code);
  assert.equal(answer.body.reasonCode, code);
  assert.ok(String(answer.body.error.message).length > 10, 'a readable message');
  assert.ok(Array.isArray(answer.body.error.details));
  assert.match(answer.body.requestId, /^req_/);
  assert.equal(answer.headers['x-request-id'], answer.body.requestId);
  assert.doesNotMatch(answer.text, /node_modules|\.ts:\d+|SELECT |INSERT |at Object\./, 'no internals');
}

const malformed: [name: string, body: string | Buffer][] = [
  ['no JSON at all', 'hello'],
  ['cut off', '{"from":"a@x.example"'],
  ['data after the value', `${JSON.stringify(good)}x`],
  ['an array', '[]'],
  ['null', 'null'],
  ['a string', '"send"'],
  ['a number too large', withField('"expiresAfterSeconds":1e400')],
  ['single quotes', "{'from':'a@x.example'}"],
  ['a trailing comma', '{"from":"a@x.example",}'],
  ['a comment', '{/* */"from":"a@x.example"}'],
  ['a byte-order mark of UTF-16', Buffer.from([0xff, 0xfe, 0x7b, 0, 0x7d, 0])],
  [
    'bytes that are not UTF-8',
    Buffer.concat([Buffer.from('{"subject":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]),
  ],
  ['an overlong encoding', Buffer.concat([Buffer.from('{"subject":"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')])],
  ['a lone surrogate', withField('"replyTo":"a\\ud800@x.example"')],
  ['a raw control character', withField('"replyTo":"a\u0001b"')],
  ['a duplicate key', withField('"subject":"again"')],
  ['__proto__', withField('"__proto__":{"x":1}')],
  ['__proto__ within', withField('"metadata":{"__proto__":"x"}')],
  ['constructor', withField('"constructor":{"prototype":{}}')],
  ['depth', withField(`"metadata":${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`)],
  ['depth of arrays', '['.repeat(100_000)],
  ['many keys', withField(`"metadata":{${Array.from({ length: 20_000 }, (_, i) => `"k${i}":"v"`).join(',')}}`)],
];
for (const [name, body] of malformed) {
  test(`JSON: ${name}`, async () => {
    const startedAt = runningMs();
    assertRefusal(await service.sandboxApi.post('/send', body), 400, 'INVALID_REQUEST');
    assert.ok(runningMs() - startedAt < 10_000, 'rejected quickly');
  });
}

const badFields: [name: string, change: JsonObject, field: string][] = [
  ['an unknown field', { nonsense: 1 }, 'nonsense'],
  ['an account in the body', { accountId: 'acc_x' }, 'accountId'],
  ['no sender', { from: undefined }, 'from'],
  ['no recipient', { to: undefined }, 'to'],
  ['no subject', { subject: undefined }, 'subject'],
  ['no content', { text: undefined }, 'html'],
  ['a subject of the wrong type', { subject: 5 }, 'subject'],
  ['CR LF in the subject', { subject: 'Hi\r\nBcc: e@x.example' }, 'subject'],
  ['LF in the subject', { subject: 'Hi\nthere' }, 'subject'],
  ['CR in the subject', { subject: 'Hi\rthere' }, 'subject'],
  ['NUL in the subject', { subject: 'Hi\u0000' }, 'subject'],
  ['a subject of 999 characters', { subject: 'x'.repeat(999) }, 'subject'],
  ['CR LF in the sender', { from: 'A\r\nBcc: e@x.example <a@x.example>' }, 'from'],
  ['NUL in the recipient', { to: 'b\u0000@x.example' }, 'to'],
  ['an address without a domain', { to: 'b' }, 'to'],
  ['a route in an address', { to: '<@relay.example:b@x.example>' }, 'to'],
  ['two senders', { from: 'a@x.example, b@x.example' }, 'from'],
  ['51 recipients', { to: Array.from({ length: 51 }, (_, i) => `r${i}@x.example`) }, 'to'],
  ['an empty recipient list', { to: [] }, 'to'],
  ['a structural header', { headers: { Bcc: 'e@x.example' } }, 'headers'],
  ['a header of the content', { headers: { 'content-type': 'text/html' } }, 'headers'],
  ['a header with a line break', { headers: { 'X-A': 'b\r\nBcc: e@x.example' } }, 'headers'],
  ['a header name with a space', { headers: { 'X A': 'b' } }, 'headers'],
  ['a header name with a colon', { headers: { 'X-A:': 'b' } }, 'headers'],
  ['eleven tags', { tags: Array.from({ length: 11 }, (_, i) => `t${i}`) }, 'tags'],
  ['a tag with a space', { tags: ['a b'] }, 'tags'],
  ['metadata of a number', { metadata: { a: 1 } }, 'metadata'],
  ['a time in two months', { sendAt: new Date(Date.now() + 60 * 86_400_000).toISOString() }, 'sendAt'],
  ['an invalid time', { sendAt: 'tomorrow' }, 'sendAt'],
  ['a lifetime of a second', { expiresAfterSeconds: 1 }, 'expiresAfterSeconds'],
  ['a lifetime of a fraction', { expiresAfterSeconds: 90.5 }, 'expiresAfterSeconds'],
  ['an unknown retention', { retainContent: '1y' }, 'retainContent'],
  [
    'an attachment that is not Base64',
    { attachments: [{ name: 'a', contentType: 'text/plain', content: '*' }] },
    'attachments',
  ],
  [
    'an attachment with a path',
    { attachments: [{ name: '../a', contentType: 'text/plain', content: 'YQ==' }] },
    'attachments',
  ],
  [
    'a type with a line break',
    { attachments: [{ name: 'a', contentType: 'text/plain\r\nX: y', content: 'YQ==' }] },
    'attachments',
  ],
];
for (const [name, change, field] of badFields) {
  test(`field: ${name}`, async () => {
    const answer = await service.sandboxApi.post('/send', { ...good, ...change });
    assertRefusal(answer, 400, 'INVALID_REQUEST');
    const named = answer.body.error.details.map((one: JsonObject) => String(one.field));
    assert.ok(
      named.some((one: string) => one.startsWith(field)),
      `${field} is named in ${answer.text}`,
    );
  });
}

const together: [name: string, change: JsonObject, fields: string[]][] = [
  ['of values', { from: 'x', to: 'y', subject: 'a\nb', tags: ['a b'] }, ['from', 'subject', 'tags', 'to']],
  ['of types', { subject: 5, render: 'yes', nonsense: 1 }, ['nonsense', 'render', 'subject']],
  ['of both', { from: 'x', to: 'y', subject: 'a\nb', nonsense: 1 }, ['from', 'nonsense', 'subject', 'to']],
];
for (const [name, change, fields] of together) {
  test(`lists every validation error: ${name}`, async () => {
    const answer = await service.sandboxApi.post('/send', { ...good, ...change });
    assertRefusal(answer, 400, 'INVALID_REQUEST');
    const named = new Set(answer.body.error.details.map((one: JsonObject) => String(one.field).split('[')[0]));
    assert.deepEqual([...named].sort(), fields);
  });
}

const besideForm: [name: string, body: string, fields: string[]][] = [
  ['a NUL', '{"from":"a\\r\\n@x.com","to":"b@x.com","subject":"s\\u0000","text":"t"}', ['from', 'subject']],
  ['half a pair', '{"from":"a@x.com","subject":"\\ud800","foo":1,"html":"{% if"}', ['foo', 'html', 'subject', 'to']],
  ['a key twice', '{"from":"a@x.com","from":"b","to":5,"foo":1,"text":"t","subject":"s"}', ['foo', 'from', 'to']],
];
for (const [name, body, fields] of besideForm) {
  test(`${name} does not hide other errors`, async () => {
    const answer = await service.sandboxApi.post('/send', body);
    assertRefusal(answer, 400, 'INVALID_REQUEST');
    const named = answer.body.error.details.map((one: JsonObject) => String(one.field));
    assert.deepEqual(named.sort(), fields, answer.text);
  });
}

test('lists errors of the query and the key together with those of the body', async () => {
  const { sandboxApi } = service;
  const places: [path: string, headers: Record<string, string>, body: JsonObject, fields: string[]][] = [
    ['/send?bad=1', {}, { ...good, to: 'x', foo: 1 }, ['bad', 'foo', 'to']],
    ['/send?dryRun=maybe', {}, good, ['dryRun']],
    ['/send?to=1', {}, { ...good, to: ['nobody'] }, ['to', 'to[0]']],
    ['/send?subject=1', {}, { ...good, subject: undefined }, ['subject', 'subject']],
    ['/send?bad=1', { 'idempotency-key': 'k'.repeat(256) }, { ...good, to: 'x' }, ['Idempotency-Key', 'bad', 'to']],
    [
      '/send/batch?bad=1',
      { 'idempotency-key': 'k'.repeat(256) },
      { foo: 1 },
      ['Idempotency-Key', 'bad', 'foo', 'messages'],
    ],
    [
      '/attachments?bad=1',
      { 'idempotency-key': 'k'.repeat(256) },
      { foo: 1 },
      ['Idempotency-Key', 'attachments', 'bad', 'foo'],
    ],
  ];
  for (const [path, headers, body, fields] of places) {
    const answer = await sandboxApi.post(path, body, headers);
    assertRefusal(answer, 400, 'INVALID_REQUEST');
    const named = answer.body.error.details.map((one: JsonObject) => String(one.field));
    assert.deepEqual(named.sort(), fields, `${path}: ${answer.text}`);
  }
});

test('rejects an executable attachment by its name', async () => {
  const attachments = [{ name: 'invoice.pdf.exe', contentType: 'application/pdf', content: 'YQ==' }];
  assertRefusal(await service.sandboxApi.post('/send', { ...good, attachments }), 400, 'UNSUPPORTED_FILE_TYPE');
});

test('rejects a template syntax error with its position', async () => {
  const answer = await service.sandboxApi.post('/send', { ...good, text: 'Hi\n{% if %}' });
  assertRefusal(answer, 400, 'TEMPLATE_INVALID');
  assert.equal(answer.body.error.details[0].line, 2);
});

test('HTTP layer: unknown paths, methods, and types, and excessive sizes', async () => {
  const { sandboxApi } = service;
  assertRefusal(await sandboxApi.get('/nowhere'), 404, 'NOT_FOUND');
  const method = await sandboxApi.delete('/send');
  assertRefusal(method, 405, 'METHOD_NOT_ALLOWED');
  assert.match(method.headers.allow ?? '', /POST/);
  const form = await sandboxApi.post('/send', 'from=a', { 'content-type': 'application/x-www-form-urlencoded' });
  assertRefusal(form, 415, 'UNSUPPORTED_MEDIA_TYPE');
  const packed = await sandboxApi.post('/send', good, { 'content-encoding': 'gzip' });
  assertRefusal(packed, 415, 'UNSUPPORTED_MEDIA_TYPE');
  const huge = await sandboxApi.post('/send', JSON.stringify({ ...good, text: 'x'.repeat(16_000_001) }));
  assertRefusal(huge, 413, 'EMAIL_SIZE_EXCEEDED');
  assertRefusal(
    await sandboxApi.post('/webhooks', JSON.stringify({ url: 'x'.repeat(1_100_000) })),
    413,
    'PAYLOAD_TOO_LARGE',
  );
  assertRefusal(await sandboxApi.get('/messages/msg_unknown'), 404, 'NOT_FOUND');
});

/** What the service returns to bytes that no HTTP library would send, until it closes the connection. */
function raw(bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = net.connect(Number(new URL(service.url).port), '127.0.0.1');
    let text = '';
    socket.setTimeout(30_000, () => {
      text += ' (and did not close)';
      socket.destroy();
    });
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('close', () => resolve(text)).on('error', () => resolve(text));
    socket.write(bytes);
  });
}

const keys = (): string => `X-Api-Key: ${service.sandbox.apiKey}\r\nX-Id: ${service.sandbox.accountId}\r\n`;
const requests: [name: string, bytes: () => string][] = [
  ['two lengths', () => `POST /send HTTP/1.1\r\nHost: x\r\n${keys()}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`],
  [
    'length and chunks',
    () => `POST /send HTTP/1.1\r\nHost: x\r\n${keys()}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    'a strange encoding',
    () => `POST /send HTTP/1.1\r\nHost: x\r\n${keys()}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
  ],
  ['a folded header', () => `GET /account HTTP/1.1\r\nHost: x\r\n${keys()}X-A: b\r\n c\r\n\r\n`],
  ['an unterminated header', () => `GET /account HTTP/1.1\r\nHost: x\r\nX-A: ${'b'.repeat(70_000)}\r\n\r\n`],
  ['no HTTP', () => 'EHLO x\r\n\r\n'],
];
for (const [name, bytes] of requests) {
  test(`wire: ${name} returns one 4xx and closes the connection`, async () => {
    const text = await raw(bytes());
    const statuses = [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map((match) => Number(match[1]));
    assert.ok(statuses.length <= 1, `one answer: ${text}`);
    assert.ok(
      statuses.every((status) => status >= 400 && status < 500),
      text.slice(0, 200),
    );
  });
}

test('a duplicate key header returns 401, whichever one is valid', async () => {
  const text = await raw(`GET /account HTTP/1.1\r\nHost: x\r\n${keys()}X-Api-Key: other\r\nConnection: close\r\n\r\n`);
  assert.match(text, /^HTTP\/1\.1 401 /);
});

test('afterwards nothing was sent, and the service still works', async () => {
  assert.deepEqual((await service.sandboxApi.get('/messages')).body, []);
  assert.equal((await service.sandboxApi.post('/send', good)).status, 202);
  assert.deepEqual((await service.anonymous.get('/health')).body, { status: 'ok' });
  assert.doesNotMatch(service.log, /"level":"(error|fatal)"/, 'a bad request logs no error');
  assert.ok(!service.log.includes(service.sandbox.apiKey), 'no key in the log');
});
