/**
 * Uploaded files that were changed on disk before the send: other bytes of the same length are rejected, and files that only look different
 * are read once and accepted. Reads are counted at the storage.
 */
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, renameSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, beforeEach, test } from 'node:test';
import type { Answer, JsonObject } from '../../test/kit/api.ts';
import { someBytes } from '../../test/kit/upload.ts';
import { type UploadApp, uploadApp } from '../../test/kit/upload-app.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';

let app: UploadApp;
let accounts = 0;
let account = '';
/** Files that were read, once per read. */
let read: string[] = [];

const counted = (blobs: Blobs): Blobs => ({
  ...blobs,
  read: (key) => {
    read.push(key);
    return blobs.read(key);
  },
});

before(async () => {
  app = await uploadApp({ around: counted });
});
after(() => app.close());
beforeEach(() => {
  accounts += 1;
  account = `acc_changed_${accounts}`;
  read = [];
});

interface Uploaded {
  id: string;
  /** Path of each file. */
  places: string[];
  uploads: { uploadUrl: string; requiredHeaders: Record<string, string> }[];
}

async function uploaded(files: Buffer[]): Promise<Uploaded> {
  const known = new Set(app.stored());
  const places: string[] = [];
  const { attachmentSubmissionId: id, attachmentUploads: uploads } = await app.uploaded(account, files);
  for (const bytes of files) {
    const name = app.stored().find((one) => !known.has(one) && readFileSync(app.placeOf(one)).equals(bytes))!;
    places.push(app.placeOf(name));
  }
  return { id, places, uploads };
}

const code = (answer: Answer): string => `${answer.status} ${answer.body.error?.code ?? ''}`.trim();
const dryRun = (id: string): Promise<Answer> =>
  app.api(account).post('/send?dryRun=true', {
    from: 'shop@verified.example',
    to: 'ann@example.com',
    subject: 'Files',
    text: 'See the files.',
    attachmentSubmissionId: id,
  });

/** Like rows of an earlier version. */
function forgetStamps(): void {
  const database = new DatabaseSync(path.join(app.temp.folder, 'postrider.db'), { timeout: 10_000 });
  database.exec('UPDATE attachment_file SET blob_stamp = NULL');
  database.close();
}

/** Overwrites the file with other bytes of the same length, as an editor or a failing disk would. */
function spoil(place: string): Buffer {
  const bytes = readFileSync(place);
  bytes[bytes.length - 1] = bytes.at(-1)! ^ 1;
  writeFileSync(place, bytes);
  return bytes;
}

test('an unchanged file is not read again', async () => {
  const { id } = await uploaded([someBytes(200_000)]);
  assert.equal(code(await app.send(account, id)), '202');
  assert.deepEqual(read, []);
});

test('different bytes of the same length are rejected, and the file is named', async () => {
  const files = [someBytes(1_000), someBytes(200_000), someBytes(1_000)];
  const { id, places } = await uploaded(files);
  spoil(places[1]!);
  for (const answer of [await dryRun(id), await app.send(account, id)]) {
    assert.equal(code(answer), '409 ATTACHMENT_UPLOAD_INCOMPLETE');
    assert.deepEqual(
      answer.body.error.details.map((one: JsonObject) => [one.field, one.message]),
      [
        [
          'attachments[1]',
          '(file-1.bin) has a SHA-256 that differs from the manifest; upload it to its uploadUrl with PUT',
        ],
      ],
    );
  }
  writeFileSync(places[1]!, files[1]!);
  assert.equal(code(await app.send(account, id)), '202', 'the original bytes are accepted again');
});

test('resetting the modification time does not hide a change', async () => {
  const { id, places } = await uploaded([someBytes(5_000)]);
  const { atime, mtime } = statSync(places[0]!);
  spoil(places[0]!);
  utimesSync(places[0]!, atime, mtime);
  assert.equal(code(await app.send(account, id)), '409 ATTACHMENT_UPLOAD_INCOMPLETE');
});

test('a file replaced with one of the same length is rejected', async () => {
  const { id, places } = await uploaded([someBytes(5_000)]);
  const { atime, mtime } = statSync(places[0]!);
  writeFileSync(`${places[0]}.part`, someBytes(5_000));
  utimesSync(`${places[0]}.part`, atime, mtime);
  renameSync(`${places[0]}.part`, places[0]!);
  assert.equal(code(await app.send(account, id)), '409 ATTACHMENT_UPLOAD_INCOMPLETE');
});

test('a file with the right bytes but another timestamp is read once and accepted', async () => {
  for (const touch of [
    (place: string) => utimesSync(place, new Date(), new Date()),
    (place: string) => {
      copyFileSync(place, `${place}.part`);
      renameSync(`${place}.part`, place);
    },
  ]) {
    const { id, places } = await uploaded([someBytes(5_000), someBytes(5_000)]);
    read = [];
    touch(places[0]!);
    assert.equal(code(await dryRun(id)), '200');
    assert.equal(read.length, 1, 'the other file is not read');
    assert.equal(code(await app.send(account, id)), '202');
    assert.equal(read.length, 1, 'the file is not read again');
  }
});

test('a file without a stamp, such as after an upgrade, is read once and verified', async () => {
  const { id, places } = await uploaded([someBytes(5_000)]);
  forgetStamps();
  assert.equal(code(await dryRun(id)), '200');
  assert.equal(read.length, 1);
  forgetStamps();
  spoil(places[0]!);
  assert.equal(code(await app.send(account, id)), '409 ATTACHMENT_UPLOAD_INCOMPLETE');
});

test('a corrupted file is accepted after it is uploaded again', async () => {
  const bytes = someBytes(5_000);
  const { id, places, uploads } = await uploaded([bytes]);
  spoil(places[0]!);
  assert.equal(code(await app.send(account, id)), '409 ATTACHMENT_UPLOAD_INCOMPLETE');
  const { uploadUrl: url, requiredHeaders: headers } = uploads[0]!;
  assert.equal((await app.put({ url, headers, body: bytes })).status, 200);
  await waitUntil('the old file to be removed', () => !app.stored().includes(path.basename(places[0]!)));
  assert.equal(code(await app.send(account, id)), '202');
});
