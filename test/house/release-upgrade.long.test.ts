/**
 * An upgrade of the Debian package and of the container image from the version that made test/fixtures/upgrade, whose artifacts are built
 * from the history of the repository. The old artifact serves the data of the fixture and accepts another message; the new one then
 * delivers each message and posts each event once. The old artifact refuses to start on the upgraded data.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { HOOK_PORT, KEY_FILE, type UpgradeFacts } from '../fixtures/upgrade/facts.ts';
import { type Api, apiClient, type JsonObject } from '../kit/api.ts';
import { EARLIER_VERSION, installEarlierVersion, noEarlierVersion } from '../kit/earlier-version.ts';
import { freePort } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';
import { buildRelease, cannotOverlay, type Engine, releaseWith, runInView, startEngine } from './release-artifacts.ts';
import { root } from './source-tree.ts';

const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string };
const skip = noEarlierVersion() || missing('dpkg-deb', 'mmdebstrap', 'adduser', 'setpriv') || cannotOverlay();
const machine = process.arch === 'arm64' ? 'arm64' : 'amd64';
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-release-upgrade-'));
/** The folders of the artifacts of both versions. */
const releases = { old: path.join(folder, 'old'), new: path.join(folder, 'new') };
const fixture = path.join(root, 'test/fixtures/upgrade/sqlite');
const facts = JSON.parse(readFileSync(path.join(fixture, 'facts.json'), 'utf8')) as UpgradeFacts;
const TWO_HOURS_MS = 7_200_000;
const HOOK_TYPES = ['Send', 'Delivery', 'DeliveryDelay'];
const REFUSAL = /^postrider: the database was migrated by a newer version of postrider[^\n]*$/;

