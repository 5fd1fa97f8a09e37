/** Upload limits: slow connections of one account do not use up the capacity of others. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { manifestEntry, type PutAnswer, someBytes } from '../../test/kit/upload.ts';
import { type UploadApp, uploadApp } from '../../test/kit/upload-app.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { createUploadLimiter, UPLOAD_LIMITS, type UploadKey } from './receive.ts';

let app: UploadApp;
before(async () => {
  app = await uploadApp({ limits: { perFile: 2, perAccount: 3, total: 5 } });
});
after(() => app.close());

const bytes = someBytes(2_000);
const code = (answer: PutAnswer): string => `${answer.status} ${answer.body.error?.code ?? ''}`.trim();

interface File {
  url: string;
  headers: Record<string, string>;
}

async function files(account: string, count: number, mode: 'live' | 'sandbox' = 'live'): Promise<File[]> {
  const { body } = await app.register(account, Array(count).fill(manifestEntry(bytes)), undefined, mode);
  return body.attachmentUploads.map((one: { uploadUrl: string; requiredHeaders: Record<string, string> }) => ({
    url: one.uploadUrl,
    headers: one.requiredHeaders,
  }));
}

/** Starts uploads that continue when they are told to. */
async function stalled(list: File[]): Promise<{ go(): Promise<PutAnswer[]> }> {
  let begun = 0;
  let go = (): void => undefined;
  const resumed = new Promise<void>((resolve) => {
    go = resolve;
  });
  async function* body() {
    begun += 1;
    yield bytes.subarray(0, 1_000);
    await resumed;
    yield bytes.subarray(1_000);
  }
  const before = app.stored().length;
  const length = { 'Content-Length': String(bytes.length) };
  const answers = list.map(({ url, headers }) =>
    app.put({ url, headers: { ...headers, ...length }, body: body(), waitForContinue: true }),
  );
  await waitUntil('all uploads to be in progress', () => begun === list.length);
  assert.ok(app.stored().length >= before);
  return {
    go: () => {
      go();
      return Promise.all(answers);
    },
  };
}

test('an account at its upload limit is rejected, and other accounts continue', async () => {
  const [one, two, three] = await files('acc_1', 3);
  const [four] = await files('acc_1', 1, 'sandbox');
  const [other] = await files('acc_2', 1);
  const held = await stalled([one!, two!, three!]);
  const refused = await app.put({ ...four!, body: bytes });
  assert.equal(code(refused), '503 OVERLOADED');
  assert.ok(Number(refused.headers['retry-after']) > 0);
  assert.match(refused.body.error.message, /3 uploads of this account/);
  assert.equal(code(await app.put({ ...other!, body: bytes })), '200');
  assert.deepEqual((await held.go()).map(code), ['200', '200', '200']);
  assert.equal(code(await app.put({ ...four!, body: bytes })), '200', 'finished uploads free capacity');
});

test('the limit across all accounts applies', async () => {
  const [mine, others, last] = await Promise.all([files('acc_3', 3), files('acc_4', 3), files('acc_5', 1)]);
  const held = await stalled([...mine, others[0]!, others[1]!]);
  for (const one of [others[2]!, last[0]!]) {
    const refused = await app.put({ ...one, body: bytes });
    assert.equal(code(refused), '503 OVERLOADED');
    assert.ok(Number(refused.headers['retry-after']) > 0);
  }
  await held.go();
  assert.equal(code(await app.put({ ...last[0]!, body: bytes })), '200');
});

test('one account can use only part of the upload capacity', () => {
  const limiter = createUploadLimiter();
  const uploads = (accountId: string): UploadKey[] =>
    Array.from({ length: UPLOAD_LIMITS.total }, (_, i) => ({ accountId, submissionId: `sub_${i}`, number: 0 }));
  const acquired = uploads('acc_1').map((one) => limiter.acquire(one));
  assert.equal(acquired.filter((one) => one.ok).length, UPLOAD_LIMITS.perAccount);
  assert.ok(UPLOAD_LIMITS.perAccount <= UPLOAD_LIMITS.total / 5);
  assert.ok(limiter.acquire({ accountId: 'acc_2', submissionId: 'sub_x', number: 0 }).ok);
});
