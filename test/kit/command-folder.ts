/** Commands of the command line on a directory of their own, run within the process of the test. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { runCommandLine } from '../../src/cli/command-line.ts';
import { type CommandStore, withStore } from '../../src/cli/store.ts';
import { readConfig } from '../../src/config.ts';

interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

export function commandFolder(t: TestContext) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-cli-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const dataDir = path.join(folder, 'data');
  /** In this process, which is as good and spares the start of another. */
  const run = async (args: string[], env: Record<string, string> = {}): Promise<Ran> => {
    const ran: Ran = { code: 0, stdout: '', stderr: '' };
    ran.code = await runCommandLine(
      args,
      { POSTRIDER_DATA_DIR: dataDir, ...env },
      {
        out: (text) => {
          ran.stdout += text;
        },
        err: (text) => {
          ran.stderr += text;
        },
      },
    );
    return ran;
  };
  const json = async (...args: string[]) => {
    const ran = await run([...args, '--json']);
    assert.equal(ran.code, 0, ran.stderr);
    assert.equal(ran.stdout.trimEnd().split('\n').length, 1);
    return JSON.parse(ran.stdout);
  };
  const store = <T>(use: (opened: CommandStore) => Promise<T>) =>
    withStore({ config: readConfig({ POSTRIDER_DATA_DIR: dataDir }), clock: systemClock }, use);
  return { folder, dataDir, run, json, store };
}
