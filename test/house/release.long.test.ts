/**
 * The release: built twice with the same bytes, installed from each artifact, and used to send an email. The npm packages are installed
 * into a temporary prefix, the Debian package into a copy-on-write view of this machine, and the image into a container engine of its own.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { buildPortal } from '../../scripts/build.ts';
import { sign } from '../../scripts/release/sign.ts';
import { apiClient, type JsonObject } from '../kit/api.ts';
import { freePort } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { environment } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import {
  buildRelease,
  cannotOverlay,
  digests,
  EPOCH,
  migrateAsNewer,
  NEWER_DATABASE,
  releaseWith,
  runInView,
  sendsAnEmail,
  startEngine,
  timeToFirstEmail,
  userEnvironment,
} from './release-artifacts.ts';

const root = path.resolve(import.meta.dirname, '../..');
const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string };
const skip = missing('npm', 'tar', 'dpkg-deb', 'mmdebstrap', 'minisign');
const withoutLintian = skip || missing('lintian');
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-releases-'));
/** The release that the tests install. */
let out: string;
/** The second, signed build. Another umask and time zone must not change the bytes. */
const again = path.join(folder, 'again');
const run = promisify(execFile);
const machine = process.arch === 'arm64' ? 'arm64' : 'amd64';
const deb = (): string => path.join(out, `postrider_${version}-1_${machine}.deb`);

/** A key pair of the releaser. The secret key is not encrypted. */
const [secretKey, publicKey] = ['minisign.key', 'minisign.pub'].map((name) => path.join(folder, name)) as [
  string,
  string,
];

before(async () => {
  if (skip) return;
  execFileSync('minisign', ['-G', '-W', '-s', secretKey, '-p', publicKey]);
  await buildPortal();
  [out] = await Promise.all([
    releaseWith('npm,deb,image,executable', path.join(folder, 'out')),
    buildRelease(again, ['--sign', secretKey], { isUnusual: true }),
  ]);
  if (!withoutLintian) lint = linted();
});

/** Returns the tags of lintian that are errors. It takes half as long without the others, for which it checks spelling, for example. */
function errorTags(): string[] {
  const texts = globSync('/usr/share/lintian/tags/**/*.tag').map((file) => readFileSync(file, 'utf8'));
  return texts
    .filter((text) => /^Severity: error$/m.test(text))
    .map((text) => {
      const field = (name: string): string | undefined => new RegExp(`^${name}: (.+)$`, 'm').exec(text)?.[1];
      return field('Name-Spaced') === 'yes' ? `${field('Check')}/${field('Tag')}` : field('Tag')!;
    });
}

/** The output of lintian, which runs alongside the other tests, because it takes longest. */
const linted = (): Promise<string> => {
  const options = ['--allow-root', '--fail-on', 'none', '--tags', errorTags().join(',')];
  return run('lintian', [...options, deb()], { env: userEnvironment() }).then(
    ({ stdout }) => stdout,
    (error: Error) => error.message,
  );
};
let lint: Promise<string> | undefined;

after(() => rmSync(folder, { recursive: true, force: true }));

test('builds are reproducible, and SHA256SUMS matches them', { skip }, () => {
  const sums = digests(out);
  assert.deepEqual(digests(again), sums);
  const listed = readFileSync(path.join(out, 'SHA256SUMS'), 'utf8').trimEnd().split('\n');
  assert.deepEqual(Object.fromEntries(listed.map((line) => line.split('  ').reverse())), sums);
  assert.equal(Object.keys(sums).length, 8);
  const executable = path.join(again, `postrider-${version}-linux-${process.arch}`);
  assert.equal(statSync(executable).mode & 0o777, 0o755, 'all users can run it');
});

/** Verifies a file as a user does. Returns the trusted comment of its signature; throws if the signature does not match. */
function verified(file: string, key: string): string | undefined {
  const output = execFileSync('minisign', ['-V', '-H', '-p', key, '-m', file], { encoding: 'utf8', stdio: 'pipe' });
  return /^Signature and comment signature verified\nTrusted comment: (.+)$/m.exec(output)?.[1];
}

