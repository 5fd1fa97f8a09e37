import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseBytes } from './bytes.ts';

test('sizes are formatted with and without units', () => {
  const cases: [string, number | undefined][] = [
    ['0', 0],
    ['40000000', 40_000_000],
    ['500,000,000', 500_000_000],
    ['40MB', 40_000_000],
    ['40 mb', 40_000_000],
    ['40M', 40_000_000],
    ['500KB', 500_000],
    ['1.5GB', 1_500_000_000],
    ['2TB', 2_000_000_000_000],
    ['64MiB', 67_108_864],
    ['1Ki', 1_024],
    ['0.5GiB', 536_870_912],
    ['100B', 100],
    [' 5MB ', 5_000_000],
    ['', undefined],
    ['MB', undefined],
    ['-1', undefined],
    ['1.5', undefined],
    ['40 000 000', undefined],
    ['4,00', undefined],
    ['40XB', undefined],
    ['40Mbit', undefined],
    ['1e6', undefined],
    ['0x10', undefined],
    ['9007199254740993', undefined],
    ['10000000TB', undefined],
    ['40constructor', undefined],
  ];
  for (const [text, bytes] of cases) assert.equal(parseBytes(text), bytes, text);
});
