/** Texts with and without one-time codes: the test table for the rules in codes.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runningMs } from '../../test/kit/running-time.ts';
import { codesOf } from './codes.ts';

const found: [text: string, ...codes: string[]][] = [
  ['Your code is 482913.', '482913'],
  ['482913 is your verification code', '482913'],
  ['Your verification code:\n\n    4829\n\nIt expires in 10 minutes.', '4829'],
  ['Enter 4829 1357 to sign in', '4829 1357'],
  ['Your login code: 482-913', '482-913'],
  ['Your login code: 482 913', '482 913'],
  ['Use 12-34-56 as your one-time code', '12-34-56'],
  ['G-482913 is your Google verification code.', '482913'],
  ['Your OTP is 0042', '0042'],
  ['Your PIN is 2024', '2024'],
  ['PIN: 1999', '1999'],
  ['Ihr Bestätigungscode lautet 739201', '739201'],
  ['Votre code est 739201.', '739201'],
  ['Tu código es 739201', '739201'],
  ['TAN 123456 für Auftrag', '123456'],
  ['Your code is K7Q2MX', 'K7Q2MX'],
  ['Your code is 482913, or AB12-CD34.', '482913', 'AB12-CD34'],
  ['Enter the code WDJB-MJHT on your television', 'WDJB-MJHT'],
  ['Recovery codes: 1A2B-3C4D, 5E6F-7A8B', '1A2B-3C4D', '5E6F-7A8B'],
  ['<482913>', '482913'],
  ['*482913*', '482913'],
  ['12345678', '12345678'],
  ['Code: 482913 (valid for 120 seconds, until 2026-11-20 09:44)', '482913'],
  ['We are at 10115 Berlin. Your code is 482913', '482913'],
  ['Ref. 99887766 – your passcode is 4711', '4711'],
  [
    'Reserved 111111 for the long and lonely way of texts that say little else, and then your code 222222',
    '222222',
    '111111',
  ],
  ['Your code is 482913. Your code is 482913.', '482913'],
  ['Your code is 20261120', '20261120'],
  ['Your code:123456', '123456'],
  ['OTP:4821', '4821'],
  ['PIN:0042', '0042'],
  ['PIN:1999', '1999'],
  ['code:ABC123', 'ABC123'],
  ['code:WDJB-MJHT', 'WDJB-MJHT'],
  ['Code:482-913', '482-913'],
  ['code:G-482913', '482913'],
  ['Votre code :739201', '739201'],
  ['Ihr Bestätigungscode:739201', '739201'],
  ['Your code is: #123456', '123456'],
  ['Your code is: #K7Q2MX', 'K7Q2MX'],
  ['Your code is _482913_.', '482913'],
  ['Your code is __482913__.', '482913'],
  ['At 12:30:4500 the code:482913', '482913'],
];

const left: string[] = [
  '© 2026 Shop Ltd.',
  'Since 1998, all rights reserved 2026',
  'On 2026-11-20 at 09:44',
  '20.11.2026, 11/20/2026',
  'Order 482913 has shipped',
  'Invoice no. 20260042',
  'Ticket #482913',
  'Customer number: 482913',
  'You paid $4829 today',
  'You paid 4829 EUR, or 4829 €',
  '1,234.56 and 1.234,56',
  'Call 555-123-4567',
  'Call us on 5551234',
  'Tel. +49 30 1234567',
  '(030) 1234567',
  'Card 4111 1111 1111 1111',
  'Springfield, IL 62704',
  '10115 Berlin',
  '1600 Pennsylvania Avenue',
  'See https://example.org/verify?code=482913',
  'Write to 482913@example.org',
  'You have 1500 points',
  'It took 1200 ms for 5000 users',
  'SHA256 and ISO9001 without any such word',
  'K7Q2MX without any such word',
  'Your postal code K1A0B1 is known',
  'Use promo code SAVE2026 now',
  'Version 20261120',
  '123',
  '123456789',
  '3.1415',
  'WDJB-MJHT',
  'AB1234567890123',
  'At 12:30, or 12:30:4500',
  'The code was made at 12:3045',
  'localhost:8080 and host:K7Q2MX speak of a code',
  'A ratio of 1:5000 in the code',
  'order:482913 and #482913, says the code',
  'cus_482913, code_482913, _482913_',
  '482913_a and 482913__a',
  'Zipcode:62704',
  'postal code:K1A0B1',
  'error code:4821',
  'Colour code:#FF0042',
  'fe80:0DB8:AC10:FE01 in the code',
];

for (const [text, ...codes] of found) {
  test(`finds ${codes.join(', ')} in ${JSON.stringify(text)}`, () => assert.deepEqual(codesOf(text), codes));
}
for (const text of left) test(`finds no code in ${JSON.stringify(text)}`, () => assert.deepEqual(codesOf(text), []));

test('hostile text takes bounded time', () => {
  for (const piece of [
    '1',
    '12 ',
    '1234-',
    'code ',
    'A1',
    '(((',
    '+1 ',
    'code: ',
    'code:',
    'code:1234 ',
    ':A1B2',
    '#1234 ',
    '_',
    '_1234',
    'code 1234 ',
    '"',
    '  ',
    '@',
    'a@',
  ]) {
    const began = runningMs();
    codesOf(piece.repeat(200_000 / piece.length));
    const tookMs = runningMs() - began;
    assert.ok(tookMs < 5_000, `${JSON.stringify(piece)} took ${Math.round(tookMs)} ms`);
  }
});
