/** The routes below /webhooks with the real shell and database, a real receiver and the worker. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { Api } from '../../test/kit/api.ts';
import { foundAnswer } from '../../test/kit/fake-dns.ts';
import { type FeatureApp, featureApp } from '../../test/kit/feature-app.ts';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../../test/kit/webhook-catcher.ts';
import { changedBy, systemOrigin } from '../audit/audit.ts';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import { EVENT_TYPES, sampleEvent } from '../events/events.ts';
import { parseCidrs } from '../net/address-guard.ts';
import { checkUrl } from '../net/guarded-connector.ts';
import { type HttpClient, openHttpClient } from '../net/http-client.ts';
import { replaceEndpointOperation } from '../webhooks/store.ts';
import { startWebhooks, type Webhooks } from '../webhooks/worker.ts';
import { webhookRoutes } from './webhooks.ts';

const secretKey = randomBytes(32);
const loopback = parseCidrs('127.0.0.1/32');
assert.ok(loopback.ok);
const guard = {
  lookup: async (host: string) => foundAnswer([host.endsWith('.example') ? '192.0.2.1' : host]),
  allow: loopback.cidrs,
};

let app: FeatureApp;
let http: HttpClient;
let worker: Webhooks;
let hook: WebhookCatcher;
let api: Api;

before(async () => {
  http = openHttpClient(guard);
  hook = await webhookCatcher();
  app = await featureApp(({ database }) => {
    worker = startWebhooks({ database, http, clock: systemClock, log: silentLog, secretKey, pollMs: 50 });
    return webhookRoutes({
      database,
      http,
      clock: systemClock,
      secretKey,
      nudge: () => worker.nudge(),
      checkUrl: (url) => checkUrl(url, guard),
    });
  });
  api = app.api('acc_one');
});

after(async () => {
  await worker.stop();
  await app.close();
  await http.close();
  await hook.close();
});

const known = { events: ['Delivery', 'Send'], description: 'orders' };

test('an endpoint is created, returned, replaced, and deleted, with its secret returned once', async () => {
  const made = await api.post('/webhooks', { ...known, url: 'https://8.8.8.8/hook' });
  assert.equal(made.status, 201, made.text);
  const { secret, ...shown } = made.body;
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  assert.match(shown.webhookId, /^whk_[0-9A-Za-z]{21}$/);
  assert.deepEqual(shown.events, known.events);
  assert.equal(shown.enabled, true);
  const path = `/webhooks/${shown.webhookId}`;
  const got = await api.get(path);
  assert.equal(got.status, 200);
  assert.deepEqual(got.body, shown);
  assert.deepEqual((await api.get('/webhooks')).body, [shown]);
  const disabled = await api.put(path, { ...known, url: 'https://8.8.4.4/', enabled: false });
  assert.equal(disabled.body.enabled, false);
  const replaced = await api.put(path, { url: 'https://8.8.4.4/', events: ['Bounce'] });
  assert.equal(replaced.status, 200);
  assert.equal(replaced.body.enabled, false, 'enabled stays when omitted');
  assert.equal(replaced.body.description, null, 'the rest is replaced');
  assert.ok(!replaced.text.includes('whsec_'));
  assert.deepEqual(Object.keys((await api.delete(path)).body), ['message']);
  for (const answer of [
    await api.get(path),
    await api.delete(path),
    await api.put(path, { ...known, url: hook.url }),
  ]) {
    assert.equal(answer.status, 404);
    assert.equal(answer.body.error.code, 'NOT_FOUND');
  }
});

test('an endpoint gets several events per request on request, but not in the format of another service', async () => {
  const fields = { ...known, url: 'https://8.8.8.8/hook' };
  const made = await api.post('/webhooks', fields);
  const path = `/webhooks/${made.body.webhookId}`;
  assert.equal(made.body.maxBatch, 1);
  assert.equal((await api.put(path, { ...fields, maxBatch: 100 })).body.maxBatch, 100);
  assert.equal((await api.put(path, fields)).body.maxBatch, 1, 'PUT replaces the whole webhook');
  assert.equal((await api.patch(path, { maxBatch: 20 })).body.maxBatch, 20);
  assert.equal((await api.get(path)).body.maxBatch, 20);
  for (const maxBatch of [0, 101, 1.5, '20']) {
    const wrong = await api.post('/webhooks', { ...fields, maxBatch });
    assert.deepEqual([wrong.status, wrong.body.error.details[0].field], [400, 'maxBatch']);
  }
  const formatted = await api.patch(path, { format: 'resend' });
  assert.deepEqual([formatted.status, formatted.body.error.details[0].field], [400, 'maxBatch']);
  assert.equal((await api.patch(path, { format: 'resend', maxBatch: 1 })).body.format, 'resend');
  assert.equal((await api.patch(path, { maxBatch: 2 })).status, 400);
  const unformatted = await api.put(path, { ...fields, maxBatch: 2 });
  assert.deepEqual([unformatted.status, unformatted.body.format, unformatted.body.maxBatch], [200, undefined, 2]);
  await api.delete(path);
});

test('an endpoint is ordered on request, and stays so when a PATCH omits the field', async () => {
  const fields = { ...known, url: 'https://8.8.8.8/hook' };
  const plain = await api.post('/webhooks', fields);
  assert.equal(plain.body.ordered, false);
  const made = await api.post('/webhooks', { ...fields, ordered: true });
  const path = `/webhooks/${made.body.webhookId}`;
  assert.equal(made.body.ordered, true);
  assert.equal((await api.patch(path, { description: 'in order' })).body.ordered, true);
  assert.equal((await api.put(path, (await api.get(path)).body)).body.ordered, true);
  assert.equal((await api.put(path, fields)).body.ordered, false, 'PUT replaces the whole webhook');
  assert.equal((await api.patch(path, { ordered: true })).body.ordered, true);
  assert.equal((await api.patch(path, { ordered: false })).body.ordered, false);
  assert.equal((await api.put(path, { ...fields, ordered: true })).body.ordered, true);
  assert.equal((await api.get(path)).body.ordered, true);
  const wrong = await api.post('/webhooks', { ...fields, ordered: 'yes' });
  assert.deepEqual([wrong.status, wrong.body.error.details[0].field], [400, 'ordered']);
  for (const { webhookId } of [plain.body, made.body]) await api.delete(`/webhooks/${webhookId}`);
});

test('every issue of a body is listed with its field', async () => {
  const bad: [Record<string, unknown>, string][] = [
    [{ ...known, url: 'ftp://x.example/' }, 'url'],
    [{ ...known, url: 'http://user:pass@8.8.8.8/' }, 'url'],
    [{ ...known, url: 'http://10.0.0.1/' }, 'url'],
    [{ ...known, url: 'http://169.254.169.254/latest' }, 'url'],
    [{ ...known, url: 'http://internal.example/' }, 'url'],
    [{ ...known, url: 'http://8.8.8.8/\r\nX-Evil: 1' }, 'url'],
    [{ ...known, url: `https://8.8.8.8/${'a'.repeat(2_048)}` }, 'url'],
    [{ url: hook.url, events: [] }, 'events'],
    [{ url: hook.url, events: ['Delivery', 'Delivery'] }, 'events'],
    [{ url: hook.url, events: ['delivered'] }, 'events[0]'],
    [{ url: hook.url }, 'events'],
    [{ ...known, url: hook.url, secret: 'whsec_c2hvcnQ=' }, 'secret'],
    [{ ...known, url: hook.url, webhookId: 'whk_1' }, 'webhookId'],
  ];
  for (const [body, field] of bad) {
    const answer = await api.post('/webhooks', body);
    assert.equal(answer.status, 400, `${JSON.stringify(body)}: ${answer.text}`);
    assert.equal(answer.body.error.details[0].field, field, answer.text);
  }
  // Control: the same URL without the issue is accepted.
  assert.equal((await api.post('/webhooks', { ...known, url: 'http://8.8.8.8/' })).status, 201);
});

test('an endpoint is not found in another account or mode', async () => {
  const { body } = await api.post('/webhooks', { ...known, url: hook.url });
  for (const stranger of [app.api('acc_two'), app.api('acc_one', 'sandbox')]) {
    const path = `/webhooks/${body.webhookId}`;
    assert.deepEqual((await stranger.get('/webhooks')).body, []);
    assert.equal((await stranger.get(path)).status, 404);
    assert.equal((await stranger.put(path, { ...known, url: hook.url })).status, 404);
    assert.equal((await stranger.delete(path)).status, 404);
    assert.equal((await stranger.post(`${path}/rotate-secret`)).status, 404);
    assert.equal((await stranger.post(`${path}/test`)).status, 404);
    assert.equal((await stranger.get(`${path}/deliveries`)).status, 404);
    const span = { since: '2020-01-01T00:00:00Z', until: '2030-01-01T00:00:00Z' };
    assert.equal((await stranger.post(`${path}/replay`, span)).status, 404);
  }
});

test('a test event is signed and sent immediately, and after a rotation both secrets sign', async () => {
  const { body } = await api.post('/webhooks', { ...known, url: hook.url });
  const path = `/webhooks/${body.webhookId}`;
  hook.requests.length = 0;
  const tested = await api.post(`${path}/test`);
  assert.equal(tested.body.success, true);
  assert.equal(tested.body.responseStatus, 200);
  const event = new Webhook(body.secret).verify(hook.requests[0]!.body, hook.requests[0]!.headers as never) as never;
  assert.equal((event as { test: boolean }).test, true);
  for (const eventType of EVENT_TYPES) {
    hook.requests.length = 0;
    assert.equal((await api.post(`${path}/test`, { eventType })).body.success, true);
    const sent = JSON.parse(hook.requests[0]!.body);
    const { eventId, messageId, timestamp, mode, test: _, ...fields } = sent;
    if (eventType === 'Inbound') assert.equal(messageId, fields.inbound.inboundId);
    const ids = { eventId, messageId, timestamp, mode };
    assert.deepEqual({ ...fields, ...ids }, { ...sampleEvent(eventType), ...ids }, eventType);
  }
  assert.equal((await api.post(`${path}/test`, { eventType: 'Opened' })).status, 400);
  hook.answer({ status: 500, body: 'no' });
  const failed = await api.post(`${path}/test`);
  assert.equal(failed.status, 200);
  assert.deepEqual([failed.body.success, failed.body.responseStatus, failed.body.responseStart], [false, 500, 'no']);
  assert.equal((await api.patch(path, { maxBatch: 2 })).status, 200);
  hook.answer(({ body: text }) => ({ body: JSON.stringify({ failed: [JSON.parse(text)[0].eventId] }) }));
  const listed = await api.post(`${path}/test`);
  assert.deepEqual(
    [listed.body.success, listed.body.error],
    [false, 'the response of the endpoint listed this event in `failed`'],
  );
  assert.equal((await api.patch(path, { maxBatch: 1 })).status, 200);
  hook.answer();
  const rotated = await api.post(`${path}/rotate-secret`);
  assert.notEqual(rotated.body.secret, body.secret);
  hook.requests.length = 0;
  await api.post(`${path}/test`);
  for (const secret of [body.secret, rotated.body.secret]) {
    new Webhook(secret).verify(hook.requests[0]!.body, hook.requests[0]!.headers as never);
  }
});

test('all issues are listed even if some fields are invalid', async () => {
  const body = { url: 'ftp://x.example/', events: ['Nothing'], color: 'red', secret: 'whsec_short' };
  const refused = await api.post('/webhooks', body);
  assert.equal(refused.status, 400);
  const named = (refused.body.error.details as { field: string }[]).map(({ field }) => field.replace(/\[.*/, ''));
  assert.deepEqual(new Set(named), new Set(['url', 'events', 'color', 'secret']));
});

