/**
 * Forged, replayed, and borrowed reports at the inbound port of a real service. Checked from outside: the timelines and suppressions of two
 * accounts, and whether the next message is still sent.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Api, apiClient, type JsonObject } from '../kit/api.ts';
import { BOUNCE_DOMAIN, bounceAddresses, bring, tokenAddress } from '../kit/bounce-receiver.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { openInbound } from '../kit/inbound-rig.ts';
import { deliveryReport, feedbackReport } from '../kit/report-mail.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let dns: FakeDns;
let sink: SmtpSink;
let service: Service;
let other: Api;
before(async () => {
  [dns, sink] = await Promise.all([fakeDns(), smtpSink()]);
  const route = `smtp://127.0.0.1:${sink.port}`;
  service = await startService({
    env: { ...bounceAddresses, POSTRIDER_ROUTE: route, POSTRIDER_DNS_SERVERS: dns.server },
  });
  const { accountId, apiKey } = await service.cli('account', 'create', '--name', 'Other');
  other = apiClient(() => service.url, { accountId, apiKey });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await service.cli('domain', 'add', accountId, 'other.example', '--verified');
});
after(async () => {
  other?.close();
  await service?.close();
  await Promise.all([sink?.close(), dns?.close()]);
});

const typesOf = (message: JsonObject): string[] => message.timeline.map((event: JsonObject) => event.eventType);
const messageOf = async (api: Api, id: string): Promise<JsonObject> => (await api.get(`/messages/${id}`)).body;
const suppressed = async (api: Api): Promise<string[]> =>
  ((await api.get('/suppressions?limit=100')).body as unknown as JsonObject[]).map(({ email }) => email);

interface Sent {
  /** By recipient. */
  ids: string[];
  headerMessageId: string;
}

/** One email, delivered to all of its recipients. */
async function sent(api: Api, from: string, ...to: string[]): Promise<Sent> {
  const { body, text } = await api.post('/send', { from, to, subject: 'Order', text: 'Thank you' });
  assert.equal(body.success, true, text);
  const ids = body.data.recipients.map(({ messageId }: JsonObject) => messageId);
  const messages = await waitUntil('the delivery', async () => {
    const all = await Promise.all(ids.map((id: string) => messageOf(api, id)));
    return all.every((one) => one.status === 'delivered') && all;
  });
  return { ids, headerMessageId: messages[0]!.headerMessageId };
}
const fromShop = (...to: string[]) => sent(service.api, 'orders@shop.example', ...to);

/** Sends it, and waits until the service has processed it. */
async function brought(to: string, content: Buffer): Promise<void> {
  const read = async (): Promise<number> => {
    const { text } = await service.api.get('/metrics');
    return [...text.matchAll(/^postrider_inbound_reports_total\{.*\} (\d+)$/gm)].reduce(
      (sum, [, n]) => sum + Number(n),
      0,
    );
  };
  const before = await read();
  assert.match(await bring(service.inboundPort, { to, content }), /^250 /);
  await waitUntil('it to be read', async () => (await read()) > before);
}

/** Whether a message to this address is sent and arrives. */
async function stillReaches(address: string): Promise<void> {
  const { ids } = await fromShop(address);
  assert.deepEqual(typesOf(await messageOf(service.api, ids[0]!)), ['Send', 'Delivery'], address);
}

test('a guessed, altered, cut, expired, or reused token is rejected as an unknown recipient', async () => {
  const { ids } = await fromShop('ann@taken.example');
  const [bounce, unsubscribe] = [tokenAddress('bounce', ids[0]!), tokenAddress('unsubscribe', ids[0]!)];
  const local = bounce.split('@')[0]!;
  const altered = Array.from({ length: 45 }, (_, index) => {
    const at = index + 2;
    return `${local.slice(0, at)}${local[at] === 'a' ? 'b' : 'a'}${local.slice(at + 1)}`;
  });
  const forged = [
    ...altered,
    local.slice(0, -1),
    `${local}a`,
    `b+${'a'.repeat(45)}`,
    local.replace('b+', 'u+'),
    unsubscribe.split('@')[0]!.replace('u+', 'b+'),
    tokenAddress('bounce', ids[0]!, Date.now() - 16 * 86_400_000).split('@')[0]!,
    tokenAddress('bounce', ids[0]!, Date.now() + 3 * 86_400_000).split('@')[0]!,
    tokenAddress('unsubscribe', ids[0]!, Date.now() - 92 * 86_400_000).split('@')[0]!,
  ];
  const replies = new Set<string>();
  for (let from = 0; from < forged.length; from += 18) {
    const talker = await openInbound(service.inboundPort);
    await talker.say('MAIL FROM:<>');
    for (const one of forged.slice(from, from + 18)) replies.add(await talker.say(`RCPT TO:<${one}@${BOUNCE_DOMAIN}>`));
    assert.match(await talker.say(`RCPT TO:<${local.toUpperCase()}@${BOUNCE_DOMAIN}>`), /^250 /, 'control');
    talker.destroy();
  }
  assert.deepEqual([...replies], ['550 5.1.1 no such recipient']);
});

