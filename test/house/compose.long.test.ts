/**
 * deploy/compose.yaml with Debian's docker-compose, in a container engine with its own network: two nodes of the image of the release,
 * PostgreSQL, and HAProxy, with content in an S3-compatible store. Under load, one node is killed and another one is stopped; the receiving
 * server counts each message once. The containers of the peers use the programs of this machine, because no registry can be reached.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { parse, stringify } from 'yaml';
import { type Api, apiClient, type JsonObject } from '../kit/api.ts';
import { networkNamespace, noNamespaces } from '../kit/network-namespace.ts';
import { missing } from '../kit/requirements.ts';
import { noLocalS3, startLocalS3 } from '../kit/s3.ts';
import { largeMail } from '../kit/s3-service.ts';
import { type SinkContext, smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { cannotOverlay, type Engine, releaseWith, startEngine } from './release-artifacts.ts';
import { root } from './source-tree.ts';

const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string };
const skip =
  noNamespaces ||
  noLocalS3 ||
  missing('mmdebstrap', 'dpkg-deb', 'dockerd', 'docker', 'docker-compose', 'iptables', 'haproxy') ||
  cannotOverlay();
const machine = process.arch === 'arm64' ? 'arm64' : 'amd64';
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-compose-'));
const deploy = path.join(folder, 'deploy');
/** The folder of the artifacts. */
let release: string;
const run = promisify(execFile);
const NODES = ['node-1', 'node-2'];
const FIRST_RUN = 'fs.readFileSync("/data/first-run.json", "utf8")';