before(async () => {
  if (skip) return;
  const earlier = installEarlierVersion({ forRelease: true });
  await buildRelease(releases.old, ['--only', 'deb,image'], { tree: earlier.folder });
  earlier.remove();
  releases.new = await releaseWith('deb,image', releases.new);
});
after(async () => {
  await (await engine)?.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Upgrade {
  dataDir: string;
  /** Settings of both versions. */
  settings: Record<string, string | number>;
  sink: SmtpSink;
  catcher: WebhookCatcher;
  url: string;
  api: Api;
}

/** Restores the data of the fixture. `seenAs` is the path of the data directory as the service sees it. */
async function prepare(t: TestContext, name: string, seenAs: string): Promise<Upgrade> {
  const dataDir = path.join(folder, `${name}-data`);
  mkdirSync(dataDir);
  execFileSync('tar', ['--extract', '--gzip', '--file', path.join(fixture, 'data.tar.gz'), '--directory', dataDir]);
  const offsetMs = facts.madeAtMs + TWO_HOURS_MS - Date.now();
  writeFileSync(path.join(dataDir, 'clock.mjs'), `const { now } = Date;\nDate.now = () => now() + ${offsetMs};\n`);
  const sink = await smtpSink();
  t.after(() => sink.close());
  const catcher = await webhookCatcher({ port: HOOK_PORT });
  t.after(() => catcher.close());
  const port = await freePort();
  const { accountId } = JSON.parse(readFileSync(path.join(dataDir, 'first-run.json'), 'utf8')) as JsonObject;
  const apiKey = readFileSync(path.join(dataDir, KEY_FILE), 'utf8');
  const url = `http://127.0.0.1:${port}`;
  const api = apiClient(() => url, { accountId, apiKey });
  t.after(() => api.close());
  const settings = {
    POSTRIDER_HTTP_PORT: port,
    POSTRIDER_HTTP_HOST: '127.0.0.1',
    POSTRIDER_SMTP_PORT: 0,
    POSTRIDER_DOCTOR_NETWORK: 'off',
    POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
    POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
    NODE_OPTIONS: `--import=${seenAs}/clock.mjs`,
  };
  return { dataDir, settings, sink, catcher, url, api };
}

const isReady = (api: Api): Promise<boolean> =>
  api.get('/ready').then(
    ({ status }) => status === 200,
    () => false,
  );

async function accepts(api: Api, name: string): Promise<void> {
  const body = { from: 'shop@shop.example', to: `${name}@example.com`, templateId: facts.templateId };
  const sent = await api.post('/send', { ...body, templateVariables: { number: 8 } });
  assert.equal(sent.status, 202, sent.text);
}

/** Checks at the relay and the webhook receiver that the upgraded service repeats and loses nothing. */
async function deliversAll({ api, url, sink, catcher }: Upgrade): Promise<void> {
  await accepts(api, 'new');
  const names = [
    'deferred-1',
    'deferred-2',
    'queued-1',
    'queued-large',
    'queued-template',
    'scheduled-1',
    'scheduled-2',
  ];
  const expected = [...names, 'old', 'new'].map((name) => `${name}@example.com`).sort();
  const received = (): string[] => sink.messages.flatMap(({ to }) => to).sort();
  await waitUntil('all messages', () => received().length >= expected.length, 60_000);
  const events = async (): Promise<string[]> => {
    const all = (await api.get('/events?limit=100')).body as unknown as { eventId: string; eventType: string }[];
    assert.ok(all.length < 100, 'all events are on one page');
    return all.filter(({ eventType }) => HOOK_TYPES.includes(eventType)).map(({ eventId }) => eventId);
  };
  const delivered = async (): Promise<boolean> => {
    const all = (await api.get('/messages?limit=100')).body as unknown as JsonObject[];
    return all.every(({ status }) => ['delivered', 'suppressed'].includes(status));
  };
  await waitUntil('all results', delivered, 60_000);
  const posted = (): string[] => catcher.requests.map(({ headers }) => String(headers['webhook-id']));
  await waitUntil('all webhook requests', async () => new Set(posted()).size >= (await events()).length, 60_000);
  assert.deepEqual(received(), expected);
  assert.deepEqual(posted().sort(), (await events()).sort());
  const login = await api.call({
    method: 'POST',
    path: '/session',
    body: { email: facts.email, password: facts.password },
    headers: { origin: url, 'x-requested-with': 'postrider' },
  });
  assert.equal(login.status, 200, login.text);
  assert.equal((await api.get(`/webhooks/${facts.webhookId}`)).status, 200);
}

/**
 * $1 and $2 are the packages, $3 the data of the fixture, $4 a folder that both sides see. A file in that folder ends each phase.
 */
const LIFE = `
set -eu
old=$1 new=$2 data=$3 shared=$4
export DEBIAN_FRONTEND=noninteractive
# Otherwise each dpkg indexes all manual pages of this machine again.
rm -f /var/lib/man-db/auto-update
phase() { touch "$shared/$1"; until [ -e "$shared/$1-done" ]; do sleep 0.1; done; }
# As the unit does. It replaces the shell that calls it.
serve() {
  set -a
  POSTRIDER_DATA_DIR=/var/lib/postrider
  . /etc/postrider/postrider.env
  unit=/usr/lib/systemd/system/postrider.service
  cd "$(sed -n 's/^WorkingDirectory=//p' $unit)"
  exec setpriv --reuid=postrider --regid=postrider --init-groups $(sed -n 's/^ExecStart=//p' $unit)
}
stop() { kill -TERM $service; wait $service; }
dpkg --install "$old"
cp -a "$data/." /var/lib/postrider/
chown -R postrider:postrider /var/lib/postrider
cat "$shared/settings" >>/etc/postrider/postrider.env
echo POSTRIDER_ROLES=api >>/etc/postrider/postrider.env
serve >"$shared/old.log" 2>&1 & service=$!
phase old-serves
stop
sha256sum /etc/postrider/postrider.env >"$shared/before"
dpkg --install "$new"
sha256sum --check "$shared/before"
sed -i '/^POSTRIDER_ROLES=/d' /etc/postrider/postrider.env
echo POSTRIDER_BACKUP_BEFORE_UPGRADE=on >>/etc/postrider/postrider.env
serve >"$shared/new.log" 2>&1 & service=$!
phase new-serves
stop
ls /var/lib/postrider/postrider-before-upgrade-from-0053.backup
dpkg --install "$old"
sed -i '/^POSTRIDER_BACKUP/d' /etc/postrider/postrider.env
if (serve) >/dev/null 2>"$shared/refusal"; then exit 3; fi
dpkg --purge postrider
test -s /var/lib/postrider/postrider.db
`;

test('the Debian package upgrades the data of the version before once, and keeps settings', {
  skip,
  timeout: 300_000,
}, async (t) => {
  const upgrade = await prepare(t, 'deb', '/var/lib/postrider');
  const shared = path.join(folder, 'shared');
  mkdirSync(shared);
  const lines = Object.entries(upgrade.settings).map(([name, value]) => `${name}="${value}"\n`);
  writeFileSync(path.join(shared, 'settings'), lines.join(''));
  const script = path.join(folder, 'life.sh');
  writeFileSync(script, LIFE);
  const deb = (of: string, name: string): string => path.join(of, `postrider_${name}-1_${machine}.deb`);
  const [old, next] = [deb(releases.old, EARLIER_VERSION.replace('-', '~')), deb(releases.new, version)];
  const life = runInView(folder, [script, old, next, upgrade.dataDir, shared]);
  t.after(() => life.kill('SIGKILL'));
  let output = '';
  for (const stream of [life.stdout, life.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk;
    });
  }
  const ended = new Promise((resolve) => life.once('close', resolve));
  const phase = async (name: string, act: () => Promise<void>): Promise<void> => {
    await waitUntil(
      `the phase ${name}`,
      async () => {
        if (life.exitCode !== null) throw new Error(output);
        return existsSync(path.join(shared, name)) && isReady(upgrade.api);
      },
      120_000,
    ).catch((error: Error) => {
      const logs = ['old.log', 'new.log'].map((one) => path.join(shared, one)).filter((one) => existsSync(one));
      throw new Error([error.message, output, ...logs.map((one) => readFileSync(one, 'utf8'))].join('\n'));
    });
    await act();
    writeFileSync(path.join(shared, `${name}-done`), '');
  };
  await phase('old-serves', () => accepts(upgrade.api, 'old'));
  assert.equal(upgrade.sink.messages.length, 0);
  await phase('new-serves', () => deliversAll(upgrade));
  assert.equal(await ended, 0, output);
  assert.match(readFileSync(path.join(shared, 'refusal'), 'utf8').trim(), REFUSAL);
});

/** The previous version ran as the first user, and this version runs as the second one. */
const [EARLIER_USER, IMAGE_USER] = ['1000:1000', '65532:65532'] as const;
const OWNER_REFUSAL =
  'postrider: the folder /data belongs to the user 1000, but Postrider runs as the user 65532, which cannot write to it; ' +
  'run chown -R 65532:65532 /data, or run Postrider as the user 1000 (docker run --user 1000:1000)';

let engine: Promise<Engine> | undefined;

/** Starts an engine that has the images of both versions. */
async function startLoadedEngine(): Promise<Engine> {
  const started = await startEngine();
  for (const [of, tag] of [
    [releases.old, EARLIER_VERSION],
    [releases.new, version],
  ] as const) {
    await started.docker('load', '--input', path.join(of, `postrider-${tag}-image-${machine}.tar`));
  }
  return started;
}

/** Upgrades a volume of the previous version with the image; its files then belong to the user. */
async function upgradesVolume(t: TestContext, name: string, user: string): Promise<void> {
  const upgrade = await prepare(t, name, '/data');
  engine ??= startLoadedEngine();
  const { docker } = await engine;
  const own = (owner: string): unknown => execFileSync('chown', ['-R', owner, upgrade.dataDir]);
  own(EARLIER_USER);
  const limits = ['--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
  const start = (tag: string, options: string[], more: Record<string, string> = {}): Promise<string> => {
    const settings = Object.entries({ ...upgrade.settings, ...more }).flatMap((one) => ['--env', one.join('=')]);
    const all = [...options, '--network', 'host', ...limits, '--volume', `${upgrade.dataDir}:/data`];
    return docker('run', ...all, ...settings, `postrider:${tag}`);
  };
  const stop = async (id: string): Promise<void> => {
    await docker('stop', '--time', '40', id);
    assert.equal(await docker('inspect', '--format', '{{.State.ExitCode}}', id), '0');
  };
  const refuses = (started: Promise<string>, message: string | RegExp): Promise<void> =>
    assert.rejects(started, (error: Error & { code: number; stderr: string }) => {
      assert.equal(error.code, 1);
      if (typeof message === 'string') assert.equal(error.stderr.trim(), message);
      else assert.match(error.stderr.trim(), message);
      return true;
    });
  const old = await start(EARLIER_VERSION, ['--detach'], { POSTRIDER_ROLES: 'api' });
  await waitUntil('the old image', () => isReady(upgrade.api), 60_000);
  await accepts(upgrade.api, 'old');
  await stop(old);
  assert.equal(upgrade.sink.messages.length, 0);
  // The clock of the fixture is in the volume, so Node itself could not read it.
  await refuses(start(version, ['--rm'], { NODE_OPTIONS: '' }), OWNER_REFUSAL);
  if (user === IMAGE_USER) own(IMAGE_USER);
  const as = user === IMAGE_USER ? [] : ['--user', user];
  const next = await start(version, ['--detach', ...as], { POSTRIDER_BACKUP_BEFORE_UPGRADE: 'on' });
  await waitUntil('the new image', () => isReady(upgrade.api), 60_000);
  await deliversAll(upgrade);
  await stop(next);
  const backup = path.join(upgrade.dataDir, 'postrider-before-upgrade-from-0053.backup');
  assert.equal(statSync(backup).uid, Number(user.split(':')[0]));
  await refuses(start(EARLIER_VERSION, ['--rm', '--user', user]), REFUSAL);
}

for (const [way, user] of [
  ['chown', IMAGE_USER],
  ['--user', EARLIER_USER],
] as const) {
  test(
    `the image refuses the volume of the version before, and upgrades it once with ${way}`,
    {
      skip: skip || missing('dockerd', 'docker'),
      timeout: 300_000,
    },
    (t) => upgradesVolume(t, `image-${way}`, user),
  );
}
