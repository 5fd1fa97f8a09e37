import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runningMs } from '../kit/running-time.ts';
import { noLocalS3 } from '../kit/s3.ts';
import { holds, largeMail, s3Service } from '../kit/s3-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const skip = noLocalS3;

test('a silent store: 503 and delay within 30 s, and small mail flows', {
  skip,
}, async (t) => {
  const { proxy, sink, service } = await s3Service(t);
  const queued = largeMail('queued@x.example', { sendAt: new Date(Date.now() + 6_000).toISOString() });
  const accepted = await service.api.post('/send', queued);
  assert.equal(accepted.status, 202, accepted.text);
  const id = accepted.body.data.messageId;
  proxy.set({ kind: 'silent' });
  const startedMs = runningMs();
  const refused = service.api.post('/send', largeMail('new@x.example'));
  for (let i = 0; i < 20; i += 1) {
    const small = await service.api.post('/send', { ...largeMail(`${i}@x.example`), text: 'small' });
    assert.equal(small.status, 202);
  }
  await waitUntil('the small ones', () => sink.messages.length === 20);
  assert.ok(runningMs() - startedMs < 10_000, 'mail without blobs does not wait');
  assert.equal((await refused).status, 503);
  assert.ok(runningMs() - startedMs < 30_000, `${runningMs() - startedMs} ms`);
  const status = async (): Promise<string> => (await service.api.get(`/messages/${id}`)).body.status;
  await waitUntil('the delay', async () => (await status()) === 'delayed', 60_000);
  proxy.set();
  await service.cli('queue', 'retry', id);
  await waitUntil('the delivery', () => sink.messages.length === 21);
  assert.ok(holds(sink.messages.at(-1)!.content, queued));
});

test('a service that waits for its store stops in time', { skip }, async (t) => {
  const { proxy, service } = await s3Service(t);
  proxy.set({ kind: 'silent' });
  const waiting = service.api.post('/send', largeMail('a@x.example')).catch(() => undefined);
  await waitUntil('the request to the store', () => proxy.met > 0);
  const startedMs = runningMs();
  const { code } = await service.kill('SIGTERM');
  assert.equal(code, 0, service.log);
  assert.ok(runningMs() - startedMs < 30_000);
  const answer = await waiting;
  assert.ok(answer === undefined || answer.status === 503);
});
