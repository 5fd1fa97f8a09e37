import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runningMs } from '../../../test/kit/running-time.ts';
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
  ['text/html charset=UTF-8', 'text/html', { charset: 'UTF-8' }],
  ['text/plain charset="utf-8" format=flowed', 'text/plain', { charset: 'utf-8', format: 'flowed' }],
  ['text/plain, charset=utf-8', 'text/plain', { charset: 'utf-8' }],
  ['text/plain; charset=utf-8, format=flowed', 'text/plain', { charset: 'utf-8', format: 'flowed' }],
  ['text/html; charset=utf-8, text/html', 'text/html', { charset: 'utf-8' }],
  ['text/html (comment) charset=utf-8 (another; one) x=y', 'text/html', { charset: 'utf-8', x: 'y' }],
  ['text/html version 2 charset=utf-8', 'text/html', { charset: 'utf-8' }],
  ['multipart/alternative boundary="b"', 'multipart/alternative', { boundary: 'b' }],
  ['multipart/mixed; charset=utf-8 boundary="b,; c"', 'multipart/mixed', { charset: 'utf-8', boundary: 'b,; c' }],
  ['multipart/mixed; type="a/b"boundary=b', 'multipart/mixed', { type: 'a/b', boundary: 'b' }],
  ['application/pdf name="a.pdf"', 'application/pdf', { name: 'a.pdf' }],
  ['attachment filename="a.pdf"', 'attachment', { filename: 'a.pdf' }],
  ['attachment; filename=a, b.pdf; size=1', 'attachment', { filename: 'a', size: '1' }],
  ['text', 'text', {}],
  ['text; charset=utf-8', 'text', { charset: 'utf-8' }],
  ['text/plain/html; charset=utf-8', 'text/plain/html', { charset: 'utf-8' }],
  ['text/ charset=utf-8', 'text/', { charset: 'utf-8' }],
  ['text/html: charset=utf-8', 'text/html:', { charset: 'utf-8' }],
  ['charset=utf-8', '', { charset: 'utf-8' }],
  ['charset = "utf-8"', '', { charset: 'utf-8' }],
];
for (const [text, main, parameters] of FIELDS) {
  test(`reads ${JSON.stringify(text)}`, () => {
    const value = parameterizedValue(text);
    assert.equal(value.main, main);
    assert.deepEqual(Object.fromEntries(value.parameters.map((one) => [one.name, one.value])), parameters);
  });
}

test('only two tokens with a slash between them are a media type', () => {
  for (const text of ['text/html', 'Text / HTML ; charset=utf-8', 'a/b c', 'a/b,', 'a/b(c)', 'application/vnd.x+json'])
    assert.equal(parameterizedValue(text).isMediaType, true, text);
  for (const text of ['', 'text', 'text/', '/html', 'a/b/c', '"text/html"', 'a/b:', 'a/b=c', 'a//b', 'a b/c', '(a/b)'])
    assert.equal(parameterizedValue(text).isMediaType, false, text);
});

test('a hostile field is read in linear time', () => {
  const start = runningMs();
  for (const piece of ['a/', '"', '(', '\\"', 'a=b ', '=', ';', ',', 'a/b ', 'a ', '/', 'x=,', '(a)', 'x="y"'])
    for (const before of ['', 'a/b ', 'a/b;', '"', 'a/b; x=']) parameterizedValue(before + piece.repeat(100_000));
  assert.ok(runningMs() - start < 3_000, `${runningMs() - start} ms`);
});

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
