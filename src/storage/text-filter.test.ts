/** Filters that compare text without case: which texts match, and which filters SQL decides alone. test/contract runs their SQL. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressFilter, addressOrPartFilter, anyOf, partFilter } from './text-filter.ts';

test('a part is found without case in every script, and regardless of its normal form', () => {
  for (const [part, text, isFound] of [
    ['ärger', 'ÄRGER Straße', true],
    ['STRAßE', 'ÄRGER Straße', true],
    ['strasse', 'ÄRGER Straße', false],
    ['жанна', 'Письмо: ЖАННА', true],
    ['cafÉ', 'Cafe\u0301', true],
    ['CAFE\u0301', 'café', true],
    ['café', 'cafe', false],
    // The last letter of a word is another one in lower case.
    ['ΟΔΟΣ', 'οδοσα', true],
    ['ΟΔΟΣ', 'ΟΔΟΣΑ', true],
    ['οδος', 'ΟΔΟΣ', true],
    // Lower case does not depend on a language.
    ['İSTANBUL', 'İstanbul', true],
    ['i\u0307stanbul', 'İSTANBUL', true],
    ['İ', 'Istanbul', false],
    ['ıspanak', 'ISPANAK', false],
    ['ıspanak', 'ıspanak', true],
    ['%ö_', 'a%Ö_b', true],
    ['HELLO', 'hello, Ärger', true],
    ['hello', 'HELLO', true],
    ['hellö', 'hello', false],
  ] as const)
    assert.equal(partFilter(part).matches(text), isFound, `${part} in ${text}`);
});

test('a complete address is found in any spelling, and only as a whole', () => {
  for (const [address, stored, isFound] of [
    ['ЖАННА@ПРИМЕР.example', 'Жанна@пример.example', true],
    ['жанна@xn--e1afmkfd.example', 'Жанна@пример.example', true],
    ['жанна@пример.example', 'ЖАННА@xn--e1afmkfd.example', true],
    ['анна@пример.example', 'жанна@пример.example', false],
    ['жанна', 'жанна@пример.example', false],
    ['Zoe\u0308@x.example', 'ZOË@x.example', true],
    [' Ann@Bücher.example', 'ann@xn--bcher-kva.example', true],
    ['ANN@xn--bcher-kva.example', 'ann@bücher.example', true],
    ['"ann"@bücher.example', 'Ann@bücher.example', true],
    ['ann@example.com', 'ANN@example.com', true],
    ['nn@example.com', 'ann@example.com', false],
  ] as const)
    assert.equal(addressFilter(address).matches(stored), isFound, `${address} and ${stored}`);
});

test('an address is also found by a part', () => {
  for (const [text, stored, isFound] of [
    ['жанна', 'Жанна@пример.example', true],
    ['@ПРИМЕР', 'Жанна@пример.example', true],
    ['жанна@ПРИМЕР.example', 'Жанна@xn--e1afmkfd.example', true],
    ['жанна', 'ann@example.com', false],
    ['NN@', 'ann@example.com', true],
  ] as const)
    assert.equal(addressOrPartFilter(text).matches(stored), isFound, `${text} and ${stored}`);
});

test('SQL decides filters of ASCII characters alone, and no others', () => {
  for (const filterOf of [partFilter, addressFilter, addressOrPartFilter]) {
    assert.equal(filterOf('Ann@xn--bcher-kva.example').isExact, true, filterOf.name);
    assert.equal(filterOf('Ann@bücher.example').isExact, false, filterOf.name);
  }
  const [sqlite, postgres] = (['sqlite', 'postgres'] as const).map((dialect) =>
    partFilter('A%').condition({ dialect }, 'm.recipient'),
  );
  assert.deepEqual(sqlite, { sql: 'instr(lower(m.recipient), ?) > 0', params: ['a%'] });
  assert.deepEqual(postgres, { sql: 'strpos(lower(m.recipient), ?) > 0', params: ['a%'] });
  assert.deepEqual(anyOf([sqlite!, { sql: 'a = ?', params: [1] }]), {
    sql: '(instr(lower(m.recipient), ?) > 0 OR a = ?)',
    params: ['a%', 1],
  });
});
