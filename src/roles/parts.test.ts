import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { readConfig } from '../config.ts';
import { prepareDataDirectory } from '../storage/data-directory.ts';
import { watchedFolders, watchOverload } from './parts.ts';

test('watches the disks of the blobs and of the data directory', async (t) => {
  const temp = await tempDatabase();
  t.after(temp.close);
  const elsewhere = mkdtempSync(path.join(os.tmpdir(), 'postrider-blobs-'));
  t.after(() => rmSync(elsewhere, { recursive: true, force: true }));
  const config = readConfig({ POSTRIDER_DATA_DIR: temp.folder, POSTRIDER_BLOB_URL: `file://${elsewhere}` });
  const folders = watchedFolders(config, prepareDataDirectory(temp.folder, elsewhere));
  const overload = await watchOverload({ database: temp.database, folders, minFreeBytes: 0, nowMs: () => 0 });
  t.after(() => overload.stop());
  assert.deepEqual([overload.reasons(), overload.isScarce()], [[], false]);
  rmSync(elsewhere, { recursive: true });
  await waitUntil('the shortage to be noticed', () => overload.reasons().length > 0);
  const [reason] = overload.reasons();
  assert.equal(reason?.part, 'disk');
  assert.ok(overload.isScarce());
  assert.match(reason.message, /^folder of POSTRIDER_BLOB_URL: the free space of the disk /);
  assert.ok(!reason.message.includes(elsewhere), 'the message contains no path');
});

test('blobs in the data directory or in S3 have no separate disk check', () => {
  const directory = prepareDataDirectory(os.tmpdir());
  const env = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' };
  for (const url of [{}, { ...env, POSTRIDER_BLOB_URL: 's3://bucket/x?endpoint=http://127.0.0.1:1&region=x' }]) {
    assert.deepEqual(
      watchedFolders(readConfig(url), directory).map((one) => one.name),
      ['data directory'],
    );
  }
});
