/**
 * Runs the tests: `npm test` the fast ones, with `--slow` the files named *.slow.test.ts instead, and with paths only
 * what lies below them. Prints every failure whole, every skipped test with its reason, where the time went, and one line of sums
 * at the end. Exits with 1 when a test failed, when a file could not run, or when there was nothing to run.
 *
 * Files that can share a process do (test-files.ts says which), all others have one of their own; those on PostgreSQL share one
 * server, those on S3 one Swift; what is compiled is kept for all of them.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec, type TestEvent } from 'node:test/reporters';
import { RUN_SWIFT, startSwift } from '../test/kit/swift.ts';
import { postgresServer, RUN_SERVER } from '../test/kit/temp-postgres.ts';
import { canShareProcess, isOnPostgres, isOnS3, longestFirst, recordSeconds, testFiles } from './test-files.ts';

/** Processes at a time: most of them wait for disks and sockets, and two cores are what the smallest machine has. */
const LANES = 2;
/** Files in one process: so few that both lanes get some. */
const FILES_TOGETHER = 25;
const FAST_DEADLINE_MS = 180_000;
const SLOW_DEADLINE_MS = 600_000;

const root = path.dirname(import.meta.dirname);
process.chdir(root);
const args = process.argv.slice(2);
const slow = args.includes('--slow');
const below = args.filter((one) => !one.startsWith('--'));
const files = testFiles({ slow, below });
if (files.length === 0) {
  console.error(`no ${slow ? 'slow ' : ''}tests match ${below.join(' ') || 'anything'}`);
  process.exit(1);
}

const startedAt = performance.now();
const deadlineMs = slow ? SLOW_DEADLINE_MS : FAST_DEADLINE_MS;
const scratch = mkdtempSync(path.join(os.tmpdir(), 'postrider-tests-'));
process.once('exit', () => rmSync(scratch, { recursive: true, force: true }));
// A run that is ended ends its servers too: they hang on the exit.
process.once('SIGTERM', () => process.exit(143));
process.once('SIGINT', () => process.exit(130));
// Also for the services that tests start; the same folder as theirs.
process.env.NODE_COMPILE_CACHE ??= path.join(root, 'node_modules/.cache/postrider');
if (!process.env.TEST_PG_URL && files.filter(isOnPostgres).length > 1) {
  process.env[RUN_SERVER] = (await postgresServer()).url('postgres');
}
// Where there is none, the files themselves say what that means.
const swift = files.filter(isOnS3).length > 1 ? await startSwift().catch(() => undefined) : undefined;
if (swift) process.env[RUN_SWIFT] = JSON.stringify(swift);

const skipped: string[] = [];
const sums = { passed: 0, failed: 0, skipped: 0 };
const reporter = new spec();
reporter.pipe(process.stdout);

/** The runner's own sums at the end of each process; ours stand at the end of all. */
const SUM_LINE = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;

interface Ran {
  events: TestEvent[];
  counts: { passed: number; failed: number; skipped: number };
  /** Files whose tests said something. */
  heard: Set<string>;
  /** At its deadline. */
  isKilled: boolean;
  /** The process failed besides its tests. */
  isBroken: boolean;
  seconds: number;
  /** Of processor time; undefined where the process was killed. */
  cpuSeconds: number | undefined;
}

const PROCESS = path.join(root, 'scripts/test-process.ts');
let processes = 0;

/** Runs files in a process of their own, which is killed at its deadline. */
async function runProcess(together: string[]): Promise<Ran> {
  const began = performance.now();
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), deadlineMs);
  const events: TestEvent[] = [];
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const heard = new Set<string>();
  let [isSummed, isBroken] = [false, false];
  processes += 1;
  const cpuFile = path.join(scratch, String(processes));
  const stream = run({
    files: [PROCESS],
    argv: [cpuFile, ...together],
    signal: deadline.signal,
  });
  for await (const event of stream) {
    if (event.type === 'test:summary') {
      if (event.data.file !== undefined) continue;
      isSummed = true;
      const { tests, passed, skipped: left, todo } = event.data.counts;
      counts.passed = passed;
      counts.skipped = left;
      counts.failed = Math.max(tests - passed - left - todo, event.data.success ? 0 : 1);
      continue;
    }
    if (event.type === 'test:diagnostic' && event.data.nesting === 0 && SUM_LINE.test(event.data.message)) continue;
    if ('file' in event.data && event.data.file) heard.add(path.relative(root, event.data.file));
    if ('name' in event.data && event.data.name === PROCESS) {
      isBroken ||= event.type === 'test:fail';
      event.data.name = together.join(' ');
    }
    events.push(event);
  }
  clearTimeout(timer);
  if (!isSummed) counts.failed += 1;
  return {
    ...{ events, counts, heard },
    ...{ isBroken, isKilled: deadline.signal.aborted },
    seconds: (performance.now() - began) / 1000,
    cpuSeconds: secondsIn(cpuFile),
  };
}

