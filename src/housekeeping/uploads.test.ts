/** Which uploads housekeeping deletes, and which it never deletes. */
import assert from 'node:assert/strict';
import { utimesSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, test } from 'node:test';
import { manifestEntry, someBytes } from '../../test/kit/upload.ts';
import { type UploadApp, uploadApp } from '../../test/kit/upload-app.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { uploadedBlobsOperation } from '../attachments/attachments.ts';
import { silentLog } from '../base/log.ts';
import { startHousekeeping } from './housekeeping.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** URLs are valid for 15 minutes, and unsent files are kept a day longer. */
const OVERDUE = DAY + 15 * 60_000;

let app: UploadApp;
beforeEach(async () => {
  app = await uploadApp();
});
afterEach(() => app.close());

interface RoundsOptions {
  count?: number;
  /** With 0 the second round counts as an hour later. */
  passesApartMs?: number;
  /** Runs without the list of uploaded blobs. */
  withoutNames?: boolean;
}

async function rounds({ count = 2, passesApartMs = 0, withoutNames = false }: RoundsOptions = {}): Promise<void> {
  const { database } = app.temp;
  const keeping = startHousekeeping({
    database,
    blobs: app.blobs,
    clock: app.clock,
    log: silentLog,
    orphanMs: passesApartMs,
    ...(withoutNames ? {} : { alsoReferenced: (keys: string[]) => database.execute(uploadedBlobsOperation, keys) }),
  });
  for (let i = 0; i < count; i += 1) await keeping.run();
  await keeping.stop();
}

/** Changes the data without the service. */
function tamper(sql: string, ...params: string[]): void {
  const direct = new DatabaseSync(path.join(app.temp.folder, 'postrider.db'), { timeout: 5_000 });
  direct.prepare(sql).run(...params);
  direct.close();
}

const stateOf = async (id: string): Promise<number> => (await app.state('acc_1', id)).status;

test('unsent files are deleted a day after their URLs expired', async () => {
  const { attachmentSubmissionId: id } = await app.uploaded('acc_1', [someBytes(10), someBytes(20)], 'key');
  app.clock.advance(OVERDUE - 1);
  await rounds();
  assert.equal(await stateOf(id), 200);
  app.clock.advance(1);
  await rounds({ count: 1 });
  assert.equal(await stateOf(id), 200, 'one check is not enough');
  await rounds();
  assert.equal(await stateOf(id), 404);
  assert.deepEqual(app.stored(), []);
  const sent = await app.send('acc_1', id, {}, 'key');
  assert.equal(sent.body.error.code, 'SUBMISSION_NOT_FOUND');
  const anew = await app.register('acc_1', [manifestEntry(someBytes(7))], 'key');
  assert.equal(anew.status, 201, 'the key can be reused');
});

test('a submission with renewed URLs is not overdue', async () => {
  const bytes = someBytes(10);
  const entry = manifestEntry(bytes, { name: 'file-0.bin' });
  const { attachmentSubmissionId: id } = await app.uploaded('acc_1', [bytes], 'key');
  app.clock.advance(OVERDUE);
  await rounds({ count: 1 });
  assert.equal((await app.register('acc_1', [entry], 'key')).body.attachmentSubmissionId, id);
  await rounds();
  assert.equal((await app.send('acc_1', id, {}, 'key')).status, 202);
});

test('a jump of the wall clock does not delete a submission', async () => {
  const { attachmentSubmissionId: id } = await app.uploaded('acc_1', [someBytes(10)]);
  app.clock.advance(30 * DAY);
  await rounds({ count: 4, passesApartMs: HOUR });
  app.clock.advance(-30 * DAY);
  await rounds({ count: 2, passesApartMs: HOUR });
  assert.equal((await app.send('acc_1', id)).status, 202);
  assert.equal(app.stored().length, 1);
});

test('an upload that ends after its submission was deleted is rejected and stores nothing', async () => {
  const bytes = someBytes(1_000);
  const { body } = await app.register('acc_1', [manifestEntry(bytes)]);
  const [{ uploadUrl: url, requiredHeaders: headers }] = body.attachmentUploads;
  let removed = false;
  async function* slow() {
    yield bytes.subarray(0, 500);
    await waitUntil('the upload to be in progress', () => app.stored().length > 0);
    app.clock.advance(OVERDUE);
    await rounds();
    removed = true;
    yield bytes.subarray(500);
  }
  const answer = await app.put({ url, headers, body: slow() });
  assert.ok(removed);
  assert.equal(answer.body.error.code, 'UPLOAD_URL_INVALID');
  // The client does not wait for the deletion.
  await waitUntil('the bytes to be deleted', () => app.stored().length === 0);
});

