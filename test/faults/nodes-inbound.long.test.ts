/**
 * Two nodes with a shared database and content directory, both with an inbound port. The same bounce arrives at both at the same time, and
 * route mail at either; then one is killed just after its 250. Counted at a webhook: one event each, whichever node received it, and the
 * content is readable on the other node.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { type Api, apiClient, type JsonObject } from '../kit/api.ts';
import { bounceAddresses, bring } from '../kit/bounce-receiver.ts';
import { type Cluster, startCluster } from '../kit/cluster.ts';
import { mailOfSize } from '../kit/mail-of-size.ts';
import { deliveryReport } from '../kit/report-mail.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import type { Service } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

const COUNT = 10;
const TO = 'support@in.shop.example';
/** Leases of a dead node end within a minute. */
const TAKEN_OVER_MS = 120_000;

let cluster: Cluster;
let catcher: WebhookCatcher;
let sink: SmtpSink;
/** Sequential calls at one node. */
let apis: [Api, Api];
let nodes: [Service, Service];

before(async () => {
  catcher = await webhookCatcher();
  sink = await smtpSink();
  const env = { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' };
  cluster = await startCluster({ nodes: 2, env: { ...bounceAddresses, ...env } });
  nodes = [cluster.nodes[0]!, cluster.nodes[1]!];
  const { live } = nodes[0];
  apis = [apiClient(() => nodes[0].url, live), apiClient(() => nodes[1].url, live)];
  await nodes[0].cli('domain', 'add', live.accountId, 'shop.example', '--verified');
  assert.equal((await apis[0].post('/inbound-routes', { match: TO })).status, 201);
  const wanted = { url: catcher.url, events: ['Bounce', 'Inbound'] };
  assert.equal((await apis[0].post('/webhooks', wanted)).status, 201);
});
after(async () => {
  for (const api of apis ?? []) api.close();
  await cluster?.close();
  await sink?.close();
  await catcher?.close();
});

const posted = (type: string): JsonObject[] =>
  catcher.requests.map(({ body }) => JSON.parse(body) as JsonObject).filter(({ eventType }) => eventType === type);
const eventsOf = async (api: Api, type: string): Promise<JsonObject[]> =>
  (await api.get(`/events?eventType=${type}&limit=100`)).body as unknown as JsonObject[];
const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Sends a message to each; returns the return paths by recipient, as the receiving server saw them. */
async function sent(recipients: readonly string[]): Promise<Map<string, string>> {
  for (const to of recipients) {
    const mail = { from: 'orders@shop.example', to, subject: 'Order', text: 'Thank you' };
    assert.equal((await cluster.api.post('/send', mail)).status, 202);
  }
  const arrived = () => sink.messages.filter(({ to }) => recipients.includes(to[0]!));
  await waitUntil('the deliveries', () => arrived().length === recipients.length);
  return new Map(arrived().map(({ to, from }) => [to[0]!, from]));
}

/** Resolves once there is exactly one event for each in this node's log and at the webhook. */
async function oneEach(api: Api, type: string, names: readonly string[], nameOf: (event: JsonObject) => string) {
  const events = await waitUntil(
    `one ${type} each`,
    async () => {
      const found = await eventsOf(api, type);
      return names.every((name) => found.some((event) => nameOf(event) === name)) && found;
    },
    TAKEN_OVER_MS,
  );
  const ids = new Set(events.map(({ eventId }) => eventId));
  const areThere = (): boolean => ids.isSubsetOf(new Set(posted(type).map((one) => one.eventId)));
  await waitUntil('the webhook to receive them', areThere, TAKEN_OVER_MS);
  assert.deepEqual(events.map(nameOf).sort(), names.toSorted());
  assert.deepEqual(new Set(posted(type).map(({ eventId }) => eventId)), ids);
  return events;
}

test('a bounce received by both nodes is one Bounce, even if one is killed after its 250', {
  timeout: 400_000,
}, async (t) => {
  const recipients = Array.from({ length: COUNT }, (_, index) => `r${index}@x.example`);
  const paths = await sent(recipients);
  const report = (recipient: string, isLarge = false) => ({
    to: paths.get(recipient)!,
    content: deliveryReport({ recipient, isLarge }),
  });
  const early = recipients.slice(0, COUNT / 2);
  for (const recipient of early) {
    const replies = await Promise.all(nodes.map((node) => bring(node.inboundPort, report(recipient))));
    for (const reply of replies) assert.match(reply, /^250 2\.0\.0 queued as inb_/);
  }
  await oneEach(apis[1], 'Bounce', early, ({ recipient }) => recipient);

  const late = recipients.slice(COUNT / 2);
  const replies = late.flatMap((recipient, index) =>
    nodes.map((node) => bring(node.inboundPort, report(recipient, index % 2 === 0))),
  );
  for (const reply of await Promise.all(replies)) assert.match(reply, /^250/);
  await nodes[0].kill('SIGKILL');
  const events = await oneEach(apis[1], 'Bounce', recipients, ({ recipient }) => recipient);
  assert.ok(events.every(({ bounce }) => bounce.late === true));
  const [, ...suppressed] = await Promise.all([
    nodes[0].restart(),
    ...recipients.map((recipient) => apis[1].get(`/suppressions/${recipient}`)),
  ]);
  assert.ok(suppressed.every((one) => one.body.reason === 'bounce'));
  const again = posted('Bounce').length - COUNT;
  t.diagnostic(`${COUNT} bounces in ${2 * COUNT} reports, ${again} of their webhooks posted again after the kill`);
});

test('mail for a route is one Inbound on either node, readable on the other, and survives a kill', {
  timeout: 400_000,
}, async () => {
  const sizes = [20_000, 300_000];
  const mails = sizes.flatMap((size) =>
    nodes.map((node, index) => ({ node, ...mailOfSize(size, `${size} ${index}`) })),
  );
  const contents = new Map<string, string>();
  for (const { node, content } of mails) {
    const id = /queued as (inb_\w+)/.exec(await bring(node.inboundPort, { to: TO, content }))?.[1];
    assert.ok(id);
    contents.set(id, digest(content));
  }
  const both = async (): Promise<void> => {
    for (const [id, expected] of contents)
      for (const node of nodes) {
        const headers = { 'x-api-key': node.live.apiKey, 'x-id': node.live.accountId };
        const answer = await fetch(`${node.url}/inbound/${id}/content`, { headers });
        assert.equal(digest(Buffer.from(await answer.arrayBuffer())), expected, `${id} at each node`);
      }
  };
  await oneEach(apis[0], 'Inbound', [...contents.keys()], ({ messageId }) => messageId);
  await both();

  for (let index = 0; index < COUNT; index += 1) {
    const { content } = mailOfSize(300_000, `killed ${index}`);
    const id = /queued as (inb_\w+)/.exec(await bring(nodes[0].inboundPort, { to: TO, content }))?.[1];
    assert.ok(id);
    contents.set(id, digest(content));
  }
  await nodes[0].kill('SIGKILL');
  await oneEach(apis[1], 'Inbound', [...contents.keys()], ({ messageId }) => messageId);
  await nodes[0].restart();
  await both();
  assert.equal((await eventsOf(apis[0], 'Bounce')).length, COUNT, 'no bounce was received twice');
});
