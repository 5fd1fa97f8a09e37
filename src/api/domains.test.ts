/** Sender domains over real HTTP and a real resolver that queries a scripted DNS server. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { serveRoutes } from '../../test/kit/call-routes.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { fakeDns } from '../../test/kit/fake-dns.ts';
import { assertPaged } from '../../test/kit/list-pages.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccount } from '../accounts/accounts.ts';
import { createDkimKeyring, createSenderCheck } from '../domains/domains.ts';
import { cursorOf } from '../http/paging.ts';
import { openDns } from '../net/dns.ts';
import { domainRoutes } from './domains.ts';

test('a domain is added, published, verified, listed, and deleted', async (t) => {
  const { database, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const dns = await fakeDns();
  t.after(dns.close);
  const { account, apiKey } = await createAccount({ database, clock }, { name: 'One', plan: 'paid' });
  const other = await createAccount({ database, clock }, { name: 'Two', plan: 'paid' });
  const routes = domainRoutes({
    database,
    clock,
    secretKey: new Uint8Array(32),
    sendingHost: 'mail.sender.test',
    freshDns: () => openDns({ servers: [dns.server] }),
  });
  const sender = createSenderCheck({ database, clock });
  const keyring = createDkimKeyring({ database, clock, secretKey: new Uint8Array(32) });
  /** The state that sending uses now, with a clock that does not advance. */
  const sends = async (domain: string) => [
    await sender.isVerified(account.id, domain),
    (await keyring.keysFor(account.id, domain))?.domain,
  ];
  const server = await serveRoutes({ database, clock, routes });
  t.after(server.close);
  const own = { key: apiKey, id: account.id };
  const foreign = { key: other.apiKey, id: other.account.id };

  const refused = await server.call('POST', '/domains', { ...own, json: { domain: 'a b', colour: 'red' } });
  assert.deepEqual(
    refused.body.error.details.map((issue: { field: string }) => issue.field),
    ['colour', 'domain'],
  );
  const added = await server.call('POST', '/domains', { ...own, json: { domain: 'Example.com' } });
  assert.equal(added.status, 201);
  assert.deepEqual([added.body.domain, added.body.status], ['example.com', 'pending']);
  const { domainId, dnsRecords } = added.body;
  assert.deepEqual(await sends('mail.example.com'), [false, undefined]);
  const again = await server.call('PUT', '/domains', { ...own, json: { domain: 'example.com' } });
  assert.deepEqual([again.status, again.body], [200, added.body]);
  const whole = await server.call('PUT', '/domains', { ...own, json: added.body });
  assert.deepEqual([whole.status, whole.body], [200, added.body], 'the fields that are only read are ignored');
  const bad = await server.call('POST', '/domains', { ...own, json: { domain: '10.0.0.1', status: 'verified' } });
  assert.equal(bad.status, 400);
  const single = await server.call('POST', '/domains', { ...own, json: { domain: 'localhost' } });
  assert.deepEqual(single.body.error.details[0].field, 'domain');

  const path = `/domains/${domainId}`;
  for (const [method, foreignPath] of [
    ['GET', path],
    ['DELETE', path],
    ['GET', `${path}/dns-records`],
    ['POST', `${path}/verify`],
    ['POST', `${path}/rotate-keys`],
  ] as const) {
    assert.equal((await server.call(method, foreignPath, foreign)).status, 404);
  }

  const early = await server.call('POST', `${path}/verify`, own);
  assert.equal(early.status, 200);
  assert.deepEqual(Object.keys(early.body), ['success', 'message']);
  assert.equal(early.body.success, false);
  // A record as long as that of an RSA key consists of several strings.
  const rsa = dnsRecords.find((one: { required: boolean }) => one.required);
  dns.zone[rsa.name] = { TXT: [rsa.value] };
  const verified = await server.call('POST', `${path}/verify`, own);
  assert.deepEqual(verified.body, { success: true, message: 'example.com is verified.' });
  assert.deepEqual(await sends('mail.example.com'), [true, 'example.com']);
  assert.equal((await server.call('GET', path, own)).body.verifiedBy, 'dns');
  const records = await server.call('GET', `${path}/dns-records`, own);
  assert.deepEqual(
    records.body.map((one: { purpose: string; status: string }) => [one.purpose, one.status]),
    [
      ['dkim', 'verified'],
      ['dkim', 'missing'],
      ['spf', 'missing'],
      ['dmarc', 'missing'],
    ],
  );
  const get = (list: string) => server.call('GET', list, own);
  await assertPaged(`${path}/dns-records`, get, ({ name, type, value }) => [name, type, value]);
  const rotated = await server.call('POST', `${path}/rotate-keys`, own);
  assert.equal(rotated.status, 200);
  const states = rotated.body.dnsRecords.flatMap((one: { keyState?: string }) => one.keyState ?? []);
  assert.deepEqual(states, ['active', 'active', 'next', 'next']);
  assert.equal(rotated.body.sendingStopsAt, null);
  const twice = await server.call('POST', `${path}/rotate-keys`, own);
  assert.deepEqual(twice.body, rotated.body, 'next keys already exist');
  const { [rsa.name]: there } = dns.zone;
  delete dns.zone[rsa.name];
  assert.equal((await server.call('POST', `${path}/verify`, own)).body.success, false);
  const failing = await server.call('GET', path, own);
  assert.deepEqual(
    [failing.body.status, Date.parse(failing.body.sendingStopsAt) - clock.now()],
    ['failing', 86_400_000],
  );
  dns.zone[rsa.name] = there!;
  assert.equal((await server.call('POST', `${path}/verify`, own)).body.success, true);
  const list = await server.call('GET', '/domains', own);
  assert.deepEqual([list.body.length, list.body[0].status], [1, 'verified']);
  assert.equal(list.body[0].checkedAt, new Date(clock.now()).toISOString());
  assert.deepEqual((await server.call('GET', '/domains', foreign)).body, []);
  for (const key of ['x', 'key_000000000000000000000']) {
    const strange = await server.call('GET', `/domains?cursor=${cursorOf([key])}`, own);
    assert.deepEqual([strange.status, strange.body.error.details[0].field], [400, 'cursor']);
  }

  const child = await server.call('POST', '/domains', { ...own, json: { domain: 'mail.example.com' } });
  const childRsa = child.body.dnsRecords.find((one: { required: boolean }) => one.required);
  dns.zone[childRsa.name] = { TXT: [childRsa.value] };
  assert.equal((await server.call('POST', `/domains/${child.body.domainId}/verify`, own)).body.success, true);
  assert.deepEqual(await sends('mail.example.com'), [true, 'mail.example.com']);
  const page = await server.call('GET', '/domains?limit=1', own);
  const rest = await server.call('GET', `/domains?cursor=${page.headers.get('x-next-cursor')}`, own);
  assert.deepEqual(
    [...page.body, ...rest.body].map((one) => one.domainId).sort(),
    [domainId, child.body.domainId].sort(),
  );
  assert.equal((await server.call('DELETE', `/domains/${child.body.domainId}`, own)).status, 200);
  assert.deepEqual(await sends('mail.example.com'), [true, 'example.com']);

  assert.equal((await server.call('DELETE', path, own)).status, 200);
  assert.deepEqual(await sends('mail.example.com'), [false, undefined]);
  assert.equal((await server.call('GET', path, own)).status, 404);
});
