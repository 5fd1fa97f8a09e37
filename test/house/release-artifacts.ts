/** Builds artifacts of a release, and uses an installed service as its first user does. */
import assert from 'node:assert/strict';
import { type ChildProcessByStdio, execFile, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { apiClient, type JsonObject } from '../kit/api.ts';
import { missing, notAllowed } from '../kit/requirements.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { root } from './source-tree.ts';

export const EPOCH = 1_790_000_000;

/** The variable that contains the folder of the release that the files of a run share. */
export const RUN_RELEASE = 'TEST_RELEASE';
const RELEASE_TIMEOUT_MS = 900_000;
/** Releases have a higher level, which takes longer and proves nothing more. */
const FAST = ['--compression', '1'];

/** Builds a checkout into the folder. An unusual build has another umask and time zone. */
export async function buildRelease(
  target: string,
  options: string[],
  { isUnusual = false, tree = root }: { isUnusual?: boolean; tree?: string } = {},
): Promise<void> {
  const script = path.join(tree, 'scripts/release.ts');
  const args = ['--disable-warning=ExperimentalWarning', script, '--out', target, ...FAST, ...options];
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(EPOCH), ...(isUnusual && { TZ: 'Asia/Tokyo' }) };
  const shell = ['-c', 'umask $0; exec "$@"', isUnusual ? '077' : '022', process.execPath, ...args];
  await promisify(execFile)('sh', shell, { env });
}

/** Returns the parts of a release that the programs of this machine can build. */
function possibleParts(): string {
  const needs = { npm: ['npm'], deb: ['dpkg-deb'], image: ['dpkg-deb', 'mmdebstrap'], executable: [] };
  return Object.entries(needs)
    .filter(([, programs]) => !missing(...programs))
    .map(([part]) => part)
    .join(',');
}

/** Creates the folder; returns false if it exists, because another process was faster. */
function isCreated(folder: string): boolean {
  try {
    mkdirSync(folder);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/**
 * Returns a folder with these parts of the release, which must not be changed. If the files of a run share a release, the first one that
 * needs it builds all parts, and the others wait. Otherwise builds only these parts, into the folder `own`.
 */
export async function releaseWith(parts: string, own: string): Promise<string> {
  const shared = process.env[RUN_RELEASE];
  if (shared === undefined) {
    await buildRelease(own, ['--only', parts]);
    return own;
  }
  const failure = `${shared}.error`;
  if (isCreated(shared)) {
    await buildRelease(shared, ['--only', possibleParts()]).catch((error: Error) =>
      writeFileSync(failure, error.message),
    );
  }
  const isComplete = (): boolean => {
    if (existsSync(failure)) throw new Error(readFileSync(failure, 'utf8'));
    // The checksums are written last.
    return existsSync(path.join(shared, 'SHA256SUMS'));
  };
  await waitUntil('the release of this run', isComplete, RELEASE_TIMEOUT_MS);
  return shared;
}

/** Returns the SHA-256 of each artifact by its name, without the checksums and their signature. */
export function digests(of: string): Record<string, string> {
  const names = readdirSync(of).filter((name) => !name.startsWith('SHA256SUMS'));
  const sum = (name: string): string =>
    createHash('sha256')
      .update(readFileSync(path.join(of, name)))
      .digest('hex');
  return Object.fromEntries(names.sort().map((name) => [name, sum(name)]));
}

/** The environment of a user: without the variables and the Node of this project. */
export function userEnvironment(more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|NODE_(?!EXTRA_CA_CERTS)|POSTRIDER_)/i.test(name),
  );
  const PATH = (process.env.PATH ?? '').split(':').filter((one) => !one.includes('node_modules'));
  return { ...Object.fromEntries(kept), PATH: [...PATH, '/usr/sbin', '/sbin'].join(':'), ...more };
}

/** Starts when an installation does; call the result once the first email is delivered. The test then reports the time between. */
export function timeToFirstEmail(t: TestContext): () => void {
  const began = performance.now();
  return () =>
    t.diagnostic(`the first email was delivered ${((performance.now() - began) / 1000).toFixed(1)} s after the start`);
}

/** Sends an email in the sandbox and waits for its delivery. Returns its id. */
export async function sendsAnEmail(url: string, firstRun: JsonObject): Promise<string> {
  const api = apiClient(() => url, { accountId: firstRun.accountId, apiKey: firstRun.sandboxApiKey });
  try {
    const mail = { from: 'shop@shop.example', to: 'ann@example.com', subject: 'Order', text: 'Thank you.' };
    const sent = await api.post('/send', mail);
    assert.equal(sent.status, 202, sent.text);
    const { messageId } = sent.body.data;
    await waitUntil('the delivery', async () => (await api.get(`/messages/${messageId}`)).body.status === 'delivered');
    const [, script = ''] = /<script type="module"[^>]* src="([^"]+)"/.exec((await api.get('/')).text) ?? [];
    assert.equal((await api.get(script)).status, 200, 'the portal is served');
    const { schemas } = (await api.get('/openapi.json')).body.components;
    assert.equal(schemas.ErasureRequest.examples.length, 1, 'the examples of the API are installed');
    return messageId;
  } finally {
    api.close();
  }
}

