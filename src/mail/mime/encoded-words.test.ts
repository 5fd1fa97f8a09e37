import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodedWords } from '../compose/header.ts';
import { decodeWords, displayedText, headerText } from './header-fields.ts';

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
  ['=?UTF-8?Q?Are_you_there??=', 'Are you there?'],
  ['=?UTF-8?Q?Are_you_there??= =?UTF-8?Q?_Yes!?=', 'Are you there? Yes!'],
  ['("=?UTF-8?Q?Who??=")', '("Who?")'],
  ['=?UTF-8?Q?Caf=C3=A9?_Qui?=21?= x', 'Café? Qui?! x'],
  ['=?UTF-8?Q?Is it you? Yes?= x', 'Is it you? Yes x'],
  ['=?UTF-8?Q???=', '?'],
  ['=?utf-8?q?a?==?utf-8?q?b?=', 'ab'],
  ['=?utf-8?q?a?=bc and d?= e', 'abc and d?= e'],
  ['=?utf-8?q?open =?utf-8?q?b?=', '=?utf-8?q?open b'],
  ['=?utf-8?b?YQ==?x?=', '=?utf-8?b?YQ==?x?='],
  ['=?cp932?B?grGC8YLJgr+CzQ==?=', 'こんにちは'],
  ['=?CP949?Q?=BE=C8=B3=E7?=', '안녕'],
  ['=?cp936?Q?=C4=E3?= =?cp950?Q?=A7A?=', '你你'],
  ['=?latin-1?Q?Caf=E9?=', 'Café'],
  ['=?iso-2022-jp-ms?B?GyRCJDQbKEI=?=', 'ご'],
  ['=?unknown-8bit?Q?Caf=C3=A9?=', 'Café'],
  ['=?x-unknown?Q?Caf=E9?=', 'Café'],
  ['=?default?q?=C3?= =?default?q?=BC?=', 'ü'],
  ['=?us-ascii?Q?Caf=C3=A9?=', 'Café'],
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

test('hostile words are decoded in linear time', () => {
  const start = process.cpuUsage();
  for (const piece of ['=?', '=?a?Q?', '=?a?Q?x', '=?a?Q??=', '=?utf-8?Q??=y', '?=', '=?a?b?', '=?utf-8?q??=?=', '?='])
    for (const before of ['', '=?utf-8?Q?', '=?utf-8?B?', '=?utf-8?Q?x?=']) decodeWords(before + piece.repeat(20_000));
  const { user, system } = process.cpuUsage(start);
  assert.ok(user + system < 3_000_000, `${(user + system) / 1000} ms`);
});

test('ISO-2022-JP that is not encoded is decoded', () => {
  assert.equal(displayedText('\x1b$B$4Cm\x1b(B 1'), 'ご注 1');
  assert.equal(displayedText('\x1b$B$4\x1b(B =?utf-8?q?=C3=BC?='), 'ご ü');
  assert.equal(displayedText('gr\xfcn =?utf-8?q?=C3=BC?='), 'grün ü');
});

test('raw header bytes are decoded as UTF-8 or Windows-1252', () => {
  assert.equal(headerText('plain'), 'plain');
  assert.equal(headerText(Buffer.from('Grüße').toString('latin1')), 'Grüße');
  assert.equal(headerText('gr\xfcn \x80'), 'grün €');
});
