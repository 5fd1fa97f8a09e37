/**
 * A person's address in every place that Postrider stores, erased from the running service, on both databases. All tables and all blobs are
 * then searched for the address, in any case and encoding.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Api, JsonObject } from '../kit/api.ts';
import { bounceAddresses, bring } from '../kit/bounce-receiver.ts';
import { openInbound } from '../kit/inbound-rig.ts';
import { mcpClient } from '../kit/mcp.ts';
import { feedbackReport } from '../kit/report-mail.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { placesOf } from '../kit/stored-data.ts';
import { DIALECTS, type Dialect } from '../kit/temp-database.ts';
import { tempPostgres } from '../kit/temp-postgres.ts';
import { sendSubmission, uploadAll } from '../kit/upload-client.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

/** Distinctive, so that a search for it finds every spelling of the address. */
const LOCAL = 'Erika.Muster+post';
const ADDRESS = `${LOCAL}@müller.example`;
const SPELLINGS = [ADDRESS, `${LOCAL.toUpperCase()}@XN--MLLER-KVA.EXAMPLE`];
const FROM = 'Shop <orders@shop.example>';
const TIMEOUT_MS = 300_000;
/** On a server, the work of a node that died is taken over when its lease has ended. */
const TAKE_OVER_MS = 90_000;

interface World {
  service: Service;
  sink: SmtpSink;
  catcher: WebhookCatcher;
  url: string | undefined;
}

