/** The Author Domain of From fields, well-formed and malformed. A reader must not see another domain than DMARC checks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { authorDomain } from './author-domain.ts';
import { parseFields } from './fields.ts';

const of = (header: string): string | undefined => authorDomain(parseFields(Buffer.from(header).toString('latin1')));

test('a From field with one domain has an Author Domain', () => {
  const values: [value: string, domain: string][] = [
    ['ann@shop.example', 'shop.example'],
    ['Ann <ann@SHOP.example>', 'shop.example'],
    ['"Ann, B." <ann@shop.example>, c@shop.example', 'shop.example'],
    ['Team: ann@shop.example, bob@shop.example;', 'shop.example'],
    ['(ceo@bank.example) ann@shop.example', 'shop.example'],
    ['"ceo@bank.example" <ann@shop.example>', 'shop.example'],
    ['=?utf-8?q?ceo=40bank.example?= <ann@shop.example>', 'shop.example'],
    ['"a@b"@shop.example', 'shop.example'],
    ['<@relay.example:ann@shop.example>', 'shop.example'],
    ['ann@bücher.example', 'xn--bcher-kva.example'],
    ['ann@shop.example.', 'shop.example'],
    ['ann@[192.0.2.1]', '[192.0.2.1]'],
    // Malformed, but unambiguous.
    ['Doe, Ann <ann@shop.example>', 'shop.example'],
    ['Ann <ann@shop.example', 'shop.example'],
    ['"Ann <ann@shop.example>', 'shop.example'],
    ['Shop: Ann <ann@shop.example>', 'shop.example'],
    ['Ann <ann@shop.example> (via', 'shop.example'],
    ['"Doe", ann@shop.example', 'shop.example'],
    ['ann @ shop.example', 'shop.example'],
    // IDNA ignores such characters, so a resolver does too.
    ['ann@vic\u00adtim.exam\u200bple', 'victim.example'],
  ];
  for (const [value, domain] of values) assert.equal(of(`From: ${value}\r\n`), domain, value);
  assert.equal(of('Subject: x\r\nFrom\r\n : Ann\r\n <ann@shop.example>\r\n'), 'shop.example', 'folded');
});

test('an ambiguous From field has none', () => {
  const values = [
    '',
    'Ann',
    '<>',
    'a@shop.example, b@bank.example',
    'a@bank.example@shop.example',
    'ann@',
    'ann@@shop.example',
    // Domains with characters that no domain has, and too short or too long ones.
    ...['\x01', '\x00', '"x"', "'", '\u2028', '\u00a0', '\x7f', '..', '.-', '/', '%2e', '!'].map(
      (odd) => `ceo@bank.example${odd}other.example`,
    ),
    'a@.shop.example',
    'a@shop.example..',
    'a@shop',
    'a@192.0.2.1',
    'a@-shop.example',
    'a@[]',
    'a@[192.0.2.1\x01]',
    `a@${'x'.repeat(64)}.example`,
    `a@${'x.'.repeat(130)}example`,
    'ann@shop.example"@bank.example"',
    // Another part of the field looks like an address.
    '"ceo@bank.example": ann@shop.example;',
    '=?utf-8?q?ceo=40bank.example?=: ann@shop.example;',
    '"ceo@bank.example", ann@shop.example',
    '=?utf-8?q?ceo=40bank.example?=, ann@shop.example',
    'ceo\uff20bank.example, ann@shop.example',
    '"ceo@bank.example" <>, ann@shop.example',
    'Ann <ann@shop.example> <ceo@bank.example>',
    '"Ann <ann@shop.example>, ceo@bank.example',
  ];
  for (const value of values) assert.equal(of(`From: ${value}\r\n`), undefined, value);
  assert.equal(of('From: ann@shop.example\r\nFrom: ann@shop.example\r\n'), undefined, 'two fields');
  assert.equal(of('From: ann@shop.example\r\nFROM\t: ann@shop.example\r\n'), undefined, 'two fields');
  assert.equal(of('From: ann@shop.example\r\n\xa0, ceo@bank.example\r\n'), undefined, 'a line that is no field');
  assert.equal(of('Subject: x\r\n'), undefined, 'no field');
});
