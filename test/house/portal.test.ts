/** The portal uses the service only through its generated client, and all visible text is in its text files. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { importsOf, readFiles, type SourceFile } from './source-tree.ts';

const CLIENT = 'clients/typescript/src/';

function strayImports(files: SourceFile[]): string[] {
  return files.flatMap((file) =>
    importsOf(file)
      .filter(({ target }) => target !== undefined && !target.startsWith('portal/') && !target.startsWith(CLIENT))
      .map(({ target }) => `${file.path} imports ${target}`),
  );
}

/** Text between tags, and in visible attributes: `>Send it<`, `label="Name"`. */
const IN_TAGS = />\s*[A-Z][a-z]+(?: [a-z]+)*[.!?]?\s*<\/|(?:label|title|placeholder|aria-label|description)="[A-Z]/;

function straysInTags(files: SourceFile[]): string[] {
  return files.flatMap(({ path, text }) =>
    text.split('\n').flatMap((line, index) => (IN_TAGS.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  );
}

const product = (): SourceFile[] =>
  readFiles(['portal/src/**/*.{ts,tsx}']).filter(({ path }) => !path.endsWith('.test.ts'));

test('the portal imports only the client from the service', () => {
  const files = product();
  assert.ok(files.length > 40, 'there are files to check');
  assert.deepEqual(strayImports(files), []);
  const wrong = { path: 'portal/src/a.tsx', text: "import { x } from '../../src/base/ids.ts';\n" };
  assert.deepEqual(strayImports([wrong]), ['portal/src/a.tsx imports src/base/ids.ts'], 'control');
});

test('visible text is in texts/, not in components', () => {
  assert.deepEqual(straysInTags(product().filter(({ path }) => path.endsWith('.tsx'))), []);
  const wrong = { path: 'a.tsx', text: '<Button>Send it</Button>\n<TextInput label="Name" />\n<b>{texts.name}</b>' };
  assert.equal(straysInTags([wrong]).length, 2, 'control');
});
