/** A query to a single server: its bytes, counted at the server, and which answers are accepted. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import dgram from 'node:dgram';
import net from 'node:net';
import { type TestContext, test } from 'node:test';
import { type FakeDns, fakeDns, truncated } from '../../test/kit/fake-dns.ts';
import { freePort } from '../../test/kit/free-ports.ts';
import { type DnsServer, parseDnsServer } from './dns-servers.ts';
import { askServer, rcodeOf, type ServerResponse } from './dns-stub.ts';

const NAME = 'mail.letters.example';
const ADDRESS = '192.0.2.7';

interface Asked {
  bytes: Buffer;
  port: number;
}

/** A server that records UDP queries and does not respond. */
async function silentServer(t: TestContext): Promise<{ server: DnsServer; asked: Asked[] }> {
  const socket = dgram.createSocket('udp4');
  const asked: Asked[] = [];
  socket.on('message', (bytes, { port }) => asked.push({ bytes, port }));
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  t.after(() => socket.close());
  return { server: { address: '127.0.0.1', port: socket.address().port }, asked };
}

async function scripted(t: TestContext, tamper?: FakeDns['tamper']): Promise<{ dns: FakeDns; server: DnsServer }> {
  const dns = await fakeDns({ [NAME]: { A: [ADDRESS] } });
  if (tamper) dns.tamper = tamper;
  t.after(dns.close);
  return { dns, server: parseDnsServer(dns.server) };
}

function ask(
  server: DnsServer,
  options: { timeoutMs?: number; signal?: AbortSignal; name?: string } = {},
): Promise<ServerResponse> {
  const { timeoutMs = 5_000, signal = new AbortController().signal, name = NAME } = options;
  return askServer({ name, type: 'A', recursion: true }, server, { timeoutMs, signal });
}

function addressIn(response: ServerResponse): unknown {
  assert.ok('packet' in response, JSON.stringify(response));
  const [answer] = response.packet.answers ?? [];
  return answer && 'data' in answer ? answer.data : undefined;
}

const flipCase = (bytes: Buffer): Buffer => {
  const flipped = Buffer.from(bytes);
  for (let at = 13; flipped[at] !== 0; at += 1) {
    const isLetter = /[a-z]/i.test(String.fromCharCode(flipped[at]!));
    if (isLetter) flipped[at]! ^= 0x20;
  }
  return flipped;
};

const withBytes = (bytes: Buffer, change: (copy: Buffer) => void): Buffer => {
  const copy = Buffer.from(bytes);
  change(copy);
  return copy;
};

test('a query has EDNS 1232, DO, AD, and RD, and unpredictable values', async (t) => {
  const { server, asked } = await silentServer(t);
  // The same server at an address that is not known to be on this host.
  const elsewhere = { ...server, address: `::ffff:${server.address}` };
  await Promise.all(Array.from({ length: 60 }, () => ask(elsewhere, { timeoutMs: 1_000 })));
  assert.equal(asked.length, 60);
  const [{ bytes }] = asked as [Asked];
  assert.equal(bytes.readUInt16BE(2), 0x0120, 'RD and AD');
  assert.deepEqual(
    [4, 6, 8, 10].map((at) => bytes.readUInt16BE(at)),
    [1, 0, 0, 1],
  );
  const opt = bytes.subarray(12 + NAME.length + 2 + 4);
  assert.equal(opt.toString('hex'), '00'.concat('0029', '04d0', '00000000'.replace(/.{4}$/, '8000'), '0000'));
  const ids = new Set(asked.map((one) => one.bytes.readUInt16BE(0)));
  const ports = new Set(asked.map((one) => one.port));
  const names = new Set(asked.map((one) => one.bytes.toString('latin1', 12, 12 + NAME.length + 2)));
  assert.ok(ids.size > 55, `${ids.size} ids`);
  assert.ok(ports.size > 55, `${ports.size} ports`);
  assert.ok(names.size > 55, `${names.size} spellings`);
  assert.equal(new Set([...names].map((one) => one.toLowerCase())).size, 1);
});

