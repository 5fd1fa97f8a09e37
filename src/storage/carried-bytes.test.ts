import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BytesToCarry, CarriedBytes } from './carried-bytes.ts';

test('pieces come out as they went in, empty ones too', () => {
  const out = new BytesToCarry();
  const pieces = [Buffer.from('one'), Buffer.alloc(0), Buffer.from([0, 255, 13]), Buffer.alloc(70_000, 7)];
  for (const piece of pieces) out.add(piece);
  const carried = new CarriedBytes(out.joined());
  for (const piece of pieces) assert.deepEqual(Buffer.from(carried.take(piece.length)), piece);
  assert.throws(() => carried.take(1), RangeError);
});

test('nothing to carry is nothing', () => {
  assert.equal(new BytesToCarry().joined(), null);
  assert.equal(new CarriedBytes(null).take(0).length, 0);
  assert.throws(() => new CarriedBytes(null).take(1), RangeError);
});
