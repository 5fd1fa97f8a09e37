/** Two nodes with a limit on their relay: what the relay accepts within any minute counts, whichever node it came from. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Cluster, startCluster } from '../kit/cluster.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const CAP = 20;
const MAILS = 50;
const MINUTE_MS = 60_000;

let relay: SmtpSink;
let cluster: Cluster;

before(async () => {
  relay = await smtpSink();
  cluster = await startCluster({
    nodes: 2,
    env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${relay.port}?perMinute=${CAP}` },
  });
  const [front] = cluster.nodes;
  await front!.cli('domain', 'add', front!.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  await cluster?.close();
  await relay?.close();
});

const count = async (status: string): Promise<number> =>
  (await cluster.api.get(`/messages?status=${status}&limit=100`)).body.length;

test('two nodes stay within the limit together, also when one was killed, and every message is delivered', async () => {
  const startedMs = Date.now();
  for (let to = 0; to < MAILS; to += 1) {
    const mail = { from: 'a@shop.example', to: `${to}@example.org`, subject: 's', text: 't' };
    assert.equal((await cluster.api.post('/send', mail)).status, 202);
  }
  await waitUntil('the limit to be used up', async () => (await count('delayed')) > 0 && relay.accepted >= CAP - 2);
  await cluster.nodes[1]!.kill('SIGKILL');
  await cluster.nodes[1]!.restart();
  await waitUntil('the limit to be published', async () =>
    new RegExp(`relay limit perMinute=${CAP} reached`).test(
      JSON.stringify(await cluster.nodes[0]!.cli('queue', 'status')),
    ),
  );
  const { body } = await cluster.api.get('/events?eventType=DeliveryDelay&limit=100');
  const delays = (body as unknown as { deliveryDelay: Record<string, string> }[]).map((one) => one.deliveryDelay);
  assert.ok(delays.length > 0);
  for (const { category, owner, reply } of delays) {
    assert.deepEqual([category, owner], ['relay-limit', 'service']);
    assert.match(
      reply!,
      /^relay limit perMinute=20 reached: 20 messages in the last minute; sending resumes at \d{4}-.*Z$/,
    );
  }
  await waitUntil('all to be delivered', async () => (await count('delivered')) === MAILS, 5 * MINUTE_MS);
  assert.equal(relay.accepted, MAILS, 'none twice');
  // A message that is delayed on its way to the relay may follow others closely, but none arrives before its minute.
  for (const [index, { at }] of relay.messages.entries()) {
    const earliestMs = Math.floor(index / CAP) * MINUTE_MS;
    assert.ok(at - startedMs >= earliestMs, `message ${index + 1} after ${at - startedMs} ms`);
  }
});