before(async () => {
  if (skip) return;
  release = await releaseWith('image', path.join(folder, 'out'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** Behaves like the entry point of the image of PostgreSQL: its first start has a temporary server without TCP, and then a second one. */
const POSTGRES = `
set -e
export PGDATA=/var/lib/postgresql/data PATH="$(echo /usr/lib/postgresql/*/bin):$PATH"
as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
if [ ! -e "$PGDATA/PG_VERSION" ]; then
  install -d -m 700 -o postgres -g postgres "$PGDATA"
  install -d -o postgres -g postgres /var/run/postgresql
  printf %s "$POSTGRES_PASSWORD" >/run/password
  chmod 644 /run/password
  as initdb --username="$POSTGRES_USER" --pwfile=/run/password --auth-local=trust --auth-host=scram-sha-256 >/dev/null
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  as pg_ctl --wait --options="-c listen_addresses=''" start >/dev/null
  sleep 3
  as createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
  as pg_ctl --wait --mode=fast stop >/dev/null
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups postgres -c listen_addresses='*'
`;

const HAPROXY = 'exec /usr/sbin/haproxy -W -db -f /usr/local/etc/haproxy/haproxy.cfg\n';

/** Imports an image without programs: those of this machine are mounted at /usr. */
async function importPeer({ docker }: Engine, name: string, script: string): Promise<void> {
  const skeleton = path.join(folder, 'peer');
  for (const one of ['usr', 'etc', 'tmp', 'var/lib', 'run']) mkdirSync(path.join(skeleton, one), { recursive: true });
  for (const one of ['bin', 'sbin', 'lib', 'lib64']) symlinkSync(`usr/${one}`, path.join(skeleton, one));
  symlinkSync('/run', path.join(skeleton, 'var/run'));
  writeFileSync(path.join(skeleton, 'etc/passwd'), 'root:x:0:0::/:/bin/sh\npostgres:x:101:101::/:/bin/sh\n');
  writeFileSync(path.join(skeleton, 'etc/group'), 'root:x:0:\npostgres:x:101:\n');
  writeFileSync(path.join(skeleton, 'start'), script);
  const archive = path.join(folder, 'peer.tar');
  execFileSync('tar', ['--create', `--file=${archive}`, '--owner=0', '--group=0', '--directory', skeleton, '.']);
  const changes = ['PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL=C.UTF-8'].flatMap((one) => ['--change', `ENV ${one}`]);
  await docker('import', ...changes, '--change', 'ENTRYPOINT ["/bin/sh", "/start"]', archive, name);
  rmSync(skeleton, { recursive: true });
}

interface Deployment {
  /** Runs docker-compose; returns what it prints. */
  compose(...args: string[]): Promise<string>;
  /** Returns what `docker inspect` prints about the container of a service. */
  inspect(service: string): Promise<JsonObject>;
  /** Returns the sum of a metric of both nodes. */
  metric(name: string): Promise<number>;
}

/** Writes the files of deploy/, the settings of a user, and what replaces the registry. Returns the commands of the user. */
async function prepare(engine: Engine, settings: Record<string, string>): Promise<Deployment> {
  mkdirSync(deploy);
  for (const name of ['haproxy.cfg', 'compose.env.example']) {
    copyFileSync(path.join(root, 'deploy', name), path.join(deploy, name));
  }
  // Debian's docker-compose is older than `name`. Everything else is unchanged.
  const file = readFileSync(path.join(root, 'deploy/compose.yaml'), 'utf8');
  writeFileSync(path.join(deploy, 'compose.yaml'), file.replace(/^name: postrider\n/m, ''));
  const example = readFileSync(path.join(deploy, 'compose.env.example'), 'utf8');
  const replaced = Object.entries(settings).reduce(
    (text, [name, value]) => text.replace(new RegExp(`^${name}=.*\n`, 'm'), '').concat(`${name}=${value}\n`),
    example,
  );
  writeFileSync(path.join(deploy, 'compose.env'), replaced);
  // The configuration of HAProxy is mounted below /usr/local, so /usr as a whole cannot be.
  const programs = ['bin', 'sbin', 'lib', 'lib64', 'share'].map((one) => `/usr/${one}:/usr/${one}:ro`);
  const { services } = parse(file, { merge: true });
  const peers = {
    balancer: { volumes: programs },
    postgres: { volumes: programs },
  };
  writeFileSync(path.join(deploy, 'peers.yaml'), stringify({ services: peers }));
  await importPeer(engine, services.postgres.image, POSTGRES);
  await importPeer(engine, services.balancer.image, HAPROXY);
  await engine.docker('load', '--input', path.join(release, `postrider-${version}-image-${machine}.tar`));
  await engine.docker('tag', `postrider:${version}`, services['node-1'].image);
  const options = ['--project-name', 'postrider', '--env-file', 'deploy/compose.env', '-f', 'deploy/compose.yaml'];
  const env = { ...engine.env, COMPOSE_HTTP_TIMEOUT: '300' };
  const compose = async (...args: string[]): Promise<string> => {
    const command = [...options, '-f', 'deploy/peers.yaml', ...args];
    return (await run('docker-compose', command, { cwd: folder, env })).stdout.trim();
  };
  // Polled conditions do not start docker-compose, a Python program that takes a second. A container keeps its id when it restarts.
  const ids = new Map<string, string>();
  const idOf = async (service: string): Promise<string> => {
    const id = ids.get(service) ?? (await compose('ps', '--quiet', service));
    ids.set(service, id);
    return id;
  };
  const inspect = async (service: string): Promise<JsonObject> => engine.inspect(await idOf(service));
  const metric = async (wanted: string): Promise<number> => {
    const script = `fetch('http://127.0.0.1:3000/metrics').then(async (answer) => console.log(await answer.text()))`;
    const values = NODES.map(async (service) => {
      const line = (await engine.docker('exec', await idOf(service), 'node', '-e', script))
        .split('\n')
        .find((one) => one.startsWith(`${wanted} `));
      assert.ok(line, wanted);
      return Number(line.split(' ').at(-1));
    });
    return (await Promise.all(values)).reduce((sum, one) => sum + one, 0);
  };
  return { compose, inspect, metric };
}

/** Sends one message as a client does: with the same key until it is accepted. */
async function sends(api: Api, to: string, mail: JsonObject): Promise<void> {
  await waitUntil(
    `${to} to be accepted`,
    async () => {
      const answer = await api.post('/send', { ...mail, to }, { 'idempotency-key': to }).catch(() => undefined);
      if (answer === undefined || [409, 429, 502, 503, 504].includes(answer.status)) return false;
      assert.equal(answer.status, 202, answer.text);
      return true;
    },
    120_000,
  );
}

const COUNT = 400;
const CONCURRENCY = 8;
const LARGE_EVERY = 50;

/** The ports of submission, and the recipients of a message there. */
const SUBMISSION = { 587: 'submitted-1@example.com', 1587: 'submitted-2@example.com' };

const name = (index: number): string => `n-${index}@example.com`;

/** Sends messages `from` to `to` with several requests at a time. */
async function load(api: Api, from: number, to: number): Promise<void> {
  let next = from;
  const small = { from: 'shop@shop.example', subject: 'Order', text: 'Thank you.' };
  const worker = async (): Promise<void> => {
    while (next < to) {
      const index = next;
      next += 1;
      await sends(api, name(index), index % LARGE_EVERY === 0 ? largeMail(name(index)) : small);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
}

interface GatedSink {
  port: number;
  /** Recipients of all messages received. */
  received(): string[];
  violations: string[];
  /** Leaves new transactions without a reply until the release. */
  hold(): void;
  release(): void;
}

/** A receiving server that can hold new transactions, so that none is between its final dot and the record of its reply. */
async function gatedSink(t: TestContext): Promise<GatedSink> {
  let gate = Promise.withResolvers<void>();
  gate.resolve();
  const mail = async (_: SinkContext): Promise<undefined> => {
    await gate.promise;
  };
  const sink = await smtpSink({ script: { mail } });
  t.after(() => sink.close());
  return {
    port: sink.port,
    violations: sink.violations,
    received: () => sink.messages.flatMap(({ to }) => to),
    hold: () => {
      gate = Promise.withResolvers<void>();
    },
    release: () => gate.resolve(),
  };
}

/** Submits one message over SMTP; the nodes have a port each. */
async function submits(host: string, port: number, firstRun: JsonObject, to: string): Promise<void> {
  const talker = await connectTalker(port, { host });
  try {
    assert.match(await talker.reply(), /^220 mail\.example\.com /);
    await talker.logIn({ username: firstRun.smtpUsername, password: firstRun.smtpPassword });
    assert.match(await talker.say('MAIL FROM:<shop@shop.example>'), /^250/);
    assert.match(await talker.say(`RCPT TO:<${to}>`), /^250/);
    assert.match(await talker.say('DATA'), /^354/);
    talker.send(`From: shop@shop.example\r\nTo: ${to}\r\nSubject: Order\r\n\r\nThank you.\r\n.\r\n`);
    assert.match(await talker.reply(), /^250/);
  } finally {
    talker.destroy();
  }
}

const SETTINGS = {
  POSTGRES_PASSWORD: 'a/b@c:d#e?f%20',
  POSTRIDER_SECRET_KEY: randomBytes(32).toString('base64'),
  POSTRIDER_DOCTOR_NETWORK: 'off',
};

/** Waits until both nodes are healthy. */
async function areHealthy({ inspect }: Deployment): Promise<void> {
  for (const node of NODES) {
    const isHealthy = async (): Promise<boolean> => (await inspect(node)).State.Health.Status === 'healthy';
    await waitUntil(`${node} to be healthy`, isHealthy, 180_000);
  }
}

/** Reads the credentials as the comments of the compose file say, and adds a domain. */
async function firstSteps({ compose }: Deployment): Promise<JsonObject> {
  const read = (node: string): Promise<string> => compose('exec', '-T', node, 'node', '-p', FIRST_RUN).catch(() => '');
  const found = (await Promise.all(NODES.map(read))).filter((text) => text !== '');
  assert.equal(found.length, 1, 'one node has the credentials');
  const firstRun = JSON.parse(found[0]!) as JsonObject;
  const command = ['domain', 'add', firstRun.accountId, 'shop.example', '--verified'];
  await compose('exec', '-T', 'node-1', 'node', 'bin/postrider.js', ...command);
  return firstRun;
}

/** Kills node-1 while it has messages in progress, and waits until the engine has started it again. */
async function killNode({ inspect, metric }: Deployment, sink: GatedSink): Promise<void> {
  sink.hold();
  await waitUntil(
    'each reply of the receiving server to be recorded',
    async () => (await metric('postrider_messages_delivered_total{mode="live"}')) === sink.received().length,
  );
  // A process that dies between the final dot and its record would send that message again, which the promises allow.
  process.kill((await inspect('node-1')).State.Pid, 'SIGKILL');
  await waitUntil('the restart of the node', async () => (await inspect('node-1')).RestartCount === 1);
  sink.release();
}

/** Sends messages to the deployment at the address. */
async function exercise(deployment: Deployment, sink: GatedSink, address: string): Promise<void> {
  const { compose, inspect, metric } = deployment;
  await compose('up', '--detach', '--no-build');
  await areHealthy(deployment);
  const firstRun = await firstSteps(deployment);
  const { accountId, apiKey } = firstRun;
  const api = apiClient(() => `http://${address}:3000`, { accountId, apiKey });
  const half = COUNT / 2;
  try {
    const first = load(api, 0, half);
    await waitUntil('mail to flow', () => sink.received().length >= half / 2, 180_000);
    await killNode(deployment, sink);
    await first;
    await areHealthy(deployment);

    const second = load(api, half, COUNT);
    await waitUntil('more mail', () => sink.received().length >= half + half / 4, 180_000);
    await compose('stop', 'node-2');
    assert.equal((await inspect('node-2')).State.ExitCode, 0, 'a planned stop');
    await second;
    await compose('start', 'node-2');
    await areHealthy(deployment);
  } finally {
    api.close();
  }
  for (const [port, to] of Object.entries(SUBMISSION)) await submits(address, Number(port), firstRun, to);

  const expected = [...Array.from({ length: COUNT }, (_, index) => name(index)), ...Object.values(SUBMISSION)].sort();
  await waitUntil('all messages', () => new Set(sink.received()).size >= expected.length, 180_000);
  await waitUntil('an empty queue', async () => (await metric('postrider_queue_depth_messages')) === 0);
  assert.deepEqual(sink.received().sort(), expected);
  assert.deepEqual(sink.violations, []);
}

test('nodes of the compose file die and stop under load: nothing is lost, and nothing is sent twice', {
  skip,
  timeout: 600_000,
}, async (t) => {
  const namespace = networkNamespace();
  t.after(() => namespace.close());
  const engine = await startEngine(namespace);
  t.after(engine.close);
  const sink = await gatedSink(t);
  const route = await namespace.forward(sink.port);
  const peer = await startLocalS3();
  t.after(peer.close);
  const store = await namespace.forward(Number(new URL(peer.location.endpoint).port));
  const deployment = await prepare(engine, {
    ...SETTINGS,
    ...peer.environment(`http://${store.host}:${store.port}`),
    POSTRIDER_ROUTE: `smtp://${route.host}:${route.port}`,
  });
  await exercise(deployment, sink, namespace.address).catch(async (error: Error) => {
    const log = await deployment.compose('logs', '--no-color', '--tail=40');
    throw new Error(`${error.message}\n${log.slice(-8000)}`, { cause: error });
  });
  await deployment.compose('down', '--volumes');
});
