/** The PROXY protocol of trusted proxies: the bytes of its header, and the sessions that start with one. */
import assert from 'node:assert/strict';
import { type AddressInfo, connect, createServer } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import { openSession, type ServerOptions, type SmtpRig, smtpRig, submitMail } from '../../test/kit/smtp-rig.ts';
import { connectTalker, plainResponse, type Talker } from '../../test/kit/smtp-talker.ts';
import { parseCidrs } from '../net/address-guard.ts';
import { parseProxyHeader } from './proxy-header.ts';

const SIGNATURE = '0d0a0d0a000d0a515549540a';

/** A header of version 2. */
function v2(command: string, family: string, addresses: string, tlvs: Buffer = Buffer.alloc(0)): Buffer {
  const block = Buffer.concat([Buffer.from(addresses, 'hex'), tlvs]);
  const length = Buffer.alloc(2);
  length.writeUInt16BE(block.length);
  return Buffer.concat([Buffer.from(SIGNATURE + command + family, 'hex'), length, block]);
}

const TCP4 = 'cb007109' + '7f000001' + 'c350' + '024b';
const TCP6 = '20010db8000000000000000000000009' + '00000000000000000000000000000001' + 'c350024b';
const tlv = (type: number, bytes: number): Buffer => {
  const head = Buffer.from([type, bytes >> 8, bytes & 255]);
  return Buffer.concat([head, Buffer.alloc(bytes, 7)]);
};

const v1 = (line: string): Buffer => Buffer.from(`${line}\r\n`, 'latin1');
const LONGEST = `PROXY UNKNOWN ${'ffff:'.repeat(7)}ffff ${'ffff:'.repeat(7)}ffff 65535 65535`;

test("headers that name a client, or keep the connection's own address, are accepted", () => {
  const cases: [string, Buffer, string | undefined][] = [
    ['TCP4', v1('PROXY TCP4 203.0.113.9 127.0.0.1 50000 587'), '203.0.113.9'],
    ['TCP6', v1('PROXY TCP6 2001:db8::9 ::1 50000 587'), '2001:db8::9'],
    ['TCP6 in capitals', v1('PROXY TCP6 2001:0DB8:0:0::9 ::1 50000 587'), '2001:db8::9'],
    ['IPv4 that the proxy got as IPv6', v1('PROXY TCP6 ::ffff:203.0.113.9 ::1 50000 587'), '203.0.113.9'],
    ['the largest ports', v1('PROXY TCP4 203.0.113.9 127.0.0.1 65535 0'), '203.0.113.9'],
    ['UNKNOWN', v1('PROXY UNKNOWN'), undefined],
    ['the longest line', v1(LONGEST), undefined],
    ['version 2, TCP4', v2('21', '11', TCP4), '203.0.113.9'],
    ['version 2, TCP6', v2('21', '21', TCP6), '2001:db8::9'],
    ['version 2, mapped', v2('21', '21', `${'0'.repeat(20)}ffffcb007109${'0'.repeat(32)}c350024b`), '203.0.113.9'],
    ['TLVs', v2('21', '11', TCP4, Buffer.concat([tlv(3, 4), tlv(0x20, 300), tlv(4, 9)])), '203.0.113.9'],
    ['TLVs up to the limit', v2('21', '11', TCP4, tlv(4, 4_096 - 16 - 12 - 3)), '203.0.113.9'],
    ['LOCAL without addresses', v2('20', '00', ''), undefined],
    ['LOCAL with addresses and TLVs', v2('20', '11', TCP4, tlv(4, 5)), undefined],
    ['LOCAL of an unknown family', v2('20', 'f0', '00'), undefined],
    ['PROXY of an unspecified family', v2('21', '00', ''), undefined],
    ['a Unix socket', v2('21', '31', '00'.repeat(216)), undefined],
    ['datagrams', v2('21', '12', TCP4), undefined],
  ];
  for (const [name, header, address] of cases) {
    const rest = Buffer.from('EHLO client.example\r\n');
    const expected = { state: 'complete', bytes: header.length, address };
    assert.deepEqual(parseProxyHeader(Buffer.concat([header, rest])), expected, name);
    assert.deepEqual(parseProxyHeader(header), expected, name);
    for (let bytes = 0; bytes < header.length; bytes += 1) {
      assert.equal(parseProxyHeader(header.subarray(0, bytes)).state, 'incomplete', `${name}, ${bytes} bytes of it`);
    }
  }
});

