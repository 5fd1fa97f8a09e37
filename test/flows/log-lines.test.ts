/** One info line for each message that is accepted, rejected, delivered, delayed, or bounced, with the ids needed to trace it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { closeShop, openShop, type Shop } from '../kit/shop.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { waitUntil } from '../kit/wait-until.ts';

type Line = Record<string, unknown> & { msg: string };

let shop: Shop;

before(async () => {
  shop = await openShop();
  shop.sink.setScript({
    rcpt: ({ line }) =>
      /gone@/.test(line) ? '550 5.1.1 no such user' : /later@/.test(line) ? '451 4.3.0 later' : undefined,
  });
});
after(() => closeShop(shop ?? {}));

function lines(message: string): Line[] {
  return shop.service.log
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Line)
    .filter((line) => line.msg === message);
}

const of = (message: string, messageId: string): Promise<Line> =>
  waitUntil(`"${message}" of ${messageId}`, () =>
    lines(message).find((line) => line.messageId === messageId || (line.messageIds as string[])?.includes(messageId)),
  );

test('logs one line when a message is accepted and one for the outcome of each recipient', async () => {
  const { service } = shop;
  const to = ['ann@x.example', 'gone@x.example', 'later@x.example'];
  const sent = await service.api.post('/send', { from: 'a@shop.example', to, subject: 'S3cret', text: 'S3cret' });
  assert.equal(sent.status, 202);
  const { recipients } = (sent.body as { data: { recipients: { messageId: string }[] } }).data;
  const [ann, gone, later] = recipients.map((one) => one.messageId) as [string, string, string];
  const accepted = await of('mail accepted', ann);
  assert.deepEqual(accepted.messageIds, [ann, gone, later]);
  assert.equal(accepted.requestId, sent.headers['x-request-id']);
  assert.equal(accepted.accountId, service.live.accountId);
  assert.equal(accepted.source, 'http');
  const delivered = await of('mail delivered', ann);
  assert.equal(delivered.host, '127.0.0.1');
  assert.match(String(delivered.reply), /^250 /);
  const bounced = await of('mail bounced', gone);
  assert.equal(bounced.reply, '550 5.1.1 no such user');
  assert.match(String(bounced.eventId), /^evt_/);
  const delayed = await of('mail delayed', later);
  assert.equal(delayed.reply, '451 4.3.0 later');
  assert.ok(Number(delayed.nextAttemptAtMs) > Date.now());
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  assert.match(metrics, /^postrider_delivery_attempts_total\{class="2xx"\} 1$/m);
  assert.match(metrics, /^postrider_disk_free_bytes\{disk="data directory"\} [1-9]\d+/m);
  assert.match(metrics, /^# TYPE postrider_destination_queued_messages gauge$/m);
  assert.match(metrics, /^postrider_build_info\{version="[^"]+",node="[^"]+"\} 1$/m);
  assert.match(metrics, /^postrider_messages_bounced_by_category_total\{category="[a-z-]+",provider="other"\} 1$/m);
  assert.match(metrics, /^postrider_database_operation_duration_seconds_count\{mode="write"\} [1-9]/m);
  for (const line of [accepted, delivered, bounced, delayed]) assert.equal(line.level, 'info');
  assert.doesNotMatch(service.log, /S3cret|pr_live_/);
});

test('logs a rejection over HTTP, in a batch, and over SMTP without field values', async () => {
  const { service } = shop;
  const body = { from: 'a@shop.example', to: 'S3cret', subject: 's', text: 't' };
  const refused = await service.api.post('/send', body);
  assert.equal(refused.status, 400);
  const line = await waitUntil('the refusal', () =>
    lines('mail refused').find((one) => one.requestId === refused.headers['x-request-id']),
  );
  assert.equal(line.code, 'INVALID_REQUEST');
  assert.equal(line.accountId, service.live.accountId);
  assert.deepEqual(line.fields, ['to']);
  const batch = await service.api.post('/send/batch', { messages: [body] });
  assert.equal(batch.status, 200);
  await waitUntil('the rejection in a batch', () =>
    lines('mail refused').find((one) => one.requestId === batch.headers['x-request-id'] && one.item === 0),
  );
  const stranger = await service.anonymous.post('/send', body);
  assert.equal(stranger.status, 401);
  const unknown = await waitUntil('the unauthenticated client', () =>
    lines('mail refused').find((one) => one.requestId === stranger.headers['x-request-id']),
  );
  assert.equal(unknown.accountId, undefined);
  const talker = await connectTalker(service.smtpPort);
  await talker.reply();
  await talker.logIn(service.smtpCredential);
  talker.send('MAIL FROM:<a@elsewhere.example>\r\n');
  const reply = await talker.reply();
  assert.match(reply, /^550 5\.7\.1 /);
  const overSmtp = await waitUntil('the rejection over SMTP', () =>
    lines('mail refused').find((one) => one.reply === reply),
  );
  assert.equal(overSmtp.accountId, service.live.accountId);
  assert.match(String(overSmtp.credentialId), /^smtp_/);
  talker.socket.destroy();
  assert.doesNotMatch(service.log, /S3cret/);
});
