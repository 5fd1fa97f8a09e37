/**
 * Accepted live mail that may no longer be sent: the sender's domain was removed from the account, or the account is suspended. In the
 * first case it bounces and is never sent unsigned; in the second it stays queued.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { closeShop, openShop, type Shop } from '../kit/shop.ts';
import { waitUntil } from '../kit/wait-until.ts';

let shop: Shop;

before(async () => {
  shop = await openShop();
});

after(() => closeShop(shop ?? {}));

const mailFrom = (domain: string, change: JsonObject = {}): JsonObject => ({
  from: `orders@${domain}`,
  to: 'a@x.example',
  subject: domain,
  text: 'Hi',
  ...change,
});
const HOUR = 3_600_000;
const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString();

async function idOf(mail: JsonObject): Promise<string> {
  const sent = await shop.service.api.post('/send', mail);
  assert.equal(sent.status, 202, sent.text);
  return sent.body.data.messageId;
}

const messageOf = async (id: string) => (await shop.service.api.get(`/messages/${id}`)).body;

async function settled(id: string, status: string) {
  return waitUntil(`${id} to be ${status}`, async () => {
    const message = await messageOf(id);
    return message.status === status ? message : undefined;
  });
}

const arrived = (subject: string): number =>
  shop.sink.messages.filter((mail) => mail.content.includes(`Subject: ${subject}\r\n`)).length;

test('mail from a domain removed after acceptance bounces without being sent', async () => {
  const { service } = shop;
  const added = await service.cli('domain', 'add', service.live.accountId, 'gone.example', '--verified');
  const id = await idOf(mailFrom('gone.example', { sendAt: inMs(HOUR) }));
  const sub = await idOf(mailFrom('mail.gone.example', { sendAt: inMs(HOUR) }));
  assert.equal((await service.api.delete(`/domains/${added.domainId}`)).status, 200);
  for (const messageId of [id, sub]) await service.cli('queue', 'retry', messageId);
  for (const messageId of [id, sub]) {
    const { timeline, attempts } = await settled(messageId, 'bounced');
    const { bounce } = timeline.at(-1);
    assert.deepEqual(
      [bounce.kind, bounce.category, bounce.owner, bounce.smtpCode, bounce.enhancedCode, bounce.suppressed],
      ['block', 'policy', 'sender', 550, '5.7.1', false],
    );
    assert.match(bounce.reply, /gone\.example is no longer verified/);
    assert.match(bounce.advice, /add and verify it/);
    assert.equal(attempts.length, 1);
    assert.equal(attempts[0].host, null);
  }
  assert.equal(arrived('gone.example') + arrived('mail.gone.example'), 0);
  const kept = await idOf(mailFrom('shop.example'));
  await settled(kept, 'delivered');
  assert.match(shop.sink.messages.at(-1)!.content.toString(), /^DKIM-Signature:/m);
});

test('a suspended account sends nothing, and its queued mail is sent soon after resuming', async () => {
  const { service } = shop;
  const { accountId } = service.live;
  const other = await service.cli('account', 'create', '--name', 'Other');
  const waiting = await idOf(mailFrom('shop.example', { subject: 'waiting', sendAt: inMs(HOUR) }));
  const later = await idOf(mailFrom('shop.example', { subject: 'later', sendAt: inMs(HOUR) }));
  const played = await service.sandboxApi.post('/send', mailFrom('x.example', { sendAt: inMs(HOUR) }));
  await service.cli('account', 'set', accountId, '--status', 'suspended');
  await waitUntil('the suspension to apply', async () => (await service.api.get('/messages')).status === 403);
  // The live message is due first, so it was checked by the time the other one is sent.
  for (const id of [waiting, played.body.data.messageId]) await service.cli('queue', 'retry', id);
  await waitUntil('the queue to become idle', async () => {
    const status = await service.cli('queue', 'status');
    return status.depth === 2 && status.due === 0;
  });
  assert.equal(arrived('waiting'), 0);
  await service.cli('account', 'set', other.accountId as string, '--status', 'active');
  await service.cli('account', 'set', accountId, '--status', 'active');
  const message = await settled(waiting, 'delivered');
  assert.equal(message.attempts.length, 1);
  assert.equal(arrived('waiting'), 1);
  assert.equal((await messageOf(later)).status, 'scheduled', 'a requested time is respected');
  assert.equal((await service.sandboxApi.get(`/messages/${played.body.data.messageId}`)).body.status, 'delivered');
});
