/**
 * Runs the tests: `npm test` the fast ones, with `--slow` the files named *.slow.test.ts instead, and with paths only
 * what lies below them. Prints every failure whole, every skipped test with its reason, and one line of sums at the end.
 * Exits with 1 when a test failed, when a file could not run, or when there was nothing to run.
 */
import { globSync } from 'node:fs';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec, type TestEvent } from 'node:test/reporters';

const PLACES = [
  'src',
  'test/house',
  'test/flows',
  'test/faults',
  'test/contract',
  'test/peers',
  'test/fuzz',
  'test/dialogs',
];
/** Files at a time: most of them wait for disks and sockets, and two cores are what the smallest machine has. */
const CONCURRENCY = 2;
const FAST_FILE_TIMEOUT_MS = 180_000;
const SLOW_FILE_TIMEOUT_MS = 600_000;

const root = path.dirname(import.meta.dirname);
process.chdir(root);
const args = process.argv.slice(2);
const slow = args.includes('--slow');
const wanted = args.filter((one) => !one.startsWith('--'));

const files = PLACES.flatMap((place) => globSync(`${place}/**/*.test.ts`))
  .filter((file) => file.endsWith('.slow.test.ts') === slow)
  .filter((file) => wanted.length === 0 || wanted.some((one) => file.startsWith(path.normalize(one))))
  .sort();
if (files.length === 0) {
  console.error(`no ${slow ? 'slow ' : ''}tests match ${wanted.join(' ') || 'anything'}`);
  process.exit(1);
}

const startedAt = performance.now();
const deadlineMs = slow ? SLOW_FILE_TIMEOUT_MS : FAST_FILE_TIMEOUT_MS;
const skipped: string[] = [];
const sums = { passed: 0, failed: 0, skipped: 0 };
const reporter = new spec();
reporter.pipe(process.stdout);

/** The runner's own sums at the end of each file; ours stand at the end of all. */
const SUM_LINE = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;

/**
 * Runs one file in a process of its own and reports it as a whole when it ends. A file that does not end by itself, because
 * a test that failed left something open, is killed at its deadline and counts as failed.
 */
async function runFile(file: string): Promise<void> {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), deadlineMs);
  const events: TestEvent[] = [];
  let seen = false;
  for await (const event of run({ files: [path.join(root, file)], signal: deadline.signal })) {
    if (event.type === 'test:summary') {
      if (event.data.file !== undefined) continue;
      seen = true;
      const { tests, passed, skipped: left, todo } = event.data.counts;
      sums.passed += passed;
      sums.skipped += left;
      sums.failed += Math.max(tests - passed - left - todo, event.data.success ? 0 : 1);
      continue;
    }
    if (event.type === 'test:diagnostic' && event.data.nesting === 0 && SUM_LINE.test(event.data.message)) continue;
    if (event.type === 'test:pass' && event.data.skip !== undefined) {
      const why = typeof event.data.skip === 'string' && event.data.skip !== '' ? event.data.skip : 'no reason given';
      skipped.push(`${file}: ${event.data.name}: ${why}`);
    }
    events.push(event);
  }
  clearTimeout(timer);
  if (!seen) sums.failed += 1;
  for (const event of events) reporter.write(event);
  if (deadline.signal.aborted) console.error(`${file} was killed after ${deadlineMs / 1000} s`);
}

const waiting = [...files];
const took: [file: string, seconds: number][] = [];
const lane = async (): Promise<void> => {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
    const began = performance.now();
    await runFile(file);
    took.push([file, (performance.now() - began) / 1000]);
  }
};
await Promise.all(Array.from({ length: slow ? 1 : CONCURRENCY }, lane));
reporter.end();
await finished(reporter);

if (skipped.length > 0) console.log(`\nSkipped:\n${skipped.map((line) => `  ${line}`).join('\n')}`);
const slowest = took.sort((a, b) => b[1] - a[1]).slice(0, 10);
console.log(`\nSlowest:\n${slowest.map(([file, spent]) => `  ${spent.toFixed(1).padStart(6)} s  ${file}`).join('\n')}`);
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
const { passed, failed } = sums;
console.log(
  `\ntests: ${passed} passed, ${failed} failed, ${sums.skipped} skipped, ${files.length} files, ${seconds} s`,
);
process.exitCode = failed === 0 ? 0 : 1;
