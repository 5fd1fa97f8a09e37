/** Shell completion: bash runs its script here, and the scripts of zsh and fish are read as text. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';
import { missing } from '../../test/kit/requirements.ts';

test('bash completes commands, options, option values, and files', { skip: missing('bash') }, async (t) => {
  const { folder, run } = commandFolder(t);
  const script = path.join(folder, 'completion.bash');
  writeFileSync(script, (await run(['completion', 'bash'])).stdout);
  writeFileSync(path.join(folder, 'my report.pdf'), '');
  /** Returns the candidates when Tab is pressed after these words; the last word is incomplete. */
  const offered = (...words: string[]): string[] => {
    const line = `source ${script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _postrider; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const ran = spawnSync('bash', ['-c', line, 'bash', 'postrider', ...words], { cwd: folder, encoding: 'utf8' });
    assert.equal(ran.status, 0, ran.stderr);
    assert.equal(ran.stderr, '');
    return ran.stdout.split('\n').filter(Boolean);
  };
  const all = offered('');
  for (const word of ['serve', 'account', 'send', 'completion', '--version']) assert.ok(all.includes(word), word);
  assert.deepEqual(offered('acc'), ['account']);
  assert.deepEqual(offered('account', 's'), ['show', 'set']);
  assert.deepEqual(offered('account', 'create', '--'), ['--name', '--plan', '--help', '--json']);
  assert.deepEqual(offered('account', 'create', '--name', 'Acme', '--p'), ['--plan']);
  assert.deepEqual(offered('account', 'create', '--plan', ''), ['free', 'paid', 'enterprise']);
  assert.deepEqual(offered('--json', 'account', 'set', 'acc_1', '--status', 's'), ['suspended']);
  assert.deepEqual(offered('account', 'create', '--name', ''), [], 'a name has no candidates');
  assert.deepEqual(offered('send', '--attach', 'my'), ['my report.pdf']);
  assert.ok(offered('restore', 'my').includes('my report.pdf'));
  assert.deepEqual(offered('nothing', ''), []);
});

test('zsh and fish offer the same completions', async (t) => {
  const { run, json } = commandFolder(t);
  const zsh = (await run(['completion', 'zsh'])).stdout;
  assert.match(zsh, /^#compdef postrider\n/);
  assert.match(zsh, /'account create'\|'account create '\*\)/);
  assert.match(zsh, /--plan\) compadd -- free paid enterprise; return ;;/);
  assert.match(zsh, /'create:Create an account with a live and a sandbox API key'/);
  assert.match(zsh, /'doctor:Check configuration, data directory/);
  const { script: fish } = await json('completion', 'fish');
  assert.match(
    fish,
    /-n '__fish_seen_subcommand_from account; and not __fish_seen_subcommand_from create list show set' -a 'show' -d 'Show an account'/,
  );
  assert.match(
    fish,
    /__fish_seen_subcommand_from account; and __fish_seen_subcommand_from create' -l plan -x -a 'free paid enterprise'/,
  );
  assert.match(fish, /-n '__fish_seen_subcommand_from send' -l attach -r -F/);
});
