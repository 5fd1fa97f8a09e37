import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gatheredPieces } from './disk.ts';

async function* pieces(all: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  const memory = new Uint8Array(100_000);
  for (const piece of all) {
    // As a source may: yielded memory is overwritten.
    memory.fill(0xff);
    memory.set(piece);
    yield memory.subarray(0, piece.length);
  }
}

async function gather(all: readonly Uint8Array[]): Promise<Buffer[]> {
  const out: Buffer[] = [];
  for await (const piece of gatheredPieces(pieces(all))) out.push(Buffer.from(piece));
  return out;
}

test('small pieces are combined into 64 KB buffers, and large ones are kept, in order', async () => {
  const small = Array.from({ length: 100_000 }, (_, i) => Buffer.from([i % 251, i % 7]));
  const large = Buffer.alloc(70_000, 'x');
  const all = [...small, large, large, ...small.slice(0, 10), Buffer.alloc(4096, 'y'), ...small.slice(0, 3)];
  const got = await gather(all);
  assert.ok(Buffer.concat(got).equals(Buffer.concat(all)));
  assert.deepEqual(
    got.map((piece) => piece.length),
    [65_536, 65_536, 65_536, 200_000 - 3 * 65_536, 70_000, 70_000, 20, 4096, 6],
  );
});

test('an empty source yields nothing, and its errors are passed on', async () => {
  assert.deepEqual(await gather([]), []);
  assert.deepEqual(await gather([new Uint8Array(0)]), []);
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('x');
    throw new Error('gone');
  }
  await assert.rejects(async () => {
    for await (const piece of gatheredPieces(broken())) assert.fail(`${piece.length} bytes`);
  }, /gone/);
});
