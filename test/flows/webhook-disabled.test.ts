/**
 * An endpoint that returns 410 is disabled, and the account is notified by email: its users, or the operators if it has none. This email
 * belongs to no account's messages and triggers no webhooks.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { webhookCatcher } from '../kit/webhook-catcher.ts';

test("the account's users get one email about a disabled endpoint", { timeout: 150_000 }, async (t) => {
  const sink = await smtpSink();
  t.after(() => sink.close());
  const gone = await webhookCatcher({ script: { status: 410 } });
  t.after(() => gone.close());
  const other = await webhookCatcher();
  t.after(() => other.close());
  const service = await startService({
    env: {
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
      POSTRIDER_SMTP_HOSTNAME: 'mail.provider.example',
    },
  });
  t.after(() => service.close());
  await service.cli('user', 'create', '--email', 'ops@provider.example', '--operator');
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const endpoint = async (url: string): Promise<string> => {
    const made = await service.api.post('/webhooks', { url, events: ['Send', 'Delivery'] });
    assert.equal(made.status, 201, made.text);
    return made.body.webhookId;
  };
  const webhookId = await endpoint(`${gone.url}?token=secret`);
  await endpoint(other.url);
  const mail = { from: 'a@shop.example', to: 'b@example.com', subject: 'Hello', text: 'Hello' };
  assert.equal((await service.api.post('/send', mail)).status, 202);

  const notice = await waitUntil('the notice', () =>
    sink.messages.find((one) => one.from === 'postmaster@mail.provider.example'),
  );
  const text = notice.content.toString();
  assert.deepEqual(notice.to, ['ops@provider.example'], 'the account has no user with an email address');
  assert.match(text, /^Subject: Webhook disabled: http:\/\/127\.0\.0\.1:\d+\//m);
  assert.match(text, /^Auto-Submitted: auto-generated\r$/m);
  assert.ok(text.includes(webhookId) && text.includes('410 Gone'));
  assert.ok(!text.includes('secret'), 'the query of a URL can be a secret');
  const { body } = await service.api.get(`/webhooks/${webhookId}`);
  assert.deepEqual([body.enabled, body.disabledReason], [false, 'the endpoint returned 410 Gone']);

  // The next notice comes after everything the first one could have triggered.
  assert.equal((await service.api.post('/send', { ...mail, to: 'c@example.com' })).status, 202);
  await waitUntil('both events to be posted', () => other.requests.length >= 4);
  const told = other.requests.map((one) => (JSON.parse(one.body) as { recipient: string }).recipient);
  assert.deepEqual([...new Set(told)].sort(), ['b@example.com', 'c@example.com']);
  const messages = (await service.api.get('/messages')).body as unknown as { to: string }[];
  assert.deepEqual(messages.map((one) => one.to).sort(), ['b@example.com', 'c@example.com']);
  assert.equal(sink.messages.filter((one) => one.from.startsWith('postmaster@')).length, 1);
});
