import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodedWords } from '../compose/header.ts';
import { decodeWords, headerText } from './header-fields.ts';

const CASES: [text: string, decoded: string][] = [
  ['plain =? text', 'plain =? text'],
  ['=?utf-8?Q?Gr=C3=BC=C3=9Fe?=', 'Grüße'],
  ['=?UTF-8?b?R3LDvMOfZQ==?= and =?iso-8859-1?q?=FC?=', 'Grüße and ü'],
  ['=?utf-8?q?a?= =?utf-8?q?b?=\t=?utf-8?q?c?= d', 'abc d'],
  ['=?utf-8?q?a_b=5F?=', 'a b_'],
  ['=?utf-8?q?with spaces inside?=', 'with spaces inside'],
  ['=?utf-8?q?=C3?= =?utf-8?q?=BC?=', 'ü'],
  ['=?ISO-2022-JP?B?GyRCJDQbKEI=?= =?ISO-2022-JP?B?GyRCQ20bKEI=?=', 'ご注'],
  ['=?utf-8*de?q?=C3=BC?=', 'ü'],
  ['=?no-such-charset?q?x?= =?utf-8?q?y?=', '=?no-such-charset?q?x?= y'],
  ['=?utf-8?q?y?= =?no-such-charset?q?x?=', 'y =?no-such-charset?q?x?='],
  ['=?utf-8?x?y?=', '=?utf-8?x?y?='],
  ['=?utf-8?q?=C3=?=', '\ufffd='],
  ['=?utf-8?q??=', ''],
];
for (const [text, decoded] of CASES) {
  test(`decodes ${text}`, () => assert.equal(decodeWords(text), decoded));
}

test('decodes what header.ts encodes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), fc.integer({ min: 0, max: 60 }), (text, column) => {
      assert.equal(decodeWords(encodedWords(text, column)), text.toWellFormed());
    }),
    { numRuns: 300 },
  );
});

test('raw header bytes are decoded as UTF-8 or Windows-1252', () => {
  assert.equal(headerText('plain'), 'plain');
  assert.equal(headerText(Buffer.from('Grüße').toString('latin1')), 'Grüße');
  assert.equal(headerText('gr\xfcn \x80'), 'grün €');
});
