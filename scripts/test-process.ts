/**
 * A process of tests, as scripts/test.ts starts it: loads each of the files that its arguments name as a suite, one when the one
 * before has ended, and writes at its end how long each of them took, and how much processor time this process and the processes
 * it waited for took meanwhile. A file that cannot be loaded is a suite that fails.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, suite } from 'node:test';
import { endKept, keepForNextFiles } from '../test/kit/kept.ts';

export interface Took {
  file: string;
  seconds: number;
  cpuSeconds: number;
}

const [tookFile, ...files] = process.argv.slice(2) as [string, ...string[]];

/** Of processes that ended; only Linux says so. */
function childrenSeconds(): number {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // In hundredths: cutime and cstime of proc(5).
    return (Number(fields[13]) + Number(fields[14])) / 100;
  } catch {
    return 0;
  }
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6 + childrenSeconds();
}

const took: Took[] = [];
// The first one's time holds the start of the process.
let last = { seconds: 0, cpuSeconds: 0 };
let present = '';

function note(): void {
  if (present === '') return;
  const now = { seconds: performance.now() / 1000, cpuSeconds: cpuSeconds() };
  took.push({ file: present, seconds: now.seconds - last.seconds, cpuSeconds: now.cpuSeconds - last.cpuSeconds });
  last = now;
  present = '';
}

process.on('exit', () => {
  note();
  writeFileSync(tookFile, JSON.stringify(took));
});

keepForNextFiles();
for (const [index, file] of files.entries()) {
  const ended = new Promise<void>((resolve) => {
    suite(file, async () => {
      present = file;
      try {
        await import(path.resolve(file));
      } finally {
        // Behind the hooks of the file.
        after(() => {
          // What the last one leaves running is its own time.
          if (index < files.length - 1) note();
          resolve();
        });
      }
    });
  });
  await ended;
}
await endKept();
