/** Generated documents match the code, and names in written documents exist. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import {
  apiDocument,
  configDocument,
  errorCodesModule,
  errorsDocument,
  openapiDocument,
} from '../../scripts/documents.ts';
import { errorCatalog } from '../../src/base/failure.ts';
import { runCommandLine } from '../../src/cli/command-line.ts';
import { settings } from '../../src/config.ts';
import { createLiquid } from '../../src/templates/language.ts';
import { readFiles, root, type SourceFile } from './source-tree.ts';

const read = (name: string): string => readFileSync(path.join(root, name), 'utf8');

test('docs/reference/errors.md is generated from the error codes', () => {
  assert.equal(read('docs/reference/errors.md'), errorsDocument(), 'run: npm run docs');
  const altered = { ...errorCatalog, NOT_FOUND: { ...errorCatalog.NOT_FOUND, status: 410 } };
  assert.notEqual(errorsDocument(altered), errorsDocument(), 'control: another status changes the document');
});

test('the portal has a message for every error code', () => {
  assert.equal(read('portal/src/texts/error-codes.ts'), errorCodesModule(), 'run: npm run docs');
  const altered = { ...errorCatalog, NOT_FOUND: { ...errorCatalog.NOT_FOUND, text: 'Gone.' } };
  assert.notEqual(errorCodesModule(altered), errorCodesModule(), 'control: another message changes the file');
});

test('docs/reference/settings.md is generated from the settings table', () => {
  assert.equal(read('docs/reference/settings.md'), configDocument(), 'run: npm run docs');
  const altered = { ...settings, extra: { name: 'POSTRIDER_EXTRA', shown: 'none', meaning: 'nothing' } };
  assert.notEqual(configDocument(altered), configDocument(), 'control: another setting changes the document');
});

test("docs/openapi.json matches the service's own document", async () => {
  assert.equal(read('docs/openapi.json'), await openapiDocument(), 'run: npm run docs');
});

test('docs/reference/api.md lists every API call', () => {
  const openapi = read('docs/openapi.json');
  assert.equal(read('docs/reference/api.md'), apiDocument(openapi), 'run: npm run docs');
  assert.match(apiDocument(openapi), /^\| `POST \/send` \|/m);
  assert.notEqual(apiDocument(openapi.replaceAll('"/send"', '"/sent"')), apiDocument(openapi), 'control');
});

/** Returns the anchors of a page's headings, as GitHub and the static site create them. */
function anchorsOf(markdown: string): Set<string> {
  const seen = new Map<string, number>();
  const prose = markdown.replace(/^```[\s\S]*?^```$/gm, '');
  return new Set(
    [...prose.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading]) => {
      const slug = heading!
        .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .trim()
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, '')
        .replace(/\s/g, '-');
      const earlier = seen.get(slug) ?? 0;
      seen.set(slug, earlier + 1);
      return earlier === 0 ? slug : `${slug}-${earlier}`;
    }),
  );
}

/** Returns links to missing files, and to anchors without a heading. */
function deadLinks(files: SourceFile[]): string[] {
  return files.flatMap((file) =>
    [...file.text.matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].flatMap(([, link = '', anchor]) => {
      const target = link === '' ? file.path : path.join(path.dirname(file.path), link);
      if (!existsSync(path.join(root, target))) return [`${file.path}: ${link} does not exist`];
      if (!anchor || !target.endsWith('.md')) return [];
      const text = files.find((one) => one.path === target)?.text ?? read(target);
      return anchorsOf(text).has(anchor) ? [] : [`${file.path}: ${link}#${anchor} is no heading`];
    }),
  );
}

test('every link between documents resolves, including anchors', () => {
  assert.deepEqual(deadLinks(readFiles(['*.md', 'docs/**/*.md', 'clients/*/README.md'])), []);
  const wrong =
    '# Two words, `code`\n\n## Again\n\n## Again\n\n[x](docs/nowhere.md) [y](#nothing) [z](README.md#again-1)';
  assert.deepEqual(deadLinks([{ path: 'x.md', text: '[x](docs/nowhere.md)' }]), [
    'x.md: docs/nowhere.md does not exist',
  ]);
  assert.deepEqual([...anchorsOf(wrong)], ['two-words-code', 'again', 'again-1'], 'control');
  assert.deepEqual(
    deadLinks([{ path: 'README.md', text: wrong }]),
    ['README.md: docs/nowhere.md does not exist', 'README.md: #nothing is no heading'],
    'control',
  );
});

