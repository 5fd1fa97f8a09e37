/** Backups and exports on the command line: their content, their names, and the owner of restored files. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import test from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';
import { missing } from '../../test/kit/requirements.ts';
import { environment, PROGRAM, runCommand } from '../../test/kit/start-service.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { systemClock } from '../base/clock.ts';
import { readConfig } from '../config.ts';
import { openBackupTarget } from './backup-target.ts';

test('a backup or an export without a name gets one that git ignores', { skip: missing('git') }, async (t) => {
  const { folder, dataDir } = commandFolder(t);
  spawnSync('git', ['init', '-q', folder]);
  copyFileSync(path.join(import.meta.dirname, '../../.gitignore'), path.join(folder, '.gitignore'));
  assert.equal((await runCommand(['migrate'], { dataDir })).code, 0);
  for (const command of ['backup', 'export']) {
    const made = await runCommand([command, '--json'], { dataDir, cwd: folder });
    assert.equal(made.code, 0, made.stderr);
    const { file } = JSON.parse(made.stdout);
    assert.equal(path.dirname(file), folder);
    assert.match(path.basename(file), new RegExp(`^postrider-[0-9T-]+\\.${command}$`));
    const ignored = spawnSync('git', ['-C', folder, 'check-ignore', file]);
    assert.equal(ignored.status, 0, `${file} is not ignored`);
  }
  assert.equal((await runCommand(['backup', 'a', 'b'], { dataDir })).code, 2);
});

test('a backup contains the database and blobs, and is restored only into an empty directory', async (t) => {
  const { folder, dataDir, json, run, store } = commandFolder(t);
  await json('migrate');
  const { accountId } = await json('account', 'create', '--name', 'Acme');
  await json('domain', 'add', accountId, 'example.com', '--verified');
  const content = Buffer.alloc(100_000, 'blob');
  const blobKey = await store(({ blobs }) => blobs.put(content));
  writeFileSync(path.join(dataDir, 'first-run.json'), '{"apiKey":"pr_live_secret"}');
  const file = path.join(folder, 'backup.db');
  const made = await json('backup', file);
  assert.deepEqual([made.file, made.blobs], [file, 1]);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const bytes = readFileSync(file);
  const key = readFileSync(path.join(dataDir, 'secret.key'), 'utf8').trim();
  for (const secret of ['pr_live_secret', key, 'PRIVATE KEY']) assert.equal(bytes.includes(secret), false, secret);
  assert.deepEqual(readdirSync(folder).sort(), ['backup.db', 'data']);
  assert.match((await run(['backup', file])).stderr, /already exists/);
  assert.match((await run(['restore', file])).stderr, /is not empty/);

  const elsewhere = { POSTRIDER_DATA_DIR: path.join(folder, 'restored') };
  const restored = await run(['restore', file, '--json'], elsewhere);
  assert.equal(restored.code, 0, restored.stderr);
  const listed = await run(['account', 'list', '--json'], elsewhere);
  assert.deepEqual(JSON.parse(listed.stdout).accounts[0].accountId, accountId);
  assert.deepEqual(readFileSync(path.join(elsewhere.POSTRIDER_DATA_DIR, 'blobs', blobKey)), content);
  const withoutKey = await run(['domain', 'add', accountId, 'example.net'], elsewhere);
  assert.match(withoutKey.stderr, /the secret key is missing/);
  const withKey = await run(['domain', 'add', accountId, 'example.net'], { ...elsewhere, POSTRIDER_SECRET_KEY: key });
  assert.equal(withKey.code, 0, withKey.stderr);

  const [broken, empty] = [path.join(folder, 'broken.db'), path.join(folder, 'third')];
  writeFileSync(broken, bytes.subarray(0, 60_000));
  assert.match((await run(['restore', broken], { POSTRIDER_DATA_DIR: empty })).stderr, /not a complete backup/);
  assert.equal(existsSync(empty), false);
});

test('an interrupted restore can be repeated, and nothing starts on what it left', async (t) => {
  const { folder, dataDir, json, run, store } = commandFolder(t);
  await json('migrate');
  const content = Buffer.alloc(100_000, 'blob');
  const key = await store(({ blobs }) => blobs.put(content));
  const file = path.join(folder, 'backup.db');
  await json('backup', file);
  const left = path.join(folder, 'left');
  const settings = { POSTRIDER_DATA_DIR: left };
  mkdirSync(path.join(left, 'blobs', path.dirname(key)), { recursive: true });
  writeFileSync(path.join(left, 'blobs', key), 'part of a blob');
  for (const tail of ['', '-journal']) writeFileSync(path.join(left, `postrider.db.restoring${tail}`), 'part');
  for (const command of [['serve'], ['migrate'], ['account', 'list']]) {
    const refused = await run(command, settings);
    assert.equal(refused.code, 1);
    assert.match(
      refused.stderr,
      /a restore into \S+ is running or was interrupted; .*repeat it with postrider restore/,
    );
  }
  const restored = await run(['restore', file], settings);
  assert.equal(restored.code, 0, restored.stderr);
  assert.deepEqual(readdirSync(left).sort(), ['blobs', 'postrider.db', 'serving.lock']);
  assert.deepEqual(readFileSync(path.join(left, 'blobs', key)), content);
  assert.equal((await run(['account', 'list'], settings)).code, 0);
  // With a database, the directory is in use, whatever else it contains.
  writeFileSync(path.join(dataDir, 'postrider.db.restoring'), 'part');
  assert.match((await run(['restore', file])).stderr, /is not empty/);
  assert.equal((await run(['migrate'])).code, 0);
});

test('a repeated restore removes no content of another service', async (t) => {
  const { folder, json, run, store } = commandFolder(t);
  await json('migrate');
  await store(({ blobs }) => blobs.put(Buffer.alloc(100_000, 'blob')));
  const file = path.join(folder, 'backup.db');
  await json('backup', file);
  const interrupted = (name: string): string => {
    const directory = path.join(folder, name);
    mkdirSync(directory);
    writeFileSync(path.join(directory, 'postrider.db.restoring'), 'part');
    return directory;
  };
  const filled = (blobs: string): string => {
    mkdirSync(path.join(blobs, 'ab'), { recursive: true });
    writeFileSync(path.join(blobs, 'ab/mail'), 'of another service');
    return path.join(blobs, 'ab/mail');
  };

  const shared = path.join(folder, 'shared');
  const sharedMail = filled(shared);
  const elsewhere = { POSTRIDER_DATA_DIR: interrupted('new'), POSTRIDER_BLOB_URL: `file://${shared}` };
  const refused = await run(['restore', file], elsewhere);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /shared contains content that may belong to another service/);
  assert.ok(existsSync(sharedMail));

  const used = interrupted('used');
  const ownMail = filled(path.join(used, 'blobs'));
  const mark = path.join(used, 'blobs/postrider-store');
  writeFileSync(mark, 'id');
  const settings = { POSTRIDER_DATA_DIR: used };
  assert.match((await run(['restore', file], settings)).stderr, /blobs contains content that may belong to another/);
  assert.ok(existsSync(ownMail));
  rmSync(mark);
  const broken = path.join(folder, 'broken.db');
  copyFileSync(file, broken);
  const raw = new DatabaseSync(broken);
  raw.exec("INSERT INTO blob_backup (key, content) VALUES ('zz/invalid', x'00')");
  raw.close();
  assert.match((await run(['restore', broken], settings)).stderr, /a blob with an invalid key/);
  assert.deepEqual(readdirSync(path.join(used, 'blobs'), { recursive: true }).sort(), ['ab', 'ab/mail']);
  const repeated = await run(['restore', file], settings);
  assert.equal(repeated.code, 0, repeated.stderr);
  assert.ok(existsSync(ownMail));

  const fresh = path.join(folder, 'fresh');
  assert.equal((await run(['restore', broken], { POSTRIDER_DATA_DIR: fresh })).code, 1);
  assert.deepEqual(readdirSync(fresh, { recursive: true }).sort(), ['blobs', 'serving.lock']);
});

test('an interrupted backup or export leaves no file', { skip: missing('mkfifo') }, async (t) => {
  const { folder, dataDir, json, store } = commandFolder(t);
  await json('migrate');
  const key = await store(({ blobs }) => blobs.put(Buffer.alloc(100_000, 'blob')));
  // The command waits for this blob until it is interrupted.
  const blob = path.join(dataDir, 'blobs', key);
  rmSync(blob);
  spawnSync('mkfifo', [blob]);
  const backups = path.join(folder, 'backups');
  mkdirSync(backups);
  writeFileSync(path.join(backups, 'mail.12345678.part'), 'of another command');
  for (const [command, signal] of [
    ['backup', 'SIGINT'],
    ['export', 'SIGTERM'],
  ] as const) {
    const child = spawn(process.execPath, [PROGRAM, command, path.join(backups, 'mail')], {
      env: environment(dataDir),
      stdio: 'ignore',
    });
    t.after(() => void child.kill('SIGKILL'));
    await waitUntil('the copy of the database', () =>
      readdirSync(backups).some(
        (name) => !name.includes('12345678') && !name.includes('later') && statSync(path.join(backups, name)).size > 0,
      ),
    );
    writeFileSync(path.join(backups, 'mail.later678.part'), 'of a command that started later');
    child.kill(signal);
    const [, endedBy] = await once(child, 'exit');
    assert.equal(endedBy, signal);
    assert.deepEqual(readdirSync(backups).sort(), ['mail.12345678.part', 'mail.later678.part'], command);
  }
});

test('a scheduled backup is kept, although others have a time in the future', async (t) => {
  const { folder, json } = commandFolder(t);
  await json('migrate');
  const names = ['2026-11-01', '2099-01-01', '2099-01-02'].map((day) => `postrider-scheduled-${day}T031500.backup`);
  for (const name of names) writeFileSync(path.join(folder, name), 'old');
  const settings = { POSTRIDER_BACKUP_URL: `file://${folder}`, POSTRIDER_BACKUP_KEEP: '2' };
  const made = await runCommand(['backup', '--scheduled', '--json'], {
    dataDir: path.join(folder, 'data'),
    env: settings,
  });
  assert.equal(made.code, 0, made.stderr);
  const kept = readdirSync(folder).filter((name) => name.endsWith('.backup'));
  assert.deepEqual(kept.sort(), [names[0], JSON.parse(made.stdout).file].sort());
});

test('a scheduled backup aborts only unfinished uploads of scheduled backups', async (t) => {
  const { folder } = commandFolder(t);
  const names = ['postrider-scheduled-2026-11-01T031500.backup', 'postrider-2026-11-01.backup', `ab/${'k'.repeat(26)}`];
  const uploads = names.map(
    (name) =>
      `<Upload><Key>box/${name}</Key><UploadId>1</UploadId><Initiated>2026-11-01T03:15:00.000Z</Initiated></Upload>`,
  );
  const aborted: string[] = [];
  const server = createServer(({ method, url = '' }, response) => {
    if (method === 'DELETE') {
      aborted.push(url);
      response.writeHead(204).end();
    } else response.end(`<ListMultipartUploadsResult>${uploads.join('')}</ListMultipartUploadsResult>`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const config = readConfig({
    POSTRIDER_DATA_DIR: folder,
    POSTRIDER_BACKUP_URL: `s3://bucket/box?endpoint=${encodeURIComponent(endpoint)}&region=eu-1&style=path`,
    AWS_ACCESS_KEY_ID: 'AKIATEST',
    AWS_SECRET_ACCESS_KEY: 'secret',
  });
  const target = (await openBackupTarget(config, systemClock))!;
  t.after(() => target.close());
  await target.clear();
  assert.deepEqual(aborted, [`/bucket/box/${names[0]}?uploadId=1`]);
});

test('a scheduled backup that is interrupted during its upload leaves no file', async (t) => {
  const { dataDir, json } = commandFolder(t);
  await json('migrate');
  const server = createServer((request, response) => {
    // The upload never gets a response.
    if (request.method !== 'GET') return;
    response.writeHead(200, { 'content-type': 'application/xml' }).end('<ListMultipartUploadsResult/>');
  });
  const isUploading = new Promise<void>((resolve) => {
    server.on('request', ({ method }) => {
      if (method !== 'GET') resolve();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const child = spawn(process.execPath, [PROGRAM, 'backup', '--scheduled'], {
    env: environment(dataDir, {
      POSTRIDER_BACKUP_URL: `s3://box/backups?endpoint=${encodeURIComponent(endpoint)}&region=eu-1&style=path`,
      AWS_ACCESS_KEY_ID: 'AKIATEST',
      AWS_SECRET_ACCESS_KEY: 'secret',
    }),
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  t.after(() => void child.kill('SIGKILL'));
  const ended = once(child, 'exit');
  await Promise.race([isUploading, ended.then(() => assert.fail('no upload'))]);
  assert.ok(readdirSync(dataDir).some((name) => name.startsWith('postrider-scheduled-')));
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [null, 'SIGTERM']);
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith('postrider-scheduled-')),
    [],
  );
});

test('of two backups to one file, one succeeds', async (t) => {
  const { folder, json, run } = commandFolder(t);
  await json('migrate');
  const file = path.join(folder, 'same.backup');
  const both = await Promise.all([run(['backup', file]), run(['backup', file])]);
  assert.deepEqual(both.map(({ code }) => code).sort(), [0, 1]);
  assert.match(both.map(({ stderr }) => stderr).join(''), /same\.backup already exists/);
  assert.deepEqual(readdirSync(folder).sort(), ['data', 'same.backup']);
});

test('files and folders that cannot be used are named with the reason', async (t) => {
  const { folder, json, run } = commandFolder(t);
  await json('migrate');
  const loop = path.join(folder, 'loop');
  symlinkSync(loop, loop);
  const file = path.join(folder, 'file');
  writeFileSync(file, '');
  for (const [args, message] of [
    [['restore', loop], /loop cannot be read \(ELOOP\); check its path and permissions/],
    [['import', loop], /loop cannot be read \(ELOOP\); check its path and permissions/],
    [['restore', path.join(folder, 'none')], /the file \S+none does not exist/],
    [['backup', path.join(folder, 'none/x')], /the folder \S+none does not exist; create it/],
    [['backup', path.join(file, 'x')], /a file in \S+file cannot be created \(ENOTDIR\)/],
    [['export', path.join(loop, 'x')], /a file in \S+loop cannot be created \(ELOOP\)/],
  ] as const) {
    const refused = await run([...args], args[0] === 'restore' ? { POSTRIDER_DATA_DIR: path.join(folder, 'new') } : {});
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, message);
  }
  const scheduled = await run(['backup', '--scheduled'], { POSTRIDER_BACKUP_URL: `file://${folder}/none` });
  assert.match(scheduled.stderr, /the folder \S+none of POSTRIDER_BACKUP_URL does not exist; create it/);
});

test("files that root creates in another user's directory belong to that user", {
  skip: process.getuid?.() !== 0 && 'this user is not root',
}, async (t) => {
  const { folder, json, run, store } = commandFolder(t);
  await json('migrate');
  const { accountId } = await json('account', 'create', '--name', 'Acme');
  await store(({ blobs }) => blobs.put(Buffer.alloc(100_000, 'blob')));
  const file = path.join(folder, 'backup.db');
  await json('backup', file);
  const [foreignFolder, uid] = [path.join(folder, 'theirs'), 65_534];
  mkdirSync(foreignFolder, { mode: 0o700 });
  chownSync(foreignFolder, uid, uid);
  const settings = { POSTRIDER_DATA_DIR: foreignFolder };
  assert.equal((await run(['restore', file], settings)).code, 0);
  assert.equal((await run(['domain', 'add', accountId, 'example.net'], settings)).code, 0, 'creates secret.key');
  const there = readdirSync(foreignFolder, { recursive: true }).map(String);
  assert.ok(there.includes('secret.key') && there.includes('postrider.db'), there.join());
  assert.ok(
    there.some((name) => name.startsWith('blobs/') && statSync(path.join(foreignFolder, name)).size === 100_000),
  );
  assert.deepEqual(
    there.filter((name) => statSync(path.join(foreignFolder, name)).uid !== uid),
    [],
  );
});
