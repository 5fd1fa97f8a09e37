/** The documents that are made from the code are what the code says, and those written by hand name what exists. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { configDocument, errorCodesModule, errorsDocument, openapiDocument } from '../../scripts/documents.ts';
import { catalogue } from '../../src/base/failure.ts';
import { runCommandLine } from '../../src/cli/command-line.ts';
import { settings } from '../../src/config.ts';
import { readFiles, root, type SourceFile } from './source-tree.ts';

const read = (name: string): string => readFileSync(path.join(root, name), 'utf8');

test('docs/errors.md is the catalogue of refusals', () => {
  assert.equal(read('docs/errors.md'), errorsDocument(), 'run: npm run docs');
  const altered = { ...catalogue, NOT_FOUND: { ...catalogue.NOT_FOUND, status: 410 } };
  assert.notEqual(errorsDocument(altered), errorsDocument(), 'control: another status makes another document');
});

test('the portal has the sentence of every code', () => {
  assert.equal(read('portal/src/texts/error-codes.ts'), errorCodesModule(), 'run: npm run docs');
  const altered = { ...catalogue, NOT_FOUND: { ...catalogue.NOT_FOUND, text: 'Gone.' } };
  assert.notEqual(errorCodesModule(altered), errorCodesModule(), 'control: another sentence makes another file');
});

test('docs/config.md is the table of settings', () => {
  assert.equal(read('docs/config.md'), configDocument(), 'run: npm run docs');
  const altered = { ...settings, extra: { name: 'POSTRIDER_EXTRA', shown: 'none', meaning: 'nothing' } };
  assert.notEqual(configDocument(altered), configDocument(), 'control: another setting makes another document');
});

test('docs/openapi.json is what the service says of itself', async () => {
  assert.equal(read('docs/openapi.json'), await openapiDocument(), 'run: npm run docs');
});

/** Relative links that lead nowhere. */
function deadLinks(files: SourceFile[]): string[] {
  return files.flatMap((file) =>
    [...file.text.matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)/g)]
      .map((match) => match[1]!)
      .filter((link) => !existsSync(path.join(root, path.dirname(file.path), link)))
      .map((link) => `${file.path}: ${link} does not exist`),
  );
}

test('every link between documents leads somewhere', () => {
  assert.deepEqual(deadLinks(readFiles(['*.md', 'docs/**/*.md'])), []);
  assert.equal(deadLinks([{ path: 'README.md', text: '[x](docs/nowhere.md)' }]).length, 1, 'control');
});

/** Tests, sources and scripts named in backquotes that do not exist; the ending may be left out, and wildcards mean any. */
function deadMentions(files: SourceFile[]): string[] {
  return files.flatMap((file) =>
    [...file.text.matchAll(/`((?:src|test|scripts|bench|migrations)\/[\w./-]+)`/g)]
      .map((match) => match[1]!.replace(/\/$/, ''))
      .filter((name) => globSync([name, `${name}.*`], { cwd: root }).length === 0)
      .map((name) => `${file.path}: ${name} does not exist`),
  );
}

test('every file that the documents name exists', () => {
  assert.deepEqual(deadMentions(readFiles(['*.md', 'docs/**/*.md'])), []);
  assert.equal(deadMentions([{ path: 'x.md', text: 'kept by `test/faults/nothing`' }]).length, 1, 'control');
});

/** Commands of the command line that the documents name in backquotes or blocks, and that do not exist. */
function unknownCommands(files: SourceFile[], help: string): string[] {
  const known = [...help.matchAll(/^ {2}postrider ([a-z-]+)(?: ([a-z][a-z-]*))?/gm)].map(([, ...words]) => words);
  return files.flatMap((file) =>
    [...file.text.matchAll(/(?:`|npx )postrider ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?/g)]
      .filter(([, first, second]) => !known.some(([one, other]) => one === first && (!other || other === second)))
      .map(([command]) => `${file.path}: there is no command ${command}`),
  );
}

test('every command that the documents name exists', async () => {
  const shown: string[] = [];
  const streams = { out: (text: string) => shown.push(text), err: () => undefined };
  assert.equal(await runCommandLine(['--help'], {}, streams), 0);
  const help = shown.join('');
  assert.deepEqual(unknownCommands(readFiles(['README.md', 'docs/**/*.md', 'deploy/*.*']), help), []);
  const wrong = [{ path: 'x.md', text: '`npx postrider account remove acc_1` and `postrider invoice`' }];
  assert.equal(unknownCommands(wrong, help).length, 2, 'control');
});

/** Lines of fenced shell blocks that install, start or test the project. */
function npmCommands(markdown: string): string[] {
  return [...markdown.matchAll(/^```(?:sh|bash|console)?\n([\s\S]*?)^```/gm)]
    .flatMap((block) => block[1]!.split('\n'))
    .map((line) => line.replace(/^\$ /, '').trim())
    .filter((line) => line.startsWith('npm '));
}

test('README gives two commands: one to run it, one to test it', () => {
  assert.deepEqual(npmCommands(read('README.md')), ['npm ci && npm start', 'npm ci && npm test']);
  const more = '```sh\nnpm ci && npm start\nnpm run build\n```\n';
  assert.deepEqual(npmCommands(more), ['npm ci && npm start', 'npm run build'], 'control: a third command is seen');
});

test('README and ARCHITECTURE name every room of src', () => {
  const rooms = new Set(readFiles(['src/*/**/*.ts']).map((file) => file.path.split('/')[1]!));
  const text = read('ARCHITECTURE.md');
  assert.deepEqual(
    [...rooms].filter((room) => !text.includes(`src/${room}/`)),
    [],
  );
});