test('malformed headers are rejected', () => {
  const cases: [string, Buffer][] = [
    ['none', Buffer.from('EHLO client.example\r\n')],
    ['a ClientHello', Buffer.from('1603010200', 'hex')],
    ['lower case', v1('proxy TCP4 203.0.113.9 127.0.0.1 50000 587')],
    ['another family', v1('PROXY UDP4 203.0.113.9 127.0.0.1 50000 587')],
    ['no addresses', v1('PROXY TCP4')],
    ['no ports', v1('PROXY TCP4 203.0.113.9 127.0.0.1')],
    ['IPv6 as TCP4', v1('PROXY TCP4 2001:db8::9 ::1 50000 587')],
    ['IPv4 as TCP6', v1('PROXY TCP6 203.0.113.9 127.0.0.1 50000 587')],
    ['a name', v1('PROXY TCP4 client.example 127.0.0.1 50000 587')],
    ['an octet of 256', v1('PROXY TCP4 203.0.113.256 127.0.0.1 50000 587')],
    ['leading zeros', v1('PROXY TCP4 203.0.113.009 127.0.0.1 50000 587')],
    ['a zone', v1('PROXY TCP6 fe80::1%eth0 ::1 50000 587')],
    ['port 65536', v1('PROXY TCP4 203.0.113.9 127.0.0.1 65536 587')],
    ['a negative port', v1('PROXY TCP4 203.0.113.9 127.0.0.1 -1 587')],
    ['two spaces', v1('PROXY TCP4  203.0.113.9 127.0.0.1 50000 587')],
    ['words after the ports', v1('PROXY TCP4 203.0.113.9 127.0.0.1 50000 587 x')],
    ['UNKNOWN with letters', v1('PROXY UNKNOWNX')],
    ['LF alone', Buffer.from(`PROXY TCP4 203.0.113.9 127.0.0.1 50000 587\n${'x'.repeat(107)}`)],
    ['one byte too long', v1(`${LONGEST}x`)],
    ['endless', Buffer.from(`PROXY UNKNOWN ${'x'.repeat(200)}`)],
    ['version 3', v2('31', '11', TCP4)],
    ['version 1 in binary', v2('11', '11', TCP4)],
    ['another command', v2('22', '11', TCP4)],
    ['another family in binary', v2('21', '41', TCP4)],
    ['another transport', v2('21', '13', TCP4)],
    ['truncated TCP4', v2('21', '11', TCP4.slice(2))],
    ['truncated TCP6', v2('21', '21', TCP4)],
    ['TLVs over the limit', v2('21', '11', TCP4, tlv(4, 4_096 - 16 - 12 - 2))],
    ['a broken signature', Buffer.from(`${SIGNATURE.slice(0, 22)}0b2111000c${TCP4}`, 'hex')],
  ];
  for (const [name, header] of cases) assert.equal(parseProxyHeader(header).state, 'malformed', name);
});

let rig: SmtpRig;
before(async () => {
  rig = await smtpRig();
});
after(() => rig.close());

function trusting(text: string) {
  const list = parseCidrs(text);
  assert.ok(list.ok);
  return list.cidrs;
}

const listen = (options: ServerOptions = {}) => rig.listen({ trustedProxies: trusting('127.0.0.1'), ...options });

async function proxied(port: number, header: Buffer): Promise<Talker> {
  const talker = await connectTalker(port);
  talker.send(header);
  return talker;
}

const from = (client: string): Buffer => v1(`PROXY TCP4 ${client} 127.0.0.1 50000 587`);

test("the client's address is used in Received, in the log, and for limits", async () => {
  const { port } = await listen({ limits: { maxConnectionsPerAddress: 1 } });
  const talker = await proxied(port, from('203.0.113.9'));
  assert.match(await talker.reply(), /^220 /);
  await talker.logIn(rig.credentials.live);
  assert.match(await submitMail(talker), /^250 /);
  const second = await proxied(port, from('203.0.113.9'));
  assert.match(await second.reply(), /^421 4\.7\.0 too many connections from your address/);
  const neighbor = await proxied(port, v2('21', '11', TCP4.replace('cb007109', 'cb00710a'), tlv(4, 3)));
  assert.match(await neighbor.reply(), /^220 /);
  for (const one of [talker, second, neighbor]) one.destroy();
});

test('a header can arrive in pieces, or together with data', async () => {
  const { port } = await listen({ limits: { greetingMs: 20 } });
  const talker = await connectTalker(port);
  for (const byte of v2('21', '21', TCP6, tlv(4, 2))) talker.send(Buffer.from([byte]));
  assert.match(await talker.reply(), /^220 /);
  assert.match(await talker.say('QUIT'), /^221 /);
  const early = await proxied(port, Buffer.concat([from('203.0.113.9'), Buffer.from('EHLO early.example\r\n')]));
  assert.match(await early.reply(), /^554 5\.5\.0 protocol error: data received before the greeting/);
});

