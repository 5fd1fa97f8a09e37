/** Runs commands of the command line on a separate directory, within the process of the test. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { type CommandStore, withStore } from '../../src/cli/store.ts';
import { readConfig } from '../../src/config.ts';
import { type Ran, runInProcess } from './in-process-command.ts';

export function commandFolder(t: TestContext) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-cli-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const dataDir = path.join(folder, 'data');
  const run = (args: string[], env: Record<string, string> = {}): Promise<Ran> =>
    runInProcess(args, { POSTRIDER_DATA_DIR: dataDir, ...env });
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
