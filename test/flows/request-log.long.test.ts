/**
 * The log of requests as a customer reads it, immediately and on both databases: every call with a key, and refusals in a batch and in an
 * SMTP session. None of the secrets in the requests is stored.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import type { Answer, JsonObject } from '../kit/api.ts';
import { openBrowser } from '../kit/in-process-api.ts';
import { connectTalker, type Talker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { DIALECTS } from '../kit/temp-database.ts';
import { type TempPostgres, tempPostgres } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';

/** A secret placed in every field that takes a value. */
const SECRET = 's3cret-Value';
const TOKEN = 'Zx81aB3dE5gH7jK9mN1pQ3sT5vW7';
const MAIL = { from: 'a@shop.example', to: 'ann@example.com', subject: 's', text: 't' };

type Listed = JsonObject & { code: string; status: number; requestId: string; source: string };

async function listed(service: Service, query = ''): Promise<Listed[]> {
  const answer = await service.api.get(`/requests?status=failed&limit=100${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.body as unknown as Listed[];
}

/** HTTP calls, and the expected record of each. */
const CALLS: [name: string, call: (service: Service) => Promise<Answer>, code: string, endpoint: string][] = [
  [
    'an invalid field',
    ({ api }) => api.post('/send', { ...MAIL, to: `${SECRET} <${TOKEN}` }),
    'INVALID_REQUEST',
    'POST /send',
  ],
  ['a body that is not JSON', ({ api }) => api.post('/send', `{"to": "${SECRET}`), 'INVALID_REQUEST', 'POST /send'],
  ['an unknown field', ({ api }) => api.post('/send', { ...MAIL, [TOKEN]: SECRET }), 'INVALID_REQUEST', 'POST /send'],
  [
    'an invalid template',
    ({ api }) => api.post('/send', { ...MAIL, html: `{% ${SECRET} ${TOKEN} %}` }),
    'TEMPLATE_INVALID',
    'POST /send',
  ],
  [
    'a variable without a value',
    ({ api }) => api.post('/send', { ...MAIL, text: '{{ name }}', templateVariables: { other: SECRET } }),
    'TEMPLATE_VARIABLE_MISSING',
    'POST /send',
  ],
  [
    'an unverified sender',
    ({ api }) => api.post('/send', { ...MAIL, from: 'a@else.example' }),
    'SENDER_NOT_VERIFIED',
    'POST /send',
  ],
  [
    'a missing message',
    ({ api }) => api.get(`/messages/msg_none?x=1`).then(() => api.get('/messages/msg_none')),
    'NOT_FOUND',
    'GET /messages/:id',
  ],
  [
    'a body of an unsupported type',
    ({ api }) => api.call({ method: 'POST', path: '/send', body: SECRET, headers: { 'content-type': 'text/plain' } }),
    'UNSUPPORTED_MEDIA_TYPE',
    'POST /send',
  ],
  [
    'a body over the limit',
    ({ api }) => api.post('/domains', { domain: SECRET.repeat(90_000) }),
    'PAYLOAD_TOO_LARGE',
    'POST /domains',
  ],
  [
    'an address in the path',
    ({ api }) => api.get(`/suppressions/${SECRET}@example.com`),
    'NOT_FOUND',
    'GET /suppressions/:email',
  ],
];

for (const dialect of DIALECTS) {
  describe(dialect, () => {
    let postgres: TempPostgres | undefined;
    let service: Service;
    const env: Record<string, string> = { POSTRIDER_ROUTE: 'smtp://127.0.0.1:1' };
    before(async () => {
      postgres = dialect === 'postgres' ? await tempPostgres() : undefined;
      if (postgres) env.POSTRIDER_DATABASE_URL = postgres.url;
      service = await startService({ env });
      await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
    });
    after(async () => {
      await service?.close();
      await postgres?.drop();
    });

    test('every HTTP rejection can be found immediately by its request id', async () => {
      for (const [name, call, code, endpoint] of CALLS) {
        const answer = await call(service);
        assert.equal(answer.body.error?.code, code, `${name}: ${answer.text.slice(0, 300)}`);
        const [newest] = await listed(service);
        assert.equal(newest?.requestId, answer.headers['x-request-id'], name);
        assert.equal(newest?.endpoint, endpoint, name);
        assert.equal(newest?.status, answer.status, name);
        assert.equal(newest?.code, code, name);
        assert.match(String(newest?.keyId), /^key_/);
        assert.equal(newest?.address, '127.0.0.1');
        assert.ok(Math.abs(Date.parse(String(newest?.time)) - Date.now()) < 60_000);
      }
      const missing = (await listed(service, '&code=TEMPLATE_VARIABLE_MISSING'))[0];
      assert.deepEqual(
        (missing!.details as JsonObject[]).map(({ field }) => field),
        ['templateVariables.name'],
      );
    });

    test('records rejections of a valid key without permission, but not of an unknown key', async () => {
      const made = await service.api.post('/api-keys', { scope: 'send' });
      const headers = { 'x-api-key': made.body.apiKey as string, 'x-id': service.live.accountId };
      const refused = await service.anonymous.call({ method: 'GET', path: '/messages', headers });
      assert.equal(refused.status, 403);
      const stranger = { ...headers, 'x-api-key': `${made.body.apiKey}x` };
      const unknown = await service.anonymous.call({ method: 'GET', path: '/messages', headers: stranger });
      assert.equal(unknown.status, 401);
      const [newest] = await listed(service);
      assert.equal(newest?.requestId, refused.headers['x-request-id']);
      assert.equal(newest?.keyId, made.body.keyId);
    });

    test('rejections in the portal are shown on the page and not recorded', async () => {
      const { port } = new URL(service.url);
      const browser = openBrowser(Number(port), `http://localhost:${port}`, '127.0.0.1');
      const { signInUrl } = JSON.parse(readFileSync(path.join(service.dataDir, 'first-run.json'), 'utf8'));
      const token = String(signInUrl).split('#token=')[1];
      const password = 'correct horse battery staple';
      assert.equal((await browser.call('PUT', '/password', { token, password })).status, 200);
      const [before] = await listed(service);
      const headers = { 'x-id': service.live.accountId };
      const refused = await browser.call('POST', '/send?dryRun=true', { ...MAIL, html: '{% if' }, headers);
      assert.equal(refused.body.error.code, 'TEMPLATE_INVALID');
      const batch = await browser.call('POST', '/send/batch', { messages: [{ ...MAIL, to: 'none' }] }, headers);
      assert.equal(batch.status, 200, batch.text);
      assert.deepEqual((await listed(service))[0], before);
      assert.equal((await browser.call('GET', '/account', undefined, headers)).status, 200);
      assert.deepEqual((await service.api.get('/requests?status=all&route=/account')).body, []);
    });

    test('successful calls are listed with their routes, times, and messages, and found by filters', async () => {
      const headers = { 'user-agent': 'shop/1.0 (ops@shop.example)' };
      const idempotency = { ...headers, 'idempotency-key': 'one' };
      const sent = await service.api.call({ method: 'POST', path: '/send', body: MAIL, headers: idempotency });
      assert.equal(sent.status, 202, sent.text);
      const messageId = String((sent.body.data as JsonObject).messageId);
      const replayed = await service.api.call({ method: 'POST', path: '/send', body: MAIL, headers: idempotency });
      const read = await service.api.get(`/messages/${messageId}`);
      const list = async (query: string) => (await service.api.get(`/requests?${query}`)).body as unknown as Listed[];
      const [newest, ...older] = await list('status=succeeded&limit=3');
      assert.partialDeepStrictEqual(newest, {
        requestId: read.headers['x-request-id'],
        source: 'api',
        endpoint: 'GET /messages/:id',
        path: `/messages/${messageId}`,
        status: 200,
        address: '127.0.0.1',
      });
      assert.ok(Number.isSafeInteger(newest!.durationMs));
      for (const [index, answer] of [replayed, sent].entries())
        assert.partialDeepStrictEqual(older[index], {
          requestId: answer.headers['x-request-id'],
          endpoint: 'POST /send',
          path: '/send',
          status: 202,
          messageId,
          userAgent: 'shop/1.0 (…)',
        });
      for (const absent of ['code', 'message', 'details']) assert.ok(!(absent in newest!), absent);
      const idsOf = (rows: Listed[]) => rows.map(({ requestId }) => requestId);
      const bySend = [replayed, sent].map((answer) => answer.headers['x-request-id']);
      assert.equal(idsOf(await list(`messageId=${messageId}`)).at(-1), bySend[1]);
      assert.deepEqual(idsOf(await list('method=POST&route=/send&status=202&limit=2')), bySend);
      assert.deepEqual(idsOf(await list('route=/messages/{id}&status=2xx&limit=1')), [newest!.requestId]);
      assert.deepEqual(await list(`status=all&keyId=${newest!.keyId}&method=DELETE`), []);
      assert.ok((await list('status=4xx')).every(({ status }) => status >= 400 && status < 500));
      assert.ok(
        (await list('limit=100')).every(({ status }) => status >= 400),
        'only failed ones without a status',
      );
      const answer = await service.api.get('/requests?status=all&limit=1');
      assert.equal(answer.headers['x-omitted-requests'], '0');
      assert.equal((await service.api.get('/requests?status=often')).status, 400);
    });

    test('records each rejected message of a batch, and no accepted one', async () => {
      const messages = [MAIL, { ...MAIL, to: SECRET }, { ...MAIL, from: 'a@else.example' }];
      const sent = await service.api.post('/send/batch', { messages });
      assert.equal(sent.status, 200);
      const rows = (await listed(service)).filter(({ requestId }) => requestId === sent.headers['x-request-id']);
      assert.deepEqual(
        rows.map(({ code, endpoint, status, details }) => [
          code,
          endpoint,
          status,
          (details as JsonObject[])[0]?.field,
        ]),
        [
          ['SENDER_NOT_VERIFIED', 'POST /send/batch', 403, 'messages[2].from'],
          ['INVALID_REQUEST', 'POST /send/batch', 400, 'messages[1].to'],
        ],
      );
    });

    test('records every 4xx and 5xx reply of an authenticated SMTP session with its verb', async () => {
      const talker = await connectTalker(service.smtpPort);
      await talker.reply();
      assert.match(await talker.say('MAIL FROM:<a@shop.example>'), /^530 /);
      await talker.logIn(service.smtpCredential);
      const said: [line: string, verb: string | undefined][] = [
        [`${TOKEN} ${SECRET}`, undefined],
        [`AUTH PLAIN ${Buffer.from(`\0x\0${SECRET}`).toString('base64')}`, 'AUTH'],
        ['MAIL FROM:<a@else.example>', 'MAIL'],
        [`MAIL FROM:<a@shop.example> X-OWN=${SECRET}`, 'MAIL'],
        ['MAIL FROM:<a@shop.example>', undefined],
        [`RCPT TO:<${SECRET}>`, 'RCPT'],
        ['RCPT TO:<ann@example.com>', undefined],
        ['DATA', undefined],
        [`From: a@else.example\r\nX-Note: ${SECRET}\r\n\r\n${SECRET}\r\n.`, 'DATA'],
      ];
      const expected: unknown[] = [];
      for (const [line, verb] of said) {
        const reply = await talker.say(line);
        if (!/^[45]/.test(reply)) continue;
        // Text that looks like a key is not recorded.
        const text = reply.split(' ').slice(2).join(' ').replaceAll(TOKEN.toUpperCase(), '…').replaceAll(TOKEN, '…');
        expected.push([Number(reply.slice(0, 3)), reply.split(' ')[1], verb, text]);
      }
      talker.destroy();
      assert.equal(expected.length, 6);
      const rows = await listed(service, '&source=smtp');
      assert.deepEqual(
        rows.map(({ status, code, verb, message }) => [status, code, verb, message]),
        expected.toReversed(),
      );
      for (const row of rows) {
        assert.equal(row.smtpCredentialId, service.smtpCredential.username);
        assert.equal(row.keyId, undefined);
        assert.match(row.requestId, /^req_/);
      }
      const one = await listed(service, '&code=5.7.1&source=smtp');
      assert.ok(one.length > 0 && one.every(({ code, source }) => code === '5.7.1' && source === 'smtp'));
    });

    test('a sandbox key lists only its own rejections; paging and time ranges', async () => {
      const sandbox = await service.sandboxApi.post('/send', { ...MAIL, to: 'x' });
      assert.equal(sandbox.status, 400);
      const own = (await service.sandboxApi.get('/requests?status=failed')).body as unknown as Listed[];
      assert.deepEqual(
        own.map(({ requestId }) => requestId),
        [sandbox.headers['x-request-id']],
      );
      const all = await listed(service);
      const paged: Listed[] = [];
      for (let next: string | undefined = '/requests?status=failed&limit=4'; next !== undefined; ) {
        const page: Answer = await service.api.get(next);
        paged.push(...(page.body as unknown as Listed[]));
        next = /<([^>]+)>/.exec(page.headers.link ?? '')?.[1];
      }
      assert.deepEqual(paged, all);
      const since = String(all[5]?.time);
      assert.deepEqual(
        await listed(service, `&until=${since}`),
        all.filter(({ time }) => time <= since),
      );
      assert.deepEqual(
        await listed(service, `&since=${since}`),
        all.filter(({ time }) => time >= since),
      );
      assert.equal((await service.api.get('/requests?source=fax')).status, 400);
    });

    test('rejections before a planned stop remain after it, and no record contains a secret', async () => {
      const last = await service.api.post('/send', { ...MAIL, to: 'last' });
      const rows = postgres ? undefined : await listed(service);
      await service.kill('SIGTERM');
      const texts = postgres ? await rowsOfPostgres(postgres.url) : rowsOfSqlite(service.dataDir);
      assert.ok(texts.length > 15 && (rows === undefined || texts.length >= rows.length));
      const stored = texts.join('\n');
      assert.ok(stored.includes(last.headers['x-request-id']!), 'the last one is recorded');
      const { live, sandbox, smtpCredential } = service;
      for (const secret of [SECRET, TOKEN, live.apiKey, sandbox.apiKey, smtpCredential.password]) {
        assert.ok(!stored.includes(secret), `${secret} is in ${texts.find((text) => text.includes(secret))}`);
      }
      await service.restart({ env });
      const [newest] = await listed(service);
      assert.equal(newest?.requestId, last.headers['x-request-id']);
      await loseCredential(service);
    });
  });
}

/** A credential that is revoked during its session: the reply that reports it is the last one recorded. */
async function loseCredential(service: Service): Promise<void> {
  const made = (await service.api.post('/smtp-credentials', {})).body;
  const talker: Talker = await connectTalker(service.smtpPort);
  await talker.reply();
  await talker.logIn({ username: made.username as string, password: made.password as string });
  await service.api.delete(`/smtp-credentials/${made.smtpCredentialId}`);
  const reply = await waitUntil('the revocation to apply', async () => {
    const said = await talker.say('MAIL FROM:<a@shop.example>');
    await talker.say('RSET');
    return said.startsWith('535') ? said : undefined;
  });
  talker.destroy();
  const [newest] = await listed(service, '&source=smtp&code=5.7.8');
  assert.equal(`535 5.7.8 ${newest?.message}`, reply);
  assert.equal(newest?.smtpCredentialId, made.smtpCredentialId);
}

function rowsOfSqlite(dataDir: string): string[] {
  const database = new DatabaseSync(path.join(dataDir, 'postrider.db'), { readOnly: true });
  try {
    return database
      .prepare('SELECT * FROM request_log')
      .all()
      .map((row) => JSON.stringify(row));
  } finally {
    database.close();
  }
}

async function rowsOfPostgres(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query('SELECT * FROM request_log')).rows.map((row) => JSON.stringify(row));
  } finally {
    await client.end();
  }
}