/** A proxy that writes its header together with the first bytes of the client. */
async function proxyInFront(t: TestContext, port: number, header: Buffer): Promise<number> {
  const proxy = createServer((client) => {
    client.once('data', (first) => {
      const upstream = connect(port, '127.0.0.1');
      upstream.write(Buffer.concat([header, Buffer.from(first)]));
      client.pipe(upstream).pipe(client);
      for (const one of [client, upstream]) one.on('error', () => undefined);
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  t.after(() => proxy.close());
  return (proxy.address() as AddressInfo).port;
}

test('the header precedes implicit TLS, even in one packet with the handshake', async (t) => {
  const { server } = await listen();
  const { port } = await server.listen(0, { isImplicitTls: true });
  for (const header of [from('203.0.113.9'), v2('21', '11', TCP4)]) {
    const talker = await connectTalker(await proxyInFront(t, port, header));
    await talker.startTls();
    assert.match(await talker.reply(), /^220 /);
    assert.match(await talker.say('EHLO client.example'), /^250-/);
    assert.match(await talker.say(`AUTH PLAIN ${plainResponse(rig.credentials.live)}`), /^235 /);
    assert.match(await talker.say('QUIT'), /^221 /);
  }
});

test('wrong passwords of one client do not delay another client of the same proxy', async () => {
  const { port, guard } = await listen();
  const stranger = await proxied(port, from('203.0.113.66'));
  await stranger.reply();
  await stranger.secure();
  for (let count = 0; count < 5; count += 1) {
    const wrong = plainResponse({ username: `nobody${count}`, password: 'wrong' });
    assert.match(await stranger.say(`AUTH PLAIN ${wrong}`), /^535 /);
  }
  const { live } = rig.credentials;
  const owner = await proxied(port, from('203.0.113.9'));
  await owner.reply();
  await owner.logIn(live);
  assert.ok(guard.knows('203.0.113.9'));
  assert.ok(!guard.knows('127.0.0.1'));
  owner.destroy();
  stranger.destroy();
});

test("LOCAL and UNKNOWN keep the proxy's own address", async () => {
  const { port, guard } = await listen();
  for (const header of [v2('20', '00', ''), v1('PROXY UNKNOWN')]) {
    const talker = await proxied(port, header);
    assert.match(await talker.reply(), /^220 /);
    await talker.logIn(rig.credentials.live);
    talker.destroy();
  }
  assert.ok(guard.knows('127.0.0.1'));
});

test('a trusted proxy without a valid header is disconnected without a greeting', async () => {
  const { port } = await listen({ limits: { proxyHeaderMs: 50 } });
  const before = rig.log.length;
  for (const bytes of [Buffer.from('EHLO client.example\r\n'), v1('PROXY TCP4 x y 1 2'), v2('21', '11', 'cb')]) {
    const talker = await proxied(port, bytes);
    await talker.closed();
    assert.equal(await talker.line(), undefined);
  }
  const silent = await connectTalker(port);
  await silent.closed();
  assert.equal(await silent.line(), undefined);
  const slow = await proxied(port, Buffer.from('PROXY TCP4 203.0'));
  await slow.closed();
  const logged = rig.log.slice(before).filter((line) => line.includes('PROXY protocol'));
  assert.equal(logged.length, 1, 'one line in total, not per connection');
  assert.match(logged[0]!, /"address":"127\.0\.0\.1","reason":"the connection starts without one"/);
});

test('a port check that connects and disconnects is not logged', async () => {
  const { port } = await listen();
  const before = rig.log.length;
  const talker = await connectTalker(port);
  talker.end();
  await talker.closed();
  assert.deepEqual(
    rig.log.slice(before).filter((line) => line.includes('PROXY protocol')),
    [],
  );
});

test('the header is an unknown command from any other address', async () => {
  const { port } = await rig.listen({ trustedProxies: trusting('192.0.2.0/24'), limits: { maxClientErrors: 0 } });
  const talker = await connectTalker(port);
  assert.match(await talker.reply(), /^220 /);
  assert.match(await talker.say('PROXY TCP4 203.0.113.9 127.0.0.1 50000 587'), /^421 4\.7\.0 too many errors/);
});

test('stopping does not wait for headers', async () => {
  const { server, port } = await listen();
  const talker = await connectTalker(port);
  await server.stop({ deadlineMs: 60_000 });
  await talker.closed();
  await assert.rejects(openSession(port, rig.credentials.live));
});

test("the port for this machine's own connections needs no header", async () => {
  const { server } = await listen();
  const { port } = await server.listen(0, { host: '127.0.0.1', isDirect: true });
  const talker = await connectTalker(port);
  assert.match(await talker.reply(), /^220 /);
  talker.destroy();
});
