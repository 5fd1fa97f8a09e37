/** 100 concurrent identical sends with one key create one message, and every client gets the same response. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('100 concurrent identical sends with one key create one message', async (t) => {
  const sink = await smtpSink();
  t.after(() => sink.close());
  const service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  t.after(() => service.close());
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const body = { from: 'a@shop.example', to: 'once@example.com', subject: 'Once', text: 'Once' };
  const headers = { 'Idempotency-Key': 'the-one' };
  const answers = await Promise.all(Array.from({ length: 100 }, () => service.api.post('/send', body, headers)));
  const accepted = answers.filter((one) => one.status === 202);
  const others = answers.filter((one) => one.status !== 202);
  assert.ok(accepted.length >= 1);
  assert.equal(new Set(accepted.map((one) => one.text)).size, 1, 'identical responses, byte for byte');
  assert.equal(
    accepted.filter((one) => one.headers['idempotent-replayed'] !== 'true').length,
    1,
    'one response is the original',
  );
  assert.deepEqual(
    [...new Set(others.map((one) => `${one.status} ${one.body.error.code}`))],
    others.length > 0 ? ['409 DUPLICATE_REQUEST_IN_PROGRESS'] : [],
  );
  const list = (await service.api.get('/messages')).body as unknown as { messageId: string }[];
  assert.deepEqual(
    list.map((one) => one.messageId),
    [accepted[0]!.body.data.messageId],
  );
  await waitUntil('the delivery', async () => {
    const { body: message } = await service.api.get(`/messages/${list[0]!.messageId}`);
    return message.status === 'delivered';
  });
  assert.equal(sink.messages.length, 1);

  const control = await Promise.all(
    [1, 2, 3].map((n) => service.api.post('/send', body, { 'Idempotency-Key': `other-${n}` })),
  );
  assert.deepEqual(
    control.map((one) => one.status),
    [202, 202, 202],
  );
  assert.equal(
    ((await service.api.get('/messages')).body as unknown as unknown[]).length,
    4,
    'control: another key creates another message',
  );
});
