/**
 * The single executable starts with an empty environment and a read-only working directory for a user without a home, and sends an email. Its
 * cache is shared by concurrent starts, repaired, and cleared of unused versions.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { manifest } from '../../scripts/release/app.ts';
import type { JsonObject } from '../kit/api.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { migrateAsNewer, NEWER_DATABASE, releaseWith, sendsAnEmail, timeToFirstEmail } from './release-artifacts.ts';

const { version } = manifest;
const skip = process.platform === 'linux' ? false : 'the executable runs on Linux only';
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-executable-'));
const name = `postrider-${version}-linux-${process.arch}`;
const program = path.join(folder, name);
const readOnly = path.join(folder, 'read-only');
const NOBODY = 65_534;
/** Root ignores modes of files, so root runs the executable as another user. */
const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

/** Creates a folder that the user of the executable owns. */
function ownFolder(of: string): string {
  const created = path.join(folder, of);
  mkdirSync(created);
  if (user.uid !== undefined) chownSync(created, user.uid, user.gid);
  return created;
}

/** Runs the executable with these variables and no others. */
async function start(env: Record<string, string>, ...args: string[]): Promise<{ code: number; output: string }> {
  const options = { ...user, cwd: readOnly, env, timeout: 120_000 };
  try {
    const { stdout, stderr } = await promisify(execFile)(program, args, options);
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, output: stdout + stderr };
  }
}

const versionText = { code: 0, output: `${version}\n` };
const unpacked = (cache: string): string[] => readdirSync(path.join(cache, 'postrider'));
const applicationIn = (cache: string): string => path.join(cache, 'postrider', unpacked(cache)[0]!);
const json = (file: string): JsonObject => JSON.parse(readFileSync(file, 'utf8')) as JsonObject;

before(async () => {
  if (skip) return;
  chmodSync(folder, 0o755);
  mkdirSync(readOnly, { mode: 0o555 });
  const out = await releaseWith('executable', path.join(folder, 'out'));
  // Other users cannot open the folder of the run.
  linkSync(path.join(out, name), program);
});

after(() => rmSync(folder, { recursive: true, force: true }));

test('the executable serves, sends an email, backs up on schedule, and stops with code 0', {
  skip,
  timeout: 300_000,
}, async (t) => {
  const [cache, data, backups] = ['cache', 'data', 'backups'].map(ownFolder) as [string, string, string];
  const env = { XDG_CACHE_HOME: cache, POSTRIDER_DATA_DIR: data };
  const settings = {
    POSTRIDER_HTTP_PORT: '0',
    POSTRIDER_HTTP_HOST: '127.0.0.1',
    POSTRIDER_SMTP_PORT: '0',
    POSTRIDER_DOCTOR_NETWORK: 'off',
    POSTRIDER_MIN_FREE_BYTES: '1000000',
    POSTRIDER_BACKUP_URL: `file://${backups}`,
  };
  const isDelivered = timeToFirstEmail(t);
  assert.equal((await start(env, 'migrate')).code, 0);
  const service = spawn(program, ['serve'], { ...user, cwd: readOnly, env: { ...env, ...settings }, stdio: 'pipe' });
  t.after(() => service.kill('SIGKILL'));
  let log = '';
  service.stdout.resume();
  service.stderr.on('data', (chunk) => {
    log += chunk;
  });
  const ended = new Promise((resolve) => service.once('exit', resolve));
  const serving = path.join(data, 'serving.json');
  const isServing = (): boolean => {
    assert.equal(service.exitCode, null, log);
    return existsSync(serving);
  };
  await waitUntil('the service to serve', isServing, 60_000);
  await sendsAnEmail(`http://127.0.0.1:${json(serving).httpPort}`, json(path.join(data, 'first-run.json')));
  isDelivered();
  const isBackedUp = (): boolean => readdirSync(backups).some((one) => one.endsWith('.backup'));
  await waitUntil('the scheduled backup', isBackedUp, 60_000);
  const backup = path.join(backups, 'manual.backup');
  const made = await start(env, 'backup', backup);
  assert.equal(made.code, 0, made.output);
  assert.ok(existsSync(backup));
  assert.match((await start(env, 'account', 'list')).output, /acc_/);
  service.kill('SIGTERM');
  assert.equal(await ended, 0, log);
  migrateAsNewer(data);
  const refused = await start({ ...env, ...settings }, 'serve');
  assert.equal(refused.code, 1);
  assert.match(refused.output, NEWER_DATABASE);
});

