/** Characters that disguise names, subjects, and replies are shown by their code points. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { visible } from '../../portal/src/parts/visible.ts';

test('shows direction and invisible characters, and keeps all scripts', () => {
  for (const [text, shown] of [
    ['invoice\u202egpj.exe', 'invoice<U+202E>gpj.exe'],
    ['\u2066a\u2069\u200b', '<U+2066>a<U+2069><U+200B>'],
    ['\u061cشكرا', '<U+061C>شكرا'],
    ['שלום, Ann', 'שלום, Ann'],
    ['👩‍🚀 e\u0301', '👩‍🚀 e\u0301'],
    ['', ''],
  ] as const)
    assert.equal(visible(text), shown);
});
