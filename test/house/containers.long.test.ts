/**
 * The container images where Docker does less for them: for another architecture under emulation, and under runc alone, unprivileged and
 * read-only, with the default seccomp profile.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { apiClient, type JsonObject } from '../kit/api.ts';
import { freePort } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';
import {
  buildRelease,
  cannotOverlay,
  releaseWith,
  sendsAnEmail,
  startEngine,
  userEnvironment,
} from './release-artifacts.ts';
import { root } from './source-tree.ts';

const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string };
const skip = missing('mmdebstrap', 'dpkg-deb', 'dockerd', 'docker') || cannotOverlay();
const machine = process.arch === 'arm64' ? 'arm64' : 'amd64';
const foreign = machine === 'amd64' ? 'arm64' : 'amd64';
/** Runs programs of the other architecture. It is linked statically, so it needs nothing of the image. */
const EMULATOR = `qemu-${foreign === 'arm64' ? 'aarch64' : 'x86_64'}-static`;
const noEmulator = missing(EMULATOR);
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-containers-'));
const image = `postrider:${version}`;
const archiveOf = (of: string, architecture: string): string =>
  path.join(of, `postrider-${version}-image-${architecture}.tar`);
/** The image of this machine's architecture. */
let archive: string;
const run = promisify(execFile);

before(async () => {
  if (skip) return;
  archive = archiveOf(await releaseWith('image', path.join(folder, 'own')), machine);
  if (!noEmulator) await buildRelease(folder, ['--only', 'image', '--arch', foreign]);
});
after(() => rmSync(folder, { recursive: true, force: true }));

