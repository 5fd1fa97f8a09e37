/**
 * The database is unavailable for longer than a lease, and no node crashes: every lease has expired, and one node reconnects before the
 * other, which has delivered messages in the meantime. Nothing is sent twice, and unleased messages go out immediately.
 */
import assert from 'node:assert/strict';
import net, { type AddressInfo, type Socket } from 'node:net';
import test from 'node:test';
import pg from 'pg';
import { startCluster } from '../kit/cluster.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

interface Way {
  url: string;
  set(open: boolean): void;
  close(): Promise<void>;
}

/** A connection to the database that can be closed. */
async function wayTo(databaseUrl: string): Promise<Way> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let isOpen = true;
  const proxy = net.createServer((client) => {
    if (!isOpen) {
      client.destroy();
      return;
    }
    const upstream = net.connect(Number(target.port), target.hostname);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from
        .on('error', () => undefined)
        .on('close', () => {
          sockets.delete(from);
          to.destroy();
        });
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: url.href,
    set: (open) => {
      isOpen = open;
      if (!open) cut();
    },
    close: () => {
      cut();
      return new Promise((resolve) => proxy.close(() => resolve()));
    },
  };
}

test('an outage longer than a lease causes no duplicates, whichever node returns first', {
  timeout: 170_000,
}, async (t) => {
  const { promise: dots, resolve: answerDots } = Promise.withResolvers<void>();
  let arrived = 0;
  const dot = async (): Promise<string> => {
    arrived += 1;
    await dots;
    return '250 2.0.0 ok';
  };
  const sink = await smtpSink({ script: { dot } });
  t.after(() => sink.close());
  const ways: Way[] = [];
  const cluster = await startCluster({
    nodes: 2,
    env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` },
    envOf: async (index, env) => {
      ways[index] = await wayTo(env.POSTRIDER_DATABASE_URL!);
      return { POSTRIDER_DATABASE_URL: ways[index]!.url };
    },
  });
  t.after(() => cluster.close());
  t.after(() => Promise.all(ways.map((way) => way.close())));
  const direct = new pg.Client({ connectionString: cluster.env.POSTRIDER_DATABASE_URL! });
  direct.on('error', () => undefined);
  await direct.connect();
  t.after(() => direct.end());
  const [holder, other] = [cluster.nodes[0]!, cluster.nodes[1]!];
  await holder.cli('domain', 'add', holder.live.accountId, 'shop.example', '--verified');
  const copies = (to: string): number => sink.messages.filter((one) => one.to.includes(to)).length;
  const send = (to: string, more: object = {}) =>
    holder.api.post('/send', { from: 'orders@shop.example', to, subject: to, text: 'x', ...more });

  const held = ['1', '2', '3'].map((name) => `held${name}@x.example`);
  for (const to of held) assert.equal((await send(to)).status, 202);
  await waitUntil('the messages to reach the receiving server', () => arrived === held.length);
  const later = new Date(Date.now() + 3_600_000).toISOString();
  assert.equal((await send('free@x.example', { sendAt: later })).status, 202);

  for (const way of ways) way.set(false);
  const isAway = async (node: typeof holder): Promise<boolean> => (await node.api.get('/ready')).status === 503;
  await waitUntil('both nodes to lose the database', async () => (await isAway(holder)) && (await isAway(other)));
  const told = await holder.api.get('/ready');
  assert.doesNotMatch(told.text, /127\.0\.0\.1|postgres|postrider_/, 'the error does not reveal the database address');
  answerDots();
  const ended = await direct.query('UPDATE work SET due = 0');
  assert.equal(ended.rowCount, 4, 'control: three leases, and one row without a lease');

  ways[1]!.set(true);
  await waitUntil('the other node to send the unleased message', () => copies('free@x.example') === 1);
  const { rows } = await direct.query('SELECT 1 FROM work WHERE leased > 0 AND due = 0');
  assert.equal(rows.length, 3, 'the leases of the first node are kept');
  ways[0]!.set(true);
  await waitUntil('all to be recorded', async () => (await direct.query('SELECT 1 FROM work')).rowCount === 0);
  for (const to of [...held, 'free@x.example']) assert.equal(copies(to), 1, to);
});
