/** Address lists in common formats, and the parts in which they are imported. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultyOf, linesOf, partOf, partsOf } from '../../portal/src/pages/suppressions/import-file.ts';

const line = (number: number, email: string, reason = '', expiresAt = '') => ({ number, email, reason, expiresAt });

test('reads plain lists, commas, semicolons, tabs, and spreadsheet files alike', () => {
  const expected = [line(2, 'a@example.com', 'bounce'), line(3, 'b@example.com')];
  assert.deepEqual(linesOf('email,reason\na@example.com,bounce\nb@example.com,\n'), expected);
  assert.deepEqual(linesOf('\uFEFFEmail;Reason\r\na@example.com;bounce\r\nb@example.com;\r\n'), expected);
  assert.deepEqual(linesOf('Reason\tE-Mail Address\nbounce\ta@example.com\n\tb@example.com'), expected);
  assert.deepEqual(linesOf('a@example.com\n\n  \nb@example.com'), [line(1, 'a@example.com'), line(4, 'b@example.com')]);
  assert.deepEqual(linesOf('a@example.com,manual,2030-01-01'), [line(1, 'a@example.com', 'manual', '2030-01-01')]);
  assert.deepEqual(linesOf(''), []);
});

test('quotes can contain commas, quotes, and line ends, and line numbers stay correct', () => {
  const lines = linesOf('email,name,reason\n"a@example.com","Ann ""A"",\nof Shop",bounce\nb@example.com,Ben,manual\n');
  assert.deepEqual(lines, [line(2, 'a@example.com', 'bounce'), line(4, 'b@example.com', 'manual')]);
  assert.equal(linesOf('email\n"a@example.com\nb@example.com').length, 1);
});

test('reads exported files back, with additional columns', () => {
  const csv =
    'email,reason,sourceMessageId,expiresAt,createdAt\r\na@example.com,bounce,msg_1,2030-01-01T00:00:00.000Z,x\r\n';
  assert.deepEqual(linesOf(csv), [line(2, 'a@example.com', 'bounce', '2030-01-01T00:00:00.000Z')]);
});

test('parts start with the column names and stay below the limits', () => {
  const many = Array.from({ length: 4_500 }, (_, at) => line(at + 1, `person-${at}@example.com`));
  const parts = partsOf(many);
  assert.deepEqual(
    parts.map(({ lines }) => lines.length),
    [2_000, 2_000, 500],
  );
  for (const { body } of parts) assert.ok(body.startsWith('email,reason,expiresAt\n'));
  assert.equal(parts.flatMap(({ lines }) => lines).length, many.length);
  const long = partsOf(Array.from({ length: 30 }, (_, at) => line(at + 1, 'ü'.repeat(50_000))));
  assert.ok(long.length > 1);
  for (const { body } of long) assert.ok(Buffer.byteLength(body) < 1_100_000);
  assert.deepEqual(partsOf([]), []);
});

test('a cell never becomes two lines or two cells', () => {
  const { body } = partOf([line(1, 'a,b@example.com'), line(2, 'x"y'), line(3, 'two\nlines')]);
  assert.equal(body, 'email,reason,expiresAt\n"a,b@example.com",,\n"x""y",,\ntwo lines,,\n');
});

test('invalid lines of a part are identified by their number in the file', () => {
  const part = partOf([line(7, 'a@example.com'), line(12, 'nonsense')]);
  const details = [
    { field: 'line 3', message: 'the address has no @' },
    { field: '', message: 'else' },
  ];
  assert.deepEqual(faultyOf(part, details), [{ number: 12, message: 'the address has no @' }]);
});
