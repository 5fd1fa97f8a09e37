/**
 * Large attachments with an S3-compatible store: files are uploaded directly with presigned URLs, and the send verifies them: nothing that
 * differs from the manifest is sent.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import PostalMime from 'postal-mime';
import type { JsonObject } from '../kit/api.ts';
import { noS3, type S3Peer, startS3 } from '../kit/s3.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { put, sha256, someBytes } from '../kit/upload.ts';
import { register, sendSubmission } from '../kit/upload-client.ts';
import { waitUntil } from '../kit/wait-until.ts';

const skip = noS3;
let s3: S3Peer;
let sink: SmtpSink;
let service: Service;

before(async () => {
  if (skip) return;
  [s3, sink] = await Promise.all([startS3(), smtpSink()]);
  service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, ...s3.environment() } });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await service.cli('account', 'set', service.live.accountId, '--email-limit', '40000000');
});

after(async () => {
  await service?.close();
  await sink?.close();
  await s3?.close();
});

const mail = (to: string): JsonObject => ({
  from: 'orders@shop.example',
  to,
  subject: 'Files',
  text: 'See the files.',
});
type Upload = { uploadUrl: string; requiredHeaders: Record<string, string> };

test('files are uploaded to the store and sent from there', { skip }, async () => {
  const files = [
    { bytes: someBytes(3_000_000), name: 'plan.pdf' },
    { bytes: someBytes(70_000), name: 'b.pdf' },
  ];
  const { id, uploads, expiresAt } = await register(service.api, files, 'order');
  for (const { uploadUrl, requiredHeaders } of uploads) {
    assert.ok(!uploadUrl.startsWith(service.url), 'the bytes do not pass through the service');
    assert.equal(requiredHeaders['Content-Type'], 'application/pdf');
    assert.ok(Object.keys(requiredHeaders).every((name) => name.toLowerCase() !== 'content-length'));
  }
  assert.ok(expiresAt > Date.now() + 800_000);
  const states = async (): Promise<string[]> =>
    (await service.api.get(`/attachments/${id}`)).body.files.map((one: JsonObject) => one.status);
  assert.deepEqual(await states(), ['waiting', 'waiting']);
  const [first, second] = uploads as [Upload, Upload];
  assert.equal(
    (await put({ url: first.uploadUrl, headers: first.requiredHeaders, body: files[0]!.bytes })).status,
    200,
  );
  assert.deepEqual(await states(), ['uploaded', 'waiting']);
  const early = await sendSubmission(service.api, id, mail('s3@example.com'), 'order');
  assert.equal(early.body.reasonCode, 'ATTACHMENT_UPLOAD_INCOMPLETE');
  assert.deepEqual(
    early.body.error.details.map((one: JsonObject) => one.field),
    ['attachments[1]'],
  );
  assert.equal(
    (await put({ url: second.uploadUrl, headers: second.requiredHeaders, body: files[1]!.bytes })).status,
    200,
  );
  const sent = await sendSubmission(service.api, id, mail('s3@example.com'), 'order');
  assert.equal(sent.status, 202, sent.text);
  const { content } = await waitUntil('the mail', () => sink.messages.find((one) => one.to.includes('s3@example.com')));
  const parsed = await PostalMime.parse(content);
  assert.deepEqual(
    parsed.attachments.map((one) => [one.filename, sha256(new Uint8Array(one.content as ArrayBuffer))]),
    files.map((one) => [one.name, sha256(one.bytes)]),
  );
});

test('other bytes of the same size are never sent, whatever the store accepts', { skip }, async () => {
  const bytes = someBytes(50_000);
  const { id, uploads } = await register(service.api, [{ bytes }]);
  const [{ uploadUrl: url, requiredHeaders: headers }] = uploads as [Upload];
  const other = Buffer.from(bytes).fill(0, 100, 110);
  const stored = await put({ url, headers, body: other });
  const refused = await sendSubmission(service.api, id, mail('other@example.com'));
  assert.equal(refused.body.reasonCode, 'ATTACHMENT_UPLOAD_INCOMPLETE');
  // A store that compares the digest has rejected the bytes itself.
  const reason = stored.status === 200 ? /SHA-256 that differs/ : /has not been uploaded/;
  assert.match(refused.body.error.details[0].message, reason);
  assert.equal((await put({ url, headers, body: bytes })).status, 200);
  assert.equal((await sendSubmission(service.api, id, mail('other@example.com'))).status, 202);
});
