/** Mail from this service to its own inbound routes, on a machine that is a trusted proxy itself. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonObject } from '../../test/kit/api.ts';
import { fakeDns } from '../../test/kit/fake-dns.ts';
import { startService } from '../../test/kit/start-service.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';

test("Postrider's own mail arrives without a PROXY header", async (t) => {
  const dns = await fakeDns({
    'in.shop.example': { MX: [[10, 'postrider.test']] },
    'postrider.test': { A: ['127.0.0.1'] },
  });
  t.after(() => dns.close());
  const service = await startService({
    env: {
      POSTRIDER_TRUSTED_PROXIES: '127.0.0.1',
      POSTRIDER_INBOUND_PORT: '0',
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
    },
  });
  t.after(() => service.close());
  const { accountId } = service.live;
  for (const domain of ['shop.example', 'in.shop.example'])
    await service.cli('domain', 'add', accountId, domain, '--verified');
  const made = await service.api.post('/inbound-routes', { match: '*@in.shop.example' });
  assert.equal(made.status, 201, made.text);
  const mail = { from: 'a@shop.example', to: 'help@in.shop.example', subject: 'Hello', text: 'x' };
  const sent = await service.api.post('/send', mail);
  assert.equal(sent.status, 202, sent.text);
  const { messageId } = sent.body.data as { messageId: string };
  const message = await waitUntil('the delivery', async () => {
    const { body } = await service.api.get(`/messages/${messageId}`);
    return /^(queued|sending)$/.test(String((body as JsonObject).status)) ? undefined : body;
  });
  assert.equal((message as JsonObject).status, 'delivered', JSON.stringify(message));
  await waitUntil('the inbound message', async () => (await service.api.get('/inbound')).body.length === 1);
});
