import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { runCommand, startService } from '../../test/kit/start-service.ts';

test('database files are readable only by their owner, even in a shared directory', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-modes-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const dataDir = path.join(folder, 'data');
  mkdirSync(dataDir, { mode: 0o755 });
  chmodSync(dataDir, 0o755);
  const modes = () =>
    readdirSync(dataDir)
      .filter((name) => name.startsWith('postrider.db'))
      .map((name) => `${name} ${(statSync(path.join(dataDir, name)).mode & 0o777).toString(8)}`);
  const made = await runCommand(['migrate'], { dataDir });
  assert.equal(made.code, 0, made.stderr);
  assert.deepEqual([...new Set(modes().map((one) => one.split(' ')[1]))], ['600'], modes().join());
  chmodSync(path.join(dataDir, 'postrider.db'), 0o644);
  const service = await startService({ dataDir });
  t.after(() => service.close());
  assert.ok(modes().some((one) => one.startsWith('postrider.db-wal')));
  assert.deepEqual([...new Set(modes().map((one) => one.split(' ')[1]))], ['600'], modes().join());
});
