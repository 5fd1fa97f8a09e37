/** Servers that send unsolicited 1xx responses first: one request is sent, and its outcome is the final response. */
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, test } from 'node:test';
import tls from 'node:tls';
import { foundAnswer } from '../../test/kit/fake-dns.ts';
import { testCertificate } from '../../test/kit/test-certificate.ts';
import { parseCidrs } from './address-guard.ts';
import { type HttpClient, openHttpClient } from './http-client.ts';

const open: { close(): unknown }[] = [];
after(async () => {
  for (const one of open.reverse()) await one.close();
});

const loopback = parseCidrs('127.0.0.0/8');
assert.ok(loopback.ok);
const certificate = testCertificate(['hooks.example']);
function client(): HttpClient {
  const made = openHttpClient({
    lookup: async () => foundAnswer(['127.0.0.1']),
    allow: loopback.ok ? loopback.cidrs : [],
    connectionsPerOrigin: 1,
    ca: certificate.cert,
  });
  open.push(made);
  return made;
}

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
const HINTS = 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n';
const PROCESSING = 'HTTP/1.1 102 Processing\r\n\r\n';
const FINAL = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const BODY = '{"a":"ü"}';

interface Peer {
  port: number;
  /** Complete requests received. */
  requests: string[];
  connections: number;
}

/** A server that answers each complete request with these pieces, each in a separate packet. */
async function peer(pieces: readonly string[], { secure = false, early = '' } = {}): Promise<Peer> {
  const seen: Peer = { port: 0, requests: [], connections: 0 };
  const serve = (socket: net.Socket): void => {
    seen.connections += 1;
    let got = '';
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('data', async (chunk: Buffer) => {
      if (got === '' && early !== '') socket.write(early);
      got += chunk.toString('latin1');
      const headEnd = got.indexOf('\r\n\r\n');
      const length = Number(/content-length: (\d+)/i.exec(got)?.[1]);
      if (headEnd === -1 || got.length < headEnd + 4 + length) return;
      seen.requests.push(got);
      got = '';
      for (const piece of pieces) {
        if (piece === '') socket.end();
        await new Promise((resolve) => socket.write(piece, resolve));
        // In the next turn of the loop, so the packets are read one by one.
        await new Promise((resolve) => setImmediate(resolve));
      }
    });
  };
  const server = secure ? tls.createServer(certificate, serve) : net.createServer(serve);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(server);
  seen.port = (server.address() as net.AddressInfo).port;
  return seen;
}

const post = (http: HttpClient, { port }: Peer, scheme = 'http') =>
  http.post({
    url: `${scheme}://hooks.example:${port}/hook`,
    headers: { 'content-type': 'application/json' },
    body: BODY,
  });

const SHAPES: Record<string, string[]> = {
  '100 in a packet of its own': [CONTINUE, FINAL],
  '100 in the packet of the response': [CONTINUE + FINAL],
  '103 in a packet of its own': [HINTS, FINAL],
  '103 in the packet of the response': [HINTS + FINAL],
  '102, 100, 103 and 100': [PROCESSING, CONTINUE + HINTS, CONTINUE, FINAL],
  '100 with header fields': ['HTTP/1.1 100 Continue\r\nDate: today\r\nServer: x\r\n\r\n', FINAL],
  '100 without a reason': ['HTTP/1.1 100\r\n\r\n', FINAL],
  '100 of HTTP/1.0 with bare LF': ['HTTP/1.0 100 Continue\n\n', FINAL],
  'byte by byte': [...(CONTINUE + HINTS + FINAL)],
  'split in the end of a head': [CONTINUE.slice(0, -2), `\r\n${FINAL}`],
  'a body that looks like one': [CONTINUE, `HTTP/1.1 200 OK\r\nContent-Length: ${CONTINUE.length}\r\n\r\n`, CONTINUE],
  'a chunked response': [CONTINUE, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '2\r\nok\r\n0\r\n\r\n'],
  'a thousand of them': [...Array.from({ length: 1_000 }, () => CONTINUE), FINAL],
};

for (const [shape, pieces] of Object.entries(SHAPES)) {
  test(`${shape}: one request and the final response`, async () => {
    const [http, server] = [client(), await peer(pieces)];
    for (let round = 1; round <= 2; round += 1) {
      const outcome = await post(http, server);
      assert.ok(outcome.ok, JSON.stringify(outcome));
      assert.equal(outcome.status, 200);
      assert.equal(server.requests.length, round);
      assert.ok(server.requests.every((request) => request.endsWith(Buffer.from(BODY).toString('latin1'))));
    }
  });
}

test('interim responses are handled over TLS and before the request is complete', async () => {
  const http = client();
  const secure = await peer([CONTINUE, HINTS + FINAL], { secure: true });
  const overTls = await post(http, secure, 'https');
  assert.ok(overTls.ok && overTls.status === 200, JSON.stringify(overTls));
  const eager = await peer([FINAL], { early: CONTINUE });
  const early = await post(http, eager);
  assert.ok(early.ok && early.status === 200);
  assert.deepEqual([secure.requests.length, eager.requests.length], [1, 1]);
});

test('a connection is kept after interim responses', async () => {
  const [http, server] = [client(), await peer([CONTINUE, FINAL])];
  for (let round = 0; round < 4; round += 1) assert.ok((await post(http, server)).ok);
  assert.ok(server.connections <= 2, `${server.connections} connections`);
});

test('a missing final response, an upgrade, and an endless header are failures', async () => {
  const http = client();
  for (const [pieces, kind] of [
    [[CONTINUE, ''], 'reset'],
    [['HTTP/1.1 100 Cont', ''], 'reset'],
    [['HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'], 'reset'],
    [[CONTINUE, 'SSH-2.0-OpenSSH\r\n\r\n'], 'protocol'],
    [[CONTINUE, `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(100_000)}`], 'protocol'],
  ] as const) {
    const outcome = await post(http, await peer(pieces));
    assert.ok(!outcome.ok, JSON.stringify(outcome));
    assert.equal(outcome.kind, kind, pieces[0]);
  }
  const error = await post(http, await peer([CONTINUE, 'HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n']));
  assert.ok(error.ok && error.status === 500);
});
