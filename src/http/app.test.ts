/**
 * The API as a client sees it: every error response has the same shape and the documented order, on routes whose body the pipeline parses
 * and on those that parse it themselves; responses of every kind.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { httpShell, KEY_HEADERS, readAnswers, type Shell, speak } from '../../test/kit/http-shell.ts';
import { errorCatalog, type FailureCode } from '../base/failure.ts';

let shell: Shell;
before(async () => {
  shell = await httpShell();
});
after(() => shell.close());

const JSON_HEADERS = { ...KEY_HEADERS, 'Content-Type': 'application/json' };

interface RefusalBody {
  success: boolean;
  error: { code: string; message: string; details: { field: string; message: string }[] };
  reasonCode: string;
  requestId: string;
}

/** Checks the common shape and returns the parts that vary. */
async function refusal(
  response: Response,
  code: FailureCode,
  status: number = errorCatalog[code].status,
): Promise<RefusalBody> {
  const text = await response.text();
  assert.equal(response.status, status, text);
  const body = JSON.parse(text) as RefusalBody;
  assert.deepEqual(Object.keys(body).slice(0, 4), ['success', 'error', 'reasonCode', 'requestId']);
  assert.deepEqual(Object.keys(body.error), ['code', 'message', 'details']);
  assert.equal(body.success, false);
  assert.equal(body.error.code, code);
  assert.equal(body.reasonCode, code);
  assert.match(body.requestId, /^req_[0-9A-Za-z]{21}$/);
  assert.equal(response.headers.get('x-request-id'), body.requestId);
  assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8');
  assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(response.headers.get('cache-control'), 'no-store');
  return body;
}

function post(path: string, body: string | Buffer, headers: Record<string, string> = JSON_HEADERS): Promise<Response> {
  return fetch(shell.url + path, { method: 'POST', headers, body: body as string });
}

const good = JSON.stringify({ name: 'n' });

/** Requests with their expected error, which is the same for both kinds of route. */
const faultyRequests: {
  what: string;
  headers?: Record<string, string>;
  body: string;
  query?: string;
  code: FailureCode;
  fields?: string[];
}[] = [
  { what: 'no key', headers: { 'Content-Type': 'application/json' }, body: good, code: 'UNAUTHORIZED' },
  { what: 'no account', headers: { 'X-Api-Key': 'good' }, body: good, code: 'UNAUTHORIZED' },
  {
    what: 'no key and a bad body',
    headers: { 'Content-Type': 'text/xml' },
    body: 'x'.repeat(3_000),
    code: 'UNAUTHORIZED',
  },
  { what: 'scope', headers: { ...JSON_HEADERS, 'X-Api-Key': 'small' }, body: '{', code: 'FORBIDDEN' },
  {
    what: 'another type',
    headers: { ...KEY_HEADERS, 'Content-Type': 'text/plain' },
    body: good,
    code: 'UNSUPPORTED_MEDIA_TYPE',
  },
  {
    what: 'another type and too large',
    headers: { ...KEY_HEADERS, 'Content-Type': 'text/plain' },
    body: 'x'.repeat(3_000),
    code: 'UNSUPPORTED_MEDIA_TYPE',
  },
  {
    what: 'another charset',
    headers: { ...KEY_HEADERS, 'Content-Type': 'application/json; charset=latin1' },
    body: good,
    code: 'UNSUPPORTED_MEDIA_TYPE',
  },
  {
    what: 'another charset behind a parameter',
    headers: { ...KEY_HEADERS, 'Content-Type': 'application/json; a=b; charset=latin1' },
    body: good,
    code: 'UNSUPPORTED_MEDIA_TYPE',
  },
  {
    what: 'a type that only begins so',
    headers: { ...KEY_HEADERS, 'Content-Type': 'application/json garbage' },
    body: good,
    code: 'UNSUPPORTED_MEDIA_TYPE',
  },
  {
    what: 'compressed',
    headers: { ...JSON_HEADERS, 'Content-Encoding': 'gzip' },
    body: good,
    code: 'UNSUPPORTED_MEDIA_TYPE',
  },
  { what: 'too large', body: `{"name":"${'x'.repeat(2_000)}"}`, code: 'PAYLOAD_TOO_LARGE' },
  { what: 'too large and malformed', body: '{'.repeat(2_001), code: 'PAYLOAD_TOO_LARGE' },
  { what: 'empty', body: '', code: 'INVALID_REQUEST', fields: [''] },
  { what: 'malformed', body: '{"name":', code: 'INVALID_REQUEST', fields: [''] },
  { what: 'an array', body: '[]', code: 'INVALID_REQUEST', fields: [''] },
  { what: 'a doubled key', body: '{"name":"a","name":"b"}', code: 'INVALID_REQUEST', fields: ['name'] },
  { what: '__proto__', body: '{"name":"a","__proto__":{}}', code: 'INVALID_REQUEST', fields: ['__proto__'] },
  { what: 'half a surrogate', body: '{"name":"\\ud800"}', code: 'INVALID_REQUEST', fields: ['name'] },
  {
    what: 'missing and unknown',
    body: '{"nmae":"a","tags":[1,"x"]}',
    code: 'INVALID_REQUEST',
    fields: ['name', 'nmae', 'tags[0]'],
  },
  {
    what: 'wrong types',
    body: '{"name":5,"tags":"x","metadata":{"a\\nb":7}}',
    code: 'INVALID_REQUEST',
    fields: ['name', 'tags', 'metadata.a\nb'],
  },
  { what: 'too long', body: `{"name":"${'é'.repeat(41)}"}`, code: 'INVALID_REQUEST', fields: ['name'] },
  { what: 'an unknown parameter', query: '?a=1', body: good, code: 'INVALID_REQUEST', fields: ['a'] },
];

