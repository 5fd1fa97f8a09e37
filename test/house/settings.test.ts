/** Every setting is used. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { settings } from '../../src/config.ts';
import { productFiles, type SourceFile } from './source-tree.ts';

/** Returns the settings whose value no file outside the table reads. */
function unread(files: SourceFile[]): string[] {
  return Object.entries(settings)
    .filter(([key]) => !files.some((file) => new RegExp(`(?<!settings\\.)\\b${key}\\b`).test(file.text)))
    .map(([, setting]) => setting.name);
}

test('every setting is read', () => {
  // In the table's own file, only what follows the table, where one setting may complete another.
  const files = productFiles()
    .filter((file) => file.path === 'src/config.ts' || !file.path.startsWith('src/config'))
    .map((file) =>
      file.path === 'src/config.ts' ? { ...file, text: file.text.split('function readConfig')[1]! } : file,
    );
  assert.deepEqual(unread(files), []);
  assert.equal(unread([{ path: 'x.ts', text: 'settings.route.name' }]).length, Object.keys(settings).length, 'control');
});