test('sent files are kept with the content of the message while it is queued', async () => {
  const { attachmentSubmissionId: id } = await app.uploaded('acc_1', [someBytes(10), someBytes(20)], 'key');
  const sent = await app.send('acc_1', id, {}, 'key');
  app.clock.advance(60 * DAY);
  await rounds();
  assert.equal(app.stored().length, 2, 'the message is not finished');
  tamper("UPDATE message SET status = 'delivered' WHERE id = ?", sent.body.data.messageId);
  app.clock.advance(-31 * DAY);
  await rounds();
  assert.equal(app.stored().length, 2, '29 days');
  app.clock.advance(2 * DAY);
  await rounds();
  assert.deepEqual(app.stored(), []);
  assert.equal(await stateOf(id), 404);
});

test('files without kept content are deleted immediately, and the submission is kept for its key', async () => {
  const { attachmentSubmissionId: id } = await app.uploaded('acc_1', [someBytes(10)], 'key');
  const sent = await app.send('acc_1', id, { retainContent: 'none' }, 'key');
  await rounds();
  assert.equal(app.stored().length, 1);
  tamper("UPDATE message SET status = 'delivered' WHERE id = ?", sent.body.data.messageId);
  tamper('UPDATE email SET content = NULL, content_until = NULL');
  await rounds({ count: 1 });
  assert.deepEqual(app.stored(), []);
  assert.equal((await app.state('acc_1', id)).body.status, 'used');
  assert.equal((await app.send('acc_1', id, { subject: 'Other' }, 'key')).body.error.code, 'IDEMPOTENCY_KEY_REUSED');
  app.clock.advance(DAY);
  await rounds({ count: 1 });
  assert.equal(await stateOf(id), 404);
});

test('files in two emails are kept until the content of both is deleted', async () => {
  const { attachmentSubmissionId: id } = await app.uploaded('acc_1', [someBytes(10)]);
  await app.send('acc_1', id);
  const other = await app.uploaded('acc_1', [someBytes(10)]);
  await app.send('acc_1', other.attachmentSubmissionId);
  tamper('INSERT INTO attachment_use (email_seq, submission_id) SELECT max(seq), ? FROM email', id);
  tamper('UPDATE email SET content = NULL, content_until = NULL WHERE seq = (SELECT min(seq) FROM email)');
  await rounds();
  assert.equal(app.stored().length, 2);
  tamper('UPDATE email SET content = NULL, content_until = NULL');
  await rounds();
  assert.deepEqual(app.stored(), []);
});

/** Sets the age of every file. */
async function age(days: number): Promise<void> {
  for await (const { key } of app.blobs.list()) {
    const at = Date.now() / 1000 - days * 86_400;
    utimesSync(path.join(app.temp.folder, 'blobs', key), at, at);
  }
}

test('the orphan sweep keeps files of open and sent submissions', async () => {
  await app.uploaded('acc_1', [someBytes(10)]);
  const used = await app.uploaded('acc_1', [someBytes(10)]);
  await app.send('acc_1', used.attachmentSubmissionId);
  await age(10);
  await rounds({ count: 3 });
  assert.equal(app.stored().length, 2);
  // Control: without the list of uploads both would count as orphans.
  await rounds({ count: 3, withoutNames: true });
  assert.deepEqual(app.stored(), []);
});

test('one round deletes more than one batch', async () => {
  const entry = manifestEntry(someBytes(10));
  for (let i = 0; i < 230; i += 1) await app.register('acc_1', [entry], `key ${i}`);
  const { attachmentSubmissionId: young } = await app.uploaded('acc_1', [someBytes(10)]);
  app.clock.advance(OVERDUE);
  await app.register('acc_1', [manifestEntry(someBytes(10))], 'new');
  await rounds();
  const direct = new DatabaseSync(path.join(app.temp.folder, 'postrider.db'), { readOnly: true });
  const left = direct.prepare('SELECT idempotency_key AS key FROM attachment_submission').all();
  direct.close();
  assert.deepEqual(
    left.map((row) => row.key),
    ['new'],
  );
  assert.equal(await stateOf(young), 404);
});
