/** The contract of all blob stores, run on each: files on disk, and a real S3-compatible store. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { BlobDamaged, type Blobs } from '../../src/storage/blobs/blobs.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { noS3, type S3Peer, startS3 } from '../kit/s3.ts';

const SIZES = [0, 1, 64 * 1024, 15_900_000, 16 * 1024 * 1024, 16 * 1024 * 1024 + 1, 40_000_000];
const LARGE = randomBytes(40_000_000);
const digest = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex');

interface Store {
  blobs: Blobs;
  /** Overwrites a blob without the store. */
  overwrite(key: string, content: Buffer): Promise<void>;
  /** Adds an object that is not a blob. */
  addForeign(name: string): Promise<void>;
  /** Returns the number of unfinished writes, as the store reports them. */
  unfinished(): Promise<number>;
  close(): Promise<void>;
}

function diskStore(): Promise<Store> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-blobs-'));
  return Promise.resolve({
    blobs: openDiskBlobs(folder),
    overwrite: async (key, content) => writeFileSync(path.join(folder, key), content),
    addForeign: async (name) => {
      mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
      writeFileSync(path.join(folder, name), 'foreign');
    },
    unfinished: async () =>
      readdirSync(folder, { recursive: true }).filter((name) => String(name).endsWith('.part')).length,
    close: async () => rmSync(folder, { recursive: true, force: true }),
  });
}

async function s3Store(): Promise<Store & { peer: S3Peer }> {
  const peer = await startS3();
  return {
    peer,
    blobs: peer.open(),
    overwrite: async (key, body) => assert.equal((await peer.call('PUT', key, { body })).status, 200),
    addForeign: async (name) =>
      assert.equal((await peer.call('PUT', name, { body: Buffer.from('foreign') })).status, 200),
    unfinished: async () => {
      const text = await (
        await peer.call('GET', undefined, { query: `?uploads&prefix=${peer.location.prefix}/` })
      ).text();
      return text.split('<Upload>').length - 1;
    },
    close: () => peer.close(),
  };
}

/** Yields the content in pieces of uneven length; throws at the end if requested. */
async function* pieces(content: Uint8Array, error?: Error): AsyncGenerator<Uint8Array> {
  let length = 1;
  for (let from = 0; from < content.length; from += length, length = Math.min(length * 3, 700_001)) {
    yield content.subarray(from, from + length);
  }
  if (error) throw error;
}

async function digestOfStream(blobs: Blobs, key: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of (await blobs.read(key))!) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

async function keysOf(blobs: Blobs): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of blobs.list()) keys.push(key);
  return keys.sort();
}

