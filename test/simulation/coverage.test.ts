import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { branchesOf, type Functions, inWords, readCoverage } from './coverage.ts';

const range = (startOffset: number, endOffset: number, count: number) => ({ startOffset, endOffset, count });

test('a branch counts as reached if any process reached it', () => {
  const missesBoth: Functions = [{ ranges: [range(0, 100, 1), range(10, 20, 0), range(50, 60, 0)] }];
  const reachesFirst: Functions = [{ ranges: [range(0, 100, 1), range(50, 60, 0)] }];
  assert.deepEqual(branchesOf([missesBoth]), { branches: 3, reached: 1, missedOffsets: [10, 50] });
  assert.deepEqual(branchesOf([missesBoth, reachesFirst]), { branches: 3, reached: 2, missedOffsets: [50] });
});

test('a block in a function that never ran is not reached', () => {
  const functions: Functions = [{ ranges: [range(0, 100, 1)] }, { ranges: [range(30, 80, 0)] }];
  assert.deepEqual(branchesOf([functions]).missedOffsets, [30]);
});

test('branches are counted by folder and listed by line', (t) => {
  const base = mkdtempSync(path.join(os.tmpdir(), 'postrider-reached-'));
  t.after(() => rmSync(base, { recursive: true, force: true }));
  const sources = path.join(base, 'src');
  const folder = path.join(base, 'coverage');
  for (const one of ['send', 'storage']) mkdirSync(path.join(sources, one), { recursive: true });
  mkdirSync(folder);
  const source = 'one();\nif (never) {\n  two();\n}\n';
  for (const file of ['send/a.ts', 'storage/b.ts']) writeFileSync(path.join(sources, file), source);
  const functions: Functions = [{ ranges: [range(0, source.length, 1), range(source.indexOf('{'), 31, 0)] }];
  const result = ['send/a.ts', 'storage/b.ts'].map((file) => ({
    url: pathToFileURL(path.join(sources, file)).href,
    functions,
  }));
  writeFileSync(path.join(folder, 'coverage-1.json'), JSON.stringify({ result }));
  const reached = readCoverage({ folder, sources, counted: ['send'] });
  assert.deepEqual(reached, { send: { branches: 2, reached: 1, missed: { 'send/a.ts': [2] } } });
  assert.match(inWords(reached), /src\/send that were reached: 1 of 2.*\n.*src\/send\/a\.ts:2/);
});