test('a server on this host gets the name without case randomization', async (t) => {
  const { server, asked } = await silentServer(t);
  await Promise.all(Array.from({ length: 20 }, () => ask(server, { timeoutMs: 500 })));
  const [label] = NAME.split('.');
  for (const { bytes } of asked) assert.equal(bytes.toString('latin1', 13, 13 + label!.length), label);
  assert.equal(asked.length, 20);
});

test('no response is ETIMEOUT, and a closed port fails immediately', async (t) => {
  const { server } = await silentServer(t);
  const began = performance.now();
  assert.deepEqual(await ask(server, { timeoutMs: 200 }), { cause: 'ETIMEOUT' });
  assert.ok(performance.now() - began >= 190);
  const closedPort = { address: '127.0.0.1', port: await freePort() };
  const again = performance.now();
  assert.deepEqual(await ask(closedPort, { timeoutMs: 20_000 }), { cause: 'ECONNREFUSED' });
  assert.ok(performance.now() - again < 10_000);
});

const forgeries: [what: string, forge: (answer: Buffer, query: Buffer) => Buffer][] = [
  ['another id', (answer) => withBytes(answer, (copy) => copy.writeUInt16BE((copy.readUInt16BE(0) + 1) % 65_536, 0))],
  ['another question', (answer) => withBytes(answer, (copy) => copy.write('evil', 13))],
  ['another type', (answer) => withBytes(answer, (copy) => copy.writeUInt16BE(28, 12 + NAME.length + 2))],
  ['no question', (answer) => withBytes(answer, (copy) => copy.writeUInt16BE(0, 4)).subarray(0, 12)],
  ['another case', (answer) => flipCase(answer)],
  ['a query', (_answer, query) => query],
  ['garbage', () => Buffer.from('garbage, and longer than a header')],
  ['nothing', () => Buffer.alloc(0)],
  ['half a record', (answer) => answer.subarray(0, answer.length - 3)],
];

for (const [what, forge] of forgeries) {
  test(`${what} is ignored until the right answer arrives`, async (t) => {
    const { server, dns } = await scripted(t, (answer, { query }) => {
      // A record with another address, if there is one.
      const forged = withBytes(forge(answer, query), (copy) => copy.length > 16 && copy.fill(66, copy.length - 2));
      return [forged, answer];
    });
    assert.equal(addressIn(await ask(server)), ADDRESS);
    assert.equal(dns.questions.length, 1);
  });
}

test('a forged answer alone is a failure', async (t) => {
  // A different case is queried again over TCP.
  const alone = forgeries.filter(([what]) => what !== 'another case');
  const checks = alone.map(async ([what, forge]) => {
    const { server } = await scripted(t, (answer, { query }) => [forge(answer, query)]);
    assert.deepEqual(await ask(server, { timeoutMs: 2_000 }), { cause: 'EBADRESP' }, what);
  });
  await Promise.all(checks);
});

test('a server that changes the case is queried over TCP', async (t) => {
  const transports: string[] = [];
  const { server } = await scripted(t, (answer, { transport }) => {
    transports.push(transport);
    return [flipCase(answer)];
  });
  assert.equal(addressIn(await ask(server)), ADDRESS);
  assert.deepEqual(transports, ['udp', 'tcp']);
});

test('a truncated answer is queried over TCP', async (t) => {
  const { dns, server } = await scripted(t);
  dns.zone[NAME] = { A: Array.from({ length: 1_000 }, () => ADDRESS) };
  const response = await ask(server);
  assert.ok('packet' in response);
  assert.equal(response.packet.answers?.length, 1_000);
  assert.equal(dns.questions.length, 2);
});

/** A server that truncates every answer over UDP, and responds like this over TCP. */
async function cutting(t: TestContext, serve: ((socket: net.Socket) => void) | undefined): Promise<DnsServer> {
  const port = await freePort();
  const udp = dgram.createSocket('udp4');
  udp.on('message', (query, from) => {
    const answer = truncated(query);
    answer[2]! |= 0x80;
    answer.writeUInt16BE(0, 10);
    udp.send(answer, from.port, from.address);
  });
  await new Promise<void>((resolve) => udp.bind(port, '127.0.0.1', resolve));
  t.after(() => udp.close());
  if (serve) {
    const tcp = net.createServer((socket) => {
      socket.on('error', () => undefined);
      t.after(() => socket.destroy());
      serve(socket);
    });
    await new Promise<void>((resolve) => tcp.listen(port, '127.0.0.1', resolve));
    t.after(() => tcp.close());
  }
  return { address: '127.0.0.1', port };
}