test('setting the current secret does not rotate it, but another one does', async () => {
  const { body } = await api.post('/webhooks', { ...known, url: hook.url });
  const path = `/webhooks/${body.webhookId}`;
  const { secret: second } = (await api.post(`${path}/rotate-secret`)).body;
  const signers = async (secrets: string[]): Promise<number[]> => {
    hook.requests.length = 0;
    await api.post(`${path}/test`);
    const [{ body: text, headers }] = hook.requests as [(typeof hook.requests)[0]];
    return secrets.flatMap((secret, index) => {
      try {
        new Webhook(secret).verify(text, headers as never);
        return [index];
      } catch {
        return [];
      }
    });
  };
  for (let i = 0; i < 2; i += 1) {
    assert.equal((await api.put(path, { ...known, url: hook.url, secret: second })).status, 200);
    assert.deepEqual(await signers([body.secret, second]), [0, 1], 'the overlap goes on');
  }
  const third = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  assert.equal((await api.put(path, { ...known, url: hook.url, secret: third })).status, 200);
  assert.deepEqual(await signers([body.secret, second, third]), [1, 2]);
});

test('deliveries are listed, retried and replayed', async () => {
  const owner = app.api('acc_three');
  const { body } = await owner.post('/webhooks', { url: hook.url, events: ['Send'] });
  const path = `/webhooks/${body.webhookId}`;
  hook.requests.length = 0;
  for (let i = 0; i < 5; i += 1) await seedMail(app.temp.database, { accountId: 'acc_three', nowMs: Date.now() });
  worker.nudge();
  const all = await waitUntil('five deliveries', async () => {
    const { body: list } = await owner.get(`${path}/deliveries`);
    return list.length === 5 ? list : undefined;
  });
  assert.deepEqual(Object.keys(all[0]), [
    'deliveryId',
    'eventId',
    'eventType',
    'status',
    'attempts',
    'request',
    'responseStatus',
    'responseStart',
    'error',
    'latencyMs',
    'nextAttemptAt',
    'attemptLog',
    'createdAt',
  ]);
  const { request } = all[0];
  const sent = hook.requests.find((one) => one.headers['webhook-id'] === all[0].eventId)!;
  assert.deepEqual(request, {
    method: 'POST',
    url: hook.url,
    body: sent.body,
    headers: { 'content-type': 'application/json', 'webhook-id': all[0].eventId },
  });
  assert.ok(!JSON.stringify(all).includes('whsec_'));
  const first = await owner.get(`${path}/deliveries?limit=2`);
  const second = await owner.get(`${path}/deliveries?limit=3&cursor=${first.headers['x-next-cursor']}`);
  assert.deepEqual([...(first.body as []), ...(second.body as [])], all);
  const one = `${path}/deliveries/${all[2].deliveryId}`;
  hook.answer({ status: 503 });
  await owner.post(`${one}/retry`);
  const failing = await waitUntil('the failure', async () => (await owner.get(path)).body.failingSince);
  assert.deepEqual(
    ((await owner.get('/webhooks')).body as never as { failingSince: string }[]).map((webhook) => webhook.failingSince),
    [failing],
  );
  hook.answer({});
  const retried = await owner.post(`${one}/retry`);
  assert.equal(retried.body.status, 'pending', retried.text);
  await waitUntil('the retry', () => hook.requests.length === 7);
  await waitUntil('the success', async () => (await owner.get(path)).body.failingSince === undefined);
  const after = await waitUntil('the record of the retry', async () => {
    const { body: list } = await owner.get(`${path}/deliveries?status=succeeded&eventType=Send`);
    return list[2]?.attempts === 3 ? list : undefined;
  });
  const log = after[2].attemptLog as { time: string; responseStatus: number }[];
  assert.deepEqual(
    log.map(({ responseStatus }) => responseStatus),
    [200, 503, 200],
  );
  assert.ok(log[0]!.time < log[1]!.time);
  assert.deepEqual(after[0].attemptLog[0], {
    time: after[0].attemptLog[0].time,
    responseStatus: 200,
    responseStart: after[0].responseStart,
    error: null,
    latencyMs: after[0].latencyMs,
  });
  for (const filter of ['status=failed', 'eventType=Bounce'])
    assert.deepEqual((await owner.get(`${path}/deliveries?${filter}`)).body, []);
  assert.equal((await owner.get(`${path}/deliveries?status=late`)).status, 400);
  assert.equal(hook.requests[6]!.headers['webhook-id'], all[2].eventId);
  assert.equal((await owner.post(`${path}/deliveries/del_nothing/retry`)).status, 404);
  const span = { since: '2020-01-01T00:00:00Z', until: '2040-01-01T00:00:00Z' };
  const dry = await owner.post(`${path}/replay?dryRun=true`, span);
  assert.deepEqual([dry.status, dry.body], [200, { message: '5 events would be sent again.', events: 5 }]);
  assert.equal((await owner.post(`${path}/replay?dryRun=maybe`, span)).status, 400);
  assert.equal((await owner.post(`${path}/replay`, span)).body.events, 5);
  await waitUntil('the replay', () => hook.requests.length === 12);
  assert.equal((await owner.post(`${path}/replay`, { ...span, eventTypes: ['Bounce'] })).body.events, 0);
  assert.equal((await owner.post(`${path}/replay`, { since: span.until, until: span.since })).status, 400);
  await owner.put(path, { url: hook.url, events: ['Send'], enabled: false });
  assert.equal((await owner.post(`${one}/retry`)).status, 409);
  for (const call of ['replay', 'replay?dryRun=true'])
    assert.equal((await owner.post(`${path}/${call}`, span)).status, 409);
});

