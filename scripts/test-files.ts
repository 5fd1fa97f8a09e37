/**
 * Which files of tests there are, which of them can share a process, and in which order they are best run. A file shares one when
 * nothing it reaches by its imports opens sockets, threads, processes or a server's database, and when it touches nothing that
 * belongs to the whole process: hooks outside a suite, mocks, the environment, memory, or a clock of running time.
 */
import { existsSync, globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { importsOf } from '../test/house/source-tree.ts';

const FOLDERS = [
  'src',
  'test/house',
  'test/flows',
  'test/faults',
  'test/contract',
  'test/peers',
  'test/fuzz',
  'test/dialogs',
];

const OUTSIDE =
  /^(node:(net|tls|https?|http2|dgram|dns|dns\/promises|child_process|worker_threads|cluster|inspector)|pg|undici|fastify)$/;
const OF_THE_PROCESS =
  /^(before|after|beforeEach|afterEach)\(|\bmock\.|\bprocess\.|\bglobalThis\b|\bsetFlagsFromString\b|\bperformance\.|running-time/m;
const ON_POSTGRES = /\b(tempPostgres|DIALECTS|startCluster)\b|'postgres'/;
const ON_S3 = /\b(startS3|startLocalS3|s3Service)\(/;

/** Fast tests, or slow ones, below the paths that are asked for; all of them without any. */
export function testFiles({ slow, below }: { slow: boolean; below: string[] }): string[] {
  return FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.test.ts`))
    .filter((file) => file.endsWith('.slow.test.ts') === slow)
    .filter((file) => below.length === 0 || below.some((one) => file.startsWith(path.normalize(one))))
    .sort();
}

interface Source {
  text: string;
  targets: string[];
  packages: string[];
}

const sources = new Map<string, Source>();

function sourceOf(file: string): Source {
  const known = sources.get(file);
  if (known) return known;
  const text = readFileSync(file, 'utf8');
  const imports = importsOf({ path: file, text }).filter((one) => !one.typeOnly);
  const source = {
    text,
    targets: imports.flatMap(({ target }) => (target?.endsWith('.ts') && existsSync(target) ? [target] : [])),
    packages: imports.flatMap(({ specifier, target }) => (target === undefined ? [specifier] : [])),
  };
  sources.set(file, source);
  return source;
}

/** The file and everything it imports, directly or not. */
function reached(file: string): string[] {
  const found = new Set([file]);
  for (const one of found) for (const target of sourceOf(one).targets) found.add(target);
  return [...found];
}

/** Whether the file can run in one process with others. */
export function canShareProcess(file: string): boolean {
  if (OF_THE_PROCESS.test(sourceOf(file).text)) return false;
  return !reached(file).some((one) => sourceOf(one).packages.some((name) => OUTSIDE.test(name)));
}

/** Whether the file says so, itself or in the part of the tests it is made of, which is not the kit. */
function says(file: string, pattern: RegExp): boolean {
  const own = (one: string): boolean => one === file || (one.startsWith('test/') && !one.startsWith('test/kit/'));
  return reached(file).some((one) => own(one) && pattern.test(sourceOf(one).text));
}

export const isOnPostgres = (file: string): boolean => says(file, ON_POSTGRES);

export const isOnS3 = (file: string): boolean => says(file, ON_S3);

/** Seconds that files took in the last runs on this machine. */
const TIMES = 'node_modules/.cache/postrider-test-seconds.json';

export function recordedSeconds(): Record<string, number> {
  try {
    return JSON.parse(readFileSync(TIMES, 'utf8'));
  } catch {
    return {};
  }
}

export function recordSeconds(seconds: Record<string, number>): void {
  mkdirSync(path.dirname(TIMES), { recursive: true });
  writeFileSync(TIMES, JSON.stringify({ ...recordedSeconds(), ...seconds }, null, 1));
}

/** Bytes of a file that nothing is known of are taken for a second each. */
const BYTES_PER_SECOND = { test: 1_000, src: 5_000 };

/** The longest first, so that no lane is left with a long one while the others are done. */
export function longestFirst(files: string[]): string[] {
  const recorded = recordedSeconds();
  const expected = (file: string): number =>
    recorded[file] ?? statSync(file).size / (file.startsWith('src/') ? BYTES_PER_SECOND.src : BYTES_PER_SECOND.test);
  const seconds = new Map(files.map((file) => [file, expected(file)]));
  return files.toSorted((one, other) => seconds.get(other)! - seconds.get(one)!);
}
