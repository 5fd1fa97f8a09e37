import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parameterizedValue, parameterValue } from './mime-walk.ts';

const FIELDS: [text: string, main: string, parameters: Record<string, string>][] = [
  ['', '', {}],
  [' Text/HTML ', 'text/html', {}],
  ['text / plain (comment; here) ; charset = utf-8', 'text/plain', { charset: 'utf-8' }],
  ['multipart/mixed;boundary="a;b\\"c"; x=y', 'multipart/mixed', { boundary: 'a;b"c', x: 'y' }],
  ['a/b; BOUNDARY=--=_x/+', 'a/b', { boundary: '--=_x/+' }],
  ['a/b; charset=utf-8 (comment) ; x="y" (z); ;; name', 'a/b', { charset: 'utf-8', x: 'y' }],
  ['a/b; x="open', 'a/b', { x: 'open' }],
  ['a/b; x=', 'a/b', { x: '' }],
  ['; x=y', '', { x: 'y' }],
  ['a/b; (open', 'a/b', {}],
];
for (const [text, main, parameters] of FIELDS) {
  test(`reads ${JSON.stringify(text)}`, () => {
    const value = parameterizedValue(text);
    assert.equal(value.main, main);
    assert.deepEqual(Object.fromEntries(value.parameters.map((one) => [one.name, one.value])), parameters);
  });
}

test('only the first hundred of a hundred thousand parameters are read', () => {
  assert.equal(parameterizedValue(`a/b${';x=y'.repeat(100_000)}`).parameters.length, 100);
});

test('a parameter is found complete, in continuations, and with a charset', () => {
  const value = (text: string) => parameterValue(parameterizedValue(`a/b; ${text}`).parameters, 'name');
  assert.equal(value('other=x'), undefined);
  assert.equal(value('name=x; name=y'), 'x');
  assert.equal(value("name*=us-ascii'en'a%20b"), 'a b');
  assert.equal(value('name*1=b; name*0="a"; name*3=d'), 'ab');
  assert.equal(value("name*0*=utf-8''a%20; name*1=b%20"), 'a b%20');
});
