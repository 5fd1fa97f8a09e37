/** Equal JSON values have equal digests, and different values have different digests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jsonDigest } from './digest.ts';

const digestOf = (text: string): string => Buffer.from(jsonDigest(JSON.parse(text))).toString('hex');

test('whitespace, key order, escapes, and number notation do not change the digest', () => {
  for (const [one, other] of [
    ['{"a":1,"b":[true,null]}', ' { "b" : [ true , null ] ,\n"a":1.0 }'],
    ['"é"', '"\\u00e9"'],
    ['{"é":"/"}', '{"\\u00e9":"\\/"}'],
    ['100', '1e2'],
    ['0', '-0.0'],
    ['{"2":1,"10":2,"a":3}', '{"a":3,"10":2,"2":1}'],
  ] as const)
    assert.equal(digestOf(one), digestOf(other), one);
});

test('every other difference changes the digest', () => {
  const texts =
    '{} [] "" null "null" true "true" 1 "1" [1] [[1]] [1,1] [11] {"a":1} {"a":"1"} {"1":"a"} {"a":{}} {"a":[]} {"a":null} ["a","b"] ["b","a"] ["ab"] ["a",["b"]] ["as1:b"] {"a":"b","c":"d"} {"a":"b1:cs1:d"} [{"a":1},{"b":2}] [{"a":1,"b":2}]'.split(
      ' ',
    );
  assert.equal(new Set(texts.map(digestOf)).size, texts.length);
});

test('an object hashed in several pieces has the same digest in any order', () => {
  const names = Array.from({ length: 5_000 }, (_, index) => `name ${index} ${'ü'.repeat(40)}`);
  const objectOf = (list: string[]) => Object.fromEntries(list.map((name) => [name, name.repeat(3)]));
  assert.deepEqual(jsonDigest(objectOf(names)), jsonDigest(objectOf(names.toReversed())));
  assert.notDeepEqual(jsonDigest(objectOf(names)), jsonDigest(objectOf(names.slice(1))));
});
