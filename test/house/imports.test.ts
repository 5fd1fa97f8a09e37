/** Imports point down, and other folders import only the interface. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { importCircles, importFaults, packagesReached } from './import-rules.ts';
import { importsOf, productFiles } from './source-tree.ts';

test('imports of the product point down and use a public module', () => {
  const files = productFiles();
  assert.ok(files.length > 10, 'there are files to check');
  assert.deepEqual(importFaults(files), []);
});

test('there are no import cycles, including type imports', () => {
  assert.deepEqual(importCircles(productFiles()), []);
});

test('database threads load no package', () => {
  assert.deepEqual(packagesReached(productFiles(), 'src/roles/operations.ts'), []);
  const heavy = [
    { path: 'src/a/a.ts', text: "import { b } from './b.ts';\nimport type { T } from 'typebox';\n" },
    { path: 'src/a/b.ts', text: "import fs from 'node:fs';\nimport { Type } from 'typebox';\n" },
  ];
  assert.deepEqual(packagesReached(heavy, 'src/a/a.ts'), ['typebox by src/a/b.ts'], 'control');
});

test('the product loads only packages that are installed with it', () => {
  const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as { dependencies: object };
  const loaded = packagesReached(productFiles(), 'src/main.ts').map((one) => one.split(' ')[0]!);
  assert.ok(loaded.includes('undici'), 'control');
  const isInstalled = (one: string): boolean =>
    Object.keys(dependencies).some((name) => one === name || one.startsWith(`${name}/`));
  assert.deepEqual(
    loaded.filter((one) => !isInstalled(one)),
    [],
  );
});

test('imports are found in every syntax', () => {
  const text = [
    "import fs from 'node:fs';",
    "import type { A } from './a.ts';",
    'import {\n  type B,\n  b,\n} from "double.ts";'.replaceAll('"', "'"),
    "export { c } from '../c/c.ts';",
    "import './effect.ts';",
    "const d = await import('./d.ts');",
    "new Worker(new URL('./e.ts', import.meta.url));",
  ].join('\n');
  const found = importsOf({ path: 'src/x/x.ts', text }).map((one) => one.target ?? one.specifier);
  const wanted = ['node:fs', 'src/x/a.ts', 'double.ts', 'src/c/c.ts', 'src/x/effect.ts', 'src/x/d.ts', 'src/x/e.ts'];
  assert.deepEqual(found.sort(), wanted.sort());
});

const broken: [name: string, path: string, target: string, expected: RegExp][] = [
  ['upwards', 'src/work/work.ts', '../delivery/delivery.ts', /does not stand below/],
  ['sideways', 'src/accounts/accounts.ts', '../domains/domains.ts', /does not stand below/],
  ['past the public module', 'src/send/accept.ts', '../messages/message.ts', /import its public module/],
  ['a store imported outside of operations', 'src/roles/serve.ts', '../messages/store.ts', /import its public module/],
  [
    'a schema imported outside of routes',
    'src/messages/message.ts',
    '../events/event-schema.ts',
    /import its public module/,
  ],
  ['routes imported from a lower layer', 'src/delivery/worker.ts', '../api/messages.ts', /by roles only/],
  ['routes imported by the folder they serve', 'src/messages/message.ts', '../api/messages.ts', /by roles only/],
  ['the internals of another folder', 'src/api/messages.ts', '../send/accept.ts', /import its public module/],
  [
    'the internals of a folder with a shorter name',
    'src/api/inbound-routes.ts',
    '../inbound/store.ts',
    /public module/,
  ],
  ['the settings', 'src/send/accept.ts', '../config.ts', /come in as arguments/],
  ['tests', 'src/send/accept.ts', '../../test/kit/fake-clock.ts', /nothing outside src/],
  ['an unknown folder', 'src/shop/shop.ts', '../base/ids.ts', /has no level/],
];
for (const [name, path, target, expected] of broken) {
  test(`control: a forbidden import is found: ${name}`, () => {
    assert.match(importFaults([{ path, text: `import { x } from '${target}';\n` }]).join('\n'), expected);
  });
}

test('control: I/O in mail and a third-party package in base are found', () => {
  const faults = importFaults([
    { path: 'src/mail/compose.ts', text: "import { readFileSync } from 'node:fs';\n" },
    { path: 'src/base/ids.ts', text: "import { nanoid } from 'nanoid';\n" },
  ]);
  assert.equal(faults.length, 2);
});

test('control: allowed imports pass', () => {
  const allowed: [string, string][] = [
    ['src/roles/api.ts', '../api/messages.ts'],
    ['src/roles/operations.ts', '../send/acceptance.ts'],
    ['src/api/accounts.ts', '../send/send.ts'],
    ['src/api/accounts-logo.ts', '../accounts/store.ts'],
    ['src/delivery/worker.ts', '../messages/messages.ts'],
    ['src/messages/messages.ts', '../events/events.ts'],
    ['src/send/accept.ts', '../mail/address.ts'],
    ['src/main.ts', './config.ts'],
    ['src/api/messages.ts', '../events/event-schema.ts'],
  ];
  const files = allowed.map(([path, target]) => ({ path, text: `import { x } from '${target}';\n` }));
  assert.deepEqual(importFaults(files), []);
});

test('control: cycles are found, without files that only lead to one', () => {
  const circle = [
    { path: 'src/a/a.ts', text: "import { b } from './b.ts';\n" },
    { path: 'src/a/b.ts', text: "import { c } from './c.ts';\nimport { d } from './d.ts';\n" },
    { path: 'src/a/c.ts', text: "import type { A } from './a.ts';\n" },
    { path: 'src/a/d.ts', text: '' },
    { path: 'src/a/e.ts', text: "import { a } from './a.ts';\nnew Worker(new URL('./e.ts', import.meta.url));\n" },
  ];
  assert.deepEqual(importCircles(circle), [['src/a/a.ts', 'src/a/b.ts', 'src/a/c.ts']]);
  assert.deepEqual(importCircles(circle.slice(1)), [], 'without one of its files');
});
