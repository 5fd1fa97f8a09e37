/** Behavior specific to files; test/contract/blobs.long.test.ts covers every store of blobs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { Unavailable } from '../../base/failure.ts';
import { openDiskBlobs } from './disk.ts';

function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-blobs-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Returns the paths of the files that this process has open. */
function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      // It has been closed since.
      return [];
    }
  });
}

test('content abandoned before its first piece leaves no file open', async (t) => {
  const folder = temporaryFolder(t);
  const blobs = openDiskBlobs(folder);
  const key = await blobs.put(Buffer.alloc(100_000));
  const open = () => openFiles().filter((file) => file.startsWith(folder));
  const reading = (await blobs.read(key))!;
  await once(reading, 'readable');
  assert.equal(open().length, 1, 'control: an open file is listed');
  reading.destroy();
  for (let i = 0; i < 50; i += 1) (await blobs.read(key))!.destroy();
  await waitUntil('the files to be closed', () => open().length === 0);
});

test('only files of crashed writes are removed, after an hour', async (t) => {
  const folder = temporaryFolder(t);
  const blobs = openDiskBlobs(folder);
  const key = await blobs.put(Buffer.from('kept'));
  // It can be the file of the key itself.
  mkdirSync(path.join(folder, 'ab'), { recursive: true });
  const names = [`ab/${'1'.repeat(26)}.part`, `ab/${'2'.repeat(26)}.part`, 'clock-12345678.part'];
  for (const name of names) writeFileSync(path.join(folder, name), 'half');
  const others = ['README.part', 'ab/notes.part', 'notes/x.part'];
  mkdirSync(path.join(folder, 'notes'));
  for (const name of others) writeFileSync(path.join(folder, name), 'of somebody else');
  assert.equal(await blobs.removeUnfinished(), 0, 'they may be in progress');
  const seconds = Date.now() / 1000;
  for (const name of [...names.slice(1), ...others, key]) utimesSync(path.join(folder, name), seconds, seconds - 3605);
  assert.equal(await blobs.removeUnfinished(), 2);
  const left = readdirSync(folder, { recursive: true }).map(String);
  for (const name of [names[0]!, key, ...others]) assert.ok(left.includes(name), `${name} stays`);
  for (const name of names.slice(1)) assert.ok(!left.includes(name), `${name} goes`);
});

test('several nodes share one folder', async (t) => {
  const folder = temporaryFolder(t);
  const nodes = [1, 2, 3].map(() => openDiskBlobs(folder));
  const put = await Promise.all(
    Array.from({ length: 300 }, async (_, i) => ({
      content: `blob ${i}`,
      key: await nodes[i % 3]!.put(Buffer.from(`blob ${i}`)),
    })),
  );
  for (const [i, { content, key }] of put.entries()) assert.equal(String(await nodes[(i + 1) % 3]!.get(key)), content);
  await nodes[0]!.remove(put[0]!.key);
  assert.equal(await nodes[1]!.get(put[0]!.key), undefined);
  assert.equal((await Array.fromAsync(nodes[2]!.list())).length, 299);
});

test('a missing or invalid folder is Unavailable, not empty content, until it is restored', async (t) => {
  const folder = path.join(temporaryFolder(t), 'mounted');
  mkdirSync(folder);
  const blobs = openDiskBlobs(folder);
  const key = await blobs.put(Buffer.from('content'));
  rmSync(folder, { recursive: true });
  writeFileSync(folder, 'no folder');
  await assert.rejects(blobs.put(Buffer.from('x')), Unavailable);
  await assert.rejects(blobs.get(key), Unavailable);
  await assert.rejects(blobs.sizeOf(key), Unavailable);
  await assert.rejects(blobs.storeNowMs(), Unavailable);
  await assert.rejects(blobs.removeUnfinished(), Unavailable);
  rmSync(folder);
  mkdirSync(folder);
  const again = await blobs.put(Buffer.from('again'));
  assert.equal(String(await blobs.get(again)), 'again');
});

test('uploads go through Postrider', (t) => {
  assert.equal(openDiskBlobs(temporaryFolder(t)).presignPut, undefined);
});

const failing = (code: string) => async (): Promise<never> => {
  throw Object.assign(new Error(`${code}: the disk`), { code });
};

for (const method of ['sync', 'datasync'] as const)
  test(`a failed ${method} is reported once, and nothing is written after it`, async (t) => {
    const folder = temporaryFolder(t);
    const broken: string[] = [];
    const blobs = openDiskBlobs(folder, { onBroken: (reason) => broken.push(reason) });
    const key = await blobs.put(Buffer.from('before'));
    const handle = await open(folder, 'r');
    const files = Object.getPrototypeOf(handle) as typeof handle;
    await handle.close();
    const sync = t.mock.method(files, method, failing('ENOSPC'));
    await assert.rejects(blobs.put(Buffer.from('full')), Unavailable);
    sync.mock.restore();
    await blobs.put(Buffer.from('has room again'));
    assert.deepEqual(broken, []);
    const eio = t.mock.method(files, method, failing('EIO'));
    const puts = await Promise.allSettled([1, 2, 3].map((one) => blobs.put(Buffer.from(`failed ${one}`))));
    assert.deepEqual(
      puts.map((one) => one.status === 'rejected' && one.reason instanceof Unavailable),
      [true, true, true],
    );
    eio.mock.restore();
    await assert.rejects(blobs.put(Buffer.from('after')), Unavailable);
    assert.deepEqual(broken, ['the disk stopped responding: a sync of content failed: EIO: the disk']);
    assert.equal(String(await blobs.get(key)), 'before');
  });
