/**
 * Direct uploads to the storage: the upload URLs are those of the storage, and size and digest are verified when the email is sent. The
 * storage is a folder on disk behind a presigned address.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Answer, JsonObject } from '../../test/kit/api.ts';
import { manifestEntry, someBytes } from '../../test/kit/upload.ts';
import { type UploadApp, uploadApp } from '../../test/kit/upload-app.ts';
import type { Blobs, PresignOptions } from '../storage/blobs/blobs.ts';

const MINUTES = 60_000;
let app: UploadApp;
const asked: PresignOptions[] = [];

function presigning(blobs: Blobs): Blobs {
  return {
    ...blobs,
    presignPut: async (options) => {
      asked.push(options);
      return {
        url: `https://store.test/${options.key}?signed=${options.nowMs}`,
        headers: { 'content-type': options.contentType, 'content-length': '1', 'x-amz-checksum-sha256': 'digest' },
      };
    },
  };
}

before(async () => {
  app = await uploadApp({ around: presigning });
});
after(() => app.close());

const code = (answer: Answer): string => `${answer.status} ${answer.body.error?.code ?? ''}`.trim();

/** Simulates the storage's handling of a PUT. */
async function store(key: string, bytes: Buffer): Promise<void> {
  await app.blobs.putStream(
    (async function* () {
      yield bytes;
    })(),
    { key },
  );
}

test('the URL points to the storage, is bound to size, type, and digest, and stays the same until it expires', async () => {
  asked.length = 0;
  const bytes = someBytes(1_000);
  const { body } = await app.register('acc_1', [manifestEntry(bytes)], 'key');
  const [{ key, nowMs, ...bound }] = asked as [PresignOptions];
  assert.deepEqual(bound, {
    sizeBytes: 1_000,
    contentType: 'application/pdf',
    sha256: Buffer.from(manifestEntry(bytes).sha256, 'hex'),
    expiresInSeconds: 900,
  });
  assert.equal(nowMs, app.clock.now());
  assert.deepEqual(body.attachmentUploads, [
    {
      uploadUrl: `https://store.test/${key}?signed=${nowMs}`,
      requiredHeaders: { 'Content-Type': 'application/pdf', 'x-amz-checksum-sha256': 'digest' },
    },
  ]);
  app.clock.advance(MINUTES);
  assert.deepEqual((await app.register('acc_1', [manifestEntry(bytes)], 'key')).body, body);
  app.clock.advance(15 * MINUTES);
  const { body: fresh } = await app.register('acc_1', [manifestEntry(bytes)], 'key');
  assert.equal(fresh.attachmentSubmissionId, body.attachmentSubmissionId);
  assert.equal(fresh.attachmentUploads[0].uploadUrl, `https://store.test/${key}?signed=${app.clock.now()}`);
});

test('the stored file is counted and hashed when it is sent', async () => {
  const bytes = someBytes(200_000);
  asked.length = 0;
  const { body } = await app.register('acc_2', [
    manifestEntry(bytes, { name: 'a' }),
    manifestEntry(bytes, { name: 'b' }),
  ]);
  const id = body.attachmentSubmissionId;
  const [first, second] = asked.map((one) => one.key);
  const issues = async (): Promise<string[]> => {
    const answer = await app.send('acc_2', id);
    assert.equal(code(answer), '409 ATTACHMENT_UPLOAD_INCOMPLETE');
    return answer.body.error.details.map((one: JsonObject) => one.message.replace(/;.*/, ''));
  };
  assert.deepEqual(await issues(), ['(a) has not been uploaded', '(b) has not been uploaded']);
  await store(first!, bytes);
  await store(second!, bytes.subarray(1));
  assert.deepEqual(
    (await app.state('acc_2', id)).body.files.map((one: JsonObject) => one.status),
    ['uploaded', 'waiting'],
  );
  assert.deepEqual(await issues(), ['(b) has 199999 bytes instead of the 200000 bytes in the manifest']);
  const other = Buffer.from(bytes);
  other[7] = (other[7] ?? 0) ^ 1;
  await store(second!, other);
  assert.deepEqual(await issues(), ['(b) has a SHA-256 that differs from the manifest']);
  await store(second!, bytes);
  assert.equal(code(await app.send('acc_2', id)), '202');
  assert.equal(code(await app.send('acc_2', id)), '409 SUBMISSION_ALREADY_USED');
});