/** Returns pages below docs/ that docs/README.md does not list. */
function unlistedPages(index: string, pages: string[]): string[] {
  const listed = new Set([...index.matchAll(/\]\(([^)#\s]+\.md)/g)].map(([, link]) => path.join('docs', link!)));
  return pages.filter((page) => page !== 'docs/README.md' && !listed.has(page));
}

test('docs/README.md lists every page', () => {
  const pages = readFiles(['docs/*.md', 'docs/*/*.md'])
    .map((file) => file.path)
    .filter((page) => !page.startsWith('docs/decisions/0000'));
  assert.deepEqual(unlistedPages(read('docs/README.md'), pages), []);
  assert.deepEqual(unlistedPages('[a](guides/a.md)', ['docs/guides/a.md', 'docs/b.md']), ['docs/b.md'], 'control');
});

/** Returns tests, sources and scripts in backquotes that do not exist; the extension may be omitted, and wildcards are allowed. */
function deadMentions(files: SourceFile[]): string[] {
  return files.flatMap((file) =>
    [...file.text.matchAll(/`((?:src|test|scripts|bench|migrations)\/[\w./-]+)`/g)]
      .map((match) => match[1]!.replace(/\/$/, ''))
      .filter((name) => globSync([name, `${name}.*`], { cwd: root }).length === 0)
      .map((name) => `${file.path}: ${name} does not exist`),
  );
}

test('every file that the docs name exists', () => {
  assert.deepEqual(deadMentions(readFiles(['*.md', 'docs/**/*.md'])), []);
  assert.equal(deadMentions([{ path: 'x.md', text: 'kept by `test/faults/nothing`' }]).length, 1, 'control');
});

/** Returns commands in backquotes or code blocks that do not exist. */
function unknownCommands(files: SourceFile[], help: string): string[] {
  const known = [...help.matchAll(/^ {2}postrider ([a-z-]+)(?: ([a-z][a-z-]*))?/gm)].map(([, ...words]) => words);
  return files.flatMap((file) =>
    [...file.text.matchAll(/(?:`|npx )postrider ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?/g)]
      .filter(([, first, second]) => !known.some(([one, other]) => one === first && (!other || other === second)))
      .map(([command]) => `${file.path}: there is no command ${command}`),
  );
}

test('every command that the docs name exists', async () => {
  const shown: string[] = [];
  const streams = { out: (text: string) => shown.push(text), err: () => undefined };
  assert.equal(await runCommandLine(['--help'], {}, streams), 0);
  const help = shown.join('');
  assert.deepEqual(unknownCommands(readFiles(['README.md', 'docs/**/*.md', 'deploy/*.*']), help), []);
  const wrong = [{ path: 'x.md', text: '`npx postrider account remove acc_1` and `postrider invoice`' }];
  assert.equal(unknownCommands(wrong, help).length, 2, 'control');
});

/** Returns commands that help lists and a page does not. */
function undocumented(help: string, page: string): string[] {
  const known = [...help.matchAll(/^ {2}postrider ([a-z-]+(?: [a-z][a-z-]*)?)/gm)].map(([, name]) => name!);
  return known.filter((name) => !page.includes(`\`postrider ${name}\``));
}

test('docs/reference/cli.md lists every command', async () => {
  const shown: string[] = [];
  const streams = { out: (text: string) => shown.push(text), err: () => undefined };
  assert.equal(await runCommandLine(['--help'], {}, streams), 0);
  assert.deepEqual(undocumented(shown.join(''), read('docs/reference/cli.md')), []);
  assert.deepEqual(
    undocumented('  postrider queue clear <id>\n', '`postrider queue status`'),
    ['queue clear'],
    'control',
  );
});

test('docs/guides/templates.md lists every tag and filter', () => {
  const page = read('docs/guides/templates.md');
  const { tags, filters } = createLiquid('html');
  assert.deepEqual(
    Object.keys(filters).filter((name) => !page.includes(`\`${name}\``)),
    [],
  );
  assert.deepEqual(
    Object.keys(tags).filter((name) => !page.includes(`{% ${name} %}`)),
    [],
  );
  assert.ok(Object.keys(filters).length > 80, 'control');
});

/** Returns lines of shell blocks that install, start or test the project. */
function npmCommands(markdown: string): string[] {
  return [...markdown.matchAll(/^```(?:sh|bash|console)?\n([\s\S]*?)^```/gm)]
    .flatMap((block) => block[1]!.split('\n'))
    .map((line) => line.replace(/^\$ /, '').trim())
    .filter((line) => line.startsWith('npm '));
}

test('README has exactly two npm commands: one to run and one to test', () => {
  assert.deepEqual(npmCommands(read('README.md')), ['npm ci && npm start', 'npm ci && npm test']);
  const more = '```sh\nnpm ci && npm start\nnpm run build\n```\n';
  assert.deepEqual(npmCommands(more), ['npm ci && npm start', 'npm run build'], 'control: a third command is found');
});

test('README and ARCHITECTURE list every folder of src', () => {
  const rooms = new Set(readFiles(['src/*/**/*.ts']).map((file) => file.path.split('/')[1]!));
  const text = read('ARCHITECTURE.md');
  assert.deepEqual(
    [...rooms].filter((room) => !text.includes(`src/${room}/`)),
    [],
  );
});
