/** Runs the operation tests on the PostgreSQL of the system's packages, which is older than the one of the other tests. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { RUN_SERVER } from '../kit/temp-postgres.ts';

const root = path.resolve(import.meta.dirname, '../..');
const servers = globSync('/usr/lib/postgresql/*/bin/initdb').map((file) => path.resolve(file, '../..'));

function absent(): string | false {
  if (servers.length > 0) return false;
  if (process.env.CI) throw new Error('postgresql is not installed, and CI skips nothing');
  return 'postgresql is not installed';
}

for (const programs of servers.length > 0 ? servers : ['none']) {
  test(`runs every operation on PostgreSQL ${path.basename(programs)}`, {
    skip: absent(),
    timeout: 300_000,
  }, async () => {
    const suites = ['operations', 'several-nodes', 'portable'].map((name) => `test/contract/${name}.test.ts`);
    const { NODE_TEST_CONTEXT: _, [RUN_SERVER]: __, ...env } = process.env;
    const run = promisify(execFile)(process.execPath, ['--test', ...suites], {
      cwd: root,
      env: { ...env, TEST_PG_PROGRAMS: programs },
      maxBuffer: 1e8,
    });
    const { stdout } = await run.catch((error: { stdout: string }) => assert.fail(error.stdout.slice(-4_000)));
    assert.match(stdout, /fail 0/);
    assert.ok(Number(/pass (\d+)/.exec(stdout)?.[1]) > 20, stdout.slice(-500));
  });
}
