/** The settings in deploy/ exist, its commands start the service, and a planned stop has enough time. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SECRET_SETTINGS, settings } from '../../src/config.ts';

const root = path.resolve(import.meta.dirname, '../..');
const files = globSync('deploy/**/*', { cwd: root, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => path.join(entry.parentPath, entry.name));
const read = (name: string): string => readFileSync(path.join(root, name), 'utf8');

function unknownVariables(text: string): string[] {
  const known = new Set<string>([
    ...Object.values(settings).map((setting) => setting.name),
    ...SECRET_SETTINGS.map((name) => `${name}_FILE`),
  ]);
  return [...text.matchAll(/\bPOSTRIDER_[A-Z_]*[A-Z]\b/g)].map(([name]) => name).filter((name) => !known.has(name));
}

test('every variable in deploy/ is a setting', () => {
  assert.ok(files.length >= 6, 'deploy/ has files');
  for (const file of files) assert.deepEqual(unknownVariables(readFileSync(file, 'utf8')), [], file);
  assert.deepEqual(
    unknownVariables('POSTRIDER_HTTP_PROT=1'),
    ['POSTRIDER_HTTP_PROT'],
    'control: a misspelled one is found',
  );
});

test('the chart accepts every setting that it does not set itself, and secrets only as files', () => {
  const chart = 'deploy/helm/postrider';
  const schema = JSON.parse(read(`${chart}/values.schema.json`));
  const accepted: string[] = schema.properties.settings.propertyNames.enum;
  const helpers = read(`${chart}/templates/_helpers.tpl`);
  const own = [...helpers.matchAll(/^(POSTRIDER_[A-Z_]+): /gm)].map(([, name]) => name!);
  assert.ok(own.includes('POSTRIDER_BASE_URL'));
  const names = Object.values(settings)
    .map((setting) => setting.name as string)
    .filter((name) => ![...own, 'POSTRIDER_ROLES'].includes(name))
    .map((name) => (SECRET_SETTINGS.includes(name) ? `${name}_FILE` : name));
  assert.deepEqual([...accepted].sort(), names.sort());
  const { version } = JSON.parse(read('package.json'));
  for (const field of ['version', 'appVersion']) {
    assert.match(read(`${chart}/Chart.yaml`), new RegExp(`^${field}: ${version}$`, 'm'));
  }
});

test('a planned stop is given more than its maximum of 30 seconds', () => {
  const graces = [
    /stop_grace_period: (\d+)s/.exec(read('deploy/compose.yaml'))?.[1],
    /TimeoutStopSec=(\d+)/.exec(read('deploy/postrider.service'))?.[1],
    /terminationGracePeriodSeconds: (\d+)/.exec(read('deploy/kubernetes/postrider.yaml'))?.[1],
  ];
  for (const grace of graces) assert.ok(Number(grace) > 30, `${grace}`);
});

test('a wrong setting does not restart the unit in a loop, and the debugger stays closed', () => {
  const unit = read('deploy/postrider.service');
  assert.match(unit, /^RestartPreventExitStatus=78$/m);
  assert.match(unit, /^ExecReload=\/bin\/kill -HUP \$MAINPID$/m);
  assert.match(unit, /^ExecStart=\S+\/node --disable-sigusr1 build\/bin\/postrider\.js serve$/m);
  assert.match(read('deploy/Dockerfile'), /^ENTRYPOINT \["node", "--disable-sigusr1", /m);
});

test('nodes trust the load balancer and no other address of its network', () => {
  const compose = read('deploy/compose.yaml');
  const [, balancer] = /ipv4_address: (\S+)/.exec(compose) ?? [];
  const [, trusted] = /POSTRIDER_TRUSTED_PROXIES: (\S+)/.exec(compose) ?? [];
  assert.ok(balancer);
  assert.equal(trusted, balancer);
  assert.match(read('deploy/haproxy.cfg'), /^ {2}option forwardfor$/m);
});

test('third-party images are pinned to a version', () => {
  const pinned = (text: string): string[] =>
    [...text.matchAll(/^ *image: (\S+)$/gm)].map(([, image]) => image!).filter((image) => image !== 'postrider');
  const images = pinned(read('deploy/compose.yaml'));
  assert.ok(images.length >= 2);
  for (const image of images) assert.match(image, /:.*\d/, image);
});

test('the image has the files that the service reads and runs npm start unprivileged', () => {
  const dockerfile = read('deploy/Dockerfile');
  const start = (JSON.parse(read('package.json')) as { scripts: { start: string } }).scripts.start;
  const entry = JSON.parse(/^ENTRYPOINT (\[.*\])$/m.exec(dockerfile)![1]!) as string[];
  const command = JSON.parse(/^CMD (\[.*\])$/m.exec(dockerfile)![1]!) as string[];
  // With npm, `exec` replaces the shell by the service, so that signals reach it; here there is no shell.
  for (const program of ['build/bin/postrider.js', 'bin/postrider.js']) {
    assert.ok(start.includes(['exec', ...entry.with(-1, program), ...command].join(' ')), start);
  }
  assert.equal(entry.at(-1), 'bin/postrider.js');
  assert.match(dockerfile, /^USER 65532:65532$/m);
  assert.match(dockerfile, /^COPY --from=build \/srv\/postrider\/build \.$/m);
  assert.match(dockerfile, /^COPY migrations migrations$/m);
});
