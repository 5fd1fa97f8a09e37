import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { noLocalS3 } from '../kit/s3.ts';
import { holds, largeMail, s3Service } from '../kit/s3-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const skip = noLocalS3;

test('content changed or removed in S3 is not sent until restored: alarm, delay, others proceed', {
  skip,
}, async (t) => {
  const { peer, sink, service } = await s3Service(t);
  const blobs = peer.open();
  const keysOf = async (): Promise<string[]> => (await Array.fromAsync(blobs.list())).map(({ key }) => key);
  const send = async (to: string): Promise<{ mail: ReturnType<typeof largeMail>; id: string; key: string }> => {
    const before = await keysOf();
    const mail = largeMail(to, { sendAt: new Date(Date.now() + 3_600_000).toISOString() });
    const accepted = await service.api.post('/send', mail);
    assert.equal(accepted.status, 202, accepted.text);
    const key = (await keysOf()).find((one) => !before.includes(one))!;
    return { mail, id: accepted.body.data.messageId, key };
  };
  const changed = await send('changed@x.example');
  const removed = await send('removed@x.example');
  const whole = await send('whole@x.example');
  const original = (await blobs.get(changed.key))!;
  const forged = Buffer.from(original);
  forged[original.length - 100]! ^= 1;
  assert.equal((await peer.call('PUT', changed.key, { body: forged })).status, 200);
  await blobs.remove(removed.key);
  for (const { id } of [changed, removed, whole]) await service.cli('queue', 'retry', id);

  const message = async (id: string): Promise<JsonObject> => (await service.api.get(`/messages/${id}`)).body;
  await waitUntil('the other to be delivered', () => sink.messages.length === 1);
  assert.ok(holds(sink.messages[0]!.content, whole.mail));
  for (const [{ id }, words] of [
    [changed, /the stored content of the message is not what was accepted/],
    [removed, /the stored content of the message is missing/],
  ] as const) {
    await waitUntil('the delay', async () => (await message(id)).status === 'delayed');
    const alarm = await waitUntil('the alarm', () =>
      service.log
        .split('\n')
        .slice(0, -1)
        .find((line) => line.includes(id) && words.test(line)),
    );
    assert.equal(JSON.parse(alarm).level, 'error');
  }
  await assert.rejects(service.api.get(`/messages/${changed.id}/content`), /aborted/, 'nor is it returned as complete');
  assert.equal(sink.messages.length, 1);
  assert.equal((await peer.call('PUT', changed.key, { body: original })).status, 200);
  await service.cli('queue', 'retry', changed.id);
  await waitUntil('the delivery', () => sink.messages.length === 2);
  assert.ok(holds(sink.messages[1]!.content, changed.mail));
});
