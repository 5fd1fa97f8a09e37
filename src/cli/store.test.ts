/** The store of a command with a shared database. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
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