test('minisign verifies the signature and rejects changed checksums, comments, and other keys', { skip }, () => {
  const comment = `timestamp:${EPOCH}\tfile:SHA256SUMS\thashed`;
  assert.equal(verified(path.join(again, 'SHA256SUMS'), publicKey), comment);
  const file = path.join(folder, 'SHA256SUMS');
  const [sums, signature] = [file, `${file}.minisig`].map((name) =>
    readFileSync(path.join(again, path.basename(name)), 'utf8'),
  ) as [string, string];
  const rejects = (changedSums: string, changedSignature: string, key: string, message: RegExp): void => {
    writeFileSync(file, changedSums);
    writeFileSync(`${file}.minisig`, changedSignature);
    assert.throws(() => verified(file, key), message);
  };
  rejects(
    sums.replace(/^./, (digit) => (digit === '0' ? '1' : '0')),
    signature,
    publicKey,
    /verification failed/,
  );
  rejects(sums, signature.replace(String(EPOCH), String(EPOCH + 1)), publicKey, /verification failed/);

  // Another releaser, with an encrypted key.
  const other = { key: path.join(folder, 'other.key'), pub: path.join(folder, 'other.pub') };
  const password = 'correct horse';
  const input = `${password}\n${password}\n`;
  execFileSync('minisign', ['-G', '-s', other.key, '-p', other.pub], { input, stdio: 'pipe' });
  rejects(sums, signature, other.pub, /key id/i);
  sign(file, { key: other.key, epoch: EPOCH, password });
  assert.equal(verified(file, other.pub), comment);
  rejects(sums, readFileSync(`${file}.minisig`, 'utf8'), publicKey, /key id/i);
  const wrong = { key: other.key, epoch: EPOCH, password: 'wrong' };
  assert.throws(() => sign(file, wrong), /could not sign .*Wrong password.*MINISIGN_PASSWORD/s);

  copyFileSync(path.join(again, 'SHA256SUMS'), file);
  sign(file, { key: secretKey, epoch: EPOCH });
  assert.equal(readFileSync(`${file}.minisig`, 'utf8'), signature, 'two signatures are identical');
});

test('an unsigned release is rejected before it is built', { skip }, async () => {
  const target = path.join(folder, 'refused');
  const refused = { code: 2, stderr: /--sign must be the file of a minisign secret key.*none\.key/ };
  const options = ['--only', 'npm', '--sign', path.join(folder, 'none.key')];
  await assert.rejects(buildRelease(target, options), refused);
  assert.equal(existsSync(target), false);
});

test('the SBOM and the notices list every package of the service', { skip }, () => {
  const lock = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'));
  const needed = Object.entries<JsonObject>(lock.packages)
    .filter(([name, one]) => name !== '' && !one.dev && !one.devOptional && !one.optional)
    .map(([name, one]) => `${name.split('node_modules/').at(-1)} ${one.version}`);
  const text = readFileSync(path.join(out, `postrider-${version}.cdx.json`), 'utf8');
  const bill = JSON.parse(text) as { components: { name: string; version: string; purl: string }[] };
  const listed = new Set(bill.components.map((one) => `${one.name} ${one.version}`));
  const notices = readFileSync(path.join(out, 'THIRD_PARTY_NOTICES'), 'utf8');
  assert.match(notices, /Can I email \(data\) \(MIT\)\n\nMIT License\n\nCopyright/);
  const noted = new Set([...notices.matchAll(/^(\S+ \S+) \(.+\)$/gm)].map(([, name]) => name));
  assert.ok(needed.length > 40);
  for (const name of [...needed, `react ${lock.packages['node_modules/react'].version}`]) {
    assert.ok(listed.has(name), `${name} in the bill of materials`);
    assert.ok(noted.has(name), `${name} in the notices`);
  }
  assert.doesNotMatch(text, /https?:\/\/(?!cyclonedx\.org)/, 'no registry of the build');
  const image = readFileSync(path.join(out, `postrider-${version}-image-${machine}.cdx.json`), 'utf8');
  assert.match(image, /pkg:deb\/debian\/libc6@/);
});

const json = (file: string): JsonObject => JSON.parse(readFileSync(file, 'utf8')) as JsonObject;