const LIMITS = ['--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
const FIRST_RUN = 'fs.readFileSync("/data/first-run.json", "utf8")';

/** Settings of a container in the network of the host. */
const settingsOf = (httpPort: number): Record<string, string> => ({
  POSTRIDER_HTTP_PORT: String(httpPort),
  POSTRIDER_HTTP_HOST: '127.0.0.1',
  POSTRIDER_SMTP_PORT: '0',
  POSTRIDER_DOCTOR_NETWORK: 'off',
});

const optionsOf = (settings: Record<string, string>): string[] =>
  Object.entries(settings).flatMap((one) => ['--env', one.join('=')]);

/** Sends an email with the live key, and returns its status. */
async function sends(url: string, firstRun: JsonObject, to: string): Promise<number> {
  const api = apiClient(() => url, firstRun as { accountId: string; apiKey: string });
  const mail = { from: 'shop@shop.example', to, subject: 'Order', text: 'Thank you.' };
  const { status } = await api.post('/send', mail).finally(() => api.close());
  return status;
}

test(`the image for ${foreign} serves and delivers an email under emulation`, {
  skip: skip || noEmulator,
  timeout: 600_000,
}, async (t) => {
  const { docker, inspect, close } = await startEngine();
  t.after(close);
  const sink = await smtpSink();
  t.after(() => sink.close());
  await docker('load', '--input', archiveOf(folder, foreign));
  assert.equal(await docker('image', 'inspect', '--format', '{{.Architecture}}', image), foreign);
  // The emulator is named explicitly: the kernel may have no handler for the programs of the image (binfmt_misc).
  const emulator = execFileSync('sh', ['-c', `command -v ${EMULATOR}`], { encoding: 'utf8' }).trim();
  const node = ['/emulator', '/usr/local/bin/node'];
  const [, ...entry] = JSON.parse(await docker('image', 'inspect', '--format', '{{json .Config.Entrypoint}}', image));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const settings = { ...settingsOf(port), POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` };
  const options = [
    '--detach',
    '--no-healthcheck',
    '--network',
    'host',
    ...LIMITS,
    '--volume',
    `${emulator}:/emulator:ro`,
  ];
  const started = ['--entrypoint', node[0]!, image, node[1]!, ...entry, 'serve'];
  const id = await docker('run', ...options, ...optionsOf(settings), ...started);
  const inside = (...args: string[]): Promise<string> => docker('exec', id, ...node, ...args);
  const isServing = async (): Promise<boolean> => {
    const { State: state } = await inspect(id);
    if (!state.Running) throw new Error(await docker('logs', id));
    return fetch(`${url}/ready`).then(
      ({ status }) => status === 200,
      () => false,
    );
  };
  await waitUntil('the emulated service', isServing, 400_000);
  assert.deepEqual(await (await fetch(`${url}/health`)).json(), { status: 'ok' });
  const found = JSON.parse(await inside('-p', `JSON.stringify([process.arch, process.getuid(), ${FIRST_RUN}])`));
  assert.deepEqual(found.slice(0, 2), [foreign, 65_532]);
  const firstRun = JSON.parse(found[2]);
  await inside(...entry, 'domain', 'add', firstRun.accountId, 'shop.example', '--verified');
  assert.equal(await sends(url, firstRun, 'ann@example.com'), 202);
  await waitUntil('the delivery', () => sink.messages.length > 0);
  assert.match(String(sink.messages[0]!.content), /^DKIM-Signature: /m);
  assert.deepEqual(sink.violations, []);
  await docker('stop', '--time', '40', id);
  assert.equal(await docker('inspect', '--format', '{{.State.ExitCode}}', id), '0');
});

/** Unpacks the image into the bundle of a container that runc starts, and configures it like the image. */
async function writeBundle(bundle: string, seccomp: JsonObject, settings: Record<string, string>): Promise<void> {
  const layout = path.join(bundle, 'layout');
  const rootfs = path.join(bundle, 'rootfs');
  for (const one of [layout, rootfs]) mkdirSync(one, { recursive: true });
  await run('tar', ['--extract', '--file', archive, '--directory', layout]);
  const [{ Config: name, Layers: layers }] = JSON.parse(readFileSync(path.join(layout, 'manifest.json'), 'utf8'));
  for (const layer of layers) {
    await run('tar', [
      '--extract',
      '--gzip',
      '--same-owner',
      '--file',
      path.join(layout, layer),
      '--directory',
      rootfs,
    ]);
  }
  const { config } = JSON.parse(readFileSync(path.join(layout, name), 'utf8')) as JsonObject;
  execFileSync('runc', ['spec', '--bundle', bundle], { env: userEnvironment() });
  const file = path.join(bundle, 'config.json');
  const spec = JSON.parse(readFileSync(file, 'utf8')) as JsonObject;
  const [uid, gid] = config.User.split(':').map(Number);
  spec.process.terminal = false;
  spec.process.user = { uid, gid };
  spec.process.args = [...config.Entrypoint, ...config.Cmd];
  spec.process.cwd = config.WorkingDir;
  spec.process.env = [...config.Env, ...Object.entries(settings).map((one) => one.join('='))];
  spec.process.capabilities = { bounding: [], effective: [], permitted: [] };
  spec.root.readonly = true;
  spec.linux.seccomp = seccomp;
  spec.linux.namespaces = spec.linux.namespaces.filter(({ type }: JsonObject) => type !== 'network');
  const writable = (destination: string, mode: string): JsonObject => ({
    destination,
    type: 'tmpfs',
    source: 'tmpfs',
    options: ['nosuid', 'nodev', `mode=${mode}`, `uid=${uid}`, `gid=${gid}`],
  });
  // The host's network needs no namespace of /sys.
  spec.mounts = spec.mounts.filter((one: JsonObject) => !one.destination.startsWith('/sys'));
  spec.mounts.push(writable('/tmp', '1777'), writable('/data', '0700'));
  writeFileSync(file, JSON.stringify(spec));
}

/** The default seccomp profile of the engine, as it configures a container. */
async function defaultSeccomp(): Promise<JsonObject> {
  const { docker, bundles, close } = await startEngine();
  try {
    await docker('load', '--input', archive);
    const port = await freePort();
    const id = await docker('run', '--detach', '--network', 'host', ...LIMITS, ...optionsOf(settingsOf(port)), image);
    const spec = JSON.parse(readFileSync(path.join(bundles, id, 'config.json'), 'utf8')) as JsonObject;
    return spec.linux.seccomp;
  } finally {
    await close();
  }
}

test('the image serves under runc: unprivileged, read-only, with the default seccomp profile', {
  skip: skip || missing('runc'),
  timeout: 300_000,
}, async (t) => {
  const seccomp = await defaultSeccomp();
  assert.equal(seccomp.defaultAction, 'SCMP_ACT_ERRNO');
  const bundle = path.join(folder, 'bundle');
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  await writeBundle(bundle, seccomp, settingsOf(port));
  const id = `postrider-${process.pid}`;
  const base = ['--root', path.join(folder, 'runc')];
  const env = userEnvironment();
  const container = spawn('runc', [...base, 'run', '--bundle', bundle, id], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [container.stdout, container.stderr]) {
    stream.on('data', (chunk) => {
      log += chunk;
    });
  }
  const ended = new Promise((resolve) => container.once('close', resolve));
  t.after(async () => {
    if (container.exitCode === null) execFileSync('runc', [...base, 'delete', '--force', id], { env, stdio: 'ignore' });
    await ended;
  });
  const isReady = async (): Promise<boolean> => {
    if (container.exitCode !== null) throw new Error(log);
    return fetch(`${url}/ready`).then(
      ({ status }) => status === 200,
      () => false,
    );
  };
  await waitUntil('the service', isReady, 120_000);
  const inside = async (script: string): Promise<string> =>
    (await run('runc', [...base, 'exec', id, 'node', '-p', script], { env })).stdout.trim();
  await sendsAnEmail(url, JSON.parse(await inside(FIRST_RUN)));
  const status = await inside('fs.readFileSync("/proc/1/status", "utf8")');
  for (const line of [/^Uid:(\s+65532){4}$/m, /^CapEff:\s+0+$/m, /^CapBnd:\s+0+$/m, /^NoNewPrivs:\s+1$/m]) {
    assert.match(status, line);
  }
  assert.match(status, /^Seccomp:\s+2$/m, 'a filter is active');
  const code = await inside('try { fs.writeFileSync("/srv/x", "") } catch (error) { error.code }');
  assert.equal(code, 'EROFS');
  execFileSync('runc', [...base, 'kill', id, 'TERM'], { env });
  assert.equal(await ended, 0, log);
});
