/**
 * A kill during an upload, and between upload and send: a partial file is never accepted as complete, an acknowledged upload is still
 * stored, and a client that repeats its calls completes the send.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { arrivedFile, fileMail } from '../kit/file-mail.ts';
import { closeShop, openShop } from '../kit/shop.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import type { Service } from '../kit/start-service.ts';
import { put, sha256, someBytes } from '../kit/upload.ts';
import { register, sendSubmission, upload } from '../kit/upload-client.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  ({ sink, service } = await openShop({ emailLimit: 40_000_000 }));
});
after(() => closeShop({ sink, service }));

const statusOf = async (id: string): Promise<string> =>
  (await service.api.get(`/attachments/${id}`)).body.files[0].status;

async function kill(): Promise<void> {
  await service.kill('SIGKILL');
  await service.restart();
}

test('a kill during a PUT stores nothing of the file, and repeating the calls completes it', async () => {
  const bytes = someBytes(4_000_000);
  const first = await register(service.api, [{ bytes }], 'cut');
  const { uploadUrl: url, requiredHeaders: headers } = first.uploads[0]!;
  let arrivedBytes = 0;
  async function* cut() {
    for (let at = 0; at < 3_000_000; at += 100_000) {
      arrivedBytes = at;
      yield bytes.subarray(at, at + 100_000);
    }
    await service.kill('SIGKILL');
    yield bytes.subarray(3_000_000);
  }
  await assert.rejects(put({ url, headers, body: cut() }));
  assert.ok(arrivedBytes > 2_000_000);
  await service.restart();
  assert.equal(await statusOf(first.id), 'waiting');
  const early = await sendSubmission(service.api, first.id, fileMail('cut@example.com'), 'cut');
  assert.equal(early.body.reasonCode, 'ATTACHMENT_UPLOAD_INCOMPLETE');
  const again = await register(service.api, [{ bytes }], 'cut');
  assert.equal(again.id, first.id);
  assert.equal((await upload(again, 0, bytes)).status, 200);

  // Killed between the upload and the send: 200 means stored.
  await kill();
  assert.equal(await statusOf(first.id), 'uploaded');
  const sent = await sendSubmission(service.api, first.id, fileMail('cut@example.com'), 'cut');
  assert.equal(sent.status, 202, sent.text);
  assert.equal(await arrivedFile(sink, 'cut@example.com'), sha256(bytes));
});
