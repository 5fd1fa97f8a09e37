/**
 * Large attachments where content is kept in S3: the client uploads to the store itself, by URLs that Postrider signed; what
 * the store does not check is found at /send and once more when the mail leaves.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import PostalMime from 'postal-mime';
import type { JsonObject } from '../kit/api.ts';
import { noLocalS3 } from '../kit/s3.ts';
import { s3Service } from '../kit/s3-service.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import { sha256, someBytes } from '../kit/upload.ts';
import { register, sendSubmission, upload, uploadAll } from '../kit/upload-client.ts';
import { waitUntil } from '../kit/wait-until.ts';

const skip = noLocalS3;

const mail = (to: string): JsonObject => ({
  from: 'orders@shop.example',
  to,
  subject: 'Files',
  text: 'See the files.',
});

async function filesAt(sink: SmtpSink, to: string): Promise<string[]> {
  const received = await waitUntil(`the mail to ${to}`, () => sink.messages.find((one) => one.to.includes(to)), 20_000);
  const parsed = await PostalMime.parse(received.content);
  return parsed.attachments.map(({ content }) => sha256(Buffer.from(content as ArrayBuffer)));
}

test('files go straight to the store and from there into the mail', { skip }, async (t) => {
  const { peer, proxy, sink, service } = await s3Service(t);
  await service.cli('account', 'set', service.live.accountId, '--email-limit', '40000000');
  const [large, small, empty] = [someBytes(20_000_000), someBytes(10), Buffer.alloc(0)];

  const registered = await register(service.api, [{ bytes: large }, { bytes: small }, { bytes: empty }]);
  const [first] = registered.uploads;
  assert.equal(new URL(first!.uploadUrl).host, new URL(proxy.url).host, 'the URL is one of the store');
  assert.equal(first!.requiredHeaders['Content-Type'], 'application/pdf');
  assert.ok(!('Content-Length' in first!.requiredHeaders));
  const early = await sendSubmission(service.api, registered.id, mail('early@x.example'));
  assert.equal(early.status, 409, early.text);
  assert.equal(early.body.error.code, 'ATTACHMENT_UPLOAD_INCOMPLETE');

  for (const wrong of [small.subarray(1), Buffer.concat([small, small])]) {
    assert.equal((await upload(registered, 1, wrong)).status, 403, 'the length is bound');
  }
  const forged = someBytes(10);
  assert.equal((await upload(registered, 1, forged)).status, 200, 'Swift does not compare the digest');
  assert.equal((await upload(registered, 0, large)).status, 200);
  assert.equal((await upload(registered, 2, empty)).status, 200);
  const incomplete = await sendSubmission(service.api, registered.id, mail('forged@x.example'));
  assert.equal(incomplete.status, 409, incomplete.text);
  assert.deepEqual(
    incomplete.body.error.details.map((one: JsonObject) => one.field),
    ['attachments[1]'],
  );
  assert.equal((await upload(registered, 1, small)).status, 200);
  const sent = await sendSubmission(service.api, registered.id, mail('a@x.example'));
  assert.equal(sent.status, 202, sent.text);
  assert.deepEqual(await filesAt(sink, 'a@x.example'), [large, small, empty].map(sha256));

  const later = await uploadAll(service.api, [{ bytes: small }]);
  const sendAt = new Date(Date.now() + 2000).toISOString();
  const overwritten = await sendSubmission(service.api, later.id, { ...mail('b@x.example'), sendAt });
  assert.equal(overwritten.status, 202, overwritten.text);
  await upload(later, 0, forged);
  const message = async (id: string): Promise<JsonObject> => (await service.api.get(`/messages/${id}`)).body;
  const id = overwritten.body.data.messageId;
  await waitUntil('the delay', async () => (await message(id)).status === 'delayed');
  assert.ok(!sink.messages.some((one) => one.to.includes('b@x.example')), 'what came after /send is not sent');
  assert.equal((await peer.call('GET')).status, 200);
});

test('with S3 down, a send of uploaded files is 503; cut while it goes out, the mail is delayed and then whole', {
  skip,
}, async (t) => {
  const { proxy, sink, service } = await s3Service(t);
  await service.cli('account', 'set', service.live.accountId, '--email-limit', '40000000');
  const bytes = someBytes(5_000_000);
  const registered = await uploadAll(service.api, [{ bytes }]);
  proxy.set({ kind: 'down' });
  const refused = await sendSubmission(service.api, registered.id, mail('a@x.example'), undefined);
  assert.equal(refused.status, 503, refused.text);
  assert.equal(refused.body.error.code, 'OVERLOADED');
  proxy.set();
  const sendAt = new Date(Date.now() + 2000).toISOString();
  const sent = await sendSubmission(service.api, registered.id, { ...mail('a@x.example'), sendAt });
  assert.equal(sent.status, 202, sent.text);
  proxy.set({ kind: 'cut', afterBytes: 3_000_000 }, { methods: ['GET'] });
  const id = sent.body.data.messageId;
  const message = async (): Promise<JsonObject> => (await service.api.get(`/messages/${id}`)).body;
  await waitUntil('the delay', async () => (await message()).status === 'delayed', 20_000);
  assert.ok(proxy.met > 0);
  assert.equal(sink.messages.length, 0, 'nothing was accepted by the peer');
  proxy.set();
  await service.cli('queue', 'retry', id);
  assert.deepEqual(await filesAt(sink, 'a@x.example'), [sha256(bytes)]);
  assert.equal(sink.messages.length, 1);
});
