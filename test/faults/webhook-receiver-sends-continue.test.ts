/** A webhook receiver that sends 100 Continue and 103 Early Hints unasked gets each event once, and the delivery succeeds. */
import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('the receiver gets one POST per event', async (t) => {
  const posted: string[] = [];
  const receiver = net.createServer((socket) => {
    let got = '';
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      got += chunk.toString();
      const headEnd = got.indexOf('\r\n\r\n');
      const length = Number(/content-length: (\d+)/i.exec(got)?.[1]);
      if (headEnd === -1 || Buffer.byteLength(got.slice(headEnd + 4)) < length) return;
      posted.push(JSON.parse(got.slice(headEnd + 4)).eventId);
      got = '';
      socket.write('HTTP/1.1 100 Continue\r\n\r\n', () => {
        socket.write('HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n');
      });
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  t.after(() => receiver.close());
  const service = await startService({ env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' } });
  t.after(() => service.close());
  const { port } = receiver.address() as net.AddressInfo;
  const { webhookId } = (
    await service.sandboxApi.post('/webhooks', { url: `http://127.0.0.1:${port}/`, events: ['Send', 'Delivery'] })
  ).body;
  const messages = [1, 2, 3].map((number) => ({
    from: 'shop@shop.example',
    to: `ann${number}@example.com`,
    subject: 'Order',
    text: 'It is on its way.',
  }));
  assert.equal((await service.sandboxApi.post('/send/batch', { messages })).status, 200);
  const deliveries = async (): Promise<JsonObject[]> =>
    (await service.sandboxApi.get(`/webhooks/${webhookId}/deliveries?limit=100`)).body as unknown as JsonObject[];
  const settled = await waitUntil('the deliveries', async () => {
    const all = await deliveries();
    return all.length >= 6 && all.every(({ status }) => status !== 'pending') && all;
  });
  assert.deepEqual([...new Set(settled.map(({ status }) => status))], ['succeeded']);
  assert.equal(new Set(posted).size, posted.length, 'no event came twice');
  assert.equal(posted.length, settled.length);
});
