/**
 * The portal uses the service only through its generated client, its files import each other in one direction, all visible text is in its
 * text files, and users see the error of every change that fails.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { importCircles } from './import-rules.ts';
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

/** What the files of a folder import, besides the client of the API. */
const ALLOWED: Record<string, RegExp> = {
  texts: /^portal\/src\/(?:texts|parts)\//,
  parts: /^portal\/src\/(?:texts\/|parts\/|[a-z-]+\.tsx?$)/,
};

function upwardImports(files: SourceFile[]): string[] {
  return files.flatMap((file) => {
    const allowed = ALLOWED[file.path.split('/')[2] ?? ''];
    if (allowed === undefined) return [];
    return importsOf(file)
      .filter(({ target }) => target?.startsWith('portal/') && !allowed.test(target))
      .map(({ target }) => `${file.path} imports ${target}`);
  });
}

/** Returns the text from an opening parenthesis to the closing one. */
function inParentheses(text: string, start: number): string {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    if (text[at] === '(') depth += 1;
    if (text[at] === ')') depth -= 1;
    if (depth === 0) return text.slice(start, at + 1);
  }
  return text.slice(start);
}

const allAfter = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map(({ index, 0: found }) => inParentheses(text, index + found.length - 1));

const MUTATION = /const (\{[^}]*\}|\w+) = use(?:Change|Mutation)\(/g;

/** Returns whether the component uses the error of a change. The promise of `mutateAsync` rejects with it. */
function isErrorUsed(component: string, name: string, options: string): boolean {
  if (options.includes('onError')) return true;
  const isObject = !name.startsWith('{');
  if (isObject ? component.includes(`${name}.error`) : /\berror\b/.test(name)) return true;
  const calls = allAfter(component, isObject ? new RegExp(`\\b${name}\\s*\\.mutate\\(`, 'g') : /\bmutate\(/g);
  const isAwaited = isObject && new RegExp(`\\b${name}\\s*\\.mutateAsync\\(`).test(component);
  return calls.every((call) => call.includes('onError')) && (calls.length > 0 || isAwaited);
}

/** Changes whose errors no user sees. */
function lostErrors(files: SourceFile[]): string[] {
  return files.flatMap(({ path, text }) =>
    text.split(/^(?=(?:export )?(?:default )?(?:async )?function )/m).flatMap((component) =>
      [...component.matchAll(MUTATION)]
        .map(({ index, 0: found, 1: name }) => ({
          name: name!,
          options: inParentheses(component, index + found.length - 1),
        }))
        .filter(({ name, options }) => !isErrorUsed(component, name, options))
        .map(({ name }) => `${path}: ${name}`),
    ),
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

test('files of the portal are in no import cycle', () => {
  assert.deepEqual(importCircles(product()), []);
  const [a, b] = ['portal/src/a.ts', 'portal/src/b.ts'];
  const wrong = [
    { path: a, text: "const page = () => import('./b.ts');\n" },
    { path: b, text: "import type { A } from './a.ts';\n" },
  ];
  assert.deepEqual(importCircles(wrong), [[a, b]], 'control');
});

test('texts import only the client and parts, and parts no page', () => {
  assert.deepEqual(upwardImports(product()), []);
  const wrong = [
    { path: 'portal/src/texts/a.ts', text: "import type { A } from '../pages/a/a.ts';\n" },
    { path: 'portal/src/parts/b.tsx', text: "import { B } from '../pages/b/b.tsx';\n" },
  ];
  assert.equal(upwardImports(wrong).length, 2, 'control');
});

test('the error of a failed change is displayed', () => {
  assert.deepEqual(lostErrors(product().filter(({ path }) => path !== 'portal/src/api.ts')), []);
  const wrong = `function A() {
  const { mutate, isPending } = useChange('rotateDomainKeys');
  return <Button onClick={() => mutate({ path: { id } })} />;
}
function B() {
  const save = useMutation({ mutationFn });
  return <Button onClick={() => save.mutate()} />;
}
function C() {
  const save = useChange('saveFilter');
  save.mutate({ body }, { onSuccess: () => close() });
  return <Problem error={save.error} />;
}
function D() {
  const end = useChange('endSession');
  end.mutate({}, { onSuccess: () => done(texts.ended()), onError: failed });
}
`;
  assert.deepEqual(
    lostErrors([{ path: 'a.tsx', text: wrong }]),
    ['a.tsx: { mutate, isPending }', 'a.tsx: save'],
    'control',
  );
});
