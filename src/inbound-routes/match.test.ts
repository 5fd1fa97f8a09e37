/** Valid matches, and the local parts that they accept. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matchText, parseMatch, wantedLocals } from './match.ts';

test('an address, a prefix, and a domain match in any spelling', () => {
  for (const [text, expected] of [
    ['Support@In.Shop.Example', 'support@in.shop.example'],
    ['*@in.shop.example', '*@in.shop.example'],
    ['Reply+*@in.shop.example', 'reply+*@in.shop.example'],
    ['a+b@in.shop.example', 'a+b@in.shop.example'],
    ['hilfe@büro.example', 'hilfe@xn--bro-hoa.example'],
    ['ÄRGER@in.shop.example', 'ärger@in.shop.example'],
  ] as const) {
    const parsed = parseMatch(text);
    assert.ok(parsed.ok, text);
    assert.equal(matchText(parsed.match), expected);
  }
});

test('other patterns are rejected', () => {
  for (const text of [
    '',
    '@',
    '*',
    '*@',
    '@in.shop.example',
    'a@localhost',
    'a@[127.0.0.1]',
    'a*@in.shop.example',
    '**@in.shop.example',
    '+*@in.shop.example',
    'a+b+*@in.shop.example',
    '"a b"@in.shop.example',
    'Ann <a@in.shop.example>',
    'a@in.shop.example\r\n',
    '*a@in.shop.example',
    'a@*.shop.example',
    'a+*b@in.shop.example',
    'reply+**@in.shop.example',
    '*+*@in.shop.example',
  ])
    assert.ok(!parseMatch(text).ok, text);
});

test('every address takes three lookups, by address, prefix, and domain', () => {
  assert.deepEqual(wantedLocals('Reply+AbC'), ['reply+abc', 'reply+*', '*']);
  assert.deepEqual(wantedLocals('reply+a+b'), ['reply+a+b', 'reply+*', '*']);
  assert.deepEqual(wantedLocals('"a..b"')[0], 'a..b', 'quotes are not part of the address');
  assert.deepEqual(wantedLocals('".a."')[0], '.a.');
  assert.deepEqual(wantedLocals('"Support"')[0], 'support');
  assert.deepEqual(wantedLocals('"s\\upport"')[0], 'support');
  assert.deepEqual(wantedLocals('"Reply+a..b"'), ['reply+a..b', 'reply+*', '*']);
  assert.deepEqual(wantedLocals('"a b"')[0], '"a b"', 'needs its quotes');
  const [exact, prefix, any] = wantedLocals('reply');
  assert.deepEqual([exact, any], ['reply', '*']);
  assert.ok(!parseMatch(`${prefix}@in.shop.example`).ok, 'no route matches the placeholder of a missing prefix');
});
