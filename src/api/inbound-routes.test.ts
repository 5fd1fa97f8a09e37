/** Inbound routes over real HTTP, with a resolver that queries a scripted DNS server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serveRoutes } from '../../test/kit/call-routes.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { fakeDns } from '../../test/kit/fake-dns.ts';
import { type Dialect, tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccount } from '../accounts/accounts.ts';
import { setAccountOperation } from '../accounts/store.ts';
import { addDomain } from '../domains/domains.ts';
import { deleteDomainOperation, domainsOperation } from '../domains/store.ts';
import { createFindRoute } from '../inbound-routes/inbound-routes.ts';
import { openDns } from '../net/dns.ts';
import { inboundRouteRoutes } from './inbound-routes.ts';
import { webhookRoutes } from './webhooks.ts';

async function world(t: { after(run: () => unknown): void }, dialect: Dialect = 'sqlite') {
  const { database, close } = await tempDatabase(dialect);
  t.after(close);
  const clock = fakeClock();
  const dns = await fakeDns();
  t.after(dns.close);
  const secretKey = new Uint8Array(32);
  const accountOf = async (name: string) => {
    const { account, apiKey, sandboxApiKey } = await createAccount({ database, clock }, { name, plan: 'paid' });
    return { live: { key: apiKey, id: account.id }, sandbox: { key: sandboxApiKey, id: account.id }, id: account.id };
  };
  const [one, two] = [await accountOf('One'), await accountOf('Two')];
  const verify = (accountId: string, domain: string) =>
    addDomain({ database, clock, secretKey }, { accountId, domain, verified: true });
  const checkUrl = async (url: string) => (url.includes('10.') ? 'must be public' : undefined);
  const routes = [
    ...inboundRouteRoutes({
      database,
      clock,
      secretKey,
      checkUrl,
      mx: { host: 'mail.sender.test', alsoHosts: ['bounce.sender.test'] },
      freshDns: () => openDns({ servers: [dns.server] }),
    }),
    // biome-ignore lint/suspicious/noExplicitAny: nothing is posted here
    ...webhookRoutes({ database, clock, secretKey, checkUrl, http: undefined as any, nudge: () => undefined }),
  ];
  const server = await serveRoutes({ database, clock, routes });
  t.after(server.close);
  const find = createFindRoute({ database, clock });
  const taker = async (address: string) => {
    const [local = '', domain = ''] = address.split('@');
    const use = (await find({ local, domain }))?.use;
    return use?.kind === 'route' ? use.routeId : undefined;
  };
  return { database, clock, dns, one, two, verify, call: server.call, find, taker };
}

test('a route is created with its MX record, listed, updated, and deleted with its webhook', async (t) => {
  const { call, one, two, dns, verify } = await world(t);
  await verify(one.id, 'shop.example');
  const unverified = await call('POST', '/inbound-routes', { ...one.live, json: { match: 'a@other.example' } });
  assert.deepEqual([unverified.status, unverified.body.error.code], [403, 'SENDER_NOT_VERIFIED']);
  const wrong = await call('POST', '/inbound-routes', {
    ...one.live,
    json: { match: 'a b', url: 'ftp://x', events: 'yes' },
  });
  assert.deepEqual(wrong.body.error.details.map(({ field }: { field: string }) => field).sort(), [
    'events',
    'match',
    'url',
  ]);

  const json = { match: 'Support@in.shop.example', url: 'https://shop.example/hook' };
  const made = await call('POST', '/inbound-routes', { ...one.live, json });
  assert.equal(made.status, 201);
  const { inboundRouteId: id, secret, webhookId } = made.body;
  assert.match(id, /^inr_/);
  assert.match(secret, /^whsec_/);
  assert.deepEqual(
    [made.body.match, made.body.events, made.body.status],
    ['support@in.shop.example', false, 'pending'],
  );
  assert.equal(made.body.dnsRecord.status, 'missing');
  assert.match(made.body.dnsRecord.note, /no MX record/);

  dns.zone['in.shop.example'] = { MX: [[10, 'mx.elsewhere.example']] };
  const elsewhere = await call('POST', `/inbound-routes/${id}/verify`, one.live);
  assert.deepEqual([elsewhere.body.status, elsewhere.body.dnsRecord.found], ['pending', ['10 mx.elsewhere.example']]);
  dns.zone['in.shop.example'] = {
    MX: [
      [5, 'Bounce.sender.test'],
      [10, 'mx.elsewhere.example'],
    ],
  };
  assert.equal((await call('POST', `/inbound-routes/${id}/verify`, one.live)).body.status, 'active');
  dns.zone['in.shop.example'] = { fail: 'SERVFAIL' };
  assert.equal((await call('POST', `/inbound-routes/${id}/verify`, one.live)).body.dnsRecord.status, 'unknown');

  const { secret: _, ...shown } = made.body;
  const listed = await call('GET', '/inbound-routes', one.live);
  assert.deepEqual(
    listed.body.map((route: typeof shown) => route.inboundRouteId),
    [id],
  );
  assert.equal(listed.body[0].secret, undefined);
  assert.deepEqual((await call('GET', '/inbound-routes', one.sandbox)).body, []);
  for (const [method, path] of [
    ['GET', ''],
    ['PUT', ''],
    ['DELETE', ''],
    ['POST', '/verify'],
  ] as const) {
    const foreign = await call(method, `/inbound-routes/${id}${path}`, {
      ...two.live,
      ...(method === 'PUT' && { json }),
    });
    assert.equal(foreign.status, 404, method);
  }

  const webhook = (await call('GET', `/webhooks/${webhookId}`, one.live)).body;
  assert.deepEqual([webhook.url, webhook.inboundRouteId, webhook.events], [json.url, id, ['Inbound']]);
  assert.equal((await call('DELETE', `/webhooks/${webhookId}`, one.live)).status, 409);
  const other = { ...one.live, json: { url: json.url, events: ['Delivery'] } };
  assert.equal((await call('PUT', `/webhooks/${webhookId}`, other)).status, 409);

  const moved = { match: '*@in.shop.example', url: 'https://shop.example/new', events: true, maxBytes: 1_000_000 };
  const changed = await call('PUT', `/inbound-routes/${id}`, { ...one.live, json: moved });
  assert.deepEqual([changed.status, changed.body.webhookId, changed.body.secret], [200, webhookId, undefined]);
  assert.equal((await call('GET', `/webhooks/${webhookId}`, one.live)).body.url, moved.url);
  const withoutUrl = await call('PUT', `/inbound-routes/${id}`, { ...one.live, json: { match: moved.match } });
  assert.deepEqual([withoutUrl.body.webhookId, withoutUrl.body.events], [null, true]);
  assert.equal((await call('GET', `/webhooks/${webhookId}`, one.live)).status, 404);
  const again = await call('PUT', `/inbound-routes/${id}`, { ...one.live, json: moved });
  assert.match(again.body.secret, /^whsec_/);
  assert.equal((await call('DELETE', `/inbound-routes/${id}`, one.live)).status, 200);
  assert.equal((await call('GET', `/webhooks/${again.body.webhookId}`, one.live)).status, 404);
  assert.equal((await call('DELETE', `/inbound-routes/${id}`, one.live)).status, 404);
});

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`the most specific route of an account with the domain receives an address (${dialect})`, async (t) => {
    const { call, one, two, verify, find, taker, database } = await world(t, dialect);
    await verify(one.id, 'shop.example');
    await verify(two.id, 'shop.example');
    await verify(two.id, 'other.example');
    const make = async (whose: typeof one.live, match: string) =>
      (await call('POST', '/inbound-routes', { ...whose, json: { match } })).body.inboundRouteId as string;
    const any = await make(one.live, '*@in.shop.example');
    const prefix = await make(one.live, 'reply+*@in.shop.example');
    const exact = await make(one.live, 'reply+17@in.shop.example');
    const otherRoute = await make(two.live, 'boss@in.shop.example');
    assert.equal(await taker('Reply+17@IN.shop.example'), exact);
    assert.equal(await taker('REPLY+18@in.shop.example'), prefix);
    assert.equal(await taker('reply@in.shop.example'), any);
    assert.equal(await taker('boss@in.shop.example'), otherRoute);
    for (const unknown of [
      'reply@shop.example',
      'a@deeper.in.shop.example',
      'a@localhost',
      'a@',
      `${'x'.repeat(300)}@in.other.example`,
    ])
      assert.equal(await taker(unknown), undefined, unknown);
    await call('POST', '/inbound-routes', { ...one.sandbox, json: { match: '*@in.other.example' } });
    assert.equal(await taker('a@in.other.example'), undefined, 'a sandbox route accepts no inbound mail');

    const same = { json: { match: '*@IN.shop.example' } };
    assert.equal((await call('POST', '/inbound-routes', { ...one.live, ...same })).status, 409);
    const stolen = await call('POST', '/inbound-routes', { ...two.live, ...same });
    assert.deepEqual([stolen.status, /another account/.test(stolen.body.error.message)], [409, true]);
    assert.equal((await call('PUT', `/inbound-routes/${otherRoute}`, { ...two.live, ...same })).status, 409);

    const domains = await database.execute(domainsOperation, { accountId: one.id, before: null, limit: 5 });
    await database.execute(deleteDomainOperation, { accountId: one.id, id: domains[0]!.id });
    assert.equal(await taker('reply@in.shop.example'), undefined, 'a deleted domain receives no mail');
    const takenOver = await call('POST', '/inbound-routes', { ...two.live, ...same });
    assert.equal(takenOver.status, 201);
    assert.equal(await taker('reply@in.shop.example'), takenOver.body.inboundRouteId);

    const mailPerHour = async () => (await find({ local: 'reply', domain: 'in.shop.example' }))?.mailPerHour;
    assert.equal(await mailPerHour(), 10_000);
    const limits = { inboundMailPerHour: 7 };
    await database.execute(setAccountOperation, {
      id: two.id,
      plan: null,
      status: null,
      approvedEmailBytes: null,
      nowMs: Date.now(),
      limits,
    });
    assert.equal(await mailPerHour(), 7, 'the limit that an operator set');
  });
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`PATCH changes only the given fields, and PUT keeps the webhook description (${dialect})`, async (t) => {
    const { call, one, two, dns, verify } = await world(t, dialect);
    await verify(one.id, 'shop.example');
    dns.zone['in.shop.example'] = { MX: [[5, 'bounce.sender.test']] };
    const created = { match: 'a@in.shop.example', url: 'https://shop.example/hook', maxBytes: 5_000 };
    const { body: made } = await call('POST', '/inbound-routes', { ...one.live, json: created });
    const { inboundRouteId: id, webhookId } = made;
    const patch = (json: object, by = one.live) => call('PATCH', `/inbound-routes/${id}`, { ...by, json });
    const described = { ...one.live, json: { description: 'support mail' } };
    assert.equal((await call('PATCH', `/webhooks/${webhookId}`, described)).status, 200);

    const changed = await patch({ match: 'b@in.shop.example' });
    const { secret: _, updatedAt: __, ...before } = made;
    const { updatedAt: ___, ...after } = changed.body;
    assert.deepEqual(after, { ...before, match: 'b@in.shop.example' });
    const { maxBytes, url } = (await patch({ events: true, url: null, maxBytes: null })).body;
    assert.deepEqual([maxBytes, url], [5_000, created.url]);
    const whole = await patch({ ...(await call('GET', `/inbound-routes/${id}`, one.live)).body, maxBytes: 6_000 });
    assert.deepEqual([whole.status, whole.body.events, whole.body.maxBytes], [200, true, 6_000]);
    const put = { ...one.live, json: { ...created, url: 'https://shop.example/new' } };
    assert.equal((await call('PUT', `/inbound-routes/${id}`, put)).status, 200);
    const webhook = (await call('GET', `/webhooks/${webhookId}`, one.live)).body;
    assert.deepEqual([webhook.description, webhook.url], ['support mail', 'https://shop.example/new']);

    assert.equal((await patch({ colour: 'red' })).status, 400);
    assert.equal((await patch({ url: 'https://10.0.0.1/' })).body.error.details[0].field, 'url');
    assert.equal((await patch({ match: 'a@other.example' })).body.error.code, 'SENDER_NOT_VERIFIED');
    assert.equal((await patch({}, two.live)).status, 404);
    assert.equal((await patch({}, one.sandbox)).status, 404);
    const changes = [{ events: true }, { maxBytes: 7_000 }, { match: 'c@in.shop.example' }];
    const answers = await Promise.all(changes.map((change) => patch(change)));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200],
    );
    const last = (await call('GET', `/inbound-routes/${id}`, one.live)).body;
    assert.deepEqual([last.events, last.maxBytes, last.match], [true, 7_000, 'c@in.shop.example']);
  });
}
