/** Two nodes with addresses in warm-up: the messages that a large provider's server accepts in a day are limited across both nodes. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Cluster, startCluster } from '../kit/cluster.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const SHARE = 50;
const MAILS = 80;

let google: SmtpSink;
let dns: FakeDns;
let cluster: Cluster;

before(async () => {
  google = await smtpSink({ host: '127.0.0.2' });
  dns = await fakeDns({ 'gmail.example': { MX: [[5, 'mx.google.com']] }, 'mx.google.com': { A: ['127.0.0.2'] } });
  cluster = await startCluster({
    nodes: 2,
    env: {
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_PORT: String(google.port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
      // Tomorrow is the first day today, and still after a midnight within this test.
      POSTRIDER_WARMUP: new Date(Date.now() + 86_400_000).toISOString().slice(0, 10),
    },
  });
  const [front] = cluster.nodes;
  await front!.cli('domain', 'add', front!.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  await cluster?.close();
  await Promise.all([google?.close(), dns?.close()]);
});

async function send(from: number, count: number): Promise<void> {
  for (let to = from; to < from + count; to += 1) {
    const mail = { from: 'a@shop.example', to: `${to}@gmail.example`, subject: 's', text: 't' };
    assert.equal((await cluster.api.post('/send', mail)).status, 202);
  }
}

const count = async (status: string): Promise<number> =>
  (await cluster.api.get(`/messages?status=${status}&limit=100`)).body.length;

/** Counts messages by result, once none is in progress. */
async function settled(mails: number): Promise<Record<'delivered' | 'delayed', number>> {
  let seen = { delivered: 0, delayed: 0 };
  return waitUntil(`${mails} messages to be delivered or delayed`, async () => {
    seen = { delivered: await count('delivered'), delayed: await count('delayed') };
    return seen.delivered + seen.delayed === mails && seen;
  }).catch((error: unknown) => {
    throw new Error(`last seen: ${JSON.stringify(seen)}, accepted by the server: ${google.accepted}`, { cause: error });
  });
}

test('two nodes together send the share of one host and defer the rest, even after a kill', async () => {
  await send(0, MAILS);
  const first = await settled(MAILS);
  assert.equal(google.accepted, first.delivered);
  // Messages in flight on one node while the other has used up the share, and pauses the provider for both, are not sent today: one or two.
  assert.ok(first.delivered <= SHARE && first.delivered >= SHARE - 2, `${first.delivered} delivered`);
  await cluster.nodes[1]!.kill('SIGKILL');
  await cluster.nodes[1]!.restart();
  await send(MAILS, 10);
  assert.deepEqual(await settled(MAILS + 10), { ...first, delayed: first.delayed + 10 });
  assert.equal(google.accepted, first.delivered);
  const { body } = await cluster.api.get('/events?eventType=DeliveryDelay&limit=100');
  const delays = (body as unknown as { deliveryDelay: Record<string, string> }[]).map((one) => one.deliveryDelay);
  const warm = delays.filter(({ category, owner }) => category === 'warm-up' && owner === 'service');
  assert.ok(warm.length > first.delayed, `${warm.length} of ${delays.length} for the warm-up`);
  for (const { reply } of warm) assert.match(reply!, /^warm-up day 1: (49|50) of 50 messages to google today/);
  // Nodes publish their destinations every two seconds, and the command reads the last published state.
  await waitUntil('the used share to be published', async () =>
    /warm-up day 1: (49|50) of 50 messages to google today/.test(
      JSON.stringify(await cluster.nodes[0]!.cli('queue', 'status')),
    ),
  );
});
