import assert from 'node:assert/strict';
import { test } from 'node:test';
import { list, nullable, PackedBytes, record, UnpackedBytes } from './operation.ts';

test('pieces are unpacked as they were packed, including empty ones', () => {
  const out = new PackedBytes();
  const pieces = [Buffer.from('one'), Buffer.alloc(0), Buffer.from([0, 255, 13]), Buffer.alloc(70_000, 7)];
  for (const piece of pieces) out.add(piece);
  const carried = new UnpackedBytes(out.joined());
  for (const piece of pieces) assert.deepEqual(Buffer.from(carried.take(piece.length)), piece);
  assert.throws(() => carried.take(1), RangeError);
});

test('an empty list is packed as null', () => {
  assert.equal(new PackedBytes().joined(), null);
  assert.equal(new UnpackedBytes(null).take(0).length, 0);
  assert.throws(() => new UnpackedBytes(null).take(1), RangeError);
});

test('records, lists, and optional fields are decoded unchanged', () => {
  interface Thing {
    name: string;
    size: number | null;
    content: Uint8Array | null;
    isOld: boolean;
    parts: { digest: Uint8Array }[];
    key: { id: string } | null;
  }
  const codec = record<Thing>({
    name: 'text',
    size: 'int?',
    content: 'bytes?',
    isOld: 'json',
    parts: list(record<Thing['parts'][number]>({ digest: 'bytes' })),
    key: nullable(record<{ id: string }>({ id: 'text' })),
  });
  const things: Thing[] = [
    { name: 'a "ü"', size: null, content: Buffer.from([1, 2]), isOld: true, parts: [], key: null },
    { name: '', size: 0, content: null, isOld: false, parts: [{ digest: Buffer.alloc(0) }], key: { id: 'x' } },
    { name: 'b', size: 7, content: Buffer.alloc(0), isOld: false, parts: [{ digest: Buffer.from([255]) }], key: null },
  ];
  const bytes = new PackedBytes();
  const packed = things.map((thing) => JSON.stringify(codec.pack(thing, bytes)));
  const carried = new UnpackedBytes(bytes.joined());
  const hex = (value: Uint8Array | null): string | null => value && Buffer.from(value).toString('hex');
  const comparable = ({ content, parts, ...rest }: Thing) => ({
    ...rest,
    content: hex(content),
    parts: parts.map(({ digest }) => hex(digest)),
  });
  assert.deepEqual(
    packed.map((one) => comparable(codec.unpack(JSON.parse(one), carried))),
    things.map(comparable),
  );
});
