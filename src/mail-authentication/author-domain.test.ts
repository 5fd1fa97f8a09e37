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
  ];
  for (const [value, domain] of values) assert.equal(of(`From: ${value}\r\n`), domain, value);
  assert.equal(of('Subject: x\r\nFrom\r\n : Ann\r\n <ann@shop.example>\r\n'), 'shop.example', 'folded');
});

test('an ambiguous From field has none', () => {
  const values = [
    ...['', 'Ann', '<>', 'a@shop.example, b@bank.example', 'a@bank.example@shop.example', 'ann@', 'ann@@shop.example'],
    ...['Ann <ann@shop.example> <ceo@bank.example>', '"Ann <ann@shop.example>, ceo@bank.example'],
  ];
  for (const value of values) assert.equal(of(`From: ${value}\r\n`), undefined, value);
  assert.equal(of('From: ann@shop.example\r\nFrom: ann@shop.example\r\n'), undefined, 'two fields');
  assert.equal(of('From: ann@shop.example\r\nFROM\t: ann@shop.example\r\n'), undefined, 'two fields');
  assert.equal(of('From: ann@shop.example\r\n\xa0, ceo@bank.example\r\n'), undefined, 'a line that is no field');
  assert.equal(of('Subject: x\r\n'), undefined, 'no field');
});
