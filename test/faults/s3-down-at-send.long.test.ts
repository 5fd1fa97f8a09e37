import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Fault } from '../kit/fault-proxy.ts';
import { noLocalS3 } from '../kit/s3.ts';
import { holds, largeMail, openS3Service } from '../kit/s3-service.ts';
import { someBytes } from '../kit/upload.ts';
import { sendSubmission, uploadAll } from '../kit/upload-client.ts';
import { waitUntil } from '../kit/wait-until.ts';

const skip = noLocalS3;
let rig: Awaited<ReturnType<typeof openS3Service>>;
before(async () => {
  if (!skip) rig = await openS3Service();
});
after(() => rig?.close());

test('with S3 failing, large sends return 503; small mail flows, and retries send once', {
  skip,
}, async () => {
  const { peer, proxy, sink, service } = rig;
  const faults: [string, Fault, string[] | undefined][] = [
    ['down', { kind: 'down' }, undefined],
    ['busy', { kind: 'busy' }, undefined],
    ['answers lost', { kind: 'lost' }, ['PUT']],
    ['answers cut', { kind: 'cut', afterBytes: 20 }, ['PUT']],
  ];
  for (const [name, fault, methods] of faults) {
    const mail = largeMail(`${name.replace(' ', '-')}@x.example`);
    const key = { 'idempotency-key': `send-${name}` };
    proxy.set(fault, methods ? { methods } : {});
    const refused = await service.api.post('/send', mail, key);
    assert.equal(refused.status, 503, `${name}: ${refused.text}`);
    assert.equal(refused.body.error.code, 'UNAVAILABLE');
    assert.ok(Number(refused.headers['retry-after']) > 0);
    // The request id is random and can contain "s3".
    const told = refused.text.replaceAll(refused.body.requestId, '');
    assert.doesNotMatch(told, /s3|bucket|127\.0\.0\.1/i, 'the cause is not revealed');
    assert.ok(proxy.met > 1, `${name}: ${proxy.met} tries`);
    const small = await service.api.post('/send', { ...mail, to: `small-${mail.to}`, text: 'small' });
    assert.equal(small.status, 202, 'small mail needs no blob');
    const listed = await service.api.get(`/messages?to=${mail.to}`);
    const found = (listed.body as unknown as { to: string }[]).filter((one) => one.to === mail.to);
    assert.deepEqual(found, [], `${name}: nothing was accepted`);
    proxy.set();
    const accepted = await service.api.post('/send', mail, key);
    assert.equal(accepted.status, 202, accepted.text);
    const repeated = await service.api.post('/send', mail, key);
    assert.equal(repeated.text, accepted.text);
    await waitUntil(`${name}: the delivery`, () => sink.messages.some((one) => one.to.includes(mail.to)));
    const received = sink.messages.filter((one) => one.to.includes(mail.to));
    assert.equal(received.length, 1);
    assert.ok(holds(received[0]!.content, mail), `${name}: the message is complete`);
  }
  const stored = await Array.fromAsync(peer.open().list());
  assert.ok(stored.length >= faults.length, 'unrecorded uploads are left to the sweeper');
  assert.ok(!service.log.includes(peer.credentials.secretAccessKey), 'no secret in the log');
});

test('an occasionally lost S3 response loses no mail', { skip }, async () => {
  const { proxy, sink, service } = rig;
  const mails = [1, 2, 3].map((n) => largeMail(`lost-${n}@x.example`));
  const before = sink.messages.length;
  for (const mail of mails) {
    proxy.set({ kind: 'lost' }, { times: 2 });
    const accepted = await service.api.post('/send', mail);
    assert.equal(accepted.status, 202, accepted.text);
    assert.equal(proxy.met, 2);
  }
  await waitUntil('all messages to be delivered', () => sink.messages.length === before + mails.length);
  for (const mail of mails) {
    assert.ok(holds(sink.messages.find((one) => one.to.includes(mail.to))!.content, mail));
  }
});

test('with S3 down, sending uploaded files returns 503 and does not consume them', { skip }, async () => {
  const { proxy, sink, service } = rig;
  const { id } = await uploadAll(service.api, [{ bytes: someBytes(100_000) }]);
  const mail = { from: 'orders@shop.example', to: 'files@x.example', subject: 'Files', text: 'See the files.' };
  proxy.set({ kind: 'down' });
  const refused = await sendSubmission(service.api, id, mail);
  assert.equal(refused.status, 503, refused.text);
  assert.equal(refused.body.error.code, 'UNAVAILABLE');
  proxy.set();
  const accepted = await sendSubmission(service.api, id, mail);
  assert.equal(accepted.status, 202, accepted.text);
  await waitUntil('the delivery', () => sink.messages.some((one) => one.to.includes(mail.to)));
});