for (const fault of faultyRequests) {
  test(`both kinds of route return the same error: ${fault.what}`, async () => {
    const bodies: string[] = [];
    for (const path of ['/parsed', '/raw-first']) {
      const response = await post(path + (fault.query ?? ''), fault.body, fault.headers ?? JSON_HEADERS);
      const body = await refusal(response, fault.code);
      if (fault.fields) {
        assert.deepEqual(body.error.details.map((detail) => detail.field).sort(), [...fault.fields].sort());
      }
      const headers = [...response.headers].filter(([name]) => name !== 'date' && name !== 'x-request-id');
      bodies.push(JSON.stringify({ ...body, requestId: '', headers }));
    }
    assert.equal(bodies[0], bodies[1]);
  });
}

test('both kinds of route return their defined status for a valid request', async () => {
  for (const path of ['/parsed', '/raw-first']) {
    for (const type of [
      'application/json',
      'application/json; charset=utf-8',
      'Application/JSON;charset="UTF-8"',
      'application/json; foo=bar',
      'application/json;a="x;charset=latin1";; charset=utf8 ;',
    ]) {
      const response = await post(path, good, { ...KEY_HEADERS, 'Content-Type': type, 'Content-Encoding': 'identity' });
      assert.equal(response.status, 201);
      assert.deepEqual(await response.json(), { name: 'n' });
      assert.match(response.headers.get('x-request-id') ?? '', /^req_/);
      assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    }
  }
});

test('a repeated key or account header is rejected as unknown', async () => {
  for (const doubled of ['X-Api-Key: good', 'X-Api-Key: ', 'X-Id: acc_1', 'x-id: acc_2']) {
    const text = await speak(
      shell.port,
      `GET /notes/1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: good\r\nX-Id: acc_1\r\n${doubled}\r\nConnection: close\r\n\r\n`,
    );
    assert.equal(readAnswers(text)[0]?.status, 401, doubled);
  }
});

test('unknown paths return 404 and unsupported methods 405, with or without a key', async () => {
  for (const path of [
    '/',
    '/nothing',
    '/notes',
    '/notes/',
    '/notes/1/',
    '//notes/1',
    '/Parsed',
    '/notes/%E0%A4%A',
    '/notes/1/2',
  ]) {
    await refusal(await fetch(shell.url + path, { headers: KEY_HEADERS }), 'NOT_FOUND');
    await refusal(await fetch(shell.url + path), 'NOT_FOUND');
  }
  const response = await fetch(`${shell.url}/notes/1`, { method: 'DELETE' });
  await refusal(response, 'METHOD_NOT_ALLOWED');
  assert.equal(response.headers.get('allow'), 'GET, HEAD');
  await refusal(await fetch(`${shell.url}/parsed`, { method: 'OPTIONS' }), 'METHOD_NOT_ALLOWED');
});

