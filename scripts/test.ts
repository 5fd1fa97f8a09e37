/**
 * Runs the tests: `npm test` the fast ones, with `--slow` the others: those named *.long.test.ts, and then, one at a time, those named
 * *.slow.test.ts. With paths, only those below them. Prints every failure in full, every skipped test with its reason, the durations, and a
 * summary line. Exits with 1 if a test failed, a file could not run, or there was nothing to run.
 *
 * Fast files that can share a process do (see test-files.ts), all others have their own; PostgreSQL tests share one server, S3 tests one
 * Swift, and tests of the release one release; compiled code is cached for all of them.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec, type TestEvent } from 'node:test/reporters';
import { setTimeout as delay } from 'node:timers/promises';
import { RUN_RELEASE } from '../test/house/release-artifacts.ts';
import { RUN_PROGRAM } from '../test/kit/start-service.ts';
import { RUN_SWIFT, startSwift } from '../test/kit/swift.ts';
import { postgresServer, RUN_SERVER } from '../test/kit/temp-postgres.ts';
import { buildPortal, buildService } from './build.ts';
import {
  isOnPortal,
  isOnPostgres,
  isOnProgram,
  isOnRelease,
  isOnS3,
  isSlow,
  processesOf,
  recordDurations,
  testFiles,
} from './test-files.ts';
import type { Took } from './test-process.ts';

/** Processes at a time: more than the two cores of the smallest machine, since they also wait for disks, sockets and timers. */
const PROCESSES = 3;
/** Further ones start while the machine uses a smaller share of its processor time than this. */
const BUSY = 0.85;
const MOST_PROCESSES = 4;
/** Period over which that use is measured: long enough to include a process that has just started. */
const MEASURED_MS = 4_000;
/** Number of files in the table of the slowest. */
const SLOWEST = 30;
/** Characters of a long error that the list of failures keeps, of its start and of its end, which has the logs. */
const FAILURE_START = 600;
const FAILURE_END = 1_200;
/** Maximum time without output of a process. */
const FAST_DEADLINE_MS = 300_000;
const SLOW_DEADLINE_MS = 900_000;

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
const scratch = mkdtempSync(path.join(os.tmpdir(), 'postrider-tests-'));
process.once('exit', () => rmSync(scratch, { recursive: true, force: true }));
/** Aborts the test processes that run now. */
const aborts = new Set<AbortController>();
const ABORT_MS = 2_000;
let isStopping = false;
for (const [signal, code] of [
  ['SIGTERM', 143],
  ['SIGINT', 130],
] as const) {
  process.once(signal, () => {
    isStopping = true;
    for (const one of aborts) one.abort();
    // The test processes end their own services in this time; the exit handler closes the servers of this run.
    setTimeout(() => process.exit(code), ABORT_MS);
  });
}
// Also for the services that tests start, which use the same folder.
process.env.NODE_COMPILE_CACHE ??= path.join(root, 'node_modules/.cache/postrider');
if (!process.env.TEST_PG_URL && files.filter(isOnPostgres).length > 1) {
  process.env[RUN_SERVER] = (await postgresServer()).url('postgres');
}
// Once, before many tests need it at the same time.
if (files.some((file) => isOnPortal(file) || isOnRelease(file))) await buildPortal();
if (files.some(isOnProgram)) process.env[RUN_PROGRAM] = await buildService();
// The first file that needs it builds it.
if (files.filter(isOnRelease).length > 1) process.env[RUN_RELEASE] = path.join(scratch, 'release');
// If it does not start, the files themselves report that.
const swift = files.filter(isOnS3).length > 1 ? await startSwift().catch(() => undefined) : undefined;
if (swift) process.env[RUN_SWIFT] = JSON.stringify(swift);

const skipped: string[] = [];
const failures: string[] = [];
const sums = { passed: 0, failed: 0, skipped: 0 };
const reporter = new spec();
reporter.pipe(process.stdout);

/** The runner's own totals at the end of each process; this script prints totals for all. */
const SUM_LINE = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;

interface Ran {
  events: TestEvent[];
  counts: { passed: number; failed: number; skipped: number };
  /** Every file ran to its end, and nothing failed except tests. */
  isWhole: boolean;
  /** For the files that ended. */
  took: Took[];
}

const PROCESS = path.join(root, 'scripts/test-process.ts');
let processes = 0;

/** Runs files in one process, which is killed if no test starts or ends for too long. */
async function runProcess(together: string[]): Promise<Ran> {
  const deadlineMs = slow ? SLOW_DEADLINE_MS : FAST_DEADLINE_MS;
  const deadline = new AbortController();
  aborts.add(deadline);
  const timer = setTimeout(() => deadline.abort(), deadlineMs);
  const events: TestEvent[] = [];
  const counts = { passed: 0, failed: 0, skipped: 0 };
  let [isSummed, isBroken] = [false, false];
  processes += 1;
  const tookFile = path.join(scratch, String(processes));
  const stream = run({
    files: [PROCESS],
    argv: [tookFile, ...together],
    signal: deadline.signal,
  });
  for await (const event of stream) {
    timer.refresh();
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
    if ('name' in event.data && event.data.name === PROCESS) {
      isBroken ||= event.type === 'test:fail';
      event.data.name = together.join(' ');
    }
    events.push(event);
  }
  clearTimeout(timer);
  aborts.delete(deadline);
  if (!isSummed) counts.failed += 1;
  const took = tookIn(tookFile);
  if (deadline.signal.aborted) console.error(`killed after ${deadlineMs / 1000} s without news: ${together.join(' ')}`);
  return { events, counts, isWhole: !isBroken && took.length === together.length, took };
}