function contract(open: () => Promise<Store>): void {
  let store: Store;
  let blobs: Blobs;
  before(async () => {
    store = await open();
    blobs = store.blobs;
  });
  after(() => store?.close());

  test('the mark is stored next to the blobs and is not listed as a blob', async () => {
    const { blobs } = store;
    assert.equal(await blobs.mark!.read(), undefined);
    await blobs.mark!.write('one');
    await blobs.mark!.write('two');
    assert.equal(await blobs.mark!.read(), 'two');
    for await (const { key } of blobs.list()) assert.match(key, /^..\/.{26}/);
    await blobs.removeUnfinished();
    assert.equal(await blobs.mark!.read(), 'two');
  });

  for (const sizeBytes of SIZES) {
    test(`${sizeBytes} bytes are read back unchanged, whole and as a stream`, async () => {
      const content = LARGE.subarray(0, sizeBytes);
      const key = await blobs.put(content);
      const found = await blobs.get(key);
      assert.equal(found?.length, sizeBytes);
      assert.equal(digest(found), digest(content));
      assert.equal(await blobs.sizeOf(key), sizeBytes);
      assert.equal(await digestOfStream(blobs, key), digest(content));
      await blobs.remove(key);
      assert.equal(await blobs.sizeOf(key), undefined);
    });

    test(`${sizeBytes} bytes are read back as streamed, with unknown and known length`, async () => {
      const content = LARGE.subarray(0, sizeBytes);
      const unknown = await blobs.putStream(pieces(content));
      const key = blobs.newKey();
      assert.equal(await blobs.putStream(pieces(content), { key, sizeBytes }), key);
      for (const one of [unknown, key]) {
        assert.equal(await blobs.sizeOf(one), sizeBytes);
        assert.equal(digest((await blobs.get(one))!), digest(content));
        await blobs.remove(one);
      }
    });
  }

  test('the stamp of a blob, if the store has one, changes only when the blob is replaced', async () => {
    if (!blobs.stampOf) return assert.ok(blobs.presignPut, 'direct uploads are read again when sending');
    const key = blobs.newKey();
    assert.equal(await blobs.stampOf(key), undefined);
    await blobs.putStream(pieces(Buffer.from('one')), { key });
    const stamp = await blobs.stampOf(key);
    assert.ok(stamp);
    assert.ok(await blobs.get(key));
    assert.equal(await blobs.stampOf(key), stamp, 'reading changes nothing');
    await blobs.putStream(pieces(Buffer.from('two')), { key });
    assert.notEqual(await blobs.stampOf(key), stamp);
    await blobs.remove(key);
  });

  test('a missing blob reads as undefined, and removing it is not an error', async () => {
    const key = blobs.newKey();
    assert.equal(await blobs.get(key), undefined);
    assert.equal(await blobs.read(key), undefined);
    assert.equal(await blobs.sizeOf(key), undefined);
    await blobs.remove(key);
  });

  test('invalid keys never reach the store', async () => {
    for (const key of ['', 'aa', '../../etc/passwd', `aa/${'b'.repeat(26)}/../x`, `aa/${'b'.repeat(25)}\n`]) {
      for (const call of [blobs.get, blobs.read, blobs.sizeOf, blobs.remove]) {
        await assert.rejects(async () => call(key), /not a valid blob key/);
      }
      await assert.rejects(blobs.putStream(pieces(LARGE.subarray(0, 10)), { key }), /not a valid blob key/);
    }
  });

  test('a failing source stores nothing, passes on its error, and keeps the existing blob', async () => {
    const before = await keysOf(blobs);
    const key = await blobs.putStream(pieces(Buffer.from('the old one')), { key: blobs.newKey() });
    for (const bytes of [0, 100_000, 20_000_000, 33_554_432]) {
      const error = new Error(`after ${bytes}`);
      await assert.rejects(blobs.putStream(pieces(LARGE.subarray(0, bytes), error)), error);
      await assert.rejects(blobs.putStream(pieces(LARGE.subarray(0, bytes), error), { key }), error);
    }
    assert.equal(String(await blobs.get(key)), 'the old one');
    assert.deepEqual(await keysOf(blobs), [...before, key].sort());
    assert.equal(await store.unfinished(), 0);
    await blobs.remove(key);
  });

  test('a source of another length than declared stores nothing', async () => {
    const before = await keysOf(blobs);
    for (const [bytes, sizeBytes] of [
      [10, 11],
      [11, 10],
      [0, 1],
      [17_000_000, 17_000_001],
      [17_000_001, 17_000_000],
    ] as const) {
      await assert.rejects(blobs.putStream(pieces(LARGE.subarray(0, bytes)), { sizeBytes }), /yielded/);
    }
    assert.deepEqual(await keysOf(blobs), before);
    assert.equal(await store.unfinished(), 0);
  });

  test('the source is closed when the write fails or the source is too long', async () => {
    let closed = false;
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield LARGE.subarray(0, 100_000);
      } finally {
        closed = true;
      }
    }
    await assert.rejects(blobs.putStream(endless(), { sizeBytes: 1_000_000 }), /more than 1000000 bytes/);
    assert.ok(closed);
  });

  test('concurrent writes to one key store one of them completely; writes to other keys do not mix', async () => {
    const key = blobs.newKey();
    const lengths = [1_000_000, 1_000_001, 20_000_000, 300_000];
    await Promise.all(lengths.map((bytes) => blobs.putStream(pieces(LARGE.subarray(0, bytes)), { key })));
    const found = (await blobs.get(key))!;
    assert.ok(lengths.includes(found.length), `${found.length} bytes`);
    assert.equal(digest(found), digest(LARGE.subarray(0, found.length)));
    const keys = await Promise.all(Array.from({ length: 30 }, (_, i) => blobs.put(Buffer.from(`content ${i}`))));
    const contents = await Promise.all(keys.map((one) => blobs.get(one)));
    assert.deepEqual(
      contents.map(String),
      keys.map((_, i) => `content ${i}`),
    );
    for (const one of [key, ...keys]) await blobs.remove(one);
  });

  test('content that was modified in the store is never returned as the original', async () => {
    const content = LARGE.subarray(0, 2_000_000);
    const changed = Buffer.from(content);
    changed[1_999_999]! ^= 1;
    for (const key of [await blobs.put(content), await blobs.putStream(pieces(content))]) {
      for (const wrong of [changed, content.subarray(1), Buffer.alloc(0)]) {
        await store.overwrite(key, wrong);
        await assert.rejects(blobs.get(key), BlobDamaged);
        await assert.rejects(digestOfStream(blobs, key), BlobDamaged);
      }
      await store.overwrite(key, content);
      assert.deepEqual(await blobs.get(key), content);
      await blobs.remove(key);
    }
  });

  test('writing an existing key replaces the entire blob', async () => {
    const key = await blobs.putStream(pieces(LARGE.subarray(0, 20_000_000)), { key: blobs.newKey() });
    await blobs.putStream(pieces(LARGE.subarray(5, 500)), { key });
    assert.deepEqual(await blobs.get(key), LARGE.subarray(5, 500));
    await blobs.remove(key);
  });

  test('an abandoned stream blocks nothing', async () => {
    const key = await blobs.put(LARGE);
    for (let i = 0; i < 5; i += 1) {
      const stream = (await blobs.read(key))!;
      for await (const _ of stream) break;
      assert.ok(stream.destroyed);
    }
    assert.equal(await digestOfStream(blobs, key), digest(LARGE));
    await blobs.remove(key);
  });

  test("the list has every blob once, with the store's time, and nothing else", async () => {
    for (const name of ['README', `zz/${'x'.repeat(25)}`, 'deeper/aa/below', `zz/${'y'.repeat(26)}.old`]) {
      await store.addForeign(name);
    }
    assert.deepEqual(await keysOf(blobs), []);
    const fromMs = await blobs.storeNowMs();
    const keys: string[] = [];
    const writer = async (): Promise<void> => {
      for (let i = 0; i < 23; i += 1) keys.push(await blobs.put(Buffer.from('.')));
    };
    await Promise.all(Array.from({ length: 10 }, writer));
    assert.deepEqual(await keysOf(blobs), keys.sort());
    const toMs = await blobs.storeNowMs();
    // Clocks of stores have a resolution of a second.
    for await (const { key, writtenAtMs } of blobs.list()) {
      assert.ok(writtenAtMs > fromMs - 2000 && writtenAtMs < toMs + 2000, `${key} was written at ${writtenAtMs}`);
    }
  });

  test('a write in progress is not treated as an unfinished one', async () => {
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield LARGE.subarray(0, 20_000_000);
      assert.equal(await store.unfinished(), 1);
      assert.equal(await blobs.removeUnfinished(), 0);
      yield LARGE.subarray(20_000_000);
    }
    const key = await blobs.putStream(slow());
    assert.equal(digest((await blobs.get(key))!), digest(LARGE));
    assert.equal(await store.unfinished(), 0);
  });
}

describe('blobs on disk', () => contract(diskStore));

describe('blobs in S3', { skip: noS3 }, () => contract(s3Store));
