import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ByteQueue } from './byte-queue.ts';

/** Counts the bytes that are copied between buffers. */
function countCopied(t: TestContext): () => number {
  let copied = 0;
  const copy = Buffer.prototype.copy;
  t.mock.method(Buffer.prototype, 'copy', function (this: Buffer, ...args: Parameters<typeof copy>) {
    const bytes = copy.apply(this, args);
    copied += bytes;
    return bytes;
  });
  return () => copied;
}

test('a single piece is returned without copying, and many are copied a few times each', (t) => {
  const copied = countCopied(t);
  const queue = new ByteQueue();
  const piece = Buffer.from('abc');
  queue.push(piece);
  assert.equal(queue.bytes, piece);
  queue.clear();
  for (let i = 0; i < 200_000; i += 1) queue.push(Buffer.from([i % 251]));
  assert.equal(queue.length, 200_000);
  assert.ok(queue.bytes.every((byte, i) => byte === i % 251));
  assert.ok(copied() < 800_000, `${copied()} bytes copied`);
});

test('returned memory is never overwritten', () => {
  const queue = new ByteQueue();
  queue.push(Buffer.from('ab'));
  queue.push(Buffer.from('cd'));
  const early = queue.bytes;
  queue.push(Buffer.from('ef'));
  queue.drop(3);
  const late = queue.bytes;
  queue.push(Buffer.from('gh'));
  queue.drop(5);
  queue.push(Buffer.from('ij'));
  assert.deepEqual([early, late, queue.bytes].map(String), ['abcd', 'def', 'ij']);
  queue.drop(2);
  assert.equal(queue.length, 0);
});

test('a small remainder does not keep a large piece in memory', () => {
  const queue = new ByteQueue();
  const large = Buffer.allocUnsafeSlow(65_536);
  queue.push(large);
  queue.drop(65_530);
  assert.equal(queue.length, 6);
  assert.notEqual(queue.bytes.buffer, large.buffer);
  assert.deepEqual(queue.bytes, large.subarray(65_530));
});