/** Empty for a process that was killed. */
function tookIn(file: string): Took[] {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return [];
  }
}

const took: Took[] = [];

/** A test that failed only because its subtests did, which are reported themselves. */
const isOfSubtests = (error: Error): boolean => 'failureType' in error && error.failureType === 'subtestsFailed';

function shortened(message: string): string {
  if (message.length <= FAILURE_START + FAILURE_END) return message;
  return `${message.slice(0, FAILURE_START)}\n[…]\n${message.slice(-FAILURE_END)}`;
}

function report({ events, counts, took: files }: Ran): void {
  took.push(...files);
  sums.passed += counts.passed;
  sums.failed += counts.failed;
  sums.skipped += counts.skipped;
  for (const event of events) {
    if (event.type === 'test:pass' && event.data.skip !== undefined) {
      const why = typeof event.data.skip === 'string' && event.data.skip !== '' ? event.data.skip : 'no reason given';
      skipped.push(`${path.relative(root, event.data.file ?? '')}: ${event.data.name}: ${why}`);
    }
    if (event.type === 'test:fail' && !isOfSubtests(event.data.details.error)) {
      const { file, name, details } = event.data;
      const cause = details.error.cause instanceof Error ? details.error.cause : details.error;
      failures.push(`${path.relative(root, file ?? '')}: ${name}\n${shortened(cause.message)}`);
    }
    reporter.write(event);
  }
}

/** If one of several files broke, ended or hung the process, each runs alone to find out which. */
async function runFiles(together: string[]): Promise<void> {
  const ran = await runProcess(together);
  if (ran.isWhole || together.length === 1 || isStopping) report(ran);
  else for (const file of together) await runFiles([file]);
}

const waiting = processesOf(files.filter((file) => !isSlow(file)));
const running = new Set<Promise<void>>();

function startNext(): void {
  const ran = runFiles(waiting.shift()!).finally(() => running.delete(ran));
  running.add(ran);
}

/** Processor time of the machine until now, in ms: all of it, and the unused part. */
function processorTime(): { all: number; idle: number } {
  const sum = { all: 0, idle: 0 };
  for (const { times } of os.cpus()) {
    sum.all += Object.values(times).reduce((total, ms) => total + ms, 0);
    sum.idle += times.idle;
  }
  return sum;
}

/** Returns the share of the processor time that was used since then. */
function usedSince(before: ReturnType<typeof processorTime>): number {
  const now = processorTime();
  return 1 - (now.idle - before.idle) / (now.all - before.all);
}

const atStart = processorTime();
while (waiting.length > 0 && !isStopping) {
  if (running.size < PROCESSES) {
    startNext();
    continue;
  }
  const before = processorTime();
  const ended = new AbortController();
  const pause = delay(MEASURED_MS, true, { signal: ended.signal }).catch(() => false);
  const isMeasured = await Promise.race([...[...running].map((one) => one.then(() => false)), pause]);
  ended.abort();
  if (!isMeasured || running.size >= MOST_PROCESSES || waiting.length === 0) continue;
  if (usedSince(before) < BUSY) startNext();
}
await Promise.all(running);
const percentUsed = Math.round(usedSince(atStart) * 100);
for (const file of files.filter(isSlow)) if (!isStopping) await runFiles([file]);
await swift?.close();
recordDurations(Object.fromEntries(took.map(({ file, seconds, cpuSeconds }) => [file, { seconds, cpuSeconds }])));
reporter.end();
await finished(reporter);

const line = (seconds: number, cpuSeconds: number, name: string): string =>
  `  ${seconds.toFixed(1).padStart(7)} s ${cpuSeconds.toFixed(1).padStart(7)} s  ${name}`;
const total = (of: Took[], member: 'seconds' | 'cpuSeconds'): number => of.reduce((sum, one) => sum + one[member], 0);
const kindOf = (file: string): string => (file.startsWith('src/') ? 'src' : path.dirname(file));
if (skipped.length > 0) console.log(`\nSkipped:\n${skipped.map((one) => `  ${one}`).join('\n')}`);
console.log('\nSlowest:       wall       CPU');
for (const { seconds, cpuSeconds, file } of took.toSorted((a, b) => b.seconds - a.seconds).slice(0, SLOWEST)) {
  console.log(line(seconds, cpuSeconds, file));
}
console.log('\nBy kind:       wall       CPU');
for (const [kind, of] of Map.groupBy(took, (one) => kindOf(one.file))) {
  console.log(line(total(of, 'seconds'), total(of, 'cpuSeconds'), `${kind} (${of.length})`));
}
console.log(line(total(took, 'seconds'), total(took, 'cpuSeconds'), 'all'));
console.log(`\nProcessors: ${percentUsed} % used while several processes ran at a time`);
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
// Repeated at the end, since continuous integration shows only the end of long output.
if (failures.length > 0) console.log(`\nFailed:\n${failures.join('\n')}`);
const { passed, failed } = sums;
console.log(
  `\ntests: ${passed} passed, ${failed} failed, ${sums.skipped} skipped, ${files.length} files, ${seconds} s`,
);
process.exitCode = failed === 0 ? 0 : 1;
