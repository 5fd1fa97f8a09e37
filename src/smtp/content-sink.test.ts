import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { Unavailable } from '../base/failure.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { createContentSink } from './content-sink.ts';

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-sink-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const diskBlobs = (t: TestContext): Blobs => openDiskBlobs(folderOf(t));

async function keysOf(blobs: Blobs): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of blobs.list()) keys.push(key);
  return keys;
}

const chunk = Buffer.from(`${'x'.repeat(998)}\r\n`);

test('64 KB stay in memory, and more becomes a blob', async (t) => {
  const blobs = diskBlobs(t);
  const small = createContentSink(blobs);
  small.write(Buffer.alloc(65_536, 0x61));
  const kept = await small.finish();
  assert.ok(Buffer.isBuffer(kept.content) && kept.content.length === 65_536);
  assert.deepEqual(await keysOf(blobs), []);

  const large = createContentSink(blobs);
  for (let i = 0; i < 66; i += 1) large.write(chunk);
  const { content } = await large.finish();
  assert.ok(!Buffer.isBuffer(content));
  assert.equal(content.sizeBytes, 66_000);
  assert.ok((await blobs.get(content.blobKey))?.equals(Buffer.concat(Array(66).fill(chunk))));
});

test('the digest is the same in memory or in a blob, and for any chunks', async (t) => {
  const blobs = diskBlobs(t);
  const head = Buffer.from('From: a@b.example\r\nDate: today\r\nContent-Type: x/y;\r\n boundary="q"\r\n\r\n');
  const digests = new Set<string>();
  for (const size of [100, 1_000, 7_777, 80_000]) {
    const sink = createContentSink(blobs);
    const all = Buffer.concat([head, ...Array<Buffer>(70).fill(chunk)]);
    for (let from = 0; from < all.length; from += size) sink.write(all.subarray(from, from + size));
    digests.add((await sink.finish()).digest().toString('hex'));
  }
  assert.equal(digests.size, 1);
});

test('a writer is paused until storage has caught up', async () => {
  let take: () => void = () => undefined;
  const pieceSizes: number[] = [];
  const slow = {
    putStream: async (source: AsyncIterable<Uint8Array>) => {
      for await (const piece of source) {
        pieceSizes.push(piece.length);
        await new Promise<void>((resolve) => {
          take = resolve;
        });
      }
      return 'key';
    },
    remove: async () => undefined,
  } as unknown as Blobs;
  const sink = createContentSink(slow);
  let written = 0;
  while (sink.untilReady() === undefined) {
    sink.write(chunk);
    written += 1;
    assert.ok(written < 1_000, 'never full');
  }
  assert.ok(written * chunk.length < 400_000);
  const ready = sink.untilReady()!;
  let isRoom = false;
  void ready.then(() => {
    isRoom = true;
  });
  await waitUntil('capacity', () => {
    take();
    return isRoom;
  });
  const storedBytes = (): number => pieceSizes.reduce((sum, bytes) => sum + bytes, 0);
  assert.ok(storedBytes() > (written * chunk.length) / 3);
  const finished = sink.finish();
  const pulling = setInterval(() => take(), 1);
  await finished;
  clearInterval(pulling);
  assert.equal(storedBytes(), written * chunk.length);
});

test('single bytes reach storage in large buffers, in order, and pause the writer', async () => {
  const stored: Buffer[] = [];
  let mayTake = Promise.withResolvers<void>();
  const counting = {
    putStream: async (source: AsyncIterable<Uint8Array>) => {
      for await (const piece of source) {
        stored.push(Buffer.from(piece));
        await mayTake.promise;
      }
      return 'key';
    },
    remove: async () => undefined,
  } as unknown as Blobs;
  const sink = createContentSink(counting);
  const sent: Buffer[] = [];
  const send = (piece: Buffer): void => {
    sent.push(piece);
    sink.write(piece);
  };
  for (let i = 0; sink.untilReady() === undefined; i += 1) {
    assert.ok(i < 400_000, 'never full');
    send(Buffer.from([i % 251]));
  }
  mayTake.resolve();
  mayTake = Promise.withResolvers();
  mayTake.resolve();
  await sink.untilReady();
  for (let i = 0; i < 300_000; i += 1) {
    send(Buffer.from(i % 10_000 === 0 ? 'x'.repeat(5_000) : '\r\n'));
    await sink.untilReady();
  }
  const { content } = await sink.finish();
  const all = Buffer.concat(sent);
  assert.ok(!Buffer.isBuffer(content) && content.sizeBytes === all.length);
  assert.ok(Buffer.concat(stored).equals(all));
  // Two for each large piece, and one for each 64 KB of small ones.
  assert.ok(stored.length < 60 + all.length / 65_536 + 3, `${stored.length} pieces`);
});

test('discarded content leaves nothing, complete or not, at any time', async (t) => {
  const folder = folderOf(t);
  const blobs = openDiskBlobs(folder);
  const files = (): string[] =>
    readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((one) => (one.isFile() ? [one.name] : []));
  for (let moment = 0; moment < 30; moment += 1) {
    const sink = createContentSink(blobs);
    for (let i = 0; i < 500; i += 1) sink.write(chunk);
    if (moment === 0) void Promise.resolve(sink.finish()).catch(() => undefined);
    if (moment === 1) await waitUntil('all to be written', () => files().length > 0 && sink.untilReady() === undefined);
    for (let turn = 0; turn < moment; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    sink.discard();
    sink.discard();
  }
  await waitUntil('all files to be removed, including partial ones', () => files().length === 0);
  // A row may reference adopted content, so its new owner decides.
  const sink = createContentSink(blobs);
  for (let i = 0; i < 500; i += 1) sink.write(chunk);
  const { content } = await sink.finish();
  sink.discard();
  assert.ok('blobKey' in content && (await blobs.get(content.blobKey)));
});

test('a storage failure does not pause the writer, and is reported at the end', async () => {
  const broken = {
    putStream: async (source: AsyncIterable<Uint8Array>) => {
      for await (const _ of source) throw new Unavailable('no space');
      return 'key';
    },
    remove: async () => undefined,
  } as unknown as Blobs;
  const sink = createContentSink(broken);
  for (let i = 0; i < 3_000; i += 1) {
    sink.write(chunk);
    await sink.untilReady();
  }
  await assert.rejects(async () => sink.finish(), /no space/);
  sink.discard();
});
