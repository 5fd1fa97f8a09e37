/**
 * A new user who copies the project and runs the README's commands with the machine's npm sees no warnings. The copy has only files that
 * git knows.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { missing } from '../kit/requirements.ts';
import { root } from './source-tree.ts';

interface Ran {
  code: number | null;
  said: string;
}

function run(folder: string, program: string, ...args: string[]): Ran {
  const kept = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_)/i.test(name));
  const PATH = (process.env.PATH ?? '')
    .split(':')
    .filter((one) => !one.includes('node_modules'))
    .join(':');
  const done = spawnSync(program, args, { cwd: folder, env: { ...Object.fromEntries(kept), PATH }, encoding: 'utf8' });
  return { code: done.status, said: done.stdout + done.stderr };
}

test('npm ci and npm test print no warnings', { skip: missing('npm', 'git') }, (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-newcomer-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const listed = run(root, 'git', 'ls-files', '--cached', '--others', '--exclude-standard', '-z');
  assert.equal(listed.code, 0, listed.said);
  for (const file of listed.said.split('\0').filter(Boolean)) {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    cpSync(path.join(root, file), path.join(folder, file));
  }
  const installed = run(folder, 'npm', 'ci', '--prefer-offline');
  assert.equal(installed.code, 0, installed.said);
  assert.match(installed.said, /added \d+ packages/);
  assert.doesNotMatch(installed.said, /warn|EBADENGINE|install-scripts/i);
  const tested = run(folder, 'npm', 'test', '--', 'src/base/ids.test.ts');
  assert.equal(tested.code, 0, tested.said);
  assert.match(tested.said, /tests: [1-9]\d* passed, 0 failed/);
  assert.doesNotMatch(tested.said, /warn/i);

  // With a prefix the command is available everywhere, as docs/reference/cli.md says.
  const prefix = path.join(folder, 'prefix');
  mkdirSync(path.join(prefix, 'lib'), { recursive: true });
  const linked = run(folder, 'env', `npm_config_prefix=${prefix}`, 'npm', 'link');
  assert.equal(linked.code, 0, linked.said);
  const elsewhere = mkdtempSync(path.join(os.tmpdir(), 'postrider-elsewhere-'));
  t.after(() => rmSync(elsewhere, { recursive: true, force: true }));
  const version = run(elsewhere, path.join(prefix, 'bin/postrider'), '--version');
  assert.deepEqual([version.code, version.said], [0, '1.0.0\n']);
});
