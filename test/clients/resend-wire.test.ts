/**
 * The Resend interface for clients other than the official Node SDK: absolute paths and strict UUIDs, bodies with null and unknown fields,
 * attachments in every form, keys of every account, mode, and scope, and operator settings.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

let sink: SmtpSink;
let service: Service;
let files: WebhookCatcher;

before(async () => {
  sink = await smtpSink();
  files = await webhookCatcher();
  service = await startService({
    env: {
      POSTRIDER_DOORS: 'resend',
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
    },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  await service.close();
  await sink.close();
  await files.close();
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

test('errors have the shape and names of the Resend API', async () => {
  const cases: [name: string, status: number, answer: Promise<Reply>][] = [
    ['missing_api_key', 401, call('POST', '/resend/emails', { key: '', body: mail() })],
    ['invalid_api_key', 403, call('POST', '/emails', { key: 're_123456789', body: mail() })],
    ['missing_required_field', 422, call('POST', '/emails', { body: mail({ to: undefined }) })],
    ['missing_required_field', 422, call('POST', '/emails', { body: mail({ text: undefined }) })],
    ['missing_required_field', 422, call('POST', '/emails', { body: mail({ subject: undefined }) })],
    ['invalid_from_address', 422, call('POST', '/emails', { body: mail({ from: 'nobody' }) })],
    ['validation_error', 403, call('POST', '/emails', { body: mail({ from: 'a@other.example' }) })],
    ['validation_error', 422, call('POST', '/emails', { body: mail({ to: ['nobody'] }) })],
    ['validation_error', 422, call('POST', '/emails', { body: mail({ to: 17 }) })],
    ['validation_error', 422, call('POST', '/emails', { body: mail({ topic_id: 'news' }) })],
    ['validation_error', 422, call('POST', '/emails', { body: mail({ headers: { Bcc: 'x@example.com' } }) })],
    ['validation_error', 422, call('POST', '/emails', { body: mail({ scheduled_at: 'tomorrow at noon' }) })],
    ['validation_error', 422, call('POST', '/emails', { body: '{"to":' })],
    ['validation_error', 415, call('POST', '/emails', { body: mail(), headers: { 'content-type': 'text/plain' } })],
    ['invalid_attachment', 422, call('POST', '/emails', { body: mail({ attachments: [{ content: '!' }] }) })],
    ['invalid_attachment', 422, call('POST', '/emails', { body: mail({ attachments: [{ filename: 'a.txt' }] }) })],
    [
      'invalid_attachment',
      422,
      call('POST', '/emails', { body: mail({ attachments: [{ filename: 'a.exe', content: 'YQ==' }] }) }),
    ],
    ['invalid_access', 422, call('POST', '/api-keys', { body: { name: 'x', permission: 'all' } })],
    ['missing_required_field', 422, call('POST', '/api-keys', { body: {} })],
    ['method_not_allowed', 405, call('PUT', '/emails')],
    ['not_found', 404, call('GET', '/nothing')],
    ['not_found', 404, call('GET', '/emails/3fa85f64-5717-4562-b3fc-2c963f66afa6')],
    ['invalid_parameter', 422, call('GET', '/domains/1')],
    [
      'validation_error',
      422,
      call('POST', '/emails/batch', { body: [mail()], headers: { 'x-batch-validation': 'lax' } }),
    ],
    ['validation_error', 422, call('POST', '/emails/batch', { body: [] })],
    [
      'invalid_attachment',
      422,
      call('POST', '/emails/batch', { body: [mail({ attachments: [{ content: 'YQ==' }] })] }),
    ],
  ];
  for (const [name, status, answer] of cases) {
    const { body, status: answered, headers } = await answer;
    const where = JSON.stringify(body);
    assert.deepEqual(Object.keys(body).sort(), ['message', 'name', 'statusCode'], where);
    assert.deepEqual([body.name, body.statusCode, answered], [name, status, status], where);
    assert.ok(body.message.length > 5, where);
    assert.match(headers.get('x-request-id') ?? '', /^req_/);
  }
  assert.equal(sink.messages.length, 0);
});

test('unsupported endpoints return an error that says so', async () => {
  for (const path of [
    '/contacts',
    '/audiences/1/contacts',
    '/segments',
    '/broadcasts',
    '/topics',
    '/automations',
    '/events',
    '/inboxes',
    '/oauth/grants',
    '/usage',
    '/domains/claim',
    '/contact-properties',
    '/logs',
  ]) {
    const { body, status } = await call('GET', path);
    assert.deepEqual([status, body.name], [404, 'not_found'], path);
    assert.match(body.message, /not part of Postrider's Resend interface/, path);
  }
});

test('clients with absolute paths and strict ids work at the root', async () => {
  // As .NET's HttpClient: an absolute path replaces the path of the base address.
  const sent = await call('POST', new URL('/emails', `${service.url}/ignored/`).pathname, { body: mail() });
  assert.equal(sent.status, 200);
  const guid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
  const uuids: string[] = [sent.body.id];
  uuids.push((await call('POST', '/domains', { body: { name: 'guid.test' } })).body.id);
  uuids.push((await call('POST', '/api-keys', { body: { name: 'guid' } })).body.id);
  uuids.push((await call('POST', '/webhooks', { body: { endpoint: files.url, events: ['email.opened'] } })).body.id);
  uuids.push((await call('POST', '/suppressions', { body: { email: 'guid@x.example' } })).body.id);
  uuids.push((await call('POST', '/templates', { body: { name: 'guid', html: '<p>x</p>' } })).body.id);
  for (const uuid of uuids) assert.match(uuid, guid);
  for (const [path, at] of [
    ['/domains', 1],
    ['/api-keys', 2],
    ['/webhooks', 3],
    ['/suppressions', 4],
    ['/templates', 5],
  ] as const)
    assert.ok(
      (await call('GET', path)).body.data.some((one: { id: string }) => one.id === uuids[at]),
      path,
    );
  assert.equal((await call('GET', `/emails/${sent.body.id.toUpperCase()}`)).body.id, sent.body.id, 'upper case');
});

test('the same paths serve the Postrider API with X-Api-Key or without a bearer token', async () => {
  assert.equal((await service.api.get('/domains')).status, 200);
  assert.ok(Array.isArray((await service.api.get('/domains')).body));
  const both = await call('GET', '/domains', {
    headers: { 'x-api-key': service.live.apiKey, 'x-id': service.live.accountId },
  });
  assert.ok(Array.isArray(both.body), 'X-Api-Key wins');
  const none = await service.anonymous.get('/domains');
  assert.deepEqual([none.status, none.body.reasonCode], [401, 'UNAUTHORIZED']);
  assert.equal((await call('GET', '/health', {})).body.status, 'ok', 'a health check can have a token');
  const metrics = await fetch(`${service.url}/metrics`, { headers: { authorization: 'Bearer x' } });
  assert.match(await metrics.text(), /^# HELP/);
  const upload = await call('PUT', '/uploads/none', { body: {} });
  assert.equal(upload.body.error.code, 'UPLOAD_URL_INVALID', "an upload can have the client's headers");
  assert.equal((await service.anonymous.get('/resend/emails')).body.name, 'missing_api_key');
});

test('the OpenAPI document describes each Resend operation under its own name', async () => {
  const document = (await (await fetch(`${service.url}/openapi/resend.json`)).json()) as {
    openapi: string;
    paths: Record<string, Record<string, { operationId: string; requestBody?: object }>>;
  };
  assert.equal(document.openapi, '3.1.0');
  const names = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).map((one) => one.operationId),
  );
  assert.ok(names.length > 45, String(names.length));
  assert.equal(new Set(names).size, names.length);
  for (const path of [
    '/emails',
    '/emails/batch',
    '/emails/{id}/cancel',
    '/webhooks/{id}/events/{event}/replay',
    '/templates/{id}/publish',
  ])
    assert.ok(document.paths[path] !== undefined, path);
  assert.ok(document.paths['/emails']!.post!.requestBody !== undefined);
});

test('null means absent, and ignored unknown fields are listed in a header', async () => {
  const body = mail({
    cc: null,
    bcc: null,
    reply_to: null,
    html: null,
    tags: null,
    attachments: null,
    scheduled_at: null,
    topic_id: null,
  });
  const sent = await call('POST', '/emails', {
    body: { ...body, preview: true, tags: [{ name: 'a', value: 'b', extra: 1 }] },
  });
  assert.equal(sent.status, 200, JSON.stringify(sent.body));
  assert.deepEqual(sent.headers.get('x-ignored-fields')?.split(', ').toSorted(), ['preview', 'tags.extra']);
  const batch = await call('POST', '/emails/batch', { body: [body] });
  assert.equal(batch.status, 200, JSON.stringify(batch.body));
});

test('attachments arrive as Base64, as JSON Buffers, and from URLs', async () => {
  const bytes = Buffer.alloc(1_300_000, 'x');
  const buffer = await call('POST', '/emails', {
    body: mail({ to: 'buffer@example.com', attachments: [{ filename: 'big.bin', content: bytes.toJSON() }] }),
  });
  assert.equal(buffer.status, 200, JSON.stringify(buffer.body));
  assert.ok((await received('buffer@example.com')).length > 1_700_000, 'the decoded bytes count, not their JSON');
  const tooLarge = await call('POST', '/emails', {
    body: mail({ attachments: [{ content: Buffer.alloc(1_600_000).toJSON() }] }),
  });
  assert.deepEqual([tooLarge.status, tooLarge.body.name], [422, 'validation_error']);
  for (const data of [[256], [-1], [1.5], ['a']]) {
    const wrong = await call('POST', '/emails', {
      body: mail({ attachments: [{ content: { type: 'Buffer', data } }] }),
    });
    assert.equal(wrong.body.name, 'invalid_attachment');
  }

  const host = `http://127.0.0.1:${files.port}/`;
  files.answer((request) =>
    request.path.includes('moved')
      ? { status: 302, headers: { location: '/report%20a.csv' } }
      : request.path.includes('report')
        ? { body: 'a,b' }
        : request.path.includes('loop')
          ? { status: 302, headers: { location: '/loop' } }
          : request.path.includes('big')
            ? { body: 'x'.repeat(2_000_001) }
            : { status: 404 },
  );
  const fetched = await call('POST', '/emails', {
    body: mail({
      to: 'path@example.com',
      attachments: [{ path: `${host}moved` }, { path: `${host}report%20a.csv`, filename: false }],
    }),
  });
  assert.equal(fetched.status, 200, JSON.stringify(fetched.body));
  const text = await received('path@example.com');
  assert.match(text, /filename="?report a\.csv/);
  assert.ok(text.includes(Buffer.from('a,b').toString('base64')));
  for (const path of [
    `${host}missing`,
    `${host}loop`,
    `${host}big`,
    'http://10.0.0.1/x',
    'http://169.254.169.254/latest',
    'file:///etc/passwd',
    'http://[::1]:1/',
    'ftp://x/',
  ]) {
    const refused = await call('POST', '/emails', { body: mail({ attachments: [{ path }] }) });
    assert.deepEqual([refused.status, refused.body.name], [422, 'invalid_attachment'], path);
  }
  const unnamed = await call('POST', '/emails', {
    body: mail({ to: 'unnamed@example.com', attachments: [{ content: 'YQ==', filename: false }] }),
  });
  assert.equal(unnamed.status, 200, JSON.stringify(unnamed.body));
  assert.match(await received('unnamed@example.com'), /filename="?attachment-1/);
});

test('a key cannot read or change data of another account or mode', async () => {
  const other = await service.cli('account', 'create', '--name', 'Other');
  const foreign = String(other.apiKey);
  const { id: email } = (await call('POST', '/emails', { body: mail({ scheduled_at: 'in 1 hour' }) })).body;
  const { id: domain } = (await call('POST', '/domains', { body: { name: 'mine.test' } })).body;
  const { id: apiKey } = (await call('POST', '/api-keys', { body: { name: 'mine' } })).body;
  const { id: webhook } = (await call('POST', '/webhooks', { body: { endpoint: files.url, events: ['email.sent'] } }))
    .body;
  const { id: suppression } = (await call('POST', '/suppressions', { body: { email: 'mine@x.example' } })).body;
  const { id: template } = (await call('POST', '/templates', { body: { name: 'mine', html: 'x' } })).body;
  const calls: [method: string, path: string, body?: object][] = [
    ['GET', `/emails/${email}`],
    ['PATCH', `/emails/${email}`, { scheduled_at: 'in 2 hours' }],
    ['POST', `/emails/${email}/cancel`],
    ['POST', `/emails/${email}/share`],
    ['GET', `/emails/${email}/attachments`],
    ['GET', `/emails/receiving/${email}`],
    ['GET', `/domains/${domain}`],
    ['PATCH', `/domains/${domain}`, {}],
    ['POST', `/domains/${domain}/verify`],
    ['DELETE', `/domains/${domain}`],
    ['PATCH', `/api-keys/${apiKey}`, { name: 'yours' }],
    ['DELETE', `/api-keys/${apiKey}`],
    ['GET', `/webhooks/${webhook}`],
    ['PATCH', `/webhooks/${webhook}`, { status: 'disabled' }],
    ['POST', `/webhooks/${webhook}/signing-secret/rotate`],
    ['GET', `/webhooks/${webhook}/events`],
    ['DELETE', `/webhooks/${webhook}`],
    ['GET', `/suppressions/${suppression}`],
    ['DELETE', `/suppressions/mine@x.example`],
    ['GET', `/templates/${template}`],
    ['GET', '/templates/mine'],
    ['PATCH', `/templates/${template}`, { html: 'y' }],
    ['POST', `/templates/${template}/publish`],
    ['POST', `/templates/${template}/duplicate`],
    ['DELETE', `/templates/${template}`],
  ];
  for (const [method, path, body] of calls) {
    const answer = await call(method, path, { key: foreign, ...(body && { body }) });
    assert.deepEqual([answer.status, answer.body.name], [404, 'not_found'], `${method} ${path}`);
  }
  for (const path of ['/emails', '/domains', '/webhooks', '/suppressions', '/templates', '/emails/receiving'])
    assert.deepEqual((await call('GET', path, { key: foreign })).body.data, [], path);
  // Messages, webhooks, and suppressions belong to one mode; a sandbox key can read shared resources but not change them.
  const { apiKey: sandbox } = service.sandbox;
  for (const path of [`/emails/${email}`, `/webhooks/${webhook}`, `/suppressions/${suppression}`])
    assert.equal((await call('GET', path, { key: sandbox })).status, 404, path);
  assert.equal((await call('GET', `/domains/${domain}`, { key: sandbox })).status, 200);
  for (const [method, path] of [
    ['DELETE', `/domains/${domain}`],
    ['POST', '/domains'],
    ['DELETE', `/api-keys/${apiKey}`],
    ['DELETE', `/templates/${template}`],
  ] as const) {
    const answer = await call(method, path, { key: sandbox, ...(method === 'POST' && { body: { name: 'x.test' } }) });
    assert.deepEqual([answer.status, answer.body.name], [403, 'restricted_api_key'], `${method} ${path}`);
  }
  assert.equal((await call('GET', `/emails/${email}`)).body.last_event, 'scheduled', 'nothing was changed');
  for (const [method, path] of [
    ['GET', `/webhooks/${webhook}`],
    ['GET', `/templates/${template}`],
    ['GET', `/domains/${domain}`],
  ] as const)
    assert.equal((await call(method, path)).status, 200);
});

test('a sending key can call nothing else', async () => {
  const { token } = (await call('POST', '/api-keys', { body: { name: 'sender', permission: 'sending_access' } })).body;
  assert.equal((await call('POST', '/emails', { key: token, body: mail() })).status, 200);
  assert.equal((await call('POST', '/emails/batch', { key: token, body: [mail()] })).status, 200);
  const id = '3fa85f64-5717-8562-b3fc-2c963f66afa6';
  const calls = [
    '/emails',
    `/emails/${id}`,
    `/emails/${id}/attachments`,
    '/emails/metrics',
    '/emails/receiving',
    '/domains',
    '/api-keys',
    '/webhooks',
    `/webhooks/${id}/events`,
    '/suppressions',
    '/templates',
    `/templates/${id}`,
  ].map((path) => ['GET', path] as const);
  const changes = ['/domains', '/api-keys', '/webhooks', '/suppressions', '/templates', `/emails/${id}/cancel`].map(
    (path) => ['POST', path] as const,
  );
  for (const [method, path] of [...calls, ...changes]) {
    const answer = await call(method, path, { key: token, ...(method === 'POST' && { body: {} }) });
    assert.deepEqual([answer.status, answer.body.name], [401, 'restricted_api_key'], `${method} ${path}`);
  }
});

test('rejected requests are listed like those of the Postrider API', async () => {
  await call('POST', '/emails', { body: mail({ from: 'x@unverified.example' }) });
  await waitUntil('the refusal', async () => {
    const { body } = await service.api.get('/requests?code=SENDER_NOT_VERIFIED');
    return (body as unknown as { endpoint: string }[]).some((one) => one.endpoint === 'POST /resend/emails');
  });
});

/** Sends raw bytes, and returns status and body. */
function exchange(head: readonly string[], body: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const { port } = new URL(service.url);
  const key = service.live.apiKey;
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1');
    let text = '';
    socket.setEncoding('utf8');
    socket.on('data', (chunk: string) => {
      text += chunk;
      const [, status, length] = /^HTTP\/1\.1 (\d+)[\s\S]*?content-length: (\d+)/i.exec(text) ?? [];
      const at = text.indexOf('\r\n\r\n');
      if (
        status === undefined ||
        length === undefined ||
        at === -1 ||
        Buffer.byteLength(text) < at + 4 + Number(length)
      )
        return;
      resolve({ status: Number(status), body: JSON.parse(text.slice(at + 4)) });
      socket.end();
    });
    socket.on('error', reject);
    const lines = [...head, `Content-Length: ${Buffer.byteLength(body)}`].map((line) => line.replace('KEY', key));
    socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`);
  });
}

test('accepts requests as SDKs of other languages write them', async () => {
  const everySdk = [
    'Host: localhost',
    'Authorization: Bearer KEY',
    'Accept: application/json',
    'Content-Type: application/json',
  ];
  const python = (line: string) => [
    line,
    ...everySdk,
    'User-Agent: resend-python:2.19.0',
    'Accept-Encoding: gzip, deflate',
    'Connection: keep-alive',
  ];
  const sent = await exchange(
    [...python('POST /emails HTTP/1.1'), 'Idempotency-Key: python-1'],
    '{"from": "hello@shop.example", "to": ["py@example.com"], "subject": "h\\u00e9", "html": "<p>x</p>", "attachments": [{"filename": "a.txt", "content": [104, 105]}]}',
  );
  assert.equal(sent.status, 200, JSON.stringify(sent.body));
  assert.ok((await received('py@example.com')).includes('aGk='), 'its attachments are lists of bytes');
  const shown = await exchange(python(`GET /emails/${sent.body.id} HTTP/1.1`), '{}');
  assert.deepEqual([shown.status, shown.body.object], [200, 'email']);
  const domain = await exchange(python('POST /domains HTTP/1.1'), '{"name": "python.test"}');
  const gone = await exchange(python(`DELETE /domains/${domain.body.id} HTTP/1.1`), '{}');
  assert.deepEqual([gone.status, gone.body.deleted], [200, true]);

  const go = [...everySdk, 'User-Agent: resend-go/3.0.0', 'Accept-Encoding: gzip'];
  const goSent = await exchange(
    ['POST /resend/emails HTTP/1.1', ...go],
    '{"from":"hello@shop.example","to":["go@example.com"],"subject":"x","bcc":null,"cc":null,"reply_to":"","html":"<p>x</p>","text":"","tags":null,"attachments":null,"headers":null,"scheduled_at":""}\n',
  );
  assert.equal(goSent.status, 200, JSON.stringify(goSent.body));

  const php = [...everySdk, 'User-Agent: resend-php/1.0.0'];
  const phpSent = await exchange(
    ['POST /emails HTTP/1.1', ...php],
    '{"from":"hello@shop.example","to":"php@example.com","subject":"x","text":"x","headers":[],"tags":[],"attachments":[],"bcc":[],"cc":[],"reply_to":[]}',
  );
  assert.equal(phpSent.status, 200, JSON.stringify(phpSent.body));
  const canceled = await exchange([`POST /emails/${phpSent.body.id}/cancel HTTP/1.1`, ...php], '');
  assert.equal(canceled.status, 422, 'the message was sent, and an empty body counts as none');
});

test('an email whose content differs per recipient is still one email', async () => {
  const hook = (await call('POST', '/webhooks', { body: { endpoint: files.url, events: ['email.delivered'] } })).body;
  files.answer();
  const to = ['p1@example.com', 'p2@example.com', 'p3@example.com'];
  const sent = await service.api.post('/send', {
    from: 'hello@shop.example',
    to: to.slice(0, 2),
    cc: to[2],
    subject: 'One',
    text: 'Hi',
    listUnsubscribe: true,
  });
  assert.equal(sent.status, 202, sent.text);
  const posted = await waitUntil('three events', () => {
    const bodies = files.requests
      .map((one) => one.body)
      .filter((body) => /"email\.delivered".*"subject":"One"/.test(body));
    return bodies.length === 3
      ? bodies.map((body) => JSON.parse(body).data as { email_id: string; to: string[] })
      : undefined;
  });
  const [id, ...others] = [...new Set(posted.map((one) => one.email_id))];
  assert.deepEqual(others, [], 'each event names the one email');
  assert.deepEqual(posted.flatMap((one) => one.to).toSorted(), to, 'and its own recipient');
  const shown = (await call('GET', `/emails/${id}`)).body;
  assert.deepEqual([shown.id, shown.to, shown.cc], [id, to.slice(0, 2), to.slice(2)]);
  const list = (await call('GET', '/emails?limit=100')).body.data as { subject: string }[];
  assert.equal(list.filter((one) => one.subject === 'One').length, 1);
  await call('DELETE', `/webhooks/${hook.id}`);
});

test('an exceeded account limit returns an error in the format of the Resend API', async () => {
  const limited = await startService({ env: { POSTRIDER_DOORS: 'resend', POSTRIDER_RATE_LIMIT: '1' } });
  try {
    const headers = { authorization: `Bearer ${limited.live.apiKey}` };
    const answers = await Promise.all(Array.from({ length: 6 }, () => fetch(`${limited.url}/emails`, { headers })));
    const refused = answers.filter((one) => one.status === 429);
    assert.ok(refused.length > 0);
    for (const one of answers) assert.equal(one.headers.get('ratelimit-limit'), '1');
    assert.ok(answers.every((one) => one.headers.has('ratelimit-remaining') && one.headers.has('ratelimit-reset')));
    assert.match(refused[0]!.headers.get('retry-after') ?? '', /^[1-9]/);
    assert.equal(((await refused[0]!.json()) as { name: string }).name, 'rate_limit_exceeded');
  } finally {
    await limited.close();
  }
});

test('concurrent requests over the capacity wait instead of being rate limited', async () => {
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, index) => call('POST', '/emails', { body: mail({ to: `n${index}@example.com` }) })),
  );
  assert.deepEqual([...new Set(answers.map((one) => one.status))], [200]);
});

test('a concurrent request with the same idempotency key returns 409', async () => {
  const headers = { 'idempotency-key': 'at-once' };
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => call('POST', '/emails', { body: mail({ to: 'at-once@example.com' }), headers })),
  );
  const ids = new Set(answers.filter((one) => one.status === 200).map((one) => one.body.id));
  assert.equal(ids.size, 1);
  for (const { status, body } of answers)
    if (status !== 200) assert.deepEqual([status, body.name], [409, 'concurrent_idempotent_requests']);
  await received('at-once@example.com');
  assert.equal(sink.messages.filter((one) => one.to.includes('at-once@example.com')).length, 1);
});

test('inbound messages are listed with their attachments', async () => {
  const key = service.sandbox.apiKey;
  const hook = await call('POST', '/webhooks', { key, body: { endpoint: files.url, events: ['email.received'] } });
  const route = await service.sandboxApi.post('/inbound-routes', { match: 'support@in.shop.example', events: true });
  assert.equal(route.status, 201, route.text);
  const raw = [
    'From: Ann <ann@example.com>',
    'To: Support <support@in.shop.example>, x@example.com',
    'Cc: c@example.com',
    'Reply-To: replies@example.com',
    'Subject: A question',
    'Message-ID: <1@example.com>',
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary=b',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'Why?',
    '--b',
    'Content-Type: text/csv; name=a.csv',
    'Content-Disposition: attachment; filename=a.csv',
    '',
    '1,2',
    '--b--',
    '',
  ].join('\r\n');
  const played = await service.sandboxApi.post('/sandbox/inbound', {
    to: 'support@in.shop.example',
    from: 'ann@example.com',
    raw,
  });
  assert.ok(played.status < 300, played.text);
  const { data, has_more: hasMore } = (await call('GET', '/emails/receiving', { key })).body;
  assert.deepEqual([data.length, hasMore], [1, false]);
  const [{ id }] = data;
  const mail = (await call('GET', `/emails/receiving/${id}`, { key })).body;
  assert.deepEqual(
    [mail.object, mail.from, mail.to, mail.cc, mail.reply_to, mail.received_for, mail.subject, mail.message_id],
    [
      'email',
      'Ann <ann@example.com>',
      ['Support <support@in.shop.example>', 'x@example.com'],
      ['c@example.com'],
      ['replies@example.com'],
      ['support@in.shop.example'],
      'A question',
      '<1@example.com>',
    ],
  );
  assert.match(mail.text, /Why\?/);
  assert.equal(await (await fetch(mail.raw.download_url)).text(), raw);
  const [file] = (await call('GET', `/emails/receiving/${id}/attachments`, { key })).body.data;
  assert.deepEqual([file.filename, file.content_type, file.size], ['a.csv', 'text/csv', 3]);
  assert.equal(await (await fetch(file.download_url)).text(), '1,2');
  const one = await call('GET', `/emails/receiving/${id}/attachments/${file.id}`, { key });
  assert.equal(one.body.object, 'attachment');
  const posted = await waitUntil('the webhook', () =>
    files.requests.find((sent) => sent.body.includes('email.received')),
  );
  const { data: event } = JSON.parse(posted.body) as { data: { email_id: string; attachments: { id: string }[] } };
  assert.deepEqual([event.email_id, event.attachments[0]!.id], [id, file.id], 'the event matches the API');
  assert.equal((await call('DELETE', `/webhooks/${hook.body.id}`, { key })).body.deleted, true);
});
