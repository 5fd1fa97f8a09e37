/**
 * A process of tests, as scripts/test.ts starts it: loads each of the files that its arguments name, one after the other, and
 * writes at its end the seconds of processor time that it and the processes it waited for took. A file that cannot be loaded is
 * a test that fails.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

const [cpuFile, ...files] = process.argv.slice(2) as [string, ...string[]];

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

process.on('exit', () => {
  const { user, system } = process.cpuUsage();
  writeFileSync(cpuFile, String((user + system) / 1e6 + childrenSeconds()));
});

for (const file of files) {
  try {
    await import(path.resolve(file));
  } catch (error) {
    test(`${file} can be loaded`, () => {
      throw error;
    });
  }
}
