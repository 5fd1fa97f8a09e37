/**
 * Finds test files, determines which of them can share a process, and distributes them to processes. Most share one, in sequence, since
 * each ends what it starts: a process with something left running does not end, and fails. A file that changes or counts process-wide state
 * has its own process.
 */
import { existsSync, globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { importsOf } from '../test/house/source-tree.ts';

const FOLDERS = [
  'src',
  'portal/src',
  'test/house',
  'test/flows',
  'test/faults',
  'test/contract',
  'test/clients',
  'test/peers',
  'test/fuzz',
  'test/simulation',
  'test/dialogs',
  'test/portal',
];

/** CAs that all connections of the process trust, the memory of the process, a server that only this file may stop. */
const OF_THE_PROCESS = /\b(setDefaultCACertificates|memoryUsage|ownPostgresServer)\(/;
const ON_POSTGRES = /\b(tempPostgres|DIALECTS|startCluster)\b|'postgres'/;
const ON_S3 = /\b(startS3|startLocalS3|s3Service)\(/;

/** Tests that CI runs next to the fast ones: long ones, several at a time, and slow ones, which need the machine for themselves. */
const OF_CI = /\.(long|slow)\.test\.ts$/;

export const isSlow = (file: string): boolean => file.endsWith('.slow.test.ts');

/** Returns fast tests, or long and slow ones, below the given paths; without paths, all of them. */
export function testFiles({ slow, below }: { slow: boolean; below: string[] }): string[] {
  return FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.test.ts`))
    .filter((file) => OF_CI.test(file) === slow)
    .filter((file) => below.length === 0 || below.some((one) => file.startsWith(path.normalize(one))))
    .sort();
}

interface Source {
  text: string;
  targets: string[];
}

const sources = new Map<string, Source>();

function sourceOf(file: string): Source {
  const known = sources.get(file);
  if (known) return known;
  const text = readFileSync(file, 'utf8');
  const imports = importsOf({ path: file, text }).filter((one) => !one.typeOnly);
  const targets = imports.flatMap(({ target }) => (target?.endsWith('.ts') && existsSync(target) ? [target] : []));
  const source = { text, targets };
  sources.set(file, source);
  return source;
}

/** Returns the file and everything it imports, directly or not. */
function reached(file: string): string[] {
  const found = new Set([file]);
  for (const one of found) for (const target of sourceOf(one).targets) found.add(target);
  return [...found];
}

/** Whether the file can run in one process with others. */
export const canShareProcess = (file: string): boolean => !OF_THE_PROCESS.test(sourceOf(file).text);

/** Whether the file matches, itself or in its test modules outside of the kit. */
function says(file: string, pattern: RegExp): boolean {
  const own = (one: string): boolean => one === file || (one.startsWith('test/') && !one.startsWith('test/kit/'));
  return reached(file).some((one) => own(one) && pattern.test(sourceOf(one).text));
}

export const isOnPostgres = (file: string): boolean => says(file, ON_POSTGRES);

export const isOnS3 = (file: string): boolean => says(file, ON_S3);

/** Whether the file uses the portal in a browser. */
export const isOnPortal = (file: string): boolean => reached(file).includes('test/kit/browser.ts');

/** Whether the file starts the program. */
export const isOnProgram = (file: string): boolean => reached(file).includes('test/kit/start-service.ts');

/** Whether the file uses artifacts of a release. */
export const isOnRelease = (file: string): boolean => reached(file).includes('test/house/release-artifacts.ts');

/** Durations of the longest files, for machines on which they have not run yet. */
const USUAL_DURATIONS = 'test/durations.json';
/** Durations of files in the last runs on this machine. */
const DURATIONS = 'node_modules/.cache/postrider-test-durations.json';

interface Duration {
  seconds: number;
  cpuSeconds: number;
}

/** Returns known durations by file. */
function recordedDurations(): Record<string, Duration> {
  const usual = JSON.parse(readFileSync(USUAL_DURATIONS, 'utf8'));
  try {
    return { ...usual, ...JSON.parse(readFileSync(DURATIONS, 'utf8')) };
  } catch {
    return usual;
  }
}

export function recordDurations(durations: Record<string, Duration>): void {
  mkdirSync(path.dirname(DURATIONS), { recursive: true });
  writeFileSync(DURATIONS, JSON.stringify({ ...recordedDurations(), ...durations }, null, 1));
}

/** Estimate for an unknown file: this many bytes take a second. */
const BYTES_PER_SECOND = { test: 1_000, src: 5_000 };
/** Processes for the files that can share one: few enough that starting them costs little, enough to run several at a time. */
const SHARED_PROCESSES = 12;
/** Minimum per process, if few files run. */
const FILES_TOGETHER = 4;

function expectedSeconds(file: string, recorded: Record<string, Duration>): number {
  const known = recorded[file];
  if (known) return known.seconds;
  return statSync(file).size / (file.startsWith('src/') ? BYTES_PER_SECOND.src : BYTES_PER_SECOND.test);
}

/**
 * Returns the files of each process, longest process first, so that none is left with a long one at the end. Files that can share a process
 * are distributed evenly by duration.
 */
export function processesOf(files: string[]): string[][] {
  const recorded = recordedDurations();
  const expected = new Map(files.map((file) => [file, expectedSeconds(file, recorded)]));
  const sum = (of: string[]): number => of.reduce((total, file) => total + expected.get(file)!, 0);
  const longestFirst = files.toSorted((one, other) => expected.get(other)! - expected.get(one)!);
  const { shared = [], alone = [] } = Object.groupBy(longestFirst, (file) =>
    canShareProcess(file) ? 'shared' : 'alone',
  );
  const count = Math.min(SHARED_PROCESSES, Math.ceil(shared.length / FILES_TOGETHER));
  const processes = Array.from({ length: count }, (): string[] => []);
  for (const file of shared) processes.reduce((least, one) => (sum(one) < sum(least) ? one : least)).push(file);
  return [...processes, ...alone.map((file) => [file])].toSorted((one, other) => sum(other) - sum(one));
}
