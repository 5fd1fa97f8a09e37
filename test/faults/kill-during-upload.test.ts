/**
 * Killed in the middle of an upload, and between upload and send: half a file is never taken for a whole one, an upload that was
 * answered is still there, and a client that repeats its calls completes what it began.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import PostalMime from 'postal-mime';
import type { JsonObject } from '../kit/api.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { put, sha256, someBytes } from '../kit/upload.ts';
import { register, sendSubmission, upload } from '../kit/upload-client.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  sink = await smtpSink();
  service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await service.cli('account', 'set', service.live.accountId, '--email-limit', '40000000');
});

after(async () => {
  await service?.close();
  await sink?.close();
});

const mail = (to: string): JsonObject => ({
  from: 'orders@shop.example',
  to,
  subject: 'Files',
  text: 'See the files.',
});
const statusOf = async (id: string): Promise<string> =>
  (await service.api.get(`/attachments/${id}`)).body.files[0].status;

async function kill(): Promise<void> {
  await service.kill('SIGKILL');
  await service.restart();
}

async function fileAt(to: string): Promise<string> {
  const { content } = await waitUntil(
    `the mail to ${to}`,
    () => sink.messages.find((one) => one.to.includes(to)),
    90_000,
  );
  const parsed = await PostalMime.parse(content);
  return sha256(new Uint8Array(parsed.attachments[0]?.content as ArrayBuffer));
}

test('killed during a PUT: nothing of the file is taken, and repeating the calls completes it', async () => {
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
  const early = await sendSubmission(service.api, first.id, mail('cut@example.com'), 'cut');
  assert.equal(early.body.reasonCode, 'ATTACHMENT_UPLOAD_INCOMPLETE');
  const again = await register(service.api, [{ bytes }], 'cut');
  assert.equal(again.id, first.id);
  assert.equal((await upload(again, 0, bytes)).status, 200);

  // Killed between the upload and the send: 200 meant stored.
  await kill();
  assert.equal(await statusOf(first.id), 'uploaded');
  const sent = await sendSubmission(service.api, first.id, mail('cut@example.com'), 'cut');
  assert.equal(sent.status, 202, sent.text);
  assert.equal(await fileAt('cut@example.com'), sha256(bytes));
});
