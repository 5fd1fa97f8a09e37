/** What the doctor says of the way back, with a real resolver that asks a scripted server, and real ports. */
import assert from 'node:assert/strict';
import net, { type AddressInfo } from 'node:net';
import { test } from 'node:test';
import { type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import { openDns } from '../net/dns.ts';
import { checkInbound } from './inbound.ts';

const HOST = 'localhost';
const GOOD: FakeZone = { 'b.example': { MX: [[10, 'localhost']], TXT: ['v=spf1 a:localhost -all'] } };

test('the bounce domain leads here, its SPF lets us send, and the port is ours; each that is not has its line', async (t) => {
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
    const checks = await checkInbound({ ...settings, ...change }, dns);
    dns.close();
    return checks.map(({ status, message }) => `${status}: ${message}`);
  };
  const mx = GOOD['b.example']!.MX!;
  assert.deepEqual(await look(GOOD), ['ok: b.example leads to localhost, which takes mail']);
  assert.match((await look({}))[0]!, /^fail: b\.example has no MX record/);
  assert.match((await look({ 'b.example': { fail: 'SERVFAIL' } }))[0]!, /^skip: /);
  assert.match(
    (await look({ 'b.example': { MX: mx } }))[0]!,
    /^warn: the SPF record of b\.example does not let localhost/,
  );
  const other: FakeZone = { 'b.example': { ...GOOD['b.example']!, MX: [[10, 'mx.other.example']] } };
  assert.match((await look(other))[0]!, /^warn: the MX records of b\.example lead to mx\.other\.example/);
  assert.match((await look(GOOD, { inboundPort: undefined }))[0]!, /^fail: .* where no inbound port is set/);
  greeting = '220 other.example\r\n';
  assert.match((await look(GOOD))[0]!, /^warn: port .* is not the inbound port of this service: says "220 other/);
});