test('npm install --global installs a service that sends an email, and a project finds its Node', {
  skip,
  timeout: 600_000,
}, async (t) => {
  const prefix = path.join(folder, 'prefix');
  const data = path.join(folder, 'npm-data');
  const packed = ['postrider', 'postrider-client'].map((name) => path.join(out, `${name}-${version}.tgz`));
  const env = userEnvironment();
  const isDelivered = timeToFirstEmail(t);
  const args = ['install', '--global', '--prefix', prefix, '--prefer-offline', '--no-audit', '--no-fund', ...packed];
  // npm can stall while it unpacks a large package from its cache.
  const install = (): Promise<{ stderr: string }> => run('npm', args, { env, cwd: folder, timeout: 200_000 });
  const { stderr } = await install().catch(install);
  assert.doesNotMatch(stderr, /EBADENGINE|install-scripts|ERR/);
  const program = path.join(prefix, 'bin/postrider');
  assert.equal((await run(program, ['--version'], { env, cwd: folder })).stdout, `${version}\n`);
  const { PATH } = env;
  const service = spawn(program, ['serve'], { cwd: folder, env: { ...environment(data), PATH }, stdio: 'ignore' });
  const ended = new Promise((resolve) => service.once('exit', resolve));
  t.after(() => service.kill('SIGKILL'));
  const serving = path.join(data, 'serving.json');
  await waitUntil('the service to serve', () => existsSync(serving) && service.exitCode === null, 60_000);
  await sendsAnEmail(`http://127.0.0.1:${json(serving).httpPort}`, json(path.join(data, 'first-run.json')));
  isDelivered();
  service.kill('SIGTERM');
  assert.equal(await ended, 0);
  migrateAsNewer(data);
  const refused = run(program, ['serve'], { cwd: folder, env: { ...environment(data), PATH } });
  await assert.rejects(refused, { code: 1, stderr: NEWER_DATABASE });
  // In a project, and for npx, npm puts Node next to the package.
  const modules = path.join(prefix, 'lib/node_modules');
  const [node = ''] = readdirSync(path.join(modules, 'postrider/node_modules')).filter((name) =>
    name.startsWith('node-'),
  );
  renameSync(path.join(modules, 'postrider/node_modules', node), path.join(modules, node));
  assert.equal((await run(program, ['--version'], { env, cwd: folder })).stdout, `${version}\n`);
});

/**
 * The life of the package, in a copy-on-write view of this machine. $1 is the package, $2 a port, $3 a folder that both sides see. A file
 * in that folder ends each phase: it lets this process look at the running service.
 */
const LIFE = `
set -eu
package=$1 port=$2 shared=$3
phase() { touch "$shared/$1"; until [ -e "$shared/$1-done" ]; do sleep 0.1; done; }
serve() {
  postrider serve >"$shared/log" 2>&1 &
  service=$!
  until [ -s /var/lib/postrider/serving.json ]; do kill -0 $service; sleep 0.1; done
  cp /var/lib/postrider/first-run.json "$shared/first-run.json"
}
stop() { kill -TERM $service; wait $service; rm -f /var/lib/postrider/serving.json; }
export DEBIAN_FRONTEND=noninteractive
# Otherwise each dpkg indexes all manual pages of this machine again.
rm -f /var/lib/man-db/auto-update
dpkg --install "$package"
stat -c '%U %a %n' /var/lib/postrider /etc/postrider/postrider.env
cat >>/etc/postrider/postrider.env <<END
POSTRIDER_HTTP_PORT=$port
POSTRIDER_HTTP_HOST=127.0.0.1
POSTRIDER_SMTP_PORT=0
POSTRIDER_DOCTOR_NETWORK=off
END
serve
echo "runs as $(ps -o user:20= -p $service)"
phase installed
postrider account list
stop
dpkg --install "$package"
grep -c "^POSTRIDER_HTTP_PORT=$port" /etc/postrider/postrider.env
serve
phase upgraded
stop
systemd-analyze verify --man=no postrider.service
dpkg --remove postrider
ls -d /etc/postrider/postrider.env /var/lib/postrider
dpkg --info "$package" postrm >"$shared/postrm"
dpkg --purge postrider
if [ -e /etc/postrider ] || [ -e /usr/lib/postrider ] || [ ! -e /var/lib/postrider ]; then exit 3; fi
PURGE_DATA=yes sh "$shared/postrm" purge
if [ -e /var/lib/postrider ]; then exit 4; fi
echo purged
`;

test('the Debian package installs, serves, upgrades, and keeps data until purged', {
  skip: skip || missing('systemd-analyze', 'adduser', 'setpriv', 'ps') || cannotOverlay(),
  timeout: 600_000,
}, async (t) => {
  const shared = path.join(folder, 'shared');
  mkdirSync(shared);
  const script = path.join(folder, 'life.sh');
  writeFileSync(script, LIFE);
  const port = await freePort();
  const isDelivered = timeToFirstEmail(t);
  const life = runInView(folder, [script, deb(), String(port), shared]);
  t.after(() => life.kill('SIGKILL'));
  let output = '';
  for (const stream of [life.stdout, life.stderr])
    stream.on('data', (chunk) => {
      output += chunk;
    });
  const ended = new Promise((resolve) => life.once('close', resolve));
  const phase = (name: string): Promise<unknown> =>
    waitUntil(
      `the phase ${name}`,
      () => {
        if (life.exitCode !== null) throw new Error(output);
        return existsSync(path.join(shared, name));
      },
      300_000,
    );
  const url = `http://127.0.0.1:${port}`;
  await phase('installed');
  const firstRun = json(path.join(shared, 'first-run.json'));
  const messageId = await sendsAnEmail(url, firstRun);
  isDelivered();
  writeFileSync(path.join(shared, 'installed-done'), '');
  await phase('upgraded');
  const api = apiClient(() => url, { accountId: firstRun.accountId, apiKey: firstRun.sandboxApiKey });
  assert.equal((await api.get(`/messages/${messageId}`)).status, 200, 'the upgrade kept the data');
  api.close();
  writeFileSync(path.join(shared, 'upgraded-done'), '');
  assert.equal(await ended, 0, output);
  assert.match(output, /^postrider 700 \/var\/lib\/postrider$/m);
  assert.match(output, /^root 600 \/etc\/postrider\/postrider\.env$/m);
  assert.match(output, /^runs as postrider$/m);
  assert.match(output, new RegExp(firstRun.accountId), 'the command line has the same settings');
  assert.match(output, /^purged$/m);
});