test('the second start uses the unpacked files, and damaged files are restored', {
  skip,
  timeout: 300_000,
}, async () => {
  const cache = ownFolder('damaged');
  const env = { XDG_CACHE_HOME: cache };
  assert.deepEqual(await start(env, '--version'), versionText);
  assert.equal(unpacked(cache).length, 1);
  const application = applicationIn(cache);
  const [main, operations] = ['src/main.js', 'src/roles/operations.js'].map((one) => path.join(application, one)) as [
    string,
    string,
  ];
  const first = statSync(main);
  assert.deepEqual(await start(env, '--version'), versionText);
  assert.equal(statSync(main).ino, first.ino, 'not unpacked again');

  const content = readFileSync(main);
  appendFileSync(main, 'process.exit(9);');
  rmSync(operations);
  assert.deepEqual(await start(env, '--version'), versionText);
  assert.deepEqual(readFileSync(main), content);
  assert.ok(existsSync(operations));
  assert.deepEqual(unpacked(cache), [path.basename(application)]);
});

test('first starts at the same time unpack one application', { skip, timeout: 300_000 }, async () => {
  const cache = ownFolder('concurrent');
  const starts = await Promise.all(Array.from({ length: 4 }, () => start({ XDG_CACHE_HOME: cache }, '--version')));
  assert.deepEqual(starts, Array(4).fill(versionText));
  assert.equal(unpacked(cache).length, 1, unpacked(cache).join());
});

test('versions that were not used for 30 days are removed', { skip, timeout: 300_000 }, async () => {
  const cache = ownFolder('unused');
  assert.deepEqual(await start({ HOME: cache, XDG_CACHE_HOME: 'relative' }, '--version'), versionText);
  const home = path.join(cache, '.cache');
  const [current = ''] = unpacked(home);
  const folders = { '0.9.0-0123456789abcdef': 31, '0.9.1-0123456789abcdef': 29, 'temporary-Ab12cd': 2, other: 99 };
  for (const [one, days] of Object.entries(folders)) {
    const old = path.join(home, 'postrider', one);
    mkdirSync(path.join(old, 'src'), { recursive: true });
    const usedAt = new Date(Date.now() - days * 86_400_000);
    for (const each of [path.join(old, 'src'), old]) {
      if (user.uid !== undefined) chownSync(each, user.uid, user.gid);
      utimesSync(each, usedAt, usedAt);
    }
  }
  const monthsAgo = new Date(Date.now() - 90 * 86_400_000);
  utimesSync(path.join(home, 'postrider', current), monthsAgo, monthsAgo);
  assert.deepEqual(await start({ HOME: cache }, '--version'), versionText);
  assert.deepEqual(unpacked(home).sort(), ['0.9.1-0123456789abcdef', current, 'other']);
});

test('a cache folder that cannot be written is refused with the variable to set', {
  skip,
  timeout: 60_000,
}, async () => {
  // The system keeps reporting that a folder in /proc is missing.
  for (const home of [readOnly, '/proc/none']) {
    const { code, output } = await start({ HOME: home }, '--version');
    assert.equal(code, 1);
    assert.match(
      output,
      /^postrider: the application cannot be unpacked: (EACCES|ENOENT).*Set XDG_CACHE_HOME to .*\n$/,
    );
  }
});

test('a cache folder of another user is refused', {
  skip: skip || user.uid === undefined,
  timeout: 60_000,
}, async () => {
  const cache = ownFolder('foreign');
  mkdirSync(path.join(cache, 'postrider'));
  const { code, output } = await start({ XDG_CACHE_HOME: cache }, '--version');
  assert.equal(code, 1);
  assert.match(output, /belongs to another user\. Set XDG_CACHE_HOME to /);
});
