/** A file that is uploaded again while the batch is read. */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import type { Answer, JsonObject } from '../../test/kit/api.ts';
import { manifestEntry, someBytes } from '../../test/kit/upload.ts';
import { LARGE, type UploadApp, uploadApp } from '../../test/kit/upload-app.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';

let app: UploadApp;
let looks = 0;
/** Called before each check of a stored file. */
let onLook: () => Promise<void> = async () => {};
before(async () => {
  // An upload during a check requests the stamp of its own file.
  let isWithin = false;
  const looking = async (): Promise<void> => {
    if (isWithin) return;
    looks += 1;
    isWithin = true;
    await onLook().finally(() => {
      isWithin = false;
    });
  };
  app = await uploadApp({
    around: (blobs) => ({
      ...blobs,
      sizeOf: (key) => looking().then(() => blobs.sizeOf(key)),
      stampOf: (key) => looking().then(() => blobs.stampOf?.(key)),
    }),
  });
});
after(() => app.close());
afterEach(() => {
  onLook = async () => {};
});

const code = (answer: Answer): string => `${answer.status} ${answer.body.error?.code ?? ''}`.trim();
let accounts = 0;

/** A complete submission, and a repeated upload of its file that ends once the previous bytes are deleted. */
async function complete() {
  accounts += 1;
  const account = `acc_${accounts}`;
  const bytes = someBytes(5_000);
  const { attachmentSubmissionId: id, attachmentUploads } = await app.uploaded(account, [bytes]);
  const [{ uploadUrl: url, requiredHeaders: headers }] = attachmentUploads;
  const repeat = async (): Promise<void> => {
    const before = app.stored();
    const { status } = await app.put({ url, headers, body: bytes });
    assert.equal(status, 200);
    await waitUntil('the previous bytes to be removed', () => before.some((name) => !app.stored().includes(name)));
  };
  return { account, id, repeat };
}

const calls: Record<string, (account: string, id: string) => Promise<Answer>> = {
  'POST /send': (account, id) => app.send(account, id),
  'a dry run': (account, id) => app.api(account).post('/send?dryRun=true', { ...LARGE, attachmentSubmissionId: id }),
  'GET /attachments': (account, id) => app.state(account, id),
};

for (const [name, call] of Object.entries(calls)) {
  test(`${name} finds the file during a repeated upload`, async () => {
    const { account, id, repeat } = await complete();
    let repeats = 0;
    onLook = async () => {
      if (repeats === 2) return;
      repeats += 1;
      await repeat();
    };
    const answer = await call(account, id);
    assert.equal(repeats, 2);
    assert.ok(answer.status === 200 || answer.status === 202, answer.text);
    const states = (answer.body.files ?? []) as JsonObject[];
    assert.ok(states.every((file) => file.status === 'uploaded'));
  });
}

test('continuous uploads of a file do not block the send indefinitely', async () => {
  const { account, id, repeat } = await complete();
  onLook = repeat;
  assert.equal(code(await app.send(account, id)), '409 ATTACHMENT_UPLOAD_INCOMPLETE');
  onLook = async () => {};
  assert.equal(code(await app.send(account, id)), '202');
});

test('a missing file that does not change is looked up once', async () => {
  const { body } = await app.register('acc_missing', [manifestEntry(someBytes(10))]);
  const { account, id } = await complete();
  looks = 0;
  assert.equal(code(await app.send('acc_missing', body.attachmentSubmissionId)), '409 ATTACHMENT_UPLOAD_INCOMPLETE');
  assert.equal((await app.state('acc_missing', body.attachmentSubmissionId)).body.files[0].status, 'waiting');
  assert.equal(looks, 0);
  assert.equal((await app.state(account, id)).status, 200);
  assert.equal(looks, 1);
});

test('a send that loses the race for the submission gets the correct error', async () => {
  const { account, id } = await complete();
  let sent: Answer | undefined;
  onLook = async () => {
    onLook = async () => {};
    sent = await app.send(account, id);
  };
  assert.equal(code(await app.send(account, id)), '409 SUBMISSION_ALREADY_USED');
  assert.equal(sent?.status, 202);
});
