/** The backup before an upgrade, and the refusal of a downgrade. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';
import { runCommand, startService } from '../../test/kit/start-service.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { listMigrations } from '../storage/migrate.ts';

const ON = { POSTRIDER_BACKUP_BEFORE_UPGRADE: 'on' };
const all = listMigrations('sqlite');
const [first, previous, latest] = [all[0]!, all.at(-2)!, all.at(-1)!];

function open(file: string): DatabaseSync {
  return new DatabaseSync(file);
}

/** Returns the names of the migrations that a database file records. */
function recordedIn(file: string): string[] {
  const database = open(file);
  try {
    return database
      .prepare('SELECT name FROM migration ORDER BY number')
      .all()
      .map((row) => String(row.name));
  } finally {
    database.close();
  }
}

/** Creates a data directory as the version before this one left it, with a blob that an email uses. */
async function olderDirectory(t: TestContext) {
  const { folder, dataDir } = commandFolder(t);
  const blobs = path.join(dataDir, 'blobs');
  mkdirSync(blobs, { recursive: true, mode: 0o700 });
  const file = path.join(dataDir, 'postrider.db');
  const database = open(file);
  database.exec('CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL)');
  for (const one of all.slice(0, -1)) {
    database.exec(one.sql);
    database.prepare('INSERT INTO migration (number, name, applied_at) VALUES (?, ?, 1)').run(one.number, one.name);
  }
  const blobKey = await openDiskBlobs(blobs).put(Buffer.from('content of an email'));
  database
    .prepare(
      `INSERT INTO inbound_mail (id, account_id, mode, purpose, envelope_from, recipient, client, size_bytes, blob_key, received_at, status)
       VALUES ('inb_1', 'acc_1', 'live', 'operator', 'ann@example.com', 'postmaster@example.com', '192.0.2.1', 19, ?, 1, 'aside')`,
    )
    .run(blobKey);
  database.close();
  const backup = path.join(dataDir, `postrider-before-upgrade-from-${previous.name.slice(0, 4)}.backup`);
  return { folder, dataDir, file, backup, blob: path.join(blobs, blobKey) };
}

const backupsIn = (dataDir: string): string[] => readdirSync(dataDir).filter((name) => name.includes('backup'));

test('migrate backs up the database and its content before an upgrade, and only then', async (t) => {
  const { folder, dataDir, file, backup } = await olderDirectory(t);
  const done = await runCommand(['migrate', '--json'], { dataDir, env: ON });
  assert.equal(done.code, 0, done.stderr);
  assert.deepEqual(JSON.parse(done.stdout), { database: file, applied: [latest.name], backup });
  assert.equal(recordedIn(backup).at(-1), previous.name, 'the state before');
  assert.equal(statSync(backup).mode & 0o777, 0o600);
  assert.equal(recordedIn(file).at(-1), latest.name);
  const restored = path.join(folder, 'restored');
  const restoring = await runCommand(['restore', backup, '--json'], { dataDir: restored });
  assert.equal(restoring.code, 0, restoring.stderr);
  assert.equal(JSON.parse(restoring.stdout).blobs, 1);

  rmSync(backup);
  const again = await runCommand(['migrate', '--json'], { dataDir, env: ON });
  assert.deepEqual(JSON.parse(again.stdout), { database: file, applied: [] });
  const fresh = await runCommand(['migrate', '--json'], { dataDir: path.join(folder, 'fresh'), env: ON });
  assert.equal(JSON.parse(fresh.stdout).applied[0], first.name);
  assert.deepEqual([...backupsIn(dataDir), ...backupsIn(path.join(folder, 'fresh'))], []);
});

test('the start of the service backs up before an upgrade; a repeated attempt replaces the backup', async (t) => {
  const { dataDir, file, backup } = await olderDirectory(t);
  const interrupted = `${backup}.new.abcdefgh.part`;
  mkdirSync(path.dirname(interrupted), { recursive: true });
  for (const name of [backup, interrupted]) open(name).close();
  const service = await startService({ dataDir, env: ON });
  t.after(() => service.close());
  assert.match(service.log, /"msg":"database backed up before the upgrade"/);
  assert.deepEqual(backupsIn(dataDir), [path.basename(backup)]);
  assert.equal(recordedIn(backup).at(-1), previous.name);
  assert.equal(recordedIn(file).at(-1), latest.name);
});

test('nothing is migrated if the backup fails or is not complete', async (t) => {
  const { dataDir, file, backup, blob } = await olderDirectory(t);
  const content = readFileSync(blob);
  rmSync(blob);
  const incomplete = await runCommand(['migrate'], { dataDir, env: ON });
  assert.equal(incomplete.code, 1);
  assert.match(
    incomplete.stderr,
    /backup before the upgrade failed, so nothing was migrated: one blob in use is missing/,
  );
  assert.equal(recordedIn(file).at(-1), previous.name);
  assert.deepEqual(backupsIn(dataDir), []);

  await openDiskBlobs(path.join(dataDir, 'blobs')).put(content);
  mkdirSync(backup);
  const failed = await runCommand(['serve'], { dataDir, env: ON });
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /nothing was migrated: .*POSTRIDER_BACKUP_BEFORE_UPGRADE=off/);
  assert.equal(recordedIn(file).at(-1), previous.name);
  assert.deepEqual(backupsIn(dataDir), [path.basename(backup)]);

  const without = await runCommand(['migrate'], { dataDir });
  assert.equal(without.code, 0, without.stderr);
  assert.equal(recordedIn(file).at(-1), latest.name);
});

test('a downgrade is refused with one sentence, and changes nothing', async (t) => {
  const { dataDir, file } = await olderDirectory(t);
  const number = all.length + 1;
  const later = `${String(number).padStart(4, '0')}-later`;
  const database = open(file);
  database.prepare('INSERT INTO migration (number, name, applied_at) VALUES (?, ?, 1)').run(all.length, latest.name);
  database.prepare('INSERT INTO migration (number, name, applied_at) VALUES (?, ?, 1)').run(number, later);
  database.close();
  for (const command of [['serve'], ['migrate'], ['migrate', '--status'], ['account', 'list'], ['backup']]) {
    const { code, stdout, stderr } = await runCommand(command, { dataDir, env: ON });
    assert.equal(code, 1, command.join(' '));
    assert.equal(stdout, '');
    assert.match(stderr, /^postrider: the database was migrated by a newer version of postrider\b.*\n$/);
  }
  assert.equal(recordedIn(file).at(-1), later);
  assert.deepEqual(backupsIn(dataDir), []);
});
