import assert from 'node:assert/strict';
import { test } from 'node:test';
import PostalMime from 'postal-mime';
import type { JsonObject } from '../kit/api.ts';
import { noLocalS3 } from '../kit/s3.ts';
import { s3Service } from '../kit/s3-service.ts';
import { sha256, someBytes } from '../kit/upload.ts';
import { register, sendSubmission, upload, uploadAll } from '../kit/upload-client.ts';
import { waitUntil } from '../kit/wait-until.ts';

const skip = noLocalS3;

const mail = (to: string): JsonObject => ({
  from: 'orders@shop.example',
  to,
  subject: 'Files',
  text: 'See the files.',
  // Leaves time to act in between.
  sendAt: new Date(Date.now() + 3_600_000).toISOString(),
});

test('reusing an upload URL after the send does not change the message', {
  skip,
}, async (t) => {
  const { sink, service } = await s3Service(t);
  const [bytes, other] = [someBytes(500_000), someBytes(500_000)];
  const message = async (id: string): Promise<JsonObject> => (await service.api.get(`/messages/${id}`)).body;

  // A few bytes, which the store reads before rejecting: the rest of a large body would reset the connection.
  const few = someBytes(100);
  const bound = await register(service.api, [{ bytes: few }]);
  assert.equal((await upload(bound, 0, few.subarray(1))).status, 403, 'the signature covers the length');
  const registered = await register(service.api, [{ bytes }]);
  assert.equal((await upload(registered, 0, bytes)).status, 200);
  const changed = await sendSubmission(service.api, registered.id, mail('changed@x.example'));
  assert.equal(changed.status, 202, changed.text);
  // The signature also covers the digest, but Swift does not compare it with the bytes.
  assert.equal((await upload(registered, 0, other)).status, 200);
  const kept = await uploadAll(service.api, [{ bytes }]);
  const repeated = await sendSubmission(service.api, kept.id, mail('repeated@x.example'));
  assert.equal(repeated.status, 202, repeated.text);
  assert.equal((await upload(kept, 0, bytes)).status, 200, 'the same bytes once more');

  const id = String(changed.body.data.messageId);
  for (const one of [id, String(repeated.body.data.messageId)]) await service.cli('queue', 'retry', one);
  await waitUntil('the delay', async () => (await message(id)).status === 'delayed');
  const received = await waitUntil('the other mail', () => sink.messages[0]);
  assert.deepEqual(received.to, ['repeated@x.example']);
  const [attachment] = (await PostalMime.parse(received.content)).attachments;
  assert.equal(sha256(Buffer.from(attachment!.content as ArrayBuffer)), sha256(bytes));

  assert.equal((await upload(registered, 0, bytes)).status, 200);
  await service.cli('queue', 'retry', id);
  await waitUntil('the delivery', () => sink.messages.some((one) => one.to.includes('changed@x.example')));
  assert.equal(sink.messages.length, 2);
});
