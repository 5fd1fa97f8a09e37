/** Account limits as customers and operators see them: published, rejected by name, and changed by a command. */
import assert from 'node:assert/strict';
import { type IncomingMessage, request } from 'node:http';
import { after, before, test } from 'node:test';
import type { Answer, JsonObject } from '../kit/api.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let service: Service;
before(async () => {
  service = await startService({ env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' } });
});
after(() => service.close());

const code = (answer: Answer): string => `${answer.status} ${answer.body.error?.code ?? ''}`.trim();
const setLimits = (...limits: string[]): Promise<JsonObject> =>
  service.cli('account', 'set', service.live.accountId, ...limits.flatMap((one) => ['--limit', one]));
const limitOf = async (name: string): Promise<number> => (await service.api.get('/account')).body.limits[name];

const STANDARD = {
  webhooks: 100,
  domains: 1_000,
  templates: 5_000,
  apiKeys: 200,
  smtpCredentials: 200,
  openSubmissions: 1_000,
  inboundRoutes: 100,
  eventStreams: 20,
  inboxWaits: 50,
  inboundMailPerHour: 10_000,
};

const file = { name: 'a.pdf', contentType: 'application/pdf', sizeBytes: 5, sha256: 'ab'.repeat(32) };

test('exceeding a limit is rejected by name until something is deleted or the limit is raised', async () => {
  const { api, sandboxApi } = service;
  const { limits } = (await api.get('/account')).body;
  for (const [name, most] of Object.entries(STANDARD)) assert.equal(limits[name], most, name);
  // Two of each: the first run created some of the keys and credentials.
  await setLimits(
    'webhooks=2',
    'domains=2',
    'templates=2',
    'apiKeys=4',
    'smtpCredentials=3',
    'openSubmissions=2',
    'inboundRoutes=2',
  );
  await waitUntil('the limits to apply', async () => (await limitOf('webhooks')) === 2);
  let made = 0;
  const url = `http://127.0.0.1:${new URL(service.url).port}/hook`;
  const creates: [name: string, create: () => Promise<Answer>][] = [
    // Alternates with a sandbox key: a limit counts both modes.
    ['webhooks', () => [api, sandboxApi][made % 2]!.post('/webhooks', { url, events: ['Send'] })],
    ['domains', () => api.post('/domains', { domain: `d${made}.example.com` })],
    ['templates', () => api.post('/templates', { name: `t${made}`, subject: 'x', text: 'x' })],
    ['apiKeys', () => api.post('/api-keys', {})],
    ['smtpCredentials', () => api.post('/smtp-credentials', { mode: 'sandbox' })],
    ['inboundRoutes', () => sandboxApi.post('/inbound-routes', { match: `m${made}@in.shop.example` })],
    ['openSubmissions', () => [api, sandboxApi][made % 2]!.post('/attachments', { attachments: [file] })],
  ];
  for (const [name, create] of creates) {
    let answer: Answer;
    for (made = 0; ; made += 1) {
      answer = await create();
      if (answer.status !== 201 || made === 10) break;
    }
    assert.equal(code(answer), '409 LIMIT_REACHED', name);
    assert.equal(answer.body.reasonCode, 'LIMIT_REACHED');
    const most = await limitOf(name);
    assert.ok(answer.body.error.message.includes(`limits.${name}`), answer.body.error.message);
    assert.ok(answer.body.error.message.includes(` ${most} `), answer.body.error.message);
  }
  // Updating an existing item does not count as another one.
  assert.equal((await api.post('/domains', { domain: 'd0.example.com' })).status, 200);
  const [newest] = (await api.get('/webhooks')).body as unknown as JsonObject[];
  await api.delete(`/webhooks/${newest!.webhookId}`);
  assert.equal((await api.post('/webhooks', { url, events: ['Send'] })).status, 201, 'one is deleted');
  assert.equal(code(await api.post('/webhooks', { url, events: ['Send'] })), '409 LIMIT_REACHED');
  const set = await setLimits('webhooks=3', 'domains=standard');
  assert.deepEqual([set.limits.webhooks, set.limits.domains, set.limits.templates], [3, 1_000, 2]);
  assert.equal((await api.post('/webhooks', { url, events: ['Send'] })).status, 201);
  assert.deepEqual((await service.cli('account', 'show', service.live.accountId)).limits, set.limits);
  for (const wrong of [
    'webhooks',
    'webhooks=x',
    'horses=3',
    'webhooks=9999999',
    'webhooks=none',
    'messagesPerDay=standard',
  ]) {
    await assert.rejects(setLimits(wrong), /--limit=/, wrong);
  }
});

/** A response whose body is left open; `end` closes its connection. */
function opened(at: string, key: string): Promise<{ answer: IncomingMessage; end(): void }> {
  return new Promise((resolve, reject) => {
    const headers = { 'x-api-key': key, 'x-id': service.live.accountId };
    const sent = request(new URL(at, service.url), { headers, agent: false }, (answer) => {
      answer.resume();
      resolve({ answer, end: () => sent.destroy() });
    });
    sent.on('error', reject);
    sent.end();
  });
}

test('concurrent event streams are limited, and closing one frees its place', async () => {
  await setLimits('eventStreams=3');
  const stream = () => opened('/events/stream', service.live.apiKey);
  const open = await Promise.all([stream(), stream(), stream()]);
  assert.deepEqual(
    open.map(({ answer }) => answer.statusCode),
    [200, 200, 200],
  );
  for (const { apiKey } of [service.live, service.sandbox]) {
    await waitUntil('the limit to apply', async () => {
      const { answer, end } = await opened('/events/stream', apiKey);
      end();
      return answer.statusCode === 429;
    });
  }
  const refused = await service.api.get('/events/stream');
  assert.equal(code(refused), '429 RATE_LIMITED');
  assert.ok(Number(refused.headers['retry-after']) > 0);
  assert.equal(refused.headers['ratelimit-limit'], '3');
  assert.equal(code(await service.sandboxApi.get('/events/stream')), '429 RATE_LIMITED', 'in total, not per mode');
  open[0]!.end();
  const next = await waitUntil('capacity for one more', async () => {
    const one = await stream();
    return one.answer.statusCode === 200 ? one : undefined;
  });
  for (const { end } of [...open, next]) end();
});

test('concurrent inbox waits are limited, and an answered one frees its place', async () => {
  await setLimits('inboxWaits=2');
  await waitUntil('the limit to apply', async () => (await limitOf('inboxWaits')) === 2);
  const wait = (to: string) => service.sandboxApi.get(`/sandbox/inbox/wait?to=${to}&timeoutSeconds=25`);
  const waits = ['one@x.example', 'two@x.example'].map(wait);
  const refused = await waitUntil('both to be open', async () => {
    const third = await service.sandboxApi.get('/sandbox/inbox/wait?to=none@x.example&timeoutSeconds=0');
    return third.status === 429 ? third : undefined;
  });
  assert.equal(code(refused), '429 RATE_LIMITED');
  assert.ok(Number(refused.headers['retry-after']) > 0);
  for (const to of ['one@x.example', 'two@x.example'])
    await service.sandboxApi.post('/send', { from: 'a@x.example', to, subject: 'x', text: 'x' });
  assert.deepEqual(
    (await Promise.all(waits)).map(({ status }) => status),
    [200, 200],
  );
  assert.equal(
    code(await service.sandboxApi.get('/sandbox/inbox/wait?to=none@x.example&timeoutSeconds=0')),
    '404 NOT_FOUND',
  );
});

test('mail over the daily quota is rejected over HTTP, in a batch, and over SMTP, and not stored', async () => {
  const { sandboxApi: api } = service;
  const mail = (to: string | string[]) => ({ from: 'a@x.example', to, subject: 'x', text: 'x' });
  const send = (to: string | string[], headers = {}) => api.post('/send', mail(to), headers);
  const stored = async () => (await api.get('/messages?limit=100&to=quota.example')).body.length;
  const set = await setLimits('messagesPerDay=6', 'smtpCredentials=standard');
  assert.deepEqual([set.limits.messagesPerDay, set.limits.messagesPerMonth], [6, null]);
  assert.equal((await api.get('/account')).body.limits.messagesPerDay, 6);
  assert.equal((await send(['a@quota.example', 'b@quota.example', 'c@quota.example'])).status, 202);
  const tooMany = Array.from({ length: 4 }, (_, index) => `r${index}@quota.example`);
  const refused = await send(tooMany, { 'Idempotency-Key': 'quota' });
  assert.equal(code(refused), '429 QUOTA_EXCEEDED');
  assert.equal(refused.body.reasonCode, 'QUOTA_EXCEEDED');
  const wait = Number(refused.headers['retry-after']);
  assert.ok(wait >= 1 && wait <= 86_400, `${wait}`);
  assert.equal(await stored(), 3);
  assert.equal((await api.post('/send?dryRun=true', mail(tooMany))).status, 200, 'a dry run does not count');
  const batch = await api.post('/send/batch', {
    messages: [mail('d@quota.example'), mail(tooMany), mail('e@quota.example')],
  });
  assert.deepEqual(
    batch.body.results.map((one: JsonObject) => `${one.status} ${one.error?.code ?? ''}`.trim()),
    ['202', '429 QUOTA_EXCEEDED', '202'],
  );
  const credential = (await api.post('/smtp-credentials', { mode: 'sandbox' })).body;
  const smtp = await connectTalker(service.smtpPort);
  await smtp.reply();
  await smtp.logIn(credential as { username: string; password: string });
  const submit = async () => {
    await smtp.say('MAIL FROM:<a@x.example>');
    await smtp.say('RCPT TO:<f@quota.example>');
    await smtp.say('DATA');
    return smtp.say('From: a@x.example\r\nSubject: x\r\n\r\nx\r\n.');
  };
  assert.match(await submit(), /^250 2\.0\.0 /);
  assert.match(await submit(), /^451 4\.7\.0 .*limits\.messagesPerDay/);
  smtp.destroy();
  assert.equal(await stored(), 6);
  await setLimits('messagesPerDay=10');
  assert.equal(
    (await send(tooMany, { 'Idempotency-Key': 'quota' })).status,
    202,
    'the rejection did not use up the key',
  );
  await setLimits('messagesPerDay=none');
  assert.equal((await send(tooMany)).status, 202);
});
