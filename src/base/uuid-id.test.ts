/** IDs and their UUIDs: a bijection in time order, in the canonical form that strict clients accept. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { newAscendingIds, newId } from './ids.ts';
import { idOfUuid, isUuid, uuidOf } from './uuid-id.ts';

const YEAR_2811_MS = Date.UTC(2811, 0, 1);

test('IDs and version 8 UUIDs convert to each other without loss', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: YEAR_2811_MS }), (ms) => {
      const id = newId('msg', ms);
      const uuid = uuidOf(id);
      assert.match(uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      assert.equal(idOfUuid('msg', uuid), id);
      assert.equal(idOfUuid('msg', uuid.toUpperCase()), id, 'UUIDs are case-insensitive');
      assert.equal(idOfUuid('dom', uuid), `dom_${id.slice(4)}`);
    }),
  );
});

test('every version 8 UUID maps to exactly one ID or is invalid', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: (1n << 122n) - 1n }), (number) => {
      const hex = number.toString(16).padStart(31, '0');
      const uuid = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(12, 15)}-a${hex.slice(15, 18)}-${hex.slice(18, 30)}`;
      const id = idOfUuid('msg', uuid);
      if (id !== undefined) assert.equal(uuidOf(id), uuid);
    }),
  );
});

test('UUIDs sort in the order of their IDs', () => {
  const ids = [1, 61, 62, 1_700_000_000_000, 1_700_000_000_001, 1_900_000_000_000].map((ms) => newId('msg', ms));
  assert.deepEqual(ids.map(uuidOf).toSorted(), ids.map(uuidOf));
});

test('a UUID that does not encode an ID is rejected', () => {
  for (const text of [
    '',
    'msg_1',
    '3fa85f64-5717-4562-b3fc-2c963f66afa6',
    'ffffffff-ffff-8fff-bfff-fffffffffff',
    '../../etc',
  ])
    assert.equal(idOfUuid('msg', text), undefined, text);
  for (const id of ['', 'msg_', 'msg_zzzzzzzzzzzzzzzzzzzzz', 'msg_000000000000000000000/']) {
    assert.throws(() => uuidOf(id), RangeError, id);
  }
  assert.ok(isUuid('3fa85f64-5717-4562-b3fc-2c963f66afa6') && !isUuid('msg_1'));
});

test('the IDs of one email are in ascending order', () => {
  const ids = newAscendingIds('msg', 1_700_000_000_000, 50);
  assert.deepEqual(ids.toSorted(), ids);
  assert.equal(new Set(ids).size, 50);
});
