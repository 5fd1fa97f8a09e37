/** Live mail in a browser: why a message bounced at its receiver, and replaying the last day's bounces to a webhook that had been down. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { fakeDns } from '../kit/fake-dns.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { webhookCatcher } from '../kit/webhook-catcher.ts';

const REFUSAL = '550 5.1.1 <nobody@shop.example>: no such user here';

test('displays why a message bounced, and resends bounced messages', {
  skip: noBrowser(),
  timeout: 170_000,
}, async (t) => {
  const closing: (() => Promise<unknown>)[] = [];
  t.after(async () => {
    for (const close of closing.reverse()) await close();
  });
  const visitors = await startBrowser();
  closing.push(() => visitors.close());
  const receiver = await smtpSink({
    host: '127.0.0.2',
    tls: 'starttls',
    certificate: testCertificate(['mx.shop.example']),
    script: { rcpt: ({ line }) => (line.includes('nobody@') ? REFUSAL : undefined) },
  });
  closing.push(() => receiver.close());
  const dns = await fakeDns({
    'shop.example': { MX: [[10, 'mx.shop.example']] },
    'mx.shop.example': { A: ['127.0.0.2'] },
  });
  closing.push(() => dns.close());
  const catcher = await webhookCatcher({ script: { status: 503 } });
  closing.push(() => catcher.close());
  const service = await startService({
    env: {
      POSTRIDER_ROUTE: 'mx',
      POSTRIDER_MX_PORT: String(receiver.port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
    },
  });
  closing.push(() => service.close());
  await setFirstPassword(service);
  await service.cli('domain', 'add', service.live.accountId, 'orders.example', '--verified');
  const hook = await service.api.post('/webhooks', { url: catcher.url, events: ['Bounce', 'Delivery'] });
  assert.equal(hook.status, 201, hook.text);
  for (const to of ['nobody@shop.example', 'ann@shop.example']) {
    const mail = { from: 'hello@orders.example', to, subject: `To ${to}`, text: 'Hello' };
    assert.equal((await service.api.post('/send', mail)).status, 202);
  }

  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await page.goto('/app/live/messages?status=bounced');
  await page.getByRole('link', { name: 'To nobody@shop.example', exact: true }).click();
  const answer = page.getByRole('region', { name: 'Status summary' });
  await answer.getByText(/Bounced by shop\.example at .*: the mailbox doesn’t exist\./).waitFor();
  await page.getByText('Attempt 1').click();
  const said = page.getByRole('list', { name: 'SMTP transcript' });
  await said.getByText(REFUSAL).waitFor();
  await page.getByText('mx.shop.example').first().waitFor();
  await page
    .getByText(/TLSv1\.[23]/)
    .first()
    .waitFor();
  assert.deepEqual(
    receiver.messages.map(({ to }) => to),
    [['ann@shop.example']],
    'delivered to the receiver',
  );

  await waitUntil('both events to be refused', () => catcher.requests.length >= 2);
  catcher.answer();
  // A replay would skip events that are about to be retried.
  const sent = `/webhooks/${hook.body.webhookId}/deliveries?status=succeeded`;
  await waitUntil('both events to be retried', async () => (await service.api.get(sent)).body.length === 2);
  await page.goto(`/app/live/webhooks/${hook.body.webhookId}`);
  await page.getByRole('button', { name: 'Replay events' }).click();
  await page
    .locator('.mantine-Pill-root', { hasText: 'Delivery' })
    .getByRole('button', { includeHidden: true })
    .click();
  await page.getByText('1 event will be replayed').waitFor();
  const before = catcher.requests.length;
  await page.getByRole('button', { name: 'Replay 1 event' }).click();
  await waitUntil('the bounce to be replayed', () =>
    catcher.requests.slice(before).some(({ body }) => JSON.parse(body).eventType === 'Bounce'),
  );
  visit.assertClean();
});
