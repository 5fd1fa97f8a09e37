/** Hints reach a node again after its connection went silent, as when the server's host loses power. */
import assert from 'node:assert/strict';
import net, { type AddressInfo, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { tempPostgres } from '../../../test/kit/temp-postgres.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { silentLog } from '../../base/log.ts';
import { openPostgresHints } from './hints.ts';
import { parsePostgresUrl } from './url.ts';

/** A proxy whose open connections can be silenced: they pass nothing, and are neither closed nor reset. New ones work. */
async function proxyTo(t: TestContext, port: number) {
  const sockets = new Set<Socket>();
  const server = net.createServer((client) => {
    const upstream = net.connect(port, '127.0.0.1');
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.on('data', (chunk) => to.write(chunk));
      from.on('error', () => undefined);
      from.on('close', () => to.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    port: (server.address() as AddressInfo).port,
    silence: () => {
      for (const socket of sockets) socket.pause();
    },
  };
}

test('a silent connection is replaced', async (t) => {
  const { url, server, drop } = await tempPostgres();
  t.after(drop);
  const proxy = await proxyTo(t, server.port);
  const address = parsePostgresUrl(url.replace(`:${server.port}/`, `:${proxy.port}/`));
  const listener = openPostgresHints({ address, log: silentLog, pingMs: 200 });
  const sender = openPostgresHints({ address: parsePostgresUrl(url), log: silentLog });
  t.after(() => Promise.all([listener.stop(), sender.stop()]));
  let heard = 0;
  listener.listen('delivery', () => {
    heard += 1;
  });
  const hear = async (what: string): Promise<void> => {
    const before = heard;
    await waitUntil(
      what,
      () => {
        sender.notify('delivery');
        return heard > before;
      },
      20_000,
    );
  };
  await hear('the first hint');
  proxy.silence();
  await hear('the hint on the silent connection, or that on the next one');
  await hear('another hint on the new connection');
  assert.ok(heard >= 3);
});