/** The single line that refuses a database of a newer version. */
export const NEWER_DATABASE =
  /^postrider: the database was migrated by a newer version of postrider \(migration [\w-]+\); run that version, or restore a backup made before the upgrade\n$/;

/** Records a migration that no version has, as a newer version would, in the embedded database of a stopped service. */
export function migrateAsNewer(dataDir: string): void {
  const database = new DatabaseSync(path.join(dataDir, 'postrider.db'));
  try {
    database.exec("INSERT INTO migration SELECT max(number) + 1, '9999-of-a-newer-version', 0 FROM migration");
  } finally {
    database.close();
  }
}

/** Mounts a copy-on-write view of this machine at /mnt/m, in a mount namespace. */
const VIEW = `mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w /mnt/m &&
  mount -t overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w none /mnt/m`;

/** False if a view can be mounted, otherwise the reason for `{ skip }`. */
export function cannotOverlay(): string | false {
  return notAllowed('mount a view of this machine', () =>
    execFileSync('unshare', ['--mount', 'sh', '-c', VIEW], { stdio: 'pipe' }),
  );
}

/** Runs a shell script as root in a view of this machine, which shares the folder. */
export function runInView(folder: string, script: string[]): ChildProcessByStdio<null, Readable, Readable> {
  const view = `${VIEW} && mkdir -p "/mnt/m$FOLDER" && mount --bind "$FOLDER" "/mnt/m$FOLDER" && mount --bind /dev /mnt/m/dev && mount -t proc none /mnt/m/proc && exec chroot /mnt/m sh "$@"`;
  const namespaces = ['--mount', '--pid', '--fork', '--kill-child'];
  return spawn('unshare', [...namespaces, 'sh', '-c', view, 'sh', ...script], {
    env: userEnvironment({ FOLDER: folder }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

export interface Engine {
  /** Runs the command line of the engine; returns what it prints. */
  docker(...args: string[]): Promise<string>;
  /** Returns what `docker inspect` prints. It starts no process, so conditions can poll it. */
  inspect(container: string): Promise<JsonObject>;
  /** The environment of programs that use the engine. */
  env: NodeJS.ProcessEnv;
  /** The folder of the running containers' configurations, each in a subfolder with the name of the container. */
  bundles: string;
  close(): Promise<void>;
}

/**
 * Starts a container engine with its own folders and socket; nothing of the machine's own engine is used. Its containers use the network of
 * the host. With the wrapper of a network namespace, the engine can create networks and publish ports there.
 */
export async function startEngine({ networkWrapper = [] }: { networkWrapper?: string[] } = {}): Promise<Engine> {
  const base = mkdtempSync(path.join(os.tmpdir(), 'postrider-engine-'));
  const socket = `unix://${base}/docker.sock`;
  const withoutRules = networkWrapper.length > 0 ? [] : ['--iptables=false', '--ip6tables=false'];
  const folders = ['--data-root', `${base}/data`, '--exec-root', `${base}/exec`, '--pidfile', `${base}/pid`];
  // In a mount namespace, so that nothing stays mounted when the engine ends.
  const start = [...networkWrapper, 'unshare', '--mount', 'dockerd', ...folders, '--bridge=none', ...withoutRules];
  const engine = spawn(start[0]!, [...start.slice(1), '--host', socket], {
    env: userEnvironment(),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  engine.stderr?.on('data', (chunk) => {
    log += chunk;
  });
  const ended = new Promise((resolve) => engine.once('exit', resolve));
  const env = userEnvironment({ DOCKER_HOST: socket });
  const docker = async (...args: string[]): Promise<string> =>
    (await promisify(execFile)('docker', args, { env })).stdout.trim();
  const inspect = async (container: string): Promise<JsonObject> => {
    const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
    http
      .get({ socketPath: `${base}/docker.sock`, path: `/containers/${container}/json` }, resolve)
      .once('error', reject);
    const response = await promise;
    const answer = (await json(response)) as JsonObject;
    assert.equal(response.statusCode, 200, JSON.stringify(answer));
    return answer;
  };
  await waitUntil('the container engine', async () => {
    if (engine.exitCode !== null) throw new Error(log.slice(-2000));
    return existsSync(`${base}/docker.sock`) && (await docker('version').catch(() => false));
  });
  const close = async (): Promise<void> => {
    const containers = await docker('ps', '--all', '--quiet');
    if (containers) await docker('rm', '--force', '--volumes', ...containers.split('\n'));
    engine.kill('SIGTERM');
    await ended;
    rmSync(base, { recursive: true, force: true });
  };
  const bundles = `${base}/exec/containerd/daemon/io.containerd.runtime.v2.task/moby`;
  return { docker, inspect, env, bundles, close };
}
