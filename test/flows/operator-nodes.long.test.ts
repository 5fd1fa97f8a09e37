/**
 * Operator view on two nodes: one node pauses a destination, and the other lists the pause and ends it. Sessions and transactions are
 * counted at the MX host.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { type Cluster, startCluster } from '../kit/cluster.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type Browser, openBrowser } from '../kit/in-process-api.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const REFUSAL = '421 4.7.28 unusual rate of mail, try again in 20 minutes';
const MAILS = 6;

let sink: SmtpSink;
let dns: FakeDns;
let cluster: Cluster;
let operator: Browser;

before(async () => {
  sink = await smtpSink({ script: { mail: REFUSAL } });
  dns = await fakeDns({ 'busy.example': { MX: [[10, 'mx.busy.example']] }, 'mx.busy.example': { A: ['127.0.0.1'] } });
  cluster = await startCluster({
    nodes: 2,
    env: {
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_PORT: String(sink.port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
    },
    envOf: async (index) => ({ POSTRIDER_ROLES: index === 0 ? 'api' : 'smtp,delivery,webhooks' }),
    reachable: 1,
  });
  const [front] = cluster.nodes;
  await front!.cli('domain', 'add', front!.live.accountId, 'shop.example', '--verified');
  const { email, password } = await front!.cli('user', 'create', '--email', 'op@example.com', '--operator');
  const { port } = new URL(front!.url);
  operator = openBrowser(Number(port), `http://localhost:${port}`, '127.0.0.1');
  assert.equal((await operator.call('POST', '/session', { email, password })).status, 200);
});
after(async () => {
  await cluster?.close();
  await sink?.close();
  await dns?.close();
});

const destination = async (): Promise<JsonObject | undefined> =>
  ((await operator.call('GET', '/operator/destinations')).body as unknown as JsonObject[])[0];
const transactions = (): number => sink.commands.filter((line) => line.startsWith('MAIL')).length;
const depth = async (): Promise<number> => (await operator.call('GET', '/operator/queue')).body.depth;

test('another node lists the pause and ends it: one probe, then the queued mail', async () => {
  const mail = (to: number) => ({ from: 'a@shop.example', to: `${to}@busy.example`, subject: 's', text: 't' });
  for (let to = 0; to < MAILS; to += 1) assert.equal((await cluster.api.post('/send', mail(to))).status, 202);
  await waitUntil('the pause to be listed', async () => typeof (await destination())?.pausedUntil === 'string');
  await waitUntil(
    'all messages to be deferred',
    async () => (await cluster.api.get('/messages?status=delayed')).body.length === MAILS,
  );
  const shown = (await destination())!;
  assert.deepEqual([shown.destinationId, shown.depth, shown.nodes.length], ['mx.busy.example', MAILS, 1]);
  assert.equal(shown.lastReplies[0].reply, REFUSAL);
  const one = (await operator.call('GET', '/operator/destinations/mx.busy.example')).body as unknown as JsonObject;
  assert.equal(one.destinationId, 'mx.busy.example');
  const asked = `mx.busy.example requested a pause until ${shown.pausedUntil}; ${MAILS} messages queued. Last reply: `;
  assert.ok(one.explanation.startsWith(`${asked}${REFUSAL.slice(0, 20)}`), one.explanation);
  assert.equal((await operator.call('GET', '/operator/destinations/other.example')).status, 404);
  const leftMs = Date.parse(shown.pausedUntil) - Date.now();
  assert.ok(leftMs > 1_100_000 && leftMs <= 1_200_000, `${leftMs} ms are left of twenty minutes`);
  const nodes = (await operator.call('GET', '/operator/nodes')).body as unknown as JsonObject[];
  assert.deepEqual(nodes.map(({ roles }) => roles.join()).sort(), ['api', 'smtp,delivery,webhooks']);
  assert.ok(nodes.some(({ nodeId }) => nodeId === shown.nodes[0].nodeId));

  // It rejects again: one transaction, and the next pause.
  const resume = () => operator.call('POST', '/operator/destinations/mx.busy.example/resume');
  const [sessions, tries] = [sink.connections.total, transactions()];
  assert.equal((await resume()).status, 200);
  const isPausedAnew = async () => ((await destination())?.pausedUntil ?? '') > shown.pausedUntil;
  await waitUntil('the next pause', isPausedAnew);
  assert.deepEqual([sink.connections.total, transactions()], [sessions + 1, tries + 1], 'one probe');
  assert.equal(await depth(), MAILS);

  const began = sink.connections.total;
  sink.setScript({});
  const resumedAt = Date.now();
  assert.equal((await resume()).status, 200);
  await waitUntil('the probe', () => sink.connections.total > began);
  assert.ok(Date.now() - resumedAt < 4_000, `probed after ${Date.now() - resumedAt} ms`);
  await waitUntil('all messages to be delivered', () => sink.messages.length === MAILS);
  await waitUntil('the queue to be empty', async () => (await depth()) === 0);
  assert.equal(new Set(sink.messages.map(({ to }) => to[0])).size, MAILS, 'no duplicates');
  await waitUntil('no pause to be listed', async () => ((await destination())?.pausedUntil ?? null) === null);

  const log = (await operator.call('GET', '/operator/audit?action=destination.resume')).body as unknown as JsonObject[];
  assert.deepEqual(
    log.map(({ actor, resourceId }) => [actor.name, resourceId]),
    [
      ['op@example.com', 'mx.busy.example'],
      ['op@example.com', 'mx.busy.example'],
    ],
  );
});

test('lists individually deferred messages with the last reply and the next attempt', async () => {
  const REPLY = '451 4.3.0 mailbox is busy, try again later';
  sink.setScript({ rcpt: REPLY });
  for (const to of ['1', '2', '3']) {
    const mail = { from: 'a@shop.example', to: `${to}@busy.example`, subject: 's', text: 't' };
    assert.equal((await cluster.api.post('/send', mail)).status, 202);
  }
  const queue = async (): Promise<JsonObject> => (await operator.call('GET', '/operator/queue')).body as JsonObject;
  await waitUntil('all messages to be deferred', async () => (await queue()).waiting === 3);
  const { depth: total, due, leased, held, waiting } = await queue();
  assert.equal(due + leased + held + waiting, total);

  // A restarted node has no queue in memory.
  const [, back] = cluster.nodes;
  await back!.kill('SIGTERM');
  await back!.restart();
  const shown = async () => (await destination())!;
  await waitUntil('the destination to be listed', async () => (await shown())?.depth === 3);
  const { depth: listed, pausedUntil, lastReplies, nextAttemptAt, explanation } = await shown();
  assert.deepEqual([listed, pausedUntil, lastReplies[0]?.reply], [3, null, REPLY]);
  const { accountId } = (await queue()).accounts[0];
  const own = (await operator.call('GET', `/operator/accounts/${accountId}/queue`)).body as unknown as JsonObject;
  assert.deepEqual(own.domains, [{ domain: 'busy.example', depth: 3, nextAttemptAt, lastReply: REPLY }]);
  const next = (await cluster.api.get('/messages?status=delayed')).body as unknown as JsonObject[];
  const earliest = next.map((one) => one.nextAttemptAt as string).sort()[0];
  assert.equal(nextAttemptAt, earliest, 'as the earliest of its messages');
  assert.ok(explanation.includes(REPLY), explanation);
  const byDomain = (await operator.call('GET', '/operator/destinations/busy.example')).body;
  assert.equal(byDomain.depth, 3);
  const status = await back!.cli('queue', 'status', 'busy.example');
  assert.equal(status.destinations[0].waiting, 3);
});