test('custom headers are added to each request, encrypted at rest, and returned masked', async () => {
  const owner = app.api('acc_headers');
  const headers = { Authorization: 'Bearer s3cret-token', 'X-Tenant': 'shop 1' };
  const made = await owner.post('/webhooks', { url: hook.url, events: ['Send'], headers });
  assert.equal(made.status, 201, made.text);
  const masked = { Authorization: '********', 'X-Tenant': '********' };
  assert.deepEqual(made.body.headers, masked);
  const path = `/webhooks/${made.body.webhookId}`;
  const shown = await owner.get(path);
  assert.deepEqual(shown.body.headers, masked);
  assert.ok(!`${shown.text}${(await owner.get('/webhooks')).text}`.includes('s3cret'));
  const sent = async () => {
    const before = hook.requests.length;
    assert.equal((await owner.post(`${path}/test`)).body.success, true);
    const { authorization, 'x-tenant': tenant, 'webhook-id': id } = hook.requests[before]!.headers;
    assert.match(String(id), /^evt_/);
    return [authorization, tenant];
  };
  assert.deepEqual(await sent(), ['Bearer s3cret-token', 'shop 1']);
  assert.equal((await owner.put(path, shown.body)).status, 200, 'PUT accepts the body of GET');
  assert.deepEqual(await sent(), ['Bearer s3cret-token', 'shop 1']);
  const plain = { url: hook.url, events: ['Send'] };
  const changed = await owner.put(path, { ...plain, headers: { authorization: '********', 'x-tenant': 'b' } });
  assert.deepEqual(changed.body.headers, { authorization: '********', 'x-tenant': '********' });
  assert.deepEqual(await sent(), ['Bearer s3cret-token', 'b']);
  assert.equal((await owner.patch(path, plain)).status, 200);
  assert.deepEqual(await sent(), ['Bearer s3cret-token', 'b'], 'unchanged by a PATCH that omits them');
  assert.deepEqual((await owner.put(path, plain)).body.headers, {}, 'removed by a PUT that omits them');
  assert.deepEqual(await sent(), [undefined, undefined]);
  assert.deepEqual((await owner.patch(path, { headers })).body.headers, masked);
  assert.deepEqual((await owner.put(path, { ...plain, headers: {} })).body.headers, {});
});