test('the image serves read-only and unprivileged, as its own user or another, and becomes healthy', {
  skip: skip || missing('dockerd', 'docker') || cannotOverlay(),
  timeout: 600_000,
}, async (t) => {
  const { docker, inspect, close } = await startEngine();
  t.after(close);
  const isDelivered = timeToFirstEmail(t);
  const archive = path.join(out, `postrider-${version}-image-${machine}.tar`);
  const loaded = await docker('load', '--input', archive);
  assert.match(loaded, new RegExp(`postrider:${version}`));
  const port = await freePort();
  const settings = { HTTP_PORT: port, HTTP_HOST: '127.0.0.1', SMTP_PORT: 0, DOCTOR_NETWORK: 'off' };
  const env = Object.entries(settings).flatMap(([name, value]) => ['--env', `POSTRIDER_${name}=${value}`]);
  const limits = ['--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
  const image = `postrider:${version}`;
  const sizeBytes = Number(await docker('image', 'inspect', '--format', '{{.Size}}', image));
  assert.ok(sizeBytes > 150e6 && sizeBytes < 230e6, `${sizeBytes} bytes unpacked`);
  assert.ok(statSync(archive).size < 85e6, 'compressed, with Node');
  const url = `http://127.0.0.1:${port}`;
  const id = await docker('run', '--detach', '--network', 'host', ...limits, ...env, image);
  const inside = (...args: string[]): Promise<string> => docker('exec', id, 'node', ...args);
  const isHealthy = async (container: string): Promise<boolean> =>
    (await inspect(container)).State.Health.Status === 'healthy';
  const firstRunOf = async (container: string): Promise<JsonObject> =>
    JSON.parse(await docker('exec', container, 'node', '-p', 'fs.readFileSync("/data/first-run.json", "utf8")'));
  const modeOfData = (container: string): Promise<string> =>
    docker('exec', container, 'node', '-p', '(fs.statSync("/data").mode & 0o7777).toString(8)');
  await waitUntil('the container to be healthy', () => isHealthy(id), 300_000);
  const firstRun = await firstRunOf(id);
  await sendsAnEmail(url, firstRun);
  isDelivered();
  assert.match(await inside('bin/postrider.js', 'account', 'list'), new RegExp(firstRun.accountId));
  assert.equal(await inside('-p', 'process.getuid()'), '65532');
  assert.equal(await inside('-p', 'fs.existsSync("/bin/sh")'), 'false', 'the image has no shell');
  assert.equal(await modeOfData(id), '700', 'the start restricts its new volume');
  const backup = path.join(folder, 'before-upgrade.backup');
  await inside('bin/postrider.js', 'backup', '/data/before-upgrade.backup');
  await docker('cp', `${id}:/data/before-upgrade.backup`, backup);
  assert.ok(statSync(backup).size > 10_000, 'the backup of the guide');
  await docker('stop', '--time', '40', id);
  assert.equal(await docker('inspect', '--format', '{{.State.ExitCode}}', id), '0');

  const other = await docker('run', '--detach', '--network', 'host', '--user', '4242:4242', ...limits, ...env, image);
  await waitUntil('the container of another user', () => isHealthy(other), 300_000);
  await sendsAnEmail(url, await firstRunOf(other));
  await docker('stop', '--time', '40', other);
  assert.equal(await docker('inspect', '--format', '{{.State.ExitCode}}', other), '0');
});

test('lintian finds no error in the Debian package', { skip: withoutLintian, timeout: 600_000 }, async () => {
  assert.ok(errorTags().length > 400);
  assert.doesNotMatch((await lint) ?? '', /^E:|failed/m);
});
