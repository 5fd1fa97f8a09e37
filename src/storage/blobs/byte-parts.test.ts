import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { openPartCutter } from './s3-multipart.ts';

const MB = 1024 * 1024;

async function* chunks(content: Uint8Array, length: number): AsyncGenerator<Uint8Array> {
  for (let from = 0; from < content.length; from += length) yield content.subarray(from, from + length);
}

test('all parts except the last have the same size and together equal the source', async () => {
  const cutter = openPartCutter({ partBytes: 100_000, partsInMemory: 1 });
  const content = randomBytes(300_001);
  for (const [bytes, wanted] of [
    [0, [0]],
    [1, [1]],
    [100_000, [100_000]],
    [100_001, [100_000, 1]],
    [200_000, [100_000, 100_000]],
    [300_001, [100_000, 100_000, 100_000, 1]],
  ] as const) {
    for (const length of [7_777, 100_000, 1_000_000]) {
      const parts: Buffer[] = [];
      let lasts = 0;
      for await (const part of cutter.cut(chunks(content.subarray(0, bytes), length))) {
        parts.push(Buffer.from(part.bytes));
        lasts += part.last ? 1 : 0;
      }
      assert.deepEqual(
        parts.map((part) => part.length),
        wanted,
      );
      assert.deepEqual(Buffer.concat(parts), content.subarray(0, bytes));
      assert.equal(lasts, 1);
    }
  }
});

test('only a limited number of streams hold a large part in memory, and others wait', async () => {
  const cutter = openPartCutter({ partBytes: 4 * MB, partsInMemory: 3 });
  let growing = 0;
  let most = 0;
  async function* large(): AsyncGenerator<Uint8Array> {
    yield Buffer.alloc(MB);
    yield Buffer.alloc(MB);
    // More data was requested, so it now holds more than one megabyte.
    growing += 1;
    most = Math.max(most, growing);
    await new Promise(setImmediate);
    yield Buffer.alloc(3 * MB);
    growing -= 1;
  }
  const sizes = await Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      let bytes = 0;
      for await (const part of cutter.cut(i % 4 === 0 ? chunks(Buffer.alloc(1000), 10) : large()))
        bytes += part.bytes.length;
      return bytes;
    }),
  );
  assert.deepEqual(
    sizes,
    sizes.map((_, i) => (i % 4 === 0 ? 1000 : 5 * MB)),
  );
  assert.equal(most, 3);
});

test('a failing source or a stopped reader releases its permit', async () => {
  const cutter = openPartCutter({ partBytes: 2 * MB, partsInMemory: 1 });
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.alloc(3 * MB);
    throw new Error('broken');
  }
  for (let i = 0; i < 3; i += 1) {
    await assert.rejects(Array.fromAsync(cutter.cut(broken())), /broken/);
    for await (const _ of cutter.cut(chunks(Buffer.alloc(9 * MB), MB))) break;
  }
  assert.equal((await Array.fromAsync(cutter.cut(chunks(Buffer.alloc(9 * MB), MB)))).length, 5);
});
