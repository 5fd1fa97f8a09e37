/**
 * Mail for an inbound route: a process killed between 250 and the event, and messages larger than the route accepts. Counted at the
 * webhook.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { bringMail, openInbound } from '../kit/inbound-rig.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

const COUNT = 10;
/** On a fast machine everything may be posted before the kill; the round is then repeated. */
const MAX_ROUNDS = 10;
const env = { POSTRIDER_INBOUND_PORT: '0', POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' };
const LINE = `${'x'.repeat(76)}\r\n`;

let service: Service;
let catcher: WebhookCatcher;
before(async () => {
  catcher = await webhookCatcher();
  service = await startService({ env });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  await service?.close();
  await catcher?.close();
});

async function route(match: string, maxBytes = 25_000_000): Promise<void> {
  const made = await service.api.post('/inbound-routes', { match, url: catcher.url, maxBytes });
  assert.equal(made.status, 201, made.text);
}

const postedIds = (): string[] => catcher.requests.map(({ body }) => JSON.parse(body).messageId as string);
const idIn = (reply: string): string => /^250 2\.0\.0 queued as (inb_\w+)/.exec(reply)?.[1] ?? assert.fail(reply);

/** A message of exactly this many bytes. */
function mailOf(bytes: number): string {
  const header = 'Subject: large\r\n\r\n';
  const left = bytes - header.length;
  const lines = Math.floor((left - 3) / LINE.length);
  return `${header}${LINE.repeat(lines)}${'y'.repeat(left - lines * LINE.length - 2)}\r\n`;
}

test('kill -9 between 250 and the event: each message is one event at the webhook', { timeout: 300_000 }, async () => {
  await route('*@in.shop.example');
  const ids: string[] = [];
  let interrupted = 0;
  for (let round = 0; interrupted < 2 && round < MAX_ROUNDS; round += 1) {
    const talker = await openInbound(service.inboundPort);
    for (let index = 0; index < COUNT; index += 1)
      ids.push(idIn(await bringMail(talker, `r${round}-${index}@in.shop.example`)));
    const { length: postedBefore } = postedIds();
    assert.deepEqual(await service.kill('SIGKILL'), { code: null, signal: 'SIGKILL' });
    if (postedBefore < ids.length) interrupted += 1;
    talker.destroy();
    await service.restart({ env });
    await waitUntil('all of them', () => ids.every((id) => postedIds().includes(id)));
  }
  assert.equal(interrupted, 2, 'messages were unposted at two of the kills');
  const events = (await service.api.get('/events?eventType=Inbound&limit=100')).body as unknown as {
    eventId: string;
  }[];
  assert.equal(events.length, ids.length, 'one event each');
  const webhookIds = new Set(catcher.requests.map(({ headers }) => headers['webhook-id']));
  assert.deepEqual(webhookIds, new Set(events.map(({ eventId }) => eventId)), 'no others at the webhook');
});

test('a route accepts no more than its maxBytes, declared or not', async () => {
  await route('small@small.shop.example', 2_000);
  const talker = await openInbound(service.inboundPort);
  const TOO_LARGE = /^552 5\.3\.4 message exceeds the maximum size of 2000 bytes/;
  assert.match(await bringMail(talker, 'small@small.shop.example', mailOf(2_001)), TOO_LARGE);
  assert.match(await talker.say('MAIL FROM:<> SIZE=2001'), /^250/);
  assert.match(await talker.say('RCPT TO:<small@small.shop.example>'), TOO_LARGE);
  assert.match(await talker.say('RSET'), /^250/);
  const id = idIn(await bringMail(talker, 'small@small.shop.example', mailOf(2_000)));
  await waitUntil('the event of the one that fits', () => postedIds().includes(id));
  const listed = (await service.api.get('/inbound?limit=100')).body as unknown as {
    inboundId: string;
    recipient: string;
  }[];
  assert.equal(listed.filter(({ recipient }) => recipient?.startsWith('small@')).length, 1);
  talker.destroy();
});
