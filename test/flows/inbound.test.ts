/** Simulated inbound messages to sandbox routes: their events in the log and at webhooks, their attachments as links, and mail loops. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Webhook } from 'standardwebhooks';
import type { JsonObject } from '../kit/api.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';
import { winmail } from '../kit/winmail.ts';

let service: Service;
let catcher: WebhookCatcher;
before(async () => {
  catcher = await webhookCatcher();
  service = await startService({ env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' } });
});
after(async () => {
  await service?.close();
  await catcher?.close();
});

const route = async (body: JsonObject): Promise<JsonObject> => {
  const made = await service.sandboxApi.post('/inbound-routes', body);
  assert.equal(made.status, 201, made.text);
  return made.body;
};
const play = async (body: JsonObject): Promise<JsonObject> => {
  const played = await service.sandboxApi.post('/sandbox/inbound', body);
  assert.equal(played.status, 201, played.text);
  return played.body;
};
const postedOf = (inboundId: string) =>
  catcher.requests.filter(({ body }) => JSON.parse(body.toString()).messageId === inboundId);
const fetchLink = (url: string) => fetch(`${service.url}${new URL(url).pathname}`);

test('a reply becomes one signed event per subscribed endpoint, linked to its message', async () => {
  const own = await route({ match: 'reply+*@in.shop.example', url: `${catcher.url}/own` });
  const sent = await service.sandboxApi.post('/send', {
    from: 'shop@shop.example',
    to: 'ann@example.com',
    subject: 'Order 17',
    text: 'On its way.',
  });
  const { messageId } = sent.body.data;
  await service.sandboxApi.post('/webhooks', { url: `${catcher.url}/all`, events: ['Inbound'] });
  const photo = randomBytes(200_000);
  const played = await play({
    to: 'reply+17@in.shop.example',
    from: 'ann@example.com',
    subject: 'Re: Order 17',
    inReplyTo: messageId,
    text: 'It came, thank you.\n\nOn 20 Nov 2026 at 9:44 Shop wrote:\n> On its way.\n',
    attachments: [{ name: 'phötó.jpg', contentType: 'image/jpeg', content: photo.toString('base64') }],
  });
  assert.deepEqual([played.outcome, played.inReplyTo, played.inboundRouteId], ['event', messageId, own.inboundRouteId]);
  const [posted] = await waitUntil(
    'the event',
    () => postedOf(played.inboundId).length > 0 && postedOf(played.inboundId),
  );
  assert.equal(posted!.path, '/hook/own');
  const event = new Webhook(own.secret.slice('whsec_'.length)).verify(
    posted!.body.toString(),
    posted!.headers as never,
  ) as JsonObject;
  assert.deepEqual(
    [event.eventId, event.eventType, event.recipient],
    [played.eventId, 'Inbound', 'reply+17@in.shop.example'],
  );
  const { inbound } = event;
  assert.equal(inbound.replyText, 'It came, thank you.');
  assert.deepEqual(inbound.envelope, { from: 'ann@example.com', to: 'reply+17@in.shop.example' });
  assert.deepEqual([inbound.inReplyTo, inbound.autoReply], [messageId, false]);
  const file = await fetchLink(inbound.attachments[0].url);
  assert.deepEqual(
    [file.status, inbound.attachments[0].name, inbound.attachments[0].sizeBytes],
    [200, 'phötó.jpg', photo.length],
  );
  assert.match(file.headers.get('content-disposition') ?? '', /^attachment; .*ph%C3%B6t%C3%B3\.jpg/);
  assert.match(file.headers.get('content-security-policy') ?? '', /sandbox/);
  assert.ok(Buffer.from(await file.arrayBuffer()).equals(photo));

  const listed = (await service.sandboxApi.get('/events?eventType=Inbound')).body as unknown as JsonObject[];
  assert.deepEqual(
    listed.find((one) => one.eventId === event.eventId),
    event,
    'the log shows what was posted',
  );
  const shown = (await service.sandboxApi.get(`/inbound/${played.inboundId}`)).body;
  assert.deepEqual([shown.eventId, shown.content.text, shown.attachments], [event.eventId, inbound.text, 1]);
  const raw = await service.sandboxApi.get(`/inbound/${played.inboundId}/content`);
  const linked = Buffer.from(await (await fetchLink(inbound.rawUrl)).arrayBuffer());
  assert.equal(createHash('sha256').update(linked).digest('hex'), createHash('sha256').update(raw.text).digest('hex'));
  assert.equal(linked.length, shown.sizeBytes);
  const again = await service.sandboxApi.get(`/inbound/${played.inboundId}/attachments/0`);
  assert.equal(again.status, 200);
  for (const gone of ['1', '-1', 'x'])
    assert.equal((await service.sandboxApi.get(`/inbound/${played.inboundId}/attachments/${gone}`)).status, 404);
  assert.equal((await service.api.get(`/inbound/${played.inboundId}`)).status, 404, 'sandbox events are not live');

  const { webhookId } = own;
  const deliveries = (await service.sandboxApi.get(`/webhooks/${webhookId}/deliveries`))
    .body as unknown as JsonObject[];
  assert.deepEqual(
    deliveries.map(({ eventType, status }) => [eventType, status]),
    [['Inbound', 'succeeded']],
  );
  const resent = await service.sandboxApi.post(
    `/webhooks/${webhookId}/deliveries/${deliveries[0]!.deliveryId}/retry`,
    {},
  );
  assert.equal(resent.status, 200);
  await waitUntil('it is sent again', () => postedOf(played.inboundId).length === 2);
  const [first, second] = postedOf(played.inboundId);
  assert.equal(first!.body.toString(), second!.body.toString(), 'the same bytes');
  assert.ok(
    postedOf(played.inboundId).every(({ path }) => path === '/hook/own'),
    'others do not receive mail for a route with its own URL',
  );
});

test('an attachment in winmail.dat has a separate link', async () => {
  await route({ match: 'outlook@in.shop.example' });
  const played = await play({
    to: 'outlook@in.shop.example',
    from: 'ann@example.com',
    raw: [
      'From: ann@example.com',
      'Content-Type: application/ms-tnef; name=winmail.dat',
      'Content-Transfer-Encoding: base64',
      '',
      winmail().toString('base64'),
    ].join('\n'),
  });
  const { text, attachments } = (await service.sandboxApi.get(`/inbound/${played.inboundId}`)).body.content;
  assert.equal(text, 'Grüße aus Outlook');
  const files = await Promise.all(attachments.map(async ({ url }: JsonObject) => (await fetchLink(url)).text()));
  assert.deepEqual(
    attachments.map(({ name }: JsonObject, index: number) => [name, files[index]]),
    [
      ['Straße.txt', 'first file'],
      ['Tabelle – 2026.xlsx', 'second file'],
    ],
  );
});

test('a replay sends a webhook only the messages it would have received', async () => {
  const since = new Date(Date.now() - 3_600_000).toISOString();
  const own = await route({ match: 'private@again.shop.example', url: `${catcher.url}/private` });
  const other = await route({ match: 'other@again.shop.example', url: `${catcher.url}/other` });
  await route({ match: 'plain@again.shop.example' });
  const all = (await service.sandboxApi.post('/webhooks', { url: `${catcher.url}/general`, events: ['Inbound'] })).body;
  const from = 'ann@example.com';
  const playTo = async (local: string): Promise<string> =>
    (await play({ to: `${local}@again.shop.example`, from, text: 'x' })).inboundId;
  const [toOwn, toOther, toAll] = [await playTo('private'), await playTo('other'), await playTo('plain')];
  const pathsOf = (inboundId: string) => postedOf(inboundId).map(({ path }) => path.replace('/hook/', ''));
  const count = () => [pathsOf(toOwn), pathsOf(toOther), pathsOf(toAll).filter((path) => path === 'general')];
  const first = [['private'], ['other'], ['general']];
  await waitUntil('each to be posted once', () => isDeepStrictEqual(count(), first));
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const replay = async (webhookId: string): Promise<number> => {
    const answered = await service.sandboxApi.post(`/webhooks/${webhookId}/replay`, { since, until });
    assert.equal(answered.status, 200, answered.text);
    return answered.body.events;
  };
  assert.deepEqual([await replay(own.webhookId), await replay(other.webhookId)], [1, 1]);
  await replay(all.webhookId);
  await waitUntil('each to be posted again', () => count().every((paths) => paths.length >= 2));
  const idle = async (webhookId: string) =>
    ((await service.sandboxApi.get(`/webhooks/${webhookId}/deliveries`)).body as unknown as JsonObject[]).every(
      ({ status }) => status === 'succeeded',
    );
  await waitUntil('nothing to wait', async () => {
    const done = [await idle(own.webhookId), await idle(other.webhookId), await idle(all.webhookId)];
    return done.every(Boolean);
  });
  assert.deepEqual(
    count(),
    first.map(([path]) => [path, path]),
  );
  const log = await service.sandboxApi.get('/events?recipient=Private@again.shop.example');
  const ids = (log.body as unknown as JsonObject[]).map(({ messageId }) => messageId);
  assert.deepEqual(ids, [toOwn], 'and the log finds it by recipient');
});

test('links cannot be altered, and mail to unknown recipients is rejected', async () => {
  await route({ match: 'plain@in.shop.example' });
  const { inboundId } = await play({ to: 'plain@in.shop.example', from: '', raw: 'Subject: x\n\nhello\n' });
  const { content } = (await service.sandboxApi.get(`/inbound/${inboundId}`)).body;
  const token = new URL(content.rawUrl).pathname;
  assert.equal((await fetch(service.url + token)).status, 200, 'control');
  for (let at = '/inbound-files/'.length; at < token.length; at += 3) {
    const altered = token.slice(0, at) + (token[at] === 'a' ? 'b' : 'a') + token.slice(at + 1);
    assert.equal((await fetch(service.url + altered)).status, 404, altered);
  }
  const nobody = await service.sandboxApi.post('/sandbox/inbound', {
    to: 'no@in.shop.example',
    from: 'a@x.example',
    text: 'x',
  });
  assert.equal(nobody.status, 404);
  const mixed = { to: 'plain@in.shop.example', from: 'x y', raw: 'x', text: 'x' };
  const refused = await service.sandboxApi.post('/sandbox/inbound', mixed);
  assert.deepEqual(refused.body.error.details.map(({ field }: JsonObject) => field).sort(), ['from', 'text']);
  const file = { contentType: 'text/plain', content: 'eA==' };
  for (const [field, parts] of [
    ['subject', { subject: 'x\r\nBcc: z' }],
    ['subject', { subject: 'x\u2028y' }],
    ['inReplyTo', { inReplyTo: '<a\u0007@x.example>' }],
    ['attachments[0].name', { attachments: [{ ...file, name: 'a\r\nb' }] }],
    ['attachments[0].contentId', { attachments: [{ ...file, name: 'a', contentId: 'é' }] }],
  ] as const) {
    const mail = { to: 'plain@in.shop.example', from: 'a@x.example', ...parts };
    const { status, body } = await service.sandboxApi.post('/sandbox/inbound', mail);
    assert.equal(status, 400, field);
    assert.deepEqual(
      body.error.details.map((one: JsonObject) => one.field),
      [field],
    );
  }
  assert.equal((await service.api.post('/sandbox/inbound', { to: 'plain@in.shop.example', from: '' })).status, 403);
  await route({ match: 'small@in.shop.example', maxBytes: 1_000 });
  const large = { to: 'small@in.shop.example', from: 'a@x.example', text: 'x'.repeat(2_000) };
  assert.equal((await service.sandboxApi.post('/sandbox/inbound', large)).status, 413);
});

test('mail that would loop creates no event and is listed with the reason', async () => {
  await route({ match: 'loop@in.shop.example' });
  const playRaw = (header: string) =>
    play({ to: 'loop@in.shop.example', from: 'a@x.example', raw: `${header}\n\nhello\n` });
  const { messageId } = (
    await service.sandboxApi.post('/send', {
      from: 'shop@shop.example',
      to: 'ann@example.com',
      subject: 's',
      text: 't',
    })
  ).body.data;
  const { headerMessageId } = (await service.sandboxApi.get(`/messages/${messageId}`)).body;
  for (const [header, outcome, autoReply] of [
    ['Auto-Submitted: auto-replied (vacation)', 'auto-reply', true],
    ['Auto-Submitted: auto-generated', 'event', false],
    ['Auto-Submitted: no', 'event', false],
    ['X-Autoreply: yes', 'event', true],
    ['Subject: Automatische Antwort: Urlaub', 'event', true],
    [`Message-ID: ${headerMessageId}`, 'own-mail', false],
    ['Message-ID: <other@x.example>', 'event', false],
    ['Received: by a\n'.repeat(31).trim(), 'too-many-hops', false],
    ['Received: by a\n'.repeat(30).trim(), 'event', false],
  ] as const) {
    const played = await playRaw(header);
    assert.deepEqual([played.outcome, played.eventId === null], [outcome, outcome !== 'event'], header.slice(0, 60));
    const { content } = (await service.sandboxApi.get(`/inbound/${played.inboundId}`)).body;
    assert.equal(content.autoReply, autoReply, header.slice(0, 60));
  }
  const dropped = (await service.sandboxApi.get('/inbound?outcome=own-mail')).body as unknown as JsonObject[];
  assert.equal(dropped.length, 1);
  const events = (await service.sandboxApi.get('/events?eventType=Inbound&limit=100')).body as unknown as JsonObject[];
  assert.ok(!events.some(({ messageId: id }) => id === dropped[0]!.inboundId));
});

test('a message to a message address counts as a reply to it', async () => {
  await route({ match: 'r+*@in.shop.example' });
  const { messageId } = (
    await service.sandboxApi.post('/send', {
      from: 'shop@shop.example',
      to: 'ann@example.com',
      subject: 's',
      text: 't',
    })
  ).body.data;
  assert.equal(
    (await play({ to: `r+${messageId}@in.shop.example`, from: 'ann@example.com', text: 'x' })).inReplyTo,
    messageId,
  );
  const unknown = `msg_${'0'.repeat(21)}`;
  assert.equal(
    (await play({ to: `r+${unknown}@in.shop.example`, from: 'ann@example.com', text: 'x' })).inReplyTo,
    null,
  );
});

test('a simulated inbound message reports only the given authentication results', async () => {
  await route({ match: 'proof@in.shop.example' });
  const none = { domain: null, reason: null, result: 'none' };
  const shown = async (authentication?: JsonObject): Promise<JsonObject> => {
    const mail = { to: 'proof@in.shop.example', from: 'ann@example.com', text: 'x' };
    const { inboundId, eventId } = await play({ ...mail, ...(authentication && { authentication }) });
    const { content } = (await service.sandboxApi.get(`/inbound/${inboundId}`)).body;
    const events = (await service.sandboxApi.get('/events?eventType=Inbound')).body as unknown as JsonObject[];
    const { inbound } = events.find((one) => one.eventId === eventId)!;
    assert.deepEqual(inbound.authentication, content.authentication);
    return inbound.authentication;
  };
  const nothing = { spf: none, dkim: [], dmarc: { ...none, policy: null }, arc: { result: 'none', reason: null } };
  assert.deepEqual(await shown(), nothing);
  const dmarc = { result: 'fail', domain: 'example.com', policy: 'reject' };
  assert.deepEqual(await shown({ dmarc, dkim: [{ result: 'fail' }], arc: { result: 'pass' } }), {
    spf: none,
    dkim: [{ result: 'fail', domain: null, selector: null, reason: null }],
    dmarc: { ...dmarc, reason: null },
    arc: { result: 'pass', reason: null },
  });
  const wrong = { to: 'proof@in.shop.example', from: '', text: 'x', authentication: { spf: { result: 'maybe' } } };
  assert.equal((await service.sandboxApi.post('/sandbox/inbound', wrong)).status, 400);
});

test('large messages are posted in full, and delivery log pages are limited in size', async () => {
  const { webhookId } = await route({
    match: 'large@in.shop.example',
    url: `${catcher.url}/large`,
    events: false,
  });
  const text = 'x'.repeat(60_000);
  const html = `<p>${'y'.repeat(60_000)}</p>`;
  const eventIds: string[] = [];
  for (let index = 0; index < 40; index += 1) {
    const played = await play({
      to: 'large@in.shop.example',
      from: 'ann@example.com',
      subject: `${index}`,
      text,
      html,
    });
    eventIds.push(played.eventId);
  }
  const posted = () =>
    catcher.requests.filter(({ path }) => path === '/hook/large').map(({ body }) => JSON.parse(body.toString()));
  await waitUntil('all to be posted', () => posted().length === eventIds.length);
  for (const { inbound } of posted()) assert.ok(inbound.text.startsWith(text) && inbound.html.includes(html));
  const recorded = async (query: string) =>
    service.sandboxApi.get(`/webhooks/${webhookId}/deliveries?limit=100${query}`);
  const listed: string[] = [];
  await waitUntil('all to be recorded', async () => {
    listed.length = 0;
    const first = await recorded('');
    assert.ok(first.text.length < 5_000_000, `${first.text.length} bytes in a page`);
    const rest = first.headers.link ? await recorded(`&cursor=${first.headers['x-next-cursor']}`) : undefined;
    for (const page of [first, rest])
      for (const { eventId, request } of (page?.body ?? []) as unknown as JsonObject[]) {
        assert.ok(request.body.length > 120_000);
        listed.push(eventId);
      }
    return listed.length === eventIds.length && rest !== undefined;
  });
  assert.deepEqual(listed, eventIds.toReversed());
});
