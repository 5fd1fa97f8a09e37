/** Scheduled backups of a running service: they are created, restored, and deleted when there are too many. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { noS3, startS3 } from '../kit/s3.ts';
import { runCommand, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const OLD = ['2026-11-01T031500', '2026-11-02T031500', '2026-11-03T031500'];
const scheduled = (time: string): string => `postrider-scheduled-${time}.backup`;

test('creates a backup at startup, restores it elsewhere, and deletes the oldest ones', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-backups-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const time of OLD) writeFileSync(path.join(folder, scheduled(time)), 'old');
  writeFileSync(path.join(folder, `${scheduled(OLD[0]!)}.abc123.part`), 'interrupted');
  writeFileSync(path.join(folder, 'postrider-2026-11-01T031500.backup'), 'made by hand');
  const env = { POSTRIDER_BACKUP_URL: pathToFileURL(folder).href, POSTRIDER_BACKUP_KEEP: '2' };
  const service = await startService({ env });
  t.after(() => service.close());
  await waitUntil('the backup', () => service.log.includes('backup completed'));
  const files = readdirSync(folder).sort();
  const made = files.at(-1)!;
  assert.deepEqual(files, ['postrider-2026-11-01T031500.backup', scheduled(OLD[2]!), made]);
  assert.match(made, /^postrider-scheduled-\d{4}-\d{2}-\d{2}T\d{6}\.backup$/);
  assert.equal(statSync(path.join(folder, made)).mode & 0o777, 0o600, 'only the owner reads it');
  assert.match((await service.anonymous.get('/metrics')).text, /^postrider_backup_age_seconds \d/m);
  const { stdout } = await runCommand(['doctor', '--offline'], { dataDir: service.dataDir, env });
  assert.match(stdout, /the last scheduled backup is less than a day old/);

  await service.kill('SIGTERM');
  await service.restart({ env });
  await waitUntil('the age of the last backup', async () =>
    /^postrider_backup_age_seconds \d/m.test((await service.anonymous.get('/metrics')).text),
  );
  assert.deepEqual(readdirSync(folder).sort(), files, 'no backup is due after a restart');

  const dataDir = path.join(folder, 'restored');
  const restored = await runCommand(['restore', path.join(folder, made)], { dataDir });
  assert.equal(restored.code, 0, restored.stderr);
});

test('logs a failed backup, and the service continues', async (t) => {
  const folder = path.join(os.tmpdir(), `postrider-no-folder-${process.pid}`);
  const service = await startService({ env: { POSTRIDER_BACKUP_URL: pathToFileURL(folder).href } });
  t.after(() => service.close());
  await waitUntil('the failure', () => service.log.includes('backup failed'));
  assert.match(service.log, /the folder \S+ of POSTRIDER_BACKUP_URL does not exist; create it/);
  assert.equal((await service.api.get('/account')).status, 200, 'it serves');
});

test('uploads a backup to S3 and deletes the local copy', { skip: noS3 }, async (t) => {
  const s3 = await startS3();
  t.after(() => s3.close());
  const { POSTRIDER_BLOB_URL: url, ...keys } = s3.environment();
  const service = await startService({ env: { ...keys, POSTRIDER_BACKUP_URL: url! } });
  t.after(() => service.close());
  await waitUntil('the backup', () => service.log.includes('backup completed'));
  const listed = await (
    await s3.call('GET', undefined, { query: `?list-type=2&prefix=${encodeURIComponent(s3.location.prefix)}` })
  ).text();
  const [, name] = /(postrider-scheduled-[\dT-]+\.backup)</.exec(listed)!;
  const content = Buffer.from(await (await s3.call('GET', name)).arrayBuffer());
  assert.equal(content.subarray(0, 15).toString(), 'SQLite format 3');
  assert.deepEqual(
    readdirSync(service.dataDir).filter((one) => one.includes('.backup')),
    [],
  );
});
