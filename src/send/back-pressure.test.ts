/** Under back-pressure a repeated request gets its stored response, a dry run works, and everything else is rejected. */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { manifestEntry, someBytes } from '../../test/kit/upload.ts';
import { LARGE, type UploadApp, uploadApp } from '../../test/kit/upload-app.ts';

let app: UploadApp;
before(async () => {
  app = await uploadApp();
});
afterEach(() => app.setBackPressure());
after(() => app.close());

const REFUSED = '503 Nothing was accepted: the disk is nearly full. Retry later.';

/** Posts with or without a key. Returns the status with the error message, or whether the response is a replay. */
function poster(accountId: string, path: string) {
  const api = app.api(accountId);
  return async (body: unknown, key?: string) => {
    const answer = await api.post(path, body, key === undefined ? {} : { 'Idempotency-Key': key });
    const isReplayed = answer.headers['idempotent-replayed'] === 'true';
    const { error } = answer.body;
    const result = error === undefined ? (isReplayed ? 'replayed' : 'done') : error.message;
    return { text: answer.text, code: error?.code, outcome: `${answer.status} ${result}` };
  };
}

test('under back-pressure an accepted send is replayed and new ones are rejected', async () => {
  const send = poster('acc_send', '/send');
  const first = await send(LARGE, 'k1');
  assert.equal(first.outcome, '202 done');
  app.setBackPressure('the disk is nearly full');
  const again = await send({ ...LARGE }, 'k1');
  assert.deepEqual([again.outcome, again.text], ['202 replayed', first.text]);
  assert.equal((await send({ ...LARGE, subject: 'Other' }, 'k1')).code, 'IDEMPOTENCY_KEY_REUSED');
  const key = { accountId: 'acc_send', mode: 'live', endpoint: '/send', key: 'k2' } as const;
  app.inFlight.take(key);
  assert.equal((await send(LARGE, 'k2')).code, 'DUPLICATE_REQUEST_IN_PROGRESS');
  app.inFlight.release(key);
  for (const refused of [send(LARGE, 'k2'), send(LARGE), send('{', 'k3'), send(LARGE, 'k'.repeat(256))])
    assert.equal((await refused).outcome, REFUSED);
  app.setBackPressure();
  assert.equal((await send(LARGE, 'k2')).outcome, '202 done', 'the key of a rejected send can be reused');
});

test('a dry run stores nothing and is not rejected', async () => {
  const dryRun = poster('acc_dry', '/send?dryRun=true');
  app.setBackPressure('the disk is nearly full');
  for (const key of [undefined, 'k1']) {
    const { outcome, text } = await dryRun(LARGE, key);
    assert.deepEqual([outcome, JSON.parse(text).subject], ['200 done', 'Files']);
  }
  assert.equal((await poster('acc_dry', '/send?dryRun=false')(LARGE)).outcome, REFUSED);
});

test('a batch is replayed with the messages that it accepted', async () => {
  const accountId = 'acc_batch';
  const send = poster(accountId, '/send/batch');
  const body = { messages: [LARGE, { ...LARGE, to: 'bob@example.com' }] };
  const first = await send(body, 'whole');
  const second = { accountId, mode: 'live', endpoint: '/send/batch#1', key: 'half' } as const;
  app.inFlight.take(second);
  const half = JSON.parse((await send(body, 'half')).text).results;
  app.inFlight.release(second);
  app.setBackPressure('the disk is nearly full');
  const again = await send(body, 'whole');
  assert.deepEqual([again.outcome, again.text], ['200 replayed', first.text]);
  const { results } = JSON.parse((await send(body, 'half')).text);
  assert.deepEqual([results[0], `503 ${results[1].error.message}`], [half[0], REFUSED]);
  for (const refused of [send(body, 'new'), send(body)]) assert.equal((await refused).outcome, REFUSED);
  app.setBackPressure();
  const rest = JSON.parse((await send(body, 'half')).text).results;
  assert.deepEqual([rest[0], rest[1].status], [half[0], 202]);
});

test('registered files are replayed, and new ones are rejected', async () => {
  const register = poster('acc_files', '/attachments');
  const body = { attachments: [manifestEntry(someBytes(1_000))] };
  const first = await register(body, 'k1');
  app.setBackPressure('the disk is nearly full');
  const again = await register(body, 'k1');
  assert.deepEqual([again.outcome, again.text], ['201 replayed', first.text]);
  const other = { attachments: [manifestEntry(someBytes(1_000))] };
  assert.equal((await register(other, 'k1')).code, 'IDEMPOTENCY_KEY_REUSED');
  for (const refused of [register(other, 'k2'), register(other)]) assert.equal((await refused).outcome, REFUSED);
  const { uploadUrl, requiredHeaders } = JSON.parse(first.text).attachmentUploads[0];
  assert.equal((await app.put({ url: uploadUrl, headers: requiredHeaders, body: Buffer.alloc(1_000) })).status, 503);
});
