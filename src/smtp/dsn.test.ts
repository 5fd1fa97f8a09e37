import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeEnvid, decodeOriginalRecipient, parseNotify } from './dsn.ts';

test('NOTIFY is validated', () => {
  const table: [value: string, expected: readonly string[] | undefined][] = [
    ['NEVER', []],
    ['never', []],
    ['SUCCESS', ['success']],
    ['Failure,delay', ['failure', 'delay']],
    ['FAILURE,FAILURE', ['failure']],
    ['SUCCESS,FAILURE,DELAY', ['success', 'failure', 'delay']],
    ['', undefined],
    ['NEVER,SUCCESS', undefined],
    ['NEVER,NEVER', undefined],
    ['SUCCESS, FAILURE', undefined],
    ['FAIL', undefined],
    ['constructor', undefined],
    ['__proto__', undefined],
    [',', undefined],
  ];
  for (const [value, expected] of table) assert.deepEqual(parseNotify(value), expected, value);
});

test('ENVID is printable ASCII in xtext', () => {
  const table: [value: string, expected: string | undefined][] = [
    ['QQ314159', 'QQ314159'],
    ['a+2Bb+3Dc', 'a+b=c'],
    ['a+20b', 'a b'],
    ['<id@host.example>', '<id@host.example>'],
    ['x'.repeat(100), 'x'.repeat(100)],
    ['x'.repeat(101), undefined],
    ['', undefined],
    ['a+', undefined],
    ['a+2', undefined],
    ['a+2b', undefined],
    ['a=b', undefined],
    ['a b', undefined],
    ['ä', undefined],
    ['a+00', undefined],
    ['a+0A', undefined],
    ['a+7F', undefined],
    ['a+E4', undefined],
  ];
  for (const [value, expected] of table) assert.equal(decodeEnvid(value), expected, value);
});

test('ORCPT is an address type and an address', () => {
  const table: [value: string, expected: string | undefined, smtpUtf8?: boolean][] = [
    ['rfc822;ann@example.com', 'rfc822;ann@example.com'],
    ['rfc822;a+2Bb@example.com', 'rfc822;a+b@example.com'],
    ['rfc822;+22a+20b+22@example.com', 'rfc822;"a b"@example.com'],
    ['RFC822;ann@example.com', 'RFC822;ann@example.com'],
    ['x400;/C+3Dde/', 'x400;/C=de/'],
    ['utf-8;\\x{E4}nn@example.com', 'utf-8;änn@example.com'],
    ['utf-8;\\x{1F600}@example.com', 'utf-8;😀@example.com'],
    ['UTF-8;a\\x{2B}b@example.com', 'UTF-8;a+b@example.com'],
    ['utf-8;änn@example.com', 'utf-8;änn@example.com', true],
    ['utf-8;änn@example.com', undefined, false],
    ['utf-8;\\x{D800}@example.com', undefined],
    ['utf-8;\\x{110000}@example.com', undefined],
    ['utf-8;\\x{0D}\\x{0A}@example.com', undefined],
    ['rfc822;änn@example.com', undefined, true],
    ['rfc822;a+b@example.com', undefined],
    ['rfc822;', undefined],
    [';ann@example.com', undefined],
    ['ann@example.com', undefined],
    ['rfc 822;ann@example.com', undefined],
    ['rfc822;ann+0A@example.com', undefined],
    [`rfc822;${'x'.repeat(494)}`, undefined],
    ['', undefined],
  ];
  for (const [value, expected, smtpUtf8 = false] of table)
    assert.equal(decodeOriginalRecipient(value, smtpUtf8), expected, value);
});