test('a bounce cannot affect mail of another account, whatever it quotes', async () => {
  const to = 'bob@taken.example';
  const [own, theirs] = [await fromShop(to), await sent(other, 'orders@other.example', to)];
  await brought(
    tokenAddress('bounce', own.ids[0]!),
    deliveryReport({ recipient: to, headerMessageId: theirs.headerMessageId }),
  );
  assert.deepEqual(typesOf(await messageOf(other, theirs.ids[0]!)), ['Send', 'Delivery']);
  assert.deepEqual([await suppressed(other), await suppressed(service.api)], [[], [to]]);
});

test('a replayed bounce does not suppress an address that was removed from the list', async () => {
  const to = 'carl@taken.example';
  const { ids, headerMessageId } = await fromShop(to);
  const report = deliveryReport({ recipient: to, headerMessageId });
  await brought(tokenAddress('bounce', ids[0]!), report);
  assert.deepEqual((await messageOf(service.api, ids[0]!)).status, 'bounced');
  assert.equal((await service.api.delete(`/suppressions/${to}`)).status, 200);
  for (let time = 0; time < 3; time += 1) await brought(tokenAddress('bounce', ids[0]!), report);
  assert.deepEqual(typesOf(await messageOf(service.api, ids[0]!)), ['Send', 'Delivery', 'Bounce']);
  await stillReaches(to);
});

test('a recipient can complain only for themselves, whatever address the report names', async () => {
  const [victim, attacker] = ['dora@taken.example', 'eve@hostile.example'];
  const { ids, headerMessageId } = await fromShop(victim, attacker);
  const own = `Return-Path: <${tokenAddress('bounce', ids[1]!)}>`;
  const forged = feedbackReport({ recipient: victim, headerMessageId });
  await brought(`abuse@${BOUNCE_DOMAIN}`, forged);
  await brought(`postmaster@${BOUNCE_DOMAIN}`, forged);
  await stillReaches(victim);
  await brought(`abuse@${BOUNCE_DOMAIN}`, feedbackReport({ recipient: victim, headerMessageId, quoted: own }));
  await brought(tokenAddress('bounce', ids[1]!), forged);
  await stillReaches(victim);
  assert.ok(
    (await suppressed(service.api)).includes(attacker),
    'the report proves that the recipient does not want it',
  );
  const quoted = `Return-Path: <${tokenAddress('bounce', ids[0]!)}>`;
  await brought(`abuse@${BOUNCE_DOMAIN}`, feedbackReport({ recipient: victim, headerMessageId, quoted }));
  assert.ok(
    (await suppressed(service.api)).includes(victim),
    'control: a report with the token of the copy is accepted',
  );
});

test('an unsubscribe message affects only the recipient of its token, and a bounce cannot use it', async () => {
  const [to, own] = ['fred@taken.example', 'gina@taken.example'];
  const { ids } = await fromShop(own);
  const before = await suppressed(service.api);
  const listed = Array.from({ length: 100 }, (_, index) => `user${index}@taken.example`).concat(to);
  const wish = `From: ${to}\r\nReply-To: ${to}\r\nTo: ${listed.join(',\r\n ')}\r\nSubject: unsubscribe ${to}\r\n\r\n${listed.join('\r\n')}\r\n`;
  for (let time = 0; time < 2; time += 1) await brought(tokenAddress('unsubscribe', ids[0]!), Buffer.from(wish));
  assert.deepEqual(
    (await suppressed(service.api)).filter((one) => !before.includes(one)),
    [own],
  );
  await stillReaches(to);
  assert.deepEqual(typesOf(await messageOf(service.api, ids[0]!)), ['Send', 'Delivery', 'Unsubscribe']);
  const bounce = deliveryReport({ recipient: own });
  await brought(tokenAddress('unsubscribe', ids[0]!), bounce);
  assert.equal((await messageOf(service.api, ids[0]!)).status, 'delivered');
});
