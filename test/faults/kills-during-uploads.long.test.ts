/**
 * Repeated kills during many uploads and sends: a client that repeats its calls with its key sends every message once, with the right
 * bytes.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { arrivedFile, fileMail } from '../kit/file-mail.ts';
import { closeShop, openShop } from '../kit/shop.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import type { Service } from '../kit/start-service.ts';
import { sha256, someBytes } from '../kit/upload.ts';
import { register, sendSubmission, upload } from '../kit/upload-client.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  ({ sink, service } = await openShop({ emailLimit: 40_000_000 }));
});
after(() => closeShop({ sink, service }));

async function kill(): Promise<void> {
  await service.kill('SIGKILL');
  await service.restart();
}

/** Repeats the entire flow with one key until the send is accepted, as a client that loses its connections does. */
async function sendPatiently(to: string, bytes: Buffer): Promise<string> {
  const retry = async <T>(what: string, attempt: () => Promise<T | undefined>): Promise<T> =>
    waitUntil(what, () => attempt().catch(() => undefined), 60_000);
  return retry(`the send to ${to}`, async () => {
    const registered = await register(service.api, [{ bytes }], to);
    const put = await upload(registered, 0, bytes);
    // 403: an earlier attempt was accepted, and its response was lost.
    if (put.status !== 200 && put.status !== 403) return undefined;
    const sent = await sendSubmission(service.api, registered.id, fileMail(to), to);
    return sent.status === 202 ? (sent.body.data.messageId as string) : undefined;
  });
}

test('repeated kills during uploads and sends: each key sends one message with its own file', async () => {
  const all = Array.from({ length: 24 }, (_, i) => ({ to: `fire-${i}@example.com`, bytes: someBytes(400_000 + i) }));
  let done = 0;
  const sends = Promise.all(
    all.map(async ({ to, bytes }, i) => {
      await waitUntil('the next round', () => i < done + 6, 60_000);
      const messageId = await sendPatiently(to, bytes);
      done += 1;
      return messageId;
    }),
  );
  for (let i = 0; i < 4; i += 1) {
    const from = done;
    await waitUntil('uploads in progress', () => done > from || done === all.length, 60_000);
    await kill();
  }
  const ids = await sends;
  assert.equal(new Set(ids).size, all.length);
  for (const { to, bytes } of all) assert.equal(await arrivedFile(sink, to), sha256(bytes), to);
  const list = (await service.api.get('/messages?limit=100')).body as unknown as JsonObject[];
  const messages = list.filter((one) => one.to.startsWith('fire-')).map((one) => one.messageId);
  assert.deepEqual(messages.sort(), [...ids].sort(), 'exactly one message per key');
});
