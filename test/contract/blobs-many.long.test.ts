/** Lists more blobs than fit on one page, with the store's own page size. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import type { Blobs } from '../../src/storage/blobs/blobs.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { noS3, startS3 } from '../kit/s3.ts';

const BLOBS = 2_100;

async function listsAll(blobs: Blobs): Promise<void> {
  const keys: string[] = [];
  const write = async (): Promise<void> => {
    for (let i = 0; i < BLOBS / 15; i += 1) keys.push(await blobs.put(Buffer.from('.')));
  };
  await Promise.all(Array.from({ length: 15 }, write));
  const listed = (await Array.fromAsync(blobs.list())).map(({ key }) => key);
  assert.equal(listed.length, BLOBS);
  assert.deepEqual(listed.sort(), keys.sort());
}

test('a directory lists each blob once', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-blobs-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  await listsAll(openDiskBlobs(folder));
});

test('S3 lists each blob once', { skip: noS3 }, async (t) => {
  const peer = await startS3();
  t.after(() => peer.close());
  await listsAll(peer.open());
});
