/** The CBOR reader: every valid value, every truncation, and the parts of CBOR that it rejects. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type CborInput, cbor } from '../../test/kit/second-factors.ts';
import { readCbor } from './cbor.ts';

test('readCbor reads what cbor writes and rejects every truncation', () => {
  const key = fc.oneof(fc.integer({ min: -60_000, max: 60_000 }), fc.string({ unit: 'grapheme', maxLength: 30 }));
  const leaf = fc.oneof(
    key,
    fc.boolean(),
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  );
  const list = fc.array(leaf, { maxLength: 30 });
  const map = fc.array(fc.tuple(key, fc.oneof(leaf, list)), { maxLength: 30 }).map((entries) => new Map(entries));
  fc.assert(
    fc.property(fc.oneof(leaf, list, map), fc.nat(), (value, cut) => {
      const bytes = cbor(value as CborInput);
      assert.deepEqual(readCbor(bytes), { value, end: bytes.length });
      assert.throws(() => readCbor(bytes.subarray(0, cut % bytes.length)), { message: 'the data is truncated' });
    }),
  );
  for (const [hex, value] of [
    ['1bffffffffffffffff', undefined],
    ['1b001ffffffffffffe', Number.MAX_SAFE_INTEGER - 1],
    ['3b001ffffffffffffe', -Number.MAX_SAFE_INTEGER],
    ['3b001fffffffffffff', undefined],
    ['f6', null],
    ['f7', undefined],
    ['f90000', undefined],
    ['fb3ff0000000000000', undefined],
    ['5f4101ff', undefined],
    ['7f6161ff', undefined],
    ['61ff', undefined],
    ['9f01ff', undefined],
    ['1c', undefined],
    ['a14161f5', undefined],
    ['c000', undefined],
    ['ff', undefined],
  ] as const) {
    const read = () => readCbor(Buffer.from(hex, 'hex')).value;
    if (value === undefined) assert.throws(read, { name: 'Error' }, hex);
    else assert.equal(read(), value, hex);
  }
});