test('a PUT of the body of the GET changes nothing', async () => {
  const owner = app.api('acc_round_trip');
  const common = { url: hook.url, events: ['Send', 'Delivery'], description: 'orders', enabled: false, ordered: true };
  const headers = { Authorization: 'Bearer round-trip' };
  for (const own of [{ maxBatch: 7 }, { format: 'resend', formatEvents: ['email.sent'] }]) {
    const { body: made } = await owner.post('/webhooks', { ...common, headers, ...own });
    const path = `/webhooks/${made.webhookId}`;
    const { body: shown } = await owner.get(path);
    const put = await owner.put(path, shown);
    assert.equal(put.status, 200, put.text);
    assert.deepEqual({ ...put.body, updatedAt: shown.updatedAt }, shown);
    const before = hook.requests.length;
    await owner.post(`${path}/test`, { eventType: 'Send' });
    assert.equal(hook.requests[before]!.headers.authorization, headers.Authorization);
  }
});

test('headers set by HTTP or Postrider, and injection attempts, are rejected by name', async () => {
  const owner = app.api('acc_headers');
  const refusedFields = async (headers: Record<string, unknown>) => {
    const answer = await owner.post('/webhooks', { url: 'https://8.8.8.8/hook', events: ['Send'], headers });
    assert.equal(answer.status, 400, answer.text);
    return answer.body.error.details.map(({ field }: { field: string }) => field);
  };
  for (const name of [
    'Host',
    'content-type',
    'Content-Length',
    'Content-Encoding',
    'Transfer-Encoding',
    'Connection',
    'Upgrade',
    'TE',
    'Trailer',
    'Expect',
    'Keep-Alive',
    'Proxy-Authorization',
    'User-Agent',
    'Webhook-Signature',
    'webhook-id',
    'SVIX-Signature',
    'svix-timestamp',
    'X Tenant',
    'X:Tenant',
    'Größe',
    'a\r\nb',
    '',
  ]) {
    assert.deepEqual(await refusedFields({ [name]: 'x' }), [`headers.${name}`], name);
  }
  for (const value of ['a\r\nX-Other: b', 'a\nb', '\u0000', 'é', '', ' ', 'a ', '********', 'x'.repeat(2_001)])
    assert.deepEqual(await refusedFields({ 'X-Tenant': value }), ['headers.X-Tenant'], JSON.stringify(value));
  assert.deepEqual(await refusedFields({ 'X-Tenant': 'a', 'x-tenant': 'b' }), ['headers.x-tenant']);
  const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, index) => [`X-${index}`, 'a']));
  assert.deepEqual(await refusedFields(eleven), ['headers']);
});

