/** A winmail.dat (TNEF) as Outlook sends it, with two files, for tests of inbound mail. */

export const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};
const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);
export const attribute = (level: number, id: number, data: Buffer): Buffer =>
  Buffer.concat([Buffer.from([level]), int32(id), int32(data.length), data, Buffer.alloc(2)]);
const stringProperty = (id: number, text: string): Buffer => {
  const bytes = Buffer.from(`${text}\0`, 'utf16le');
  return Buffer.concat([int32(id * 0x10000 + 0x1f), int32(1), int32(bytes.length), padded(bytes)]);
};
const numberProperty = (id: number, value: number): Buffer => Buffer.concat([int32(id * 0x10000 + 3), int32(value)]);
const properties = (...values: Buffer[]): Buffer => Buffer.concat([int32(values.length), ...values]);

/** Returns a winmail.dat with two files, one of them with a Unicode name, and the text of the message. */
export function winmail({ method = 1 } = {}): Buffer {
  const named = Buffer.concat([
    int32(0x8001 * 0x10000 + 0x1f),
    Buffer.alloc(16),
    int32(1),
    int32(6),
    padded(Buffer.from('ab\0', 'utf16le')),
    int32(1),
    int32(2),
    padded(Buffer.from('\0\0')),
  ]);
  return Buffer.concat([
    int32(0x223e9f78),
    Buffer.from([1, 0]),
    attribute(1, 0x00089006, int32(0x00010000)),
    attribute(1, 0x00069007, Buffer.concat([int32(1252), int32(0)])),
    attribute(1, 0x00069003, properties(named, stringProperty(0x1000, 'Grüße aus Outlook'))),
    attribute(2, 0x00069002, Buffer.alloc(14)),
    attribute(2, 0x00018010, Buffer.from('Stra\xdfe.txt\0', 'latin1')),
    attribute(2, 0x0006800f, Buffer.from('first file')),
    attribute(2, 0x00069002, Buffer.alloc(14)),
    attribute(2, 0x00018010, Buffer.from('TABLE~1.XLS\0')),
    attribute(2, 0x0006800f, Buffer.from('second file')),
    attribute(
      2,
      0x00069005,
      properties(
        numberProperty(0x3705, method),
        stringProperty(0x3707, 'Tabelle – 2026.xlsx'),
        stringProperty(0x370e, 'application/vnd.ms-excel'),
        stringProperty(0x3712, 'table@shop.example'),
      ),
    ),
  ]);
}
