/**
 * Prints the size and structure of the tree: `node scripts/figures.ts [ROOT] [--list]`, where ROOT is another checkout with its packages
 * installed. Lines and files of src by folder without tests, long functions, import cycles, branches by dialect, runtime packages, and the
 * files that one message passes; `--list` lists those.
 */
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { importCircles } from '../test/house/import-rules.ts';
import { FUNCTION_LINES_AT_MOST, longFunctions, SCOPE_LINES_AT_MOST } from '../test/house/size-rules.ts';
import { productFiles } from '../test/house/source-tree.ts';
import { messageFiles } from './message-files.ts';

const [given] = process.argv.slice(2).filter((one) => !one.startsWith('--'));
const root = path.resolve(given ?? path.dirname(import.meta.dirname));
const list = process.argv.includes('--list');
const files = productFiles(root);

const row = (name: string, ...counts: number[]): void =>
  console.log(`${name.padEnd(44)}${counts.map((count) => String(count).padStart(8)).join('')}`);
const lines = (text: string): number => text.split('\n').length - 1;

console.log(`${'src without tests'.padEnd(44)}   lines   files`);
const folders = Map.groupBy(files, ({ path: file }) => file.split('/').slice(1, -1).join('/') || '(src itself)');
for (const [folder, held] of [...folders].sort(([one], [other]) => one.localeCompare(other))) {
  row(
    `  ${folder}`,
    held.reduce((sum, { text }) => sum + lines(text), 0),
    held.length,
  );
}
row(
  '  all',
  files.reduce((sum, { text }) => sum + lines(text), 0),
  files.length,
);

const long = longFunctions(files);
row(`functions over ${FUNCTION_LINES_AT_MOST} lines, scopes over ${SCOPE_LINES_AT_MOST}`, long.length);
for (const one of long) {
  console.log(`  ${one.path}:${one.line} ${one.name}: ${one.ownLines} lines, ${one.scopeLines} with its closures`);
}

const circles = importCircles(files);
row('circles of imports (those of types count)', circles.length);
for (const circle of circles) console.log(`  ${circle.length} files: ${circle.join(' ')}`);

const branches = files.flatMap(({ path: file, text }) => (text.match(/\bdialect\s*[!=]==/g) ?? []).map(() => file));
row(`branches by dialect, in ${new Set(branches).size} files`, branches.length);

const packages = execFileSync('npm', ['ls', '--omit=dev', '--all', '--parseable'], { cwd: root, encoding: 'utf8' });
row('packages at run time', new Set(packages.trim().split('\n').slice(1)).size);

const passed = await messageFiles(root);
row('files of src that one message passes', passed.length);
if (list) for (const file of passed) console.log(`  ${file}`);