const patch = (id: string, body: unknown) => api.call({ method: 'PATCH', path: `/webhooks/${id}`, body });

test('PATCH changes only the given fields of an endpoint', async () => {
  const headers = { Authorization: 'Bearer 1' };
  const { body: made } = await api.post('/webhooks', { url: hook.url, ...known, headers });
  const id = made.webhookId;
  const changed = await patch(id, { events: ['Bounce'] });
  assert.equal(changed.status, 200, changed.text);
  const { secret: _, updatedAt: __, ...before } = made;
  const { updatedAt, ...after } = changed.body;
  assert.deepEqual(after, { ...before, events: ['Bounce'] });
  assert.equal((await patch(id, { description: null, enabled: null, url: null })).body.description, 'orders');
  assert.equal((await patch(id, { description: '' })).body.description, '');
  const returned = (await api.get(`/webhooks/${id}`)).body;
  const whole = await patch(id, { ...returned, enabled: false });
  assert.equal(whole.status, 200, whole.text);
  assert.deepEqual([whole.body.enabled, whole.body.headers], [false, { Authorization: '********' }]);
  assert.deepEqual((await patch(id, {})).body.enabled, false);
  assert.deepEqual((await patch(id, { headers: {} })).body.headers, {});
  assert.ok(updatedAt >= made.updatedAt);
  for (const [body, field] of [
    [{ colour: 'red' }, 'colour'],
    [{ url: 'http://10.0.0.1/' }, 'url'],
    [{ events: [] }, 'events'],
    [{ secret: 'short' }, 'secret'],
    [{ formatEvents: ['email.sent'] }, 'formatEvents'],
  ] as const) {
    const refused = await patch(id, body);
    assert.equal(refused.status, 400, JSON.stringify(body));
    assert.equal(refused.body.error.details[0].field, field);
  }
  assert.equal((await patch('whk_none', { enabled: false })).status, 404);
  assert.equal((await app.api('acc_two').call({ method: 'PATCH', path: `/webhooks/${id}`, body: {} })).status, 404);
});

