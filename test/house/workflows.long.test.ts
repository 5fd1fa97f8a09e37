/** GitHub's workflows pass actionlint, use only pinned actions, and have no more permissions than they need. They are not run here. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { releaseNotes } from '../../scripts/release-notes.ts';
import { noTestTools, toolPath } from '../kit/test-tools.ts';
import { root } from './source-tree.ts';

const files = globSync('.github/workflows/*.yml', { cwd: root }).sort();
const read = (name: string): string => readFileSync(path.join(root, name), 'utf8');

// biome-ignore lint/suspicious/noExplicitAny: workflows are read by path
type Workflow = any;

/** Names that GitHub has and that this version of actionlint does not know. */
const NEWER = /^label "ubuntu-24\.04(-arm)?" is unknown|^unknown permission scope "attestations"/;

async function lintFaults(text: string): Promise<string[]> {
  const { createLinter } = await import(toolPath('actionlint/node.mjs'));
  const lint = await createLinter();
  const found: { line: number; message: string }[] = lint(text, '.github/workflows/one.yml');
  return found.filter(({ message }) => !NEWER.test(message)).map(({ line, message }) => `${line}: ${message}`);
}

test('actionlint accepts the workflows', { skip: noTestTools() }, async () => {
  assert.deepEqual(files, ['.github/workflows/checks.yml', '.github/workflows/release.yml']);
  for (const file of files) assert.deepEqual(await lintFaults(read(file)), [], file);
  const wrong = read(files[0]!).replace('matrix.part', 'matrix.parts').replace('timeout-minutes', 'timeout');
  assert.equal((await lintFaults(wrong)).length, 2, 'control: a wrong name and a wrong key are found');
});

/** Returns actions that are not pinned to a commit, or whose version is not written next to it. */
function loosePins(text: string): string[] {
  return [...text.matchAll(/^ *(?:- )?uses: (.*)$/gm)]
    .map(([, uses]) => uses!)
    .filter((uses) => !/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(uses));
}

test('every action is pinned to a commit, one per action', () => {
  const pins = new Map<string, string>();
  for (const file of files) {
    assert.deepEqual(loosePins(read(file)), [], file);
    for (const [, action, commit] of read(file).matchAll(/uses: (\S+)@(.*)$/gm)) {
      assert.equal(pins.get(action!) ?? commit, commit, action!);
      pins.set(action!, commit!);
    }
  }
  assert.ok(pins.size >= 5);
  assert.deepEqual(loosePins('      - uses: actions/checkout@v7'), ['actions/checkout@v7'], 'control');
});

test('a job has only the permissions that it names, and checks cannot write', () => {
  const WRITES: Record<string, string[]> = {
    image: ['packages', 'id-token', 'attestations'],
    chart: ['packages', 'id-token'],
    npm: ['id-token'],
    files: ['contents', 'id-token', 'attestations'],
  };
  for (const file of files) {
    const { permissions, jobs }: Workflow = parse(read(file));
    assert.deepEqual(permissions, {}, file);
    for (const [name, job] of Object.entries<Workflow>(jobs)) {
      const writes = Object.keys(job.permissions).filter((scope) => job.permissions[scope] === 'write');
      assert.deepEqual(writes, file.includes('release') ? (WRITES[name] ?? []) : [], name);
      if (writes.length > 0) assert.equal(job.environment, 'release', `${name} needs a review`);
      assert.ok(job['timeout-minutes'] > 0, name);
      for (const { uses, with: inputs } of job.steps) {
        if (uses?.startsWith('actions/checkout')) assert.equal(inputs['persist-credentials'], false, name);
      }
    }
    assert.doesNotMatch(read(file), /secrets\./, 'no secret: registries trust the identity of the workflow');
    assert.match(read(file), /has\s(# )?never run on GitHub/, 'says what was not tried');
  }
});

test('scripts of the workflows are valid shell, and read values of events from variables', () => {
  for (const file of files) {
    const { jobs }: Workflow = parse(read(file));
    for (const { steps } of Object.values<Workflow>(jobs)) {
      for (const { run } of steps as { run?: string }[]) {
        if (run === undefined) continue;
        const expressions = [...run.matchAll(/\$\{\{ *(\S+) *\}\}/g)].map(([, name]) => name);
        assert.deepEqual(
          expressions.filter((name) => name !== 'matrix.part'),
          [],
        );
        execFileSync('bash', ['-n', '-c', run.replace(/\$\{\{.*?\}\}/g, 'x')], { stdio: 'pipe' });
      }
    }
  }
});

test('the jobs of the matrix run every slow test once', () => {
  const { jobs }: Workflow = parse(read('.github/workflows/checks.yml'));
  const parts: string[] = jobs.test.strategy.matrix.include.map(({ part }: { part: string }) => part);
  assert.equal(parts.length, 4);
  const folders = parts.filter((part) => part.startsWith('slow ')).flatMap((part) => part.split(' ').slice(1));
  const slow = globSync(['src/**/*.{long,slow}.test.ts', 'test/**/*.{long,slow}.test.ts'], {
    cwd: root,
    exclude: (name) => name === 'node_modules',
  });
  assert.ok(slow.length > 100);
  for (const file of slow) {
    const owners = folders.filter((folder) => file.startsWith(`${folder}/`));
    assert.equal(owners.length, 1, file);
  }
});

test('the notes of a release are its section of the changelog, and a wrong tag stops the release', () => {
  const changelog =
    '# Changelog\n\n## [1.1.0] - 2027-01-02\n\n### Added\n\n- One.\n\n## [1.0.0] - unreleased\n\n- Two.\n';
  assert.equal(releaseNotes('1.1.0', changelog, '1.1.0'), '### Added\n\n- One.\n');
  assert.throws(() => releaseNotes('1.0.0', changelog, '1.0.0'), /has no date/);
  assert.throws(() => releaseNotes('1.2.0', changelog, '1.2.0'), /no section \[1\.2\.0\]/);
  assert.throws(() => releaseNotes('1.1.0', changelog, '1.0.0'), /package\.json says 1\.0\.0/);
  const { version } = JSON.parse(read('package.json'));
  const [, heading] = new RegExp(`^## \\[${version}\\] - (.*)$`, 'm').exec(read('CHANGELOG.md'))!;
  const dated = read('CHANGELOG.md').replace(`- ${heading}`, '- 2027-01-02');
  assert.match(releaseNotes(version, dated, version), /^- /m);
});
