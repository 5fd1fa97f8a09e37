/** The limit on registered, unsent files of an account. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Answer } from '../../test/kit/api.ts';
import { manifestEntry, someBytes } from '../../test/kit/upload.ts';
import { type UploadApp, uploadApp } from '../../test/kit/upload-app.ts';

const MINUTES = 60_000;
/** Minimum size that a submission counts as, in bytes. */
const LEAST = 2_000_000;
let app: UploadApp;
let accounts = 0;
before(async () => {
  app = await uploadApp({ maximumUnsentBytes: 5 * LEAST });
});
after(() => app.close());

const bytes = someBytes(1_000);
const small = manifestEntry(bytes);
const code = (answer: Answer): string => `${answer.status} ${answer.body.error?.code ?? ''}`.trim();
const someAccount = (): string => {
  accounts += 1;
  return `acc_${accounts}`;
};
const declared = (...sizes: number[]) => sizes.map((sizeBytes) => ({ ...small, sizeBytes }));

function assertFull(answer: Answer, retryAfter: number): void {
  assert.equal(code(answer), '503 OVERLOADED');
  assert.equal(answer.headers['retry-after'], String(retryAfter));
  assert.match(answer.body.error.message, /10000000 bytes\. Send some of the earlier files first/);
}

test('above the limit nothing is registered for the account and mode until a send frees capacity', async () => {
  const account = someAccount();
  const first = await app.uploaded(account, [bytes]);
  assert.equal((await app.register(account, declared(3_000_000, 3_000_000), 'known')).status, 201);
  assertFull(await app.register(account, declared(LEAST + 1)), 15 * 60);
  assert.equal((await app.register(account, declared(LEAST))).status, 201, 'to the byte');
  assertFull(await app.register(account, declared(0)), 15 * 60);
  const again = await app.register(account, declared(3_000_000, 3_000_000), 'known');
  assert.equal(again.status, 201, 'an existing one');
  assert.equal((await app.register(account, [small], undefined, 'sandbox')).status, 201);
  assert.equal((await app.register(someAccount(), [small])).status, 201);
  assert.equal((await app.send(account, first.attachmentSubmissionId)).status, 202);
  assert.equal((await app.register(account, [small])).status, 201);
  assertFull(await app.register(account, [small]), 15 * 60);
});

test('a submission counts as at least 2 MB without a larger limit', async () => {
  const account = someAccount();
  for (let i = 0; i < 5; i += 1) assert.equal((await app.register(account, declared(0))).status, 201);
  assertFull(await app.register(account, declared(0)), 15 * 60);
});

test('missing files count until their URLs expire, uploaded files until they are deleted', async () => {
  const account = someAccount();
  await app.uploaded(account, [bytes]);
  assert.equal((await app.register(account, declared(4 * LEAST), 'late')).status, 201);
  app.clock.advance(15 * MINUTES - 1);
  assertFull(await app.register(account, [small]), 1);
  app.clock.advance(1);
  assert.equal((await app.register(account, declared(4 * LEAST))).status, 201);
  assertFull(await app.register(account, [small]), 15 * 60);
  // With new URLs the first submission would count again.
  assertFull(await app.register(account, declared(4 * LEAST), 'late'), 15 * 60);
  app.clock.advance(15 * MINUTES);
  const late = await app.register(account, declared(4 * LEAST), 'late');
  assert.equal(late.status, 201, late.text);
  assert.equal(late.headers['idempotent-replayed'], 'true');
  app.clock.advance(15 * MINUTES);
  assertFull(await app.register(account, declared(5 * LEAST)), 3_600);
});