test('rejected, closed, silent, or forged TCP is an error and never hangs', async (t) => {
  assert.deepEqual(await ask(await cutting(t, undefined)), { cause: 'ECONNREFUSED' });
  assert.deepEqual(await ask(await cutting(t, (socket) => socket.end())), { cause: 'EBADRESP' });
  assert.deepEqual(await ask(await cutting(t, (socket) => socket.resume()), { timeoutMs: 400 }), { cause: 'ETIMEOUT' });
  const other = (socket: net.Socket): void =>
    void socket.write(Buffer.concat([Buffer.from([0, 20]), Buffer.alloc(20)]));
  assert.deepEqual(await ask(await cutting(t, other)), { cause: 'EBADRESP' });
  const short = (socket: net.Socket): void => void socket.end(Buffer.from([1, 0, 1, 2, 3]));
  assert.deepEqual(await ask(await cutting(t, short)), { cause: 'EBADRESP' });
});

test('a TCP answer can arrive byte by byte', async (t) => {
  const server = await cutting(t, (socket) => {
    socket.setNoDelay(true).once('data', (asked: Buffer) => {
      // NXDOMAIN: the query's header and question, and nothing else.
      const query = asked.subarray(2);
      const answer = truncated(query);
      answer.writeUInt16BE(0x8183, 2);
      answer.writeUInt16BE(0, 10);
      const bytes = [answer.length >> 8, answer.length & 0xff, ...answer];
      const next = (): void => {
        const byte = bytes.shift();
        if (byte === undefined) return;
        socket.write(Buffer.from([byte]));
        setImmediate(next);
      };
      next();
    });
  });
  const response = await ask(server);
  assert.ok('packet' in response, JSON.stringify(response));
  assert.equal(rcodeOf(response.packet), 3);
});

test('a server without EDNS support is queried without it', async (t) => {
  const extras: number[] = [];
  const { server } = await scripted(t, (answer, { query }) => {
    extras.push(query.readUInt16BE(10));
    // FORMERR with only a header, as some servers send it.
    const refusal = withBytes(answer.subarray(0, 12), (copy) => {
      copy[3] = 1;
      copy.fill(0, 4);
    });
    return [query.readUInt16BE(10) > 0 ? refusal : answer];
  });
  assert.equal(addressIn(await ask(server)), ADDRESS);
  assert.deepEqual(extras, [1, 0]);
});

test('a signal aborts the query', async (t) => {
  const { server } = await silentServer(t);
  const stop = new AbortController();
  const asked = ask(server, { timeoutMs: 60_000, signal: stop.signal });
  setImmediate(() => stop.abort());
  assert.deepEqual(await asked, { cause: 'ECANCELLED' });
  assert.deepEqual(await ask(server, { signal: stop.signal }), { cause: 'ECANCELLED' }, 'no query is started');
});

test('1,000 randomly damaged answers cause errors or answers, but no exception', async (t) => {
  const { dns, server } = await scripted(t, (answer) => [
    withBytes(answer, (copy) => {
      for (let times = randomInt(1, 8); times > 0; times -= 1) {
        const at = randomInt(6, copy.length);
        // The question stays, so the rest is parsed.
        if (at < 12 || at > 12 + NAME.length + 5) copy[at] = randomInt(256);
      }
    }),
  ]);
  dns.zone[NAME] = { CNAME: 'other.example' };
  dns.zone['other.example'] = { A: [ADDRESS, ADDRESS], MX: [[10, 'mx.example']] };
  const all = await Promise.all(Array.from({ length: 1_000 }, () => ask(server, { timeoutMs: 4_000 })));
  const read = all.filter((response) => 'packet' in response);
  assert.ok(read.every((response) => rcodeOf(response.packet) >= 0));
  assert.ok(all.every((response) => 'packet' in response || /^E[A-Z]+$/.test(response.cause)));
  assert.ok(read.length > 100 && read.length < 1_000, `${read.length} of 1,000 were parsed`);
});
