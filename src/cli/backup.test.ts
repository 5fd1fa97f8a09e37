/** Backups and exports on the command line: their content, their names, and the owner of restored files. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';
import { missing } from '../../test/kit/requirements.ts';
import { runCommand } from '../../test/kit/start-service.ts';

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