test('parameters are decoded, query values converted, and both validated', async () => {
  const response = await fetch(`${shell.url}/notes/a%2Fb%20c?limit=7`, { headers: KEY_HEADERS });
  assert.deepEqual(await response.json(), { id: 'a/b c', limit: 7 });
  for (const query of [
    'limit=0',
    'limit=x',
    'limit=1.5',
    'limit=',
    'limit=1&limit=2',
    'other=1',
    'limit=%ff',
    '%00=1',
    '__proto__=1',
  ]) {
    await refusal(await fetch(`${shell.url}/notes/1?${query}`, { headers: KEY_HEADERS }), 'INVALID_REQUEST');
  }
});

test('HEAD responds like GET without the body', async () => {
  const response = await fetch(`${shell.url}/notes/1`, { method: 'HEAD', headers: KEY_HEADERS });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-length'), String(JSON.stringify({ id: '1', limit: null }).length));
  assert.equal(await response.text(), '');
  assert.equal((await fetch(`${shell.url}/stream`, { method: 'HEAD' })).status, 200);
});

test('a call without a body accepts an empty body of any type and an empty object', async () => {
  const types = [{}, { 'Content-Type': 'text/plain' }, { 'Content-Type': 'application/json' }];
  for (const type of types) {
    const response = await post('/notes/1/cancel', '', { ...KEY_HEADERS, ...type });
    assert.equal(response.status, 200, await response.text());
  }
  assert.equal((await post('/notes/1/cancel', '{}')).status, 200);
  const chunked = `POST /notes/1/cancel HTTP/1.1\r\nHost: a\r\nX-Api-Key: good\r\nX-Id: acc_1\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n`;
  assert.equal(readAnswers(await speak(shell.port, chunked))[0]?.status, 200);
  await refusal(await post('/notes/1/cancel', '{"a":1}'), 'INVALID_REQUEST');
  await refusal(
    await post('/notes/1/cancel', 'x', { ...KEY_HEADERS, 'Content-Type': 'text/plain' }),
    'UNSUPPORTED_MEDIA_TYPE',
  );
});

test('CSV routes read text and return 415 for other types', async () => {
  const response = await post('/import', 'a,ä\n', { ...KEY_HEADERS, 'Content-Type': 'text/csv; charset=utf-8' });
  assert.deepEqual(await response.json(), { text: 'a,ä\n' });
  await refusal(await post('/import', good), 'UNSUPPORTED_MEDIA_TYPE');
  const latin1 = Buffer.from('a,ä\n', 'latin1');
  await refusal(await post('/import', latin1, { ...KEY_HEADERS, 'Content-Type': 'text/csv' }), 'INVALID_REQUEST');
});

test('requests and responses can be streamed', async () => {
  const up = await fetch(`${shell.url}/uploads/1`, { method: 'PUT', body: Buffer.alloc(300_000) });
  assert.equal(await up.text(), '300000');
  await refusal(
    await fetch(`${shell.url}/uploads/1`, { method: 'PUT', body: Buffer.alloc(2_000_000) }),
    'UPLOAD_MISMATCH',
  );
  const down = await fetch(`${shell.url}/stream`);
  assert.equal(down.headers.get('content-type'), 'message/rfc822');
  assert.match(down.headers.get('x-request-id') ?? '', /^req_/);
  assert.equal(await down.text(), 'one two');
});

test('exceptions return 500 and outages 503 with Retry-After, without revealing the cause', async () => {
  const broken = await fetch(`${shell.url}/broken/bug`);
  const body = await refusal(broken, 'INTERNAL_ERROR');
  assert.doesNotMatch(JSON.stringify(body), /SELECT|stack|\.ts/);
  const outage = await fetch(`${shell.url}/broken/outage`);
  assert.doesNotMatch(JSON.stringify(await refusal(outage, 'UNAVAILABLE')), /secret/);
  assert.equal(outage.headers.get('retry-after'), '5');
  const logged = shell.log.find((line) => line.includes('SELECT secret'));
  assert.ok(logged?.includes(body.requestId), 'the cause is logged with the request ID');
});

test('hostile text is logged as one JSON line and returns a well-formed response', async () => {
  const name = 'a\r\n{"level":"fatal"}\u001b[31m\u2028';
  const body = await refusal(await post('/parsed', JSON.stringify({ [name]: name })), 'INVALID_REQUEST');
  assert.ok(body.error.details.some((detail) => detail.field === name));
  for (const line of shell.log) assert.doesNotThrow(() => JSON.parse(line));
  const long = await refusal(await post('/parsed', `{"${'k'.repeat(1_000)}":1}`), 'INVALID_REQUEST');
  assert.ok(long.error.details.every((detail) => detail.field.length <= 201));
});
