/** POST /send with an attachmentSubmissionId, through the real HTTP server with a real database and real files. */
import assert from 'node:assert/strict';
import { unlinkSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import type { Answer, JsonObject } from '../../test/kit/api.ts';
import { manifestEntry, someBytes } from '../../test/kit/upload.ts';
import { LARGE, type UploadApp, uploadApp } from '../../test/kit/upload-app.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';

const HOUR = 3_600_000;
let app: UploadApp;
let accounts = 0;
before(async () => {
  app = await uploadApp();
});
after(() => app.close());

const code = (answer: Answer): string => `${answer.status} ${answer.body.error?.code ?? ''}`.trim();
/** Every test has separate accounts. */
const someAccount = (): string => {
  accounts += 1;
  return `acc_${accounts}`;
};
const sizeOf = (answer: Answer): number => {
  const job = app.offered.find((one) => one.messageId === answer.body.data?.messageId);
  if (job === undefined) throw new Error(answer.text);
  return job.sizeBytes;
};

test('a complete submission is sent once with its files', async () => {
  const account = someAccount();
  const files = [someBytes(1_000), someBytes(200_000)];
  const { attachmentSubmissionId: id } = await app.uploaded(account, files);
  const sent = await app.send(account, id);
  assert.equal(sent.status, 202, sent.text);
  assert.deepEqual(sent.body.data.recipients[0].email, 'ann@example.com');
  const job = app.offered.at(-1);
  const stored = await Promise.all((job?.options.files ?? []).map((file) => app.blobs.get(file.blobKey)));
  assert.deepEqual(stored, files);
  assert.equal((await app.state(account, id)).body.status, 'used');
  assert.equal(code(await app.send(account, id)), '409 SUBMISSION_ALREADY_USED');
});

test('an unknown submission, or one of another account or mode, is not found', async () => {
  const [owner, other] = [someAccount(), someAccount()];
  const { attachmentSubmissionId: id } = await app.uploaded(owner, [someBytes(10)]);
  assert.equal(code(await app.send(other, id)), '404 SUBMISSION_NOT_FOUND');
  assert.equal(code(await app.send(owner, 'sub_000000000000000000000')), '404 SUBMISSION_NOT_FOUND');
  const sandbox = await app.api(owner, 'sandbox').post('/send', { ...LARGE, attachmentSubmissionId: id });
  assert.equal(code(sandbox), '404 SUBMISSION_NOT_FOUND');
  assert.equal(code(await app.send(owner, id)), '202');
});

test('missing and lost files are listed one by one', async () => {
  const account = someAccount();
  const files = [someBytes(10), someBytes(20), someBytes(30)];
  const before = app.stored();
  const entries = files.map((bytes, i) => manifestEntry(bytes, { name: `file-${i}.bin` }));
  const { body } = await app.register(account, entries);
  const id = body.attachmentSubmissionId;
  const [, second] = body.attachmentUploads;
  await app.put({ url: second.uploadUrl, headers: second.requiredHeaders, body: files[1]! });
  const answer = await app.send(account, id);
  assert.equal(code(answer), '409 ATTACHMENT_UPLOAD_INCOMPLETE');
  assert.deepEqual(
    answer.body.error.details.map((one: JsonObject) => one.field),
    ['attachments[0]', 'attachments[2]'],
  );
  assert.match(answer.body.error.details[1].message, /file-2\.bin.*has not been uploaded/);
  for (const i of [0, 2]) {
    const { uploadUrl: url, requiredHeaders: headers } = body.attachmentUploads[i];
    await app.put({ url, headers, body: files[i]! });
  }
  const name = app.stored().find((one) => !before.includes(one));
  unlinkSync(path.join(app.temp.folder, 'blobs', (await keyOf(name!)) ?? ''));
  const lost = await app.send(account, id);
  assert.equal(code(lost), '409 ATTACHMENT_UPLOAD_INCOMPLETE');
  assert.equal(lost.body.error.details.length, 1);
});

async function keyOf(name: string): Promise<string | undefined> {
  for await (const { key } of app.blobs.list()) if (key.endsWith(name)) return key;
  return undefined;
}

test('the send must have the key of the manifest, or neither has one', async () => {
  const account = someAccount();
  const keyed = await app.uploaded(account, [someBytes(10)], 'order-1');
  const id = keyed.attachmentSubmissionId;
  assert.equal(code(await app.send(account, id, {}, 'order-2')), '422 IDEMPOTENCY_KEY_MISMATCH');
  assert.equal(code(await app.send(account, id)), '422 IDEMPOTENCY_KEY_MISMATCH');
  const plain = await app.uploaded(account, [someBytes(10)]);
  assert.equal(
    code(await app.send(account, plain.attachmentSubmissionId, {}, 'order-3')),
    '422 IDEMPOTENCY_KEY_MISMATCH',
  );
  assert.equal(code(await app.send(account, plain.attachmentSubmissionId)), '202');

  const first = await app.send(account, id, {}, 'order-1');
  assert.equal(code(first), '202');
  const retry = await app.send(account, id, {}, 'order-1');
  assert.equal(retry.text, first.text);
  assert.equal(retry.headers['idempotent-replayed'], 'true');
  assert.equal(code(await app.send(account, id, { subject: 'Other' }, 'order-1')), '422 IDEMPOTENCY_KEY_REUSED');
  assert.equal(code(await app.send(account, id, {}, 'order-2')), '422 IDEMPOTENCY_KEY_MISMATCH');
});

test('a key is valid for a day after its send, and while the message is in the queue', async () => {
  const account = someAccount();
  const { attachmentSubmissionId: id } = await app.uploaded(account, [someBytes(10)], 'daily');
  const sent = await app.send(account, id, {}, 'daily');
  const other = [manifestEntry(someBytes(11))];
  app.clock.advance(25 * HOUR);
  assert.equal(code(await app.register(account, other, 'daily')), '422 IDEMPOTENCY_KEY_REUSED', 'still queued');
  const { DatabaseSync } = await import('node:sqlite');
  const direct = new DatabaseSync(path.join(app.temp.folder, 'postrider.db'), { timeout: 5_000 });
  direct.prepare("UPDATE message SET status = 'delivered' WHERE id = ?").run(sent.body.data.messageId);
  direct.close();
  const anew = await app.register(account, other, 'daily');
  assert.equal(anew.status, 201, anew.text);
  assert.notEqual(anew.body.attachmentSubmissionId, id);
  assert.equal((await app.state(account, id)).body.status, 'used');
});

test('accepts exactly one of many concurrent sends', async () => {
  const account = someAccount();
  const { attachmentSubmissionId: id } = await app.uploaded(account, [someBytes(100_000)]);
  const before = app.offered.length;
  const answers = await Promise.all(Array.from({ length: 12 }, () => app.send(account, id)));
  const codes = answers.map(code).sort();
  assert.deepEqual(codes, ['202', ...Array(11).fill('409 SUBMISSION_ALREADY_USED')]);
  assert.equal(app.offered.length, before + 1);
});

test('several nodes return the same response for the same key', async (t) => {
  const account = someAccount();
  const { attachmentSubmissionId: id } = await app.uploaded(account, [someBytes(100_000)], 'nodes');
  const before = app.offered.length;
  // Only the node itself knows its requests in progress.
  const { take } = app.inFlight;
  app.inFlight.take = () => true;
  t.after(() => {
    app.inFlight.take = take;
  });
  const answers = await Promise.all(Array.from({ length: 12 }, () => app.send(account, id, {}, 'nodes')));
  assert.deepEqual(
    [...new Set(answers.map((answer) => `${code(answer)} ${answer.text}`))],
    [`202 ${answers[0]!.text}`],
  );
  assert.equal(app.offered.length, before + 1);
  const other = await app.send(account, id, { text: 'Other text' }, 'nodes');
  assert.equal(code(other), '422 IDEMPOTENCY_KEY_REUSED');
});

test('a send during repeated uploads uses one complete file or fails', async () => {
  const account = someAccount();
  const bytes = someBytes(50_000);
  const { attachmentSubmissionId: id, attachmentUploads } = await app.uploaded(account, [bytes]);
  const [{ uploadUrl: url, requiredHeaders: headers }] = attachmentUploads;
  // Fewer than the number of times that a send checks again, so the sends cannot all fail.
  const uploads = Array.from({ length: 4 }, () => app.put({ url, headers, body: bytes }));
  const sends = Array.from({ length: 4 }, () => app.send(account, id));
  const codes = (await Promise.all(sends)).map(code);
  assert.ok((await Promise.all(uploads)).every((answer) => answer.status === 200 || answer.status === 403));
  const accepted = codes.filter((one) => one === '202').length;
  assert.ok(accepted === 1, codes.join());
  const key = app.offered.at(-1)?.options.files?.[0]?.blobKey ?? '';
  await waitUntil('the other blobs to be removed', async () => (await app.blobs.get(key))?.equals(bytes));
});

test('the recipients are validated before the submission: one to, no cc, bcc, or attachments', async () => {
  const account = someAccount();
  const { attachmentSubmissionId: id } = await app.uploaded(account, [someBytes(10)]);
  const inline = [{ name: 'a.txt', contentType: 'text/plain', content: 'QQ==' }];
  const wrong: JsonObject[] = [
    { to: ['a@example.com', 'b@example.com'] },
    { to: 'a@example.com, b@example.com' },
    { cc: 'c@example.com' },
    { to: [], cc: ['c@example.com'] },
    { bcc: ['c@example.com'] },
    { attachments: inline },
  ];
  for (const more of wrong)
    assert.equal(code(await app.send(account, id, more)), '400 INVALID_REQUEST', JSON.stringify(more));
  const unknown = await app.send(account, 'sub_000000000000000000000', { cc: 'c@example.com' });
  assert.equal(code(unknown), '400 INVALID_REQUEST');
  assert.equal(code(await app.send(account, id, { from: 'x@other.example' })), '403 SENDER_NOT_VERIFIED');
  assert.equal((await app.state(account, id)).body.status, 'open');
  const whole = { to: ['Ann <ann@example.com>', 'ANN@example.com'], cc: [], bcc: [], attachments: [] };
  assert.equal(
    code(await app.send(account, id, whole)),
    '202',
    'empty lists count as absent, and duplicate addresses count once',
  );
});

/** Text that makes the message grow by exactly one byte per character. Lines are short enough to be sent unchanged. */
function textOf(length: number): string {
  const lines = Math.floor((length - 1) / 100);
  return `${'x'.repeat(98)}\r\n`.repeat(lines) + 'x'.repeat(length - 100 * lines);
}

test('everything except the files is limited to 2,000,000 bytes', async () => {
  const account = someAccount();
  const submissions = await Promise.all(Array.from({ length: 3 }, () => app.uploaded(account, [someBytes(3_000)])));
  const [probe, fits, over] = submissions.map((one) => one.attachmentSubmissionId as string);
  const filesBytes = 4_000 + 2 * Math.ceil(4_000 / 76);
  const length = 1_000_050;
  const probed = await app.send(account, probe!, { text: textOf(length) });
  const most = length + 2_000_000 - (sizeOf(probed) - filesBytes);
  assert.equal(code(await app.send(account, over!, { text: textOf(most + 1) })), '413 EMAIL_SIZE_EXCEEDED');
  const sent = await app.send(account, fits!, { text: textOf(most) });
  assert.equal(code(sent), '202');
  assert.equal(sizeOf(sent), 2_000_000 + filesBytes);
});

test('the total size is limited to the approved size, and to 40,000,000 bytes', async () => {
  const account = someAccount();
  const upload = async (bytes: Buffer, count: number): Promise<string[]> => {
    const all = await Promise.all(Array.from({ length: count }, () => app.uploaded(account, [bytes])));
    return all.map((one) => one.attachmentSubmissionId as string);
  };
  const [probe, fits, over] = await upload(someBytes(2_000_000), 3);
  const probed = sizeOf(await app.send(account, probe!));
  app.approve(probed - 1);
  const refused = await app.send(account, over!);
  assert.equal(code(refused), '413 EMAIL_SIZE_EXCEEDED');
  assert.match(refused.body.error.message, new RegExp(`${probed} bytes.*${probed - 1} bytes`));
  app.approve(probed);
  assert.equal(sizeOf(await app.send(account, fits!)), probed);

  app.approve(40_000_000);
  const bytes = someBytes(28_400_000);
  const [bigProbe, bigFits, bigOver] = await upload(bytes, 3);
  const dry = await app
    .api(account)
    .post('/send?dryRun=true', { ...LARGE, attachmentSubmissionId: bigProbe, text: textOf(1_000) });
  assert.equal(dry.body.limitBytes, 40_000_000);
  const most = 1_000 + 40_000_000 - dry.body.sizeBytes;
  assert.equal(code(await app.send(account, bigOver!, { text: textOf(most + 1) })), '413 EMAIL_SIZE_EXCEEDED');
  assert.equal(sizeOf(await app.send(account, bigFits!, { text: textOf(most) })), 40_000_000);
  assert.equal((await app.state(account, bigOver!)).body.status, 'open', 'a rejected send leaves the submission open');
});

test('a dry run counts the files, uses nothing up, and rejects incomplete submissions', async () => {
  const account = someAccount();
  const { attachmentSubmissionId: id } = await app.uploaded(account, [someBytes(3_000_000)]);
  const dry = await app.api(account).post('/send?dryRun=true', { ...LARGE, attachmentSubmissionId: id });
  assert.equal(dry.status, 200, dry.text);
  const sent = await app.send(account, id);
  assert.equal(dry.body.sizeBytes, sizeOf(sent));
  const again = await app.api(account).post('/send?dryRun=true', { ...LARGE, attachmentSubmissionId: id });
  assert.equal(code(again), '409 SUBMISSION_ALREADY_USED');
});

test('a dry run warns about both size limits that reject a send', async () => {
  const account = someAccount();
  const dryRun = (id: string, text: string) =>
    app.api(account).post('/send?dryRun=true', { ...LARGE, text, attachmentSubmissionId: id });
  const warned = (answer: Answer): JsonObject[] =>
    answer.body.warnings.filter((one: JsonObject) => one.code === 'EMAIL_SIZE_EXCEEDED');
  const { attachmentSubmissionId: id } = await app.uploaded(account, [someBytes(100)]);
  const long = textOf(2_100_000);
  const dry = await dryRun(id, long);
  assert.equal(dry.status, 200, dry.text);
  assert.equal(dry.body.limitBytes, 40_000_000);
  const [warning, ...more] = warned(dry);
  assert.match(warning?.message, /without its files.*limit is 2000000/);
  assert.match(warning?.remedy, /text and html/);
  assert.deepEqual(more, []);
  const refused = await app.send(account, id, { text: long });
  assert.equal(refused.body.error.message, `${warning?.message} ${warning?.remedy}`);

  app.approve(2_050_000);
  const both = warned(await dryRun(id, long));
  assert.match(both[1]?.message, /complete email.*2050000/);
  assert.match(both[1]?.remedy, /POST \/approvals/);
  assert.equal(both.length, 2);
  assert.deepEqual(warned(await dryRun(id, textOf(1_000))), []);
  app.approve(40_000_000);
});

test('a batch accepts submissions, each once', async () => {
  const account = someAccount();
  const { attachmentSubmissionId: id } = await app.uploaded(account, [someBytes(10)], 'batch');
  const message = { ...LARGE, attachmentSubmissionId: id };
  // The first message takes the longest to render.
  const messages = [{ ...message, to: 'x' }, { ...message, text: 'x'.repeat(500_000) }, message];
  const answer = await app.api(account).post('/send/batch', { messages }, { 'Idempotency-Key': 'batch' });
  const statuses = answer.body.results.map((one: JsonObject) => one.status);
  assert.deepEqual(statuses, [400, 202, 409], answer.text);
});