async function world(t: TestContext, dialect: Dialect): Promise<World> {
  const server = dialect === 'postgres' ? await tempPostgres() : undefined;
  const [sink, catcher] = [await smtpSink(), await webhookCatcher()];
  const service = await startService({
    env: {
      ...bounceAddresses,
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
      POSTRIDER_MCP: 'on',
      ...(server && { POSTRIDER_DATABASE_URL: server.url }),
    },
  });
  t.after(async () => {
    await service.close();
    await Promise.all([sink.close(), catcher.close()]);
    await server?.drop();
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  return { service, sink, catcher, url: server?.url };
}

async function send(api: Api, mail: JsonObject, key?: string): Promise<JsonObject> {
  const headers: Record<string, string> = key === undefined ? {} : { 'idempotency-key': key };
  const answer = await api.post('/send', { from: FROM, subject: 'Order', text: 'Thank you.', ...mail }, headers);
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data;
}

const statusOf = async (api: Api, id: string): Promise<string> => (await api.get(`/messages/${id}`)).body.status;
const reaches = (api: Api, id: string, status: string) =>
  waitUntil(`${id} to be ${status}`, async () => (await statusOf(api, id)) === status);

async function erase(api: Api, email: string): Promise<JsonObject> {
  const started = await api.post('/recipients/erase', { email });
  assert.equal(started.status, 201, started.text);
  return waitUntil('the end of the erasure', async () => {
    const { body } = await api.get(`/recipients/erasures/${started.body.erasureId}`);
    return body.status === 'completed' && body;
  });
}

/** Mail over SMTP to Bob, whose header also names the address, and with the address in the parameters of delivery reports. */
async function submit({ service }: World): Promise<void> {
  const talker = await connectTalker(service.smtpPort);
  await talker.reply();
  await talker.logIn(service.smtpCredential);
  for (const line of [
    'MAIL FROM:<orders@shop.example> RET=HDRS ENVID=erika.muster+2Bpost@xn--mller-kva.example',
    'RCPT TO:<bob@example.com> NOTIFY=FAILURE',
    'DATA',
  ])
    assert.match(await talker.say(line), /^[23]/);
  talker.send(
    `From: ${FROM}\r\nTo: Bob <bob@example.com>, Erika <${SPELLINGS[1]}>\r\nSubject: Both\r\nX-Postrider-Metadata-User: ${SPELLINGS[1]}\r\n\r\nHello\r\n.\r\n`,
  );
  assert.match(await talker.reply(), /^250/);
  assert.match(await talker.say('RCPT TO:<erika.muster+post@[192.0.2.1]>'), /^5/, 'a rejection for GET /requests');
  talker.destroy();
}

/** Mail from the address to a route, small and large. */
async function write({ service }: World): Promise<void> {
  const route = await service.api.post('/inbound-routes', { match: 'help@in.shop.example' });
  assert.equal(route.status, 201, route.text);
  for (const bytes of [10, 300_000]) {
    const talker = await openInbound(service.inboundPort);
    for (const line of [`MAIL FROM:<${SPELLINGS[1]}>`, 'RCPT TO:<help@in.shop.example>', 'DATA'])
      assert.match(await talker.say(line), /^[23]/);
    const lines = `${'x'.repeat(70)}\r\n`.repeat(Math.ceil(bytes / 72));
    talker.send(`From: Erika <${SPELLINGS[1]}>\r\nTo: help@in.shop.example\r\nSubject: Help\r\n\r\n${lines}.\r\n`);
    assert.match(await talker.reply(), /^250/);
    talker.destroy();
  }
  const listed = () => service.api.get('/inbound');
  await waitUntil('both', async () => (await listed()).body.length === 2);
}

/** Fills the live data; returns ids of messages that must be kept. */
async function fill(one: World): Promise<{ kept: string[]; delivered: string }> {
  const { service, sink, catcher } = one;
  const { api } = service;
  // The endpoint returns what it gets, so that the address is in its records too.
  catcher.answer(({ body, path }) => ({ status: path.endsWith('/failing') ? 500 : 200, body }));
  const events = ['Send', 'Delivery', 'Bounce', 'Complaint', 'Reject', 'Open', 'Click', 'Unsubscribe', 'Inbound'];
  for (const name of ['working', 'failing', 'ordered/failing']) {
    const ordered = name.startsWith('ordered');
    const made = await api.post('/webhooks', { url: `${catcher.url}/${name}`, events, ordered });
    assert.equal(made.status, 201, made.text);
  }
  const html = `<p>Dear ${ADDRESS}, <a href="https://shop.example/?u=${encodeURIComponent(ADDRESS)}">see</a></p>`;
  const tracked = { html, enableClickTracking: true, enableOpenTracking: true, listUnsubscribe: true };
  const metadata = { user: ADDRESS };
  const first = await send(api, { to: `Erika <${ADDRESS}>`, subject: `For ${ADDRESS}`, metadata, ...tracked }, 'key-1');
  await reaches(api, first.messageId, 'delivered');
  const again = await send(api, { to: `Erika <${ADDRESS}>`, subject: `For ${ADDRESS}`, metadata, ...tracked }, 'key-1');
  assert.equal(again.messageId, first.messageId);
  await send(api, { to: ADDRESS }, `order:${SPELLINGS[1]}`);
  const content = sink.messages[0]!.content.toString('latin1').replace(/=\r\n/g, '').replaceAll('=3D', '=');
  for (const [path] of content.matchAll(/\/t\/[\w-]+/g)) await fetch(`${service.url}${path}`, { redirect: 'manual' });
  const file = {
    name: 'a.bin',
    contentType: 'application/octet-stream',
    content: Buffer.alloc(90_000, ADDRESS).toString('base64'),
  };
  const shared = await send(api, { to: [ADDRESS, 'bob@example.com'], cc: 'carol@example.com', attachments: [file] });
  const later = new Date(Date.now() + 86_400_000).toISOString();
  const scheduled = await send(api, { to: [SPELLINGS[1], 'dan@example.com'], sendAt: later, metadata });
  await send(api, { to: ADDRESS, sendAt: later });
  const template = { name: 'welcome', subject: 'Welcome {{who}}', text: 'Hello {{who}}' };
  assert.equal((await api.post('/templates', template)).status, 201);
  await send(api, {
    to: ADDRESS,
    subject: undefined,
    text: undefined,
    templateId: 'welcome',
    templateVariables: { who: ADDRESS },
  });
  const uploaded = await uploadAll(api, [{ bytes: Buffer.alloc(200_000, ADDRESS), name: `${ADDRESS}.pdf` }]);
  const large = await sendSubmission(api, uploaded.id, { from: FROM, to: ADDRESS, subject: 'Large', text: 'x' });
  assert.equal(large.status, 202, large.text);
  const batch = { messages: [{ from: FROM, to: [ADDRESS, 'eve@example.com'], subject: 'b', text: 'b' }] };
  assert.equal((await api.post('/send/batch', batch, { 'idempotency-key': 'key-2' })).status, 200);
  await submit(one);
  await write(one);
  const agent = mcpClient({ url: service.url, key: service.live.apiKey });
  await agent.tool('find_messages', { to: ADDRESS });
  await agent.tool('send_email', { from: FROM, to: [ADDRESS], subject: 'From an agent', text: 'x' });
  // A complaint suppresses the address, so the bounce comes before it.
  await reaches(api, large.body.data.messageId, 'delivered');
  sink.setScript({
    rcpt: ({ line }) => (/erika/i.test(line) ? `550 5.1.1 ${line.slice(8)}: user unknown` : undefined),
  });
  const bounced = await send(api, { to: ADDRESS });
  await reaches(api, bounced.messageId, 'bounced');
  const { headerMessageId } = (await api.get(`/messages/${first.messageId}`)).body;
  const report = feedbackReport({ recipient: SPELLINGS[1]!, headerMessageId });
  await bring(service.inboundPort, { to: 'abuse@bounces.postrider.test', content: report });
  // Until it is processed, a report belongs to no account, and is not erased.
  await reaches(api, first.messageId, 'complained');
  const rejected = await send(api, { to: ADDRESS });
  assert.equal(rejected.status, 'suppressed');
  assert.equal((await api.delete(`/suppressions/${encodeURIComponent(ADDRESS)}`)).status, 200);
  assert.equal((await api.post('/suppressions', { email: ADDRESS, reason: 'complaint' })).status, 201);
  await waitUntil('records of failed requests', async () => {
    const places = await placesOf(LOCAL, { dataDir: service.dataDir, url: one.url });
    return places.includes('webhook_delivery.response_start') && places.includes('event.detail');
  });
  const others = [...shared.recipients, ...scheduled.recipients].filter(
    ({ email }: JsonObject) => !/erika/i.test(email),
  );
  return { kept: others.map(({ messageId }: JsonObject) => messageId), delivered: first.messageId };
}

/** A filled store has the address in these places, at least. */
const FILLED = [
  'agent_request.call',
  'attachment_file.name',
  'attempt.record',
  'blobs',
  'email.content',
  'email.header_to',
  'email.metadata',
  'email.subject',
  'event.detail',
  'idempotency.body',
  'idempotency.key',
  'inbound_mail.content',
  'inbound_mail.envelope_from',
  'inbound_message.detail',
  'message.recipient',
  'suppression.email',
  'webhook_delivery.response_start',
  'work.turn',
];

for (const dialect of DIALECTS) {
  test(`erases an address from the entire store and keeps other mail (${dialect})`, {
    timeout: TIMEOUT_MS,
  }, async (t) => {
    const one = await world(t, dialect);
    const { service, sink, url } = one;
    const { api, dataDir } = service;
    const { kept, delivered } = await fill(one);
    const before = await placesOf(LOCAL, { dataDir, url });
    assert.deepEqual(
      FILLED.filter((place) => !before.includes(place)),
      [],
      `only in ${before.join(' ')}`,
    );
    const link = /<(http[^>]+\/unsubscribe\/[^>]+)>/.exec(sink.messages[0]!.content.toString('latin1'))?.[1];
    const { length: sentBefore } = sink.messages;
    const statistics = `/statistics?interval=day&since=${new Date(Date.now() - 86_400_000).toISOString()}&until=${new Date(Date.now() + 86_400_000).toISOString()}`;
    const countedBefore = (await api.get(statistics)).body.buckets;

    const erased = await erase(api, SPELLINGS[1]!.toLowerCase());
    assert.ok(erased.removed.messages >= 9 && erased.removed.events > 15, JSON.stringify(erased));
    assert.equal(erased.removed.inboundMessages, 2);
    // Scheduled for another recipient, so its content stays until it is sent.
    const after = await placesOf(LOCAL, { dataDir, url });
    assert.deepEqual(after, ['email.content']);
    for (const id of kept) {
      const { status, body, text } = await api.get(`/messages/${id}`);
      assert.deepEqual([status, body.timeline.length > 0], [200, true]);
      assert.doesNotMatch(text, /erika/i);
      if (body.status === 'scheduled') assert.equal((await api.post(`/messages/${id}/cancel`, {})).status, 200);
    }
    assert.deepEqual(await placesOf(LOCAL, { dataDir, url }), [], 'and is then deleted');
    assert.equal((await api.get(`/messages/${delivered}`)).status, 404);
    assert.deepEqual((await api.get(statistics)).body.buckets[0].accepted, countedBefore[0].accepted);

    // The address is recognized by its hash.
    const shown = await api.get(`/suppressions/${encodeURIComponent(ADDRESS)}`);
    assert.deepEqual([shown.status, shown.body.reason, shown.body.expiresAt], [200, 'complaint', null]);
    assert.deepEqual((await api.get('/suppressions')).body, []);
    const dry = await api.post('/send?dryRun=true', { from: FROM, to: ADDRESS, subject: 's', text: 't' });
    assert.deepEqual(dry.body.suppressed, [ADDRESS]);
    assert.equal((await api.post('/suppressions', { email: ADDRESS })).status, 201);
    if (link !== undefined)
      assert.equal((await fetch(`${service.url}${new URL(link).pathname}`, { method: 'POST' })).status, 200);
    assert.deepEqual(await placesOf(LOCAL, { dataDir, url }), [], 'it is not stored again');
    const replay = await api.post(
      '/send/batch',
      { messages: [{ from: FROM, to: [ADDRESS, 'eve@example.com'], subject: 'b', text: 'b' }] },
      { 'idempotency-key': 'key-2' },
    );
    assert.equal(replay.headers['idempotent-replayed'], 'true', 'Eve gets no second copy');
    assert.equal((await send(api, { to: ADDRESS })).status, 'suppressed');
    assert.equal(sink.messages.length, sentBefore);
    const audit = (await api.get('/audit?resource=recipient')).body as unknown as JsonObject[];
    assert.deepEqual(
      audit.map(({ action, resourceId }) => [action, resourceId]),
      [
        ['recipient.erasure-completed', erased.erasureId],
        ['recipient.erase', erased.erasureId],
      ],
    );
    const changes = (await api.get(`/audit?resourceId=${encodeURIComponent(ADDRESS)}`)).body as unknown as JsonObject[];
    assert.deepEqual(
      changes.map(({ action }) => action),
      ['suppression.add', 'suppression.delete'],
      'found by the address',
    );

    // The message to it just now is a new record.
    const second = await erase(api, ADDRESS);
    assert.deepEqual(second.removed, { messages: 1, events: 2, inboundMessages: 0 });
    assert.deepEqual(await placesOf(LOCAL, { dataDir, url }), []);
    assert.equal((await api.delete(`/suppressions/${encodeURIComponent(ADDRESS)}`)).status, 200);
    const back = await send(api, { to: ADDRESS });
    assert.equal(back.status, 'queued', 'an erased recipient can receive mail again');
  });

  test(`a sandbox key erases only sandbox data (${dialect})`, {
    timeout: TIMEOUT_MS,
  }, async (t) => {
    const { service, url } = await world(t, dialect);
    const { api, sandboxApi, dataDir } = service;
    const live = await send(api, { to: ADDRESS });
    const sent = await send(sandboxApi, { to: [ADDRESS, 'bob@example.com'], html: `<p>${ADDRESS}</p>` });
    await reaches(sandboxApi, sent.messageId, 'delivered');
    assert.equal((await sandboxApi.post('/inbound-routes', { match: 'help@in.shop.example' })).status, 201);
    const played = { to: 'help@in.shop.example', from: ADDRESS, text: 'hello' };
    assert.equal((await sandboxApi.post('/sandbox/inbound', played)).status, 201);
    await erase(sandboxApi, ADDRESS);
    assert.equal((await sandboxApi.get('/sandbox/inbox')).body.length, 1, 'of the other recipient');
    assert.equal((await api.get(`/messages/${live.messageId}`)).status, 200);
    await reaches(api, live.messageId, 'delivered');
    await erase(api, ADDRESS);
    assert.deepEqual(await placesOf(LOCAL, { dataDir, url }), []);
  });

  test(`an erasure interrupted by kill -9 completes after the restart (${dialect})`, {
    timeout: TIMEOUT_MS,
  }, async (t) => {
    const { service, url } = await world(t, dialect);
    const { sandboxApi } = service;
    const COUNT = 1_500;
    const mail = { from: FROM, to: ADDRESS, subject: 'Order', text: 'Thank you.' };
    for (let sent = 0; sent < COUNT; sent += 100) {
      const { status } = await sandboxApi.post('/send/batch', { messages: Array.from({ length: 100 }, () => mail) });
      assert.equal(status, 200);
    }
    const page = () => sandboxApi.get('/messages?status=queued&limit=1');
    await waitUntil('all messages to be delivered', async () => (await page()).body.length === 0);
    const { erasureId } = (await sandboxApi.post('/recipients/erase', { email: ADDRESS })).body;
    const state = async (): Promise<JsonObject> => (await sandboxApi.get(`/recipients/erasures/${erasureId}`)).body;
    let interrupted = 0;
    for (let kills = 0; kills < 3; kills += 1) {
      const { removed: before } = await state();
      const seen = await waitUntil(
        'some progress',
        async () => {
          const now = await state();
          return (now.status === 'completed' || now.removed.messages > before.messages) && now;
        },
        TAKE_OVER_MS,
      );
      if (seen.status === 'completed') break;
      interrupted += 1;
      await service.kill('SIGKILL');
      await service.restart();
    }
    assert.ok(interrupted > 0, 'it was killed during the erasure');
    const done = await waitUntil(
      'the end',
      async () => {
        const now = await state();
        return now.status === 'completed' && now;
      },
      TAKE_OVER_MS,
    );
    assert.equal(done.removed.messages, COUNT, 'each was counted once');
    assert.deepEqual(await placesOf(LOCAL, { dataDir: service.dataDir, url }), []);
    assert.equal((await send(sandboxApi, { to: ADDRESS })).status, 'suppressed');
  });
}
