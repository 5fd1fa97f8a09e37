/** Which address is dialed when, counted at the servers. */
import assert from 'node:assert/strict';
import net, { type AddressInfo, type Server, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { blackHole, noBlackHoles } from '../../test/kit/black-hole.ts';
import { freePort } from '../../test/kit/free-ports.ts';
import { againIfPaused, runningMs } from '../../test/kit/running-time.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { type ConnectOptions, type ConnectResult, connectTcp, interleaveFamilies } from './smtp-connect.ts';

interface Peer {
  port: number;
  connections: number;
  open: number;
  bytes: number;
}

const servers: Server[] = [];
const sockets: Socket[] = [];

after(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers) server.close();
});

async function listen(host: string, port = 0): Promise<Peer> {
  const peer: Peer = { port: 0, connections: 0, open: 0, bytes: 0 };
  const server = net.createServer((socket) => {
    peer.connections += 1;
    peer.open += 1;
    socket.on('data', (chunk) => {
      peer.bytes += chunk.length;
    });
    socket
      .on('error', () => {})
      .on('close', () => {
        peer.open -= 1;
      });
    sockets.push(socket);
  });
  servers.push(server);
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve));
  peer.port = (server.address() as AddressInfo).port;
  return peer;
}

function connect(options: Pick<ConnectOptions, 'port'> & Partial<ConnectOptions>): Promise<ConnectResult> {
  return connectTcp({ host: 'peer.example', connectMs: 30_000, connectAddressMs: 10_000, ...options });
}

function stood(result: ConnectResult): string {
  assert.ok(result.ok, JSON.stringify(result));
  sockets.push(result.socket);
  return result.address;
}

test('address families alternate, IPv6 first, each in its own order', () => {
  assert.deepEqual(interleaveFamilies(['192.0.2.1', '192.0.2.2', '192.0.2.3', '2001:db8::1', '2001:db8::2']), [
    '2001:db8::1',
    '192.0.2.1',
    '2001:db8::2',
    '192.0.2.2',
    '192.0.2.3',
  ]);
  assert.deepEqual(interleaveFamilies(['2001:db8::1']), ['2001:db8::1']);
  assert.deepEqual(interleaveFamilies([]), []);
});

test('an IPv6 address that drops packets costs 250 ms', { skip: noBlackHoles }, async () => {
  const peer = await listen('127.0.0.1', await freePort());
  const hole = await blackHole('::1', peer.port);
  try {
    await againIfPaused(async () => {
      const begun = runningMs();
      assert.equal(stood(await connect({ port: peer.port, addresses: ['::1', '127.0.0.1'] })), '127.0.0.1');
      const tookMs = runningMs() - begun;
      assert.ok(tookMs >= 200 && tookMs < 1_000, `${tookMs} ms`);
    });
  } finally {
    await hole.close();
  }
});

test('an address that rejects is followed by the next one immediately', async () => {
  const peer = await listen('127.0.0.1');
  await againIfPaused(async () => {
    const begun = runningMs();
    const addresses = ['::1', '127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.1'];
    assert.equal(stood(await connect({ port: peer.port, addresses })), '127.0.0.1');
    assert.ok(runningMs() - begun < 200);
  });
});

test('only one address is contacted if it answers in time', async () => {
  const first = await listen('::1', await freePort());
  const second = await listen('127.0.0.1', first.port);
  assert.equal(stood(await connect({ port: first.port, addresses: ['::1', '127.0.0.1'] })), '::1');
  await waitUntil('the connection', () => first.connections === 1);
  assert.equal(second.connections, 0);
});

test('of two simultaneous connections one is closed without sending data', async () => {
  const first = await listen('::1', await freePort());
  const second = await listen('127.0.0.1', first.port);
  const pending = connect({ port: first.port, addresses: ['::1', '127.0.0.1'] });
  for (let ticks = 0; ticks < 20; ticks += 1) await new Promise((resolve) => process.nextTick(resolve));
  // The first address is dialed. While the event loop is blocked, its connection goes unnoticed and the second one becomes due.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
  const won = stood(await pending);
  const [winner, loser] = won === '::1' ? [first, second] : [second, first];
  await waitUntil('both to be connected', () => first.connections + second.connections === 2);
  await waitUntil('the other to be closed', () => loser.open === 0);
  assert.deepEqual([winner.open, winner.connections, loser.connections, loser.bytes], [1, 1, 1, 0]);
});

test('each address and all together have a deadline, and a signal aborts', { skip: noBlackHoles }, async () => {
  const port = await freePort();
  const holes = await Promise.all(['::1', '127.0.0.1'].map((host) => blackHole(host, port)));
  const addresses = ['::1', '127.0.0.1'];
  try {
    const each = await connect({ port, addresses, connectAddressMs: 150 });
    assert.ok(!each.ok);
    assert.deepEqual([each.cause, each.address], ['ETIMEDOUT', '127.0.0.1']);
    const all = await connect({ port, addresses: [...addresses, '127.0.0.2'], connectMs: 100 });
    assert.ok(!all.ok);
    assert.deepEqual([all.cause, all.address], ['ETIMEDOUT', '::1'], 'no other address was dialed');
    const controller = new AbortController();
    const pending = connect({ port, addresses, signal: controller.signal });
    controller.abort();
    const cancelled = await pending;
    assert.ok(!cancelled.ok);
    assert.equal(cancelled.cause, 'ECANCELLED');
  } finally {
    for (const hole of holes) await hole.close();
  }
});
