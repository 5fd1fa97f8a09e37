/** The store of a command: the clock of a shared database, and a folder of another user. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { environment, PROGRAM } from '../../test/kit/start-service.ts';
import { tempPostgres } from '../../test/kit/temp-postgres.ts';
import { readConfig } from '../config.ts';
import { migrate, withStore } from './store.ts';

const HOUR = 3_600_000;

test('a command uses the clock of a shared database, not of its own machine', async (t) => {
  const postgres = await tempPostgres();
  t.after(() => postgres.drop());
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-command-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const config = readConfig({
    POSTRIDER_DATABASE_URL: postgres.url,
    POSTRIDER_DATA_DIR: folder,
    POSTRIDER_BLOB_URL: `file://${path.join(folder, 'blobs')}`,
  });
  const clockOffsetMs = Date.now() + HOUR;
  await migrate(config, Date.now());
  const nowMs = await withStore({ config, clock: fakeClock(clockOffsetMs) }, async ({ clock }) => clock.now());
  assert.ok(nowMs < clockOffsetMs - HOUR / 2, `${nowMs}, with a machine clock offset of ${clockOffsetMs}`);
});

test('another user is told to run a command as the owner of the data directory', {
  skip: process.getuid?.() !== 0 && 'this user is not root',
}, async (t) => {
  const { folder, dataDir, json } = commandFolder(t);
  await json('migrate');
  for (const [mode, message] of [
    [0o755, /the folder \S+ belongs to the user 0; run the command as that user/],
    [0o700, /the folder \S+ cannot be opened by this user; run the command as the user of the service/],
  ] as const) {
    chmodSync(folder, mode);
    for (const command of [
      ['migrate', '--status'],
      ['account', 'list'],
    ]) {
      const refused = spawnSync(process.execPath, [PROGRAM, ...command], {
        env: environment(dataDir),
        uid: 65_534,
        gid: 65_534,
        encoding: 'utf8',
      });
      assert.equal(refused.status, 1, refused.stderr);
      assert.match(refused.stderr, message);
      assert.doesNotMatch(refused.stderr, /chown/);
    }
  }
});