function secondsIn(file: string): number | undefined {
  try {
    return Number(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

const took: { kind: string; name: string; seconds: number; cpuSeconds: number }[] = [];

function report(name: string, kind: string, { events, counts, seconds, cpuSeconds = 0 }: Ran): void {
  took.push({ kind, name, seconds, cpuSeconds });
  sums.passed += counts.passed;
  sums.failed += counts.failed;
  sums.skipped += counts.skipped;
  for (const event of events) {
    if (event.type === 'test:pass' && event.data.skip !== undefined) {
      const why = typeof event.data.skip === 'string' && event.data.skip !== '' ? event.data.skip : 'no reason given';
      skipped.push(`${path.relative(root, event.data.file ?? name)}: ${event.data.name}: ${why}`);
    }
    reporter.write(event);
  }
}

const kindOf = (file: string): string => (file.startsWith('src/') ? 'src' : path.dirname(file));

async function runAlone(file: string): Promise<void> {
  const ran = await runProcess([file]);
  if (ran.isKilled) console.error(`${file} was killed after ${deadlineMs / 1000} s`);
  else recordSeconds({ [file]: ran.seconds });
  report(file, kindOf(file), ran);
}

/** Where one of the files broke the process, ended it or hung, each is run alone, which names it. */
async function runTogether(together: string[]): Promise<void> {
  const ran = await runProcess(together);
  const isWhole = !ran.isBroken && together.every((file) => ran.heard.has(file));
  if (isWhole) report(`${together.length} files in one process`, 'shared processes', ran);
  else for (const file of together) await runAlone(file);
}

function tasks(): (() => Promise<void>)[] {
  const shared = slow ? [] : files.filter(canShareProcess);
  const alone = files.filter((file) => !shared.includes(file));
  const made = longestFirst(alone).map((file) => () => runAlone(file));
  // Short ones at the end fill up what the last long ones leave.
  for (let at = 0; at < shared.length; at += FILES_TOGETHER) {
    const together = shared.slice(at, at + FILES_TOGETHER);
    made.push(() => (together.length === 1 ? runAlone(together[0]!) : runTogether(together)));
  }
  return made;
}

const waiting = tasks();
const lane = async (): Promise<void> => {
  for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) await task();
};
await Promise.all(Array.from({ length: slow ? 1 : LANES }, lane));
await swift?.close();
reporter.end();
await finished(reporter);

const line = (seconds: number, cpuSeconds: number, name: string): string =>
  `  ${seconds.toFixed(1).padStart(7)} s ${cpuSeconds.toFixed(1).padStart(7)} s  ${name}`;
const total = (of: typeof took, member: 'seconds' | 'cpuSeconds'): number =>
  of.reduce((sum, one) => sum + one[member], 0);
if (skipped.length > 0) console.log(`\nSkipped:\n${skipped.map((one) => `  ${one}`).join('\n')}`);
console.log('\nSlowest:       wall       CPU');
for (const { seconds, cpuSeconds, name } of took.toSorted((a, b) => b.seconds - a.seconds).slice(0, 10)) {
  console.log(line(seconds, cpuSeconds, name));
}
console.log('\nBy kind:       wall       CPU');
for (const [kind, of] of Map.groupBy(took, (one) => one.kind)) {
  console.log(line(total(of, 'seconds'), total(of, 'cpuSeconds'), `${kind} (${of.length})`));
}
console.log(line(total(took, 'seconds'), total(took, 'cpuSeconds'), 'all'));
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
const { passed, failed } = sums;
console.log(
  `\ntests: ${passed} passed, ${failed} failed, ${sums.skipped} skipped, ${files.length} files, ${seconds} s`,
);
process.exitCode = failed === 0 ? 0 : 1;
