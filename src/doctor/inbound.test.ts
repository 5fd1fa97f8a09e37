/** Checks of inbound mail, with a real resolver that queries a scripted server, and real ports. */
import assert from 'node:assert/strict';
import net, { type AddressInfo } from 'node:net';
import { test } from 'node:test';
import { type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import { openDns } from '../net/dns.ts';
import { checkInbound } from './inbound.ts';

const HOST = 'localhost';
const [ONE, TWO] = ['198.51.100.1', '198.51.100.2'];
const GOOD: FakeZone = { 'b.example': { MX: [[10, 'localhost']], TXT: ['v=spf1 a:localhost -all'] } };

test('bounce domain, SPF, and inbound port are checked, and each problem has its own line', async (t) => {
  const fake = await fakeDns();
  t.after(fake.close);
  let greeting = `220 ${HOST} ESMTP Postrider\r\n`;
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => socket.end());
    socket.write(greeting);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const settings = { bounceDomain: 'b.example', smtpHostname: HOST, inboundPort: 25, mxPort: port };
  const look = async (zone: FakeZone, change: Partial<typeof settings> | { inboundPort: undefined } = {}) => {
    fake.zone = zone;
    const dns = openDns({ servers: [fake.server], timeoutMs: 5_000, tries: 1 });
    const checks = await checkInbound({ ...settings, ...change }, { dns, addresses: [] });
    dns.close();
    return checks.map(({ status, message }) => `${status}: ${message}`);
  };
  const mx = GOOD['b.example']!.MX!;
  assert.deepEqual(await look(GOOD), ['ok: b.example points to localhost; localhost accepts mail']);
  assert.match((await look({}))[0]!, /^fail: b\.example has no MX record/);
  assert.match((await look({ 'b.example': { fail: 'SERVFAIL' } }))[0]!, /^skip: /);
  assert.match(
    (await look({ 'b.example': { MX: mx } }))[0]!,
    /^warn: the SPF record of b\.example does not include localhost/,
  );
  const other: FakeZone = { 'b.example': { ...GOOD['b.example']!, MX: [[10, 'mx.other.example']] } };
  assert.match((await look(other))[0]!, /^warn: the MX records of b\.example point to mx\.other\.example/);
  assert.match((await look(GOOD, { inboundPort: undefined }))[0]!, /^fail: .* but POSTRIDER_INBOUND_PORT is not set/);
  assert.deepEqual(await look(other, { inboundPort: undefined }), [
    'ok: b.example points to mx.other.example, not to this host, which accepts no mail',
  ]);
  greeting = '220 other.example\r\n';
  assert.match(
    (await look(GOOD))[0]!,
    /^warn: port .* is not the inbound port of this service: its greeting is "220 other/,
  );
});

test('the SPF of the bounce domain must allow every source address, except with a relay', async (t) => {
  const fake = await fakeDns();
  t.after(fake.close);
  const sendingHost = 'mail.sender.example';
  const settings = { bounceDomain: 'b.example', smtpHostname: sendingHost, inboundPort: undefined, mxPort: 25 };
  const look = async (spf: string, addresses: string[] | undefined) => {
    const elsewhere: FakeZone[string] = { MX: [[10, 'mx.other.example']], TXT: [spf] };
    fake.zone = { 'b.example': elsewhere, [sendingHost]: { A: [ONE] } };
    const dns = openDns({ servers: [fake.server], timeoutMs: 5_000, tries: 1 });
    const checks = await checkInbound(settings, { dns, addresses });
    dns.close();
    return checks.map(({ status, message, remedy }) => `${status}: ${message}${remedy ? ` ${remedy}` : ''}`);
  };
  const [both, one] = [`v=spf1 ip4:${ONE} ip4:${TWO} -all`, `v=spf1 ip4:${ONE} -all`];
  assert.match((await look(both, [ONE, TWO])).join(), /^ok: [^,]+, not to this host, which accepts no mail$/);
  const missing = `warn: the SPF record of b.example does not include ${TWO} Add ip4:${TWO} to the existing SPF record.`;
  assert.deepEqual(await look(one, [ONE, TWO]), [missing]);
  assert.deepEqual(await look(`v=spf1 a:${sendingHost} -all`, [ONE, TWO]), [missing], 'the name has only one of them');
  assert.match(
    (await look('v=spf1 -all', [ONE, TWO])).join(),
    /^warn: .* does not include mail\.sender\.example Publish/,
  );
  const relayed = await look('v=spf1 -all', undefined);
  assert.deepEqual(
    relayed.map((line) => line.split(':')[0]),
    ['ok', 'skip'],
  );
  assert.match(relayed[1]!, /SPF of b\.example skipped: all mail goes to the relay/);
});
