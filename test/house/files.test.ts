/** Every file says what it is, stays short, has a telling name, and contains nothing that must not be published. */
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import {
  controlFaults,
  environmentFaults,
  headerFaults,
  LINES_AT_MOST,
  leakFaults,
  lengthFaults,
  nameFaults,
  unfinishedFaults,
} from './file-rules.ts';
import { productFiles, projectPaths, readFiles, root, type SourceFile } from './source-tree.ts';

const code = readFiles([
  'src/**/*.ts',
  'scripts/**/*.ts',
  'bench/**/*.ts',
  'test/**/*.ts',
  'bin/*.js',
  'clients/*/src/*.ts',
]).filter((file) => file.path !== 'clients/typescript/src/schema.ts');
/** These files contain the forbidden patterns as patterns and as examples. */
const RULES = /^test\/house\/(file-rules|files\.test)\.ts$/;

function textFiles(): SourceFile[] {
  return projectPaths()
    .filter((file) => !RULES.test(file) && file !== 'package-lock.json')
    .flatMap((file) => {
      const absolute = path.join(root, file);
      const stat = statSync(absolute, { throwIfNoEntry: false });
      if (!stat?.isFile() || stat.size > 2_000_000) return [];
      return [{ path: file, text: readFileSync(absolute, 'latin1') }];
    });
}

test('every file starts with a comment that describes it', () => {
  assert.deepEqual(headerFaults(code.filter((file) => !file.path.endsWith('.test.ts'))), []);
  const silent = headerFaults([
    { path: 'none.ts', text: "import fs from 'node:fs';\n/** This comment is long enough but stands too late. */" },
    { path: 'thin.ts', text: '/** Things. */\n' },
  ]);
  assert.equal(silent.length, 2, 'control: missing and empty paragraphs are found');
});

test('no source file is too long', () => {
  assert.deepEqual(lengthFaults(code), []);
  const long = { path: 'long.ts', text: 'x\n'.repeat(LINES_AT_MOST + 1) };
  assert.equal(lengthFaults([long]).length, 1, 'control: a long file is found');
});

test('file names describe the content', () => {
  assert.deepEqual(nameFaults(projectPaths()), []);
  const bad = ['src/base/string-utils.ts', 'src/common/x.ts', 'src/queue-manager.ts', 'src/a/fooBar.ts'];
  assert.equal(nameFaults(bad).length, bad.length, 'control: meaningless names are found');
  assert.deepEqual(nameFaults(['src/mail/uncommonly.ts', 'test/faults/a-b.slow.test.ts']), []);
});

test('the project contains no secret and no local path', () => {
  assert.deepEqual(leakFaults(textFiles()), []);
  const leaks = [
    'see /work/shared/x',
    'cd /root/project',
    "folder: '/tmp/bench/x'",
    `key ${'pr_live_'}${'a'.repeat(30)}`,
    `${'whsec_'}${'Q'.repeat(32)}`,
    `-----BEGIN PRIVATE KEY-----\n${'M'.repeat(60)}`,
  ];
  for (const text of leaks) assert.equal(leakFaults([{ path: 'x', text }]).length, 1, `control: ${text.slice(0, 20)}`);
});

test('no code contains a control character', () => {
  assert.deepEqual(controlFaults(textFiles()), []);
  assert.equal(controlFaults([{ path: 'x.ts', text: `/${'\b'}word/` }]).length, 1, 'control');
});

test('only the settings table reads the environment', () => {
  assert.deepEqual(environmentFaults(productFiles()), []);
  const reader = { path: 'src/send/accept.ts', text: 'const x = process.env.X;' };
  assert.equal(environmentFaults([reader]).length, 1, 'control: another reader is found');
});

test('the code contains no markers of unfinished work', () => {
  assert.deepEqual(unfinishedFaults(code.filter((file) => !RULES.test(file.path))), []);
  assert.equal(unfinishedFaults([{ path: 'x.ts', text: `// ${'TO'}DO: later` }]).length, 1, 'control');
});
