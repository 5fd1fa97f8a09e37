/**
 * Three delivering nodes, and a server that requests time or blocks the host. Counted at the server: all nodes keep a pause that one of
 * them started, even one that is killed and restarted, and one transaction in total probes at its end.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Cluster, startCluster } from '../kit/cluster.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const NODES = 3;
const PAUSE_MS = 20_000;
const BUSY = '421 4.7.28 unusual rate of mail, try again in 20 seconds';
const LISTED = '554 5.7.1 Service unavailable; Client host [203.0.113.7] blocked using zen.spamhaus.org';

let busy: SmtpSink;
let listed: SmtpSink;
let office: SmtpSink;
let dns: FakeDns;
let cluster: Cluster;

before(async () => {
  busy = await smtpSink({ host: '127.0.0.2', script: { mail: BUSY } });
  listed = await smtpSink({ host: '127.0.0.3', port: busy.port, script: { banner: LISTED } });
  office = await smtpSink({ host: '127.0.0.4', port: busy.port });
  dns = await fakeDns({
    'busy.example': { A: ['127.0.0.2'] },
    'listed.example': { A: ['127.0.0.3'] },
    'provider.example': { A: ['127.0.0.4'] },
  });
  cluster = await startCluster({
    nodes: NODES,
    env: {
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_PORT: String(busy.port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
      POSTRIDER_SMTP_HOSTNAME: 'mail.provider.example',
    },
  });
  const [front] = cluster.nodes;
  await front!.cli('domain', 'add', front!.live.accountId, 'shop.example', '--verified');
  await front!.cli('user', 'create', '--email', 'ops@provider.example', '--operator');
});
after(async () => {
  await cluster?.close();
  await Promise.all([busy?.close(), listed?.close(), office?.close(), dns?.close()]);
});

/** Each at the next node. */
async function send(domain: string, from: number, count: number): Promise<void> {
  for (let to = from; to < from + count; to += 1) {
    const mail = { from: 'a@shop.example', to: `${to}@${domain}`, subject: 's', text: 't' };
    assert.equal((await cluster.api.post('/send', mail)).status, 202);
  }
}

const tries = (): number => busy.commands.filter((line) => line.startsWith('MAIL')).length;
const delayed = async (): Promise<number> => (await cluster.api.get('/messages?status=delayed&limit=100')).body.length;
const rest = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test('all nodes, even restarted ones, keep a pause that one of them started, and one probes', async () => {
  await send('busy.example', 0, 1);
  await waitUntil('the pause', async () => (await delayed()) === 1);
  const pausedAt = Date.now();
  assert.equal(tries(), 1);
  await rest(1_500);
  await send('busy.example', 1, 29);
  await waitUntil('all messages to be deferred', async () => (await delayed()) === 30);
  assert.equal(tries(), 1, 'no other node connects');
  await cluster.nodes[2]!.kill('SIGKILL');
  await cluster.nodes[2]!.restart();
  await send('busy.example', 30, 6);
  await waitUntil('the later messages to be deferred', async () => (await delayed()) === 36);
  assert.ok(Date.now() - pausedAt < PAUSE_MS, 'still within the pause');
  assert.equal(tries(), 1, 'nor does a restarted one');
  await waitUntil('the probe', () => tries() === 2, 2 * PAUSE_MS);
  await rest(5_000);
  assert.equal(tries(), 2, 'one probe for all nodes');
  busy.setScript({});
  await waitUntil('all messages to be delivered', () => busy.accepted === 36, 4 * PAUSE_MS);
  assert.equal(new Set(busy.messages.map(({ to }) => to[0])).size, 36, 'no duplicates');
});

test('one node detects a block of our host, and the operator is notified once', async () => {
  await send('listed.example', 0, 1);
  await waitUntil('the block', () => listed.connections.total === 1);
  await rest(1_500);
  await send('listed.example', 1, 29);
  await waitUntil('all messages to be deferred', async () => (await delayed()) === 30);
  assert.equal(listed.connections.total, 1);
  await waitUntil('the notice', () => office.accepted === 1);
  const [notice] = office.messages;
  assert.deepEqual([notice!.from, notice!.to], ['postmaster@mail.provider.example', ['ops@provider.example']]);
  const text = notice!.content.toString();
  assert.match(text, /^Subject: listed\.example blocks this host\r$/m);
  assert.match(text, /blocked using zen\.spamhaus\.org/);
  await rest(3_000);
  assert.deepEqual([office.accepted, listed.connections.total], [1, 1], 'one notice and no further connection');
});
