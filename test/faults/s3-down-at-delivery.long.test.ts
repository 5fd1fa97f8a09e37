import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import type { Fault } from '../kit/fault-proxy.ts';
import { noLocalS3 } from '../kit/s3.ts';
import { holds, largeMail, s3Service } from '../kit/s3-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const skip = noLocalS3;

const FAULTS: [string, Fault][] = [
  ['down', { kind: 'down' }],
  ['busy', { kind: 'busy' }],
  ['cut', { kind: 'cut', afterBytes: 100_000 }],
  ['lost', { kind: 'lost' }],
];

test('mail with unreadable S3 content is delayed, never bounced or truncated, then delivered', {
  skip,
}, async (t) => {
  const { proxy, sink, service } = await s3Service(t);
  const scheduled = async (to: string): Promise<JsonObject & { text: string; id: string }> => {
    // A scheduled message is read from the store when it is sent.
    const mail = largeMail(to, { sendAt: new Date(Date.now() + 3_600_000).toISOString() });
    const accepted = await service.api.post('/send', mail);
    assert.equal(accepted.status, 202, accepted.text);
    return { ...mail, id: accepted.body.data.messageId };
  };
  const message = async (id: string): Promise<JsonObject> => (await service.api.get(`/messages/${id}`)).body;
  for (const [name, fault] of FAULTS) {
    const mail = await scheduled(`${name}@x.example`);
    proxy.set(fault, { methods: ['GET'] });
    await service.cli('queue', 'retry', mail.id);
    const delayed = await waitUntil(`${name}: the delay`, async () => {
      const found = await message(mail.id);
      return found.status === 'delayed' && found;
    });
    assert.ok(proxy.met > 1, `${name}: tried ${proxy.met} times`);
    const delay = delayed.timeline.at(-1);
    assert.equal(delay.eventType, 'DeliveryDelay');
    assert.equal(delay.deliveryDelay.category, 'internal');
    assert.equal(delay.deliveryDelay.suppressed, false);
    assert.ok(Date.parse(delay.deliveryDelay.nextAttemptAt) - Date.parse(delay.timestamp) > 50_000);
    assert.ok(!/127\.0\.0\.1|bucket/i.test(JSON.stringify(delayed)), `no internal address: ${JSON.stringify(delayed)}`);
    const other = { ...mail, to: `other-${name}@x.example`, text: 'small' };
    assert.equal((await service.api.post('/send', { ...other, id: undefined, sendAt: undefined })).status, 202);
    await waitUntil(`${name}: others to flow`, () => sink.messages.some((one) => one.to.includes(other.to)));
    assert.ok(!sink.messages.some((one) => one.to.includes(mail.to)), 'nothing of it was sent');
    proxy.set();
    await service.cli('queue', 'retry', mail.id);
    await waitUntil(`${name}: the delivery`, () => sink.messages.some((one) => one.to.includes(mail.to)));
    const received = sink.messages.filter((one) => one.to.includes(mail.to));
    assert.equal(received.length, 1);
    assert.ok(holds(received[0]!.content, mail), `${name}: the message is complete`);
    await waitUntil('the record', async () => (await message(mail.id)).status === 'delivered');
    const types = (await message(mail.id)).timeline.map((event: JsonObject) => event.eventType);
    assert.deepEqual(types, ['Send', 'DeliveryDelay', 'Delivery'], name);
  }
});
