/**
 * A test process, started by scripts/test.ts: loads each of the files in its arguments as a suite, in sequence, and at the end writes the
 * duration of each, and the CPU time of this process and its finished children. A file that cannot be loaded is a failing suite.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, suite } from 'node:test';
import { endKept, keepForNextFiles } from '../test/kit/shared-resources.ts';

export interface Took {
  file: string;
  seconds: number;
  cpuSeconds: number;
}

const [tookFile, ...files] = process.argv.slice(2) as [string, ...string[]];

/** CPU time of finished children; available only on Linux. */
function childrenSeconds(): number {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // In hundredths of a second: cutime and cstime of proc(5).
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
// The first file's time includes the start of the process.
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
        // After the hooks of the file.
        after(() => {
          // The last file's time includes what it leaves running.
          if (index < files.length - 1) note();
          resolve();
        });
      }
    });
  });
  await ended;
}
await endKept();
