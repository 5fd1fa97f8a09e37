/**
 * Notices arrive as text and html with the name, the logo, and the time zone of the account, at the users who receive their kind. If
 * everyone turned the kind off, Postrider sends none and logs it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import PostalMime from 'postal-mime';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { TEST_LOGO } from '../kit/test-logo.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { webhookCatcher } from '../kit/webhook-catcher.ts';

const BASE_URL = 'https://mail.provider.example';

test('users receive the notices that they chose, with the name, logo, and time zone', {
  timeout: 150_000,
}, async (t) => {
  const sink = await smtpSink();
  t.after(() => sink.close());
  const gone = await webhookCatcher({ script: { status: 410 } });
  t.after(() => gone.close());
  const service = await startService({
    env: {
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
      POSTRIDER_BASE_URL: BASE_URL,
      POSTRIDER_SMTP_HOSTNAME: 'mail.provider.example',
    },
  });
  t.after(() => service.close());
  const { accountId } = service.live;
  const named = { name: 'Läden <Nord>', timeZone: 'Asia/Kolkata' };
  assert.equal((await service.api.patch('/account', named)).status, 200);
  assert.equal((await service.api.put('/account/logo', { content: TEST_LOGO })).status, 200);

  /** Logs a user in; returns how they turn notices about webhooks on or off. */
  const signedIn = async (email: string) => {
    const { password } = await service.cli('user', 'reset-password', '--email', email);
    const headers = { 'content-type': 'application/json', origin: BASE_URL, 'x-requested-with': 'postrider' };
    const body = JSON.stringify({ email, password });
    const session = await fetch(`${service.url}/session`, { method: 'POST', headers, body });
    assert.equal(session.status, 200, await session.text());
    const cookie = session.headers.getSetCookie()[0]!.split(';')[0]!;
    return async (webhooks: boolean): Promise<void> => {
      const changed = await fetch(`${service.url}/account/notices`, {
        method: 'PATCH',
        headers: { ...headers, cookie, 'x-id': accountId },
        body: JSON.stringify({ webhooks }),
      });
      assert.equal(changed.status, 200, await changed.text());
    };
  };
  // Invitations are not sent before a domain is verified.
  for (const email of ['ann@example.com', 'bob@example.com'])
    assert.equal((await service.api.post('/users', { email, role: 'member' })).status, 201);
  const ann = await signedIn('ann@example.com');
  const bob = await signedIn('bob@example.com');
  await bob(false);
  await service.cli('domain', 'add', accountId, 'shop.example', '--verified');

  const disable = async (): Promise<string> => {
    const made = await service.api.post('/webhooks', { url: gone.url, events: ['Send'] });
    assert.equal(made.status, 201, made.text);
    const { webhookId } = made.body;
    const mail = { from: 'a@shop.example', to: 'to@example.com', subject: 'Hello', text: 'Hello' };
    assert.equal((await service.api.post('/send', mail)).status, 202);
    await waitUntil('the webhook to be disabled', async () => {
      const { body } = await service.api.get(`/webhooks/${webhookId}`);
      return body.enabled === false;
    });
    return String(webhookId);
  };
  const notices = () => sink.messages.filter((one) => one.from === 'postmaster@mail.provider.example');
  const webhookId = await disable();
  const notice = await waitUntil('the notice', () => notices()[0]);
  assert.deepEqual(notice.to, ['ann@example.com'], 'Bob turned it off');
  const { subject, text = '', html = '', attachments } = await PostalMime.parse(notice.content);
  assert.match(subject ?? '', /^Webhook disabled: http:\/\/127\.0\.0\.1:\d+\//);
  for (const part of [text, html]) {
    assert.ok(part.includes(webhookId), part);
    assert.match(part, /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d Asia\/Kolkata \(GMT\+5:30\)/);
    assert.ok(part.includes(`${BASE_URL}/app/live/settings?account=${accountId}`));
  }
  assert.ok(text.includes(`You receive notices about webhooks of Läden <Nord> (${accountId}).`), text);
  assert.ok(html.includes('Läden &lt;Nord&gt;'), html);
  const [logo] = attachments;
  assert.equal(attachments.length, 1);
  assert.deepEqual([logo!.mimeType, logo!.disposition, logo!.filename], ['image/png', 'inline', 'logo.png']);
  assert.ok(html.includes(`src="cid:${logo!.contentId!.slice(1, -1)}"`), html);
  assert.equal(Buffer.from(logo!.content as ArrayBuffer).toString('base64'), TEST_LOGO);

  await ann(false);
  const owner = await signedIn('operator@localhost');
  await owner(false);
  await disable();
  await waitUntil('the skipped notice', () =>
    service.log.includes('"msg":"account notification skipped"') ? true : undefined,
  );
  assert.equal(notices().length, 1);
});