test('PATCH of a format keeps the event names that it omits', async () => {
  const { body: made } = await api.post('/webhooks', {
    url: hook.url,
    events: ['Send', 'Delivery', 'Bounce'],
    format: 'resend',
    formatEvents: ['email.sent', 'email.delivered'],
  });
  const id = made.webhookId;
  const names = async (body: unknown) => (await patch(id, body)).body.formatEvents;
  assert.deepEqual(await names({ format: 'resend' }), ['email.sent', 'email.delivered']);
  assert.deepEqual(await names({ description: 'x' }), ['email.sent', 'email.delivered']);
  assert.deepEqual(await names({ events: ['Send'] }), ['email.sent']);
  assert.deepEqual(await names({ events: ['Send', 'Delivery'], formatEvents: ['email.delivered'] }), [
    'email.delivered',
  ]);
});

test('a webhook in a format that no event could reach is refused', async () => {
  const fields = { url: hook.url, events: ['Delivery', 'Bounce'], format: 'resend' };
  const { body: made } = await api.post('/webhooks', fields);
  const { body: plain } = await api.post('/webhooks', { url: hook.url, events: ['Unsubscribe'] });
  for (const [refused, field] of [
    [await api.post('/webhooks', { ...fields, formatEvents: ['email.delivery'] }), 'formatEvents'],
    [await api.post('/webhooks', { ...fields, events: ['Send'], formatEvents: ['email.bounced'] }), 'formatEvents'],
    [await api.post('/webhooks', { ...fields, events: ['Unsubscribe'] }), 'events'],
    [await api.post('/webhooks', { ...fields, events: ['Delivered'], formatEvents: ['email.sent'] }), 'events[0]'],
    [await patch(made.webhookId, { formatEvents: ['email.nope'] }), 'formatEvents'],
    [await patch(plain.webhookId, { format: 'resend' }), 'events'],
  ] as const) {
    assert.equal(refused.status, 400, refused.text);
    assert.deepEqual(
      refused.body.error.details.map((one: { field: string }) => one.field),
      [field],
    );
  }
  const lists = await patch(made.webhookId, { formatEvents: ['email.failed', 'contact.created'] });
  assert.equal(lists.status, 200, 'one of the names can be posted');
  await patch(made.webhookId, { formatEvents: ['email.delivered'] });
  const left = await patch(made.webhookId, { events: ['Bounce'] });
  assert.equal(left.body.error.details[0].field, 'formatEvents', 'no name of a bounce was chosen');
  assert.equal((await patch(made.webhookId, { events: ['Open'] })).status, 200, 'added events bring their names');
  const nowMs = Date.now();
  await changedBy(app.temp.database, systemOrigin(nowMs)).execute(replaceEndpointOperation, {
    id: made.webhookId,
    accountId: 'acc_one',
    mode: 'live',
    url: hook.url,
    events: JSON.stringify(['Open']),
    enabled: null,
    format: { name: 'resend', events: '[]' },
    secretSealed: null,
    nowMs,
  });
  assert.equal((await patch(made.webhookId, { enabled: false })).status, 200, 'as an earlier version stored it');
});

test('concurrent PATCHes of different fields are all kept', async () => {
  const { body: made } = await api.post('/webhooks', { url: hook.url, ...known });
  const changes = [{ events: ['Open'] }, { description: 'both' }, { enabled: false }, { url: `${hook.url}/later` }];
  const answers = await Promise.all(changes.map((change) => patch(made.webhookId, change)));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 200],
  );
  const { events, description, enabled, url } = (await api.get(`/webhooks/${made.webhookId}`)).body;
  assert.deepEqual({ events, description, enabled, url }, Object.assign({}, ...changes));
});
