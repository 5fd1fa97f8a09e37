/** The templates in deploy/platforms have the settings, images, and volumes of deploy/compose.yaml, and the service accepts them. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { readConfig } from '../../src/config.ts';
import { missing } from '../kit/requirements.ts';
import { composeShape } from './deploy-shapes.ts';
import { root } from './source-tree.ts';

const read = (name: string): string => readFileSync(path.join(root, 'deploy', name), 'utf8');

// biome-ignore lint/suspicious/noExplicitAny: templates are read by path
type Template = any;

/** The service that a template runs, with its placeholders. */
interface Deployed {
  image: string;
  environment: Record<string, string>;
  /** Absent if the platform offers PostgreSQL itself. */
  postgres?: { image: string; environment: Record<string, string>; volumes: string[] };
  /** Folders of volumes. */
  folders: string[];
}

const foldersOf = (volumes: string[]): string[] => volumes.map((one) => one.split(':')[1]!).sort();

function ofCompose(file: string, image: RegExp, source = file): Deployed {
  const document: Template = parse(read(file));
  const ajv = new Ajv({ strict: false });
  assert.ok(ajv.validate<Template>(composeShape, document), ajv.errorsText());
  const { postrider, postgres } = document.services;
  assert.equal(
    postrider.stop_grace_period,
    parse(read('compose.yaml'), { merge: true }).services['node-1'].stop_grace_period,
  );
  assert.deepEqual(Object.keys(document.volumes).sort(), volumesOf(postrider, postgres));
  return { ...postrider, image: image.exec(read(source))![1]!, postgres, folders: foldersOf(postrider.volumes) };
}

const volumesOf = (...services: Template[]): string[] =>
  services.flatMap(({ volumes }) => volumes.map((one: string) => one.split(':')[0])).sort();

function ofCaprover(): Deployed {
  const { services, caproverOneClickApp }: Template = parse(read('platforms/caprover.yaml'));
  const app = services.$$cap_appname;
  const declared: string[] = caproverOneClickApp.variables.map(({ id }: Template) => id);
  const used = new Set(read('platforms/caprover.yaml').match(/\$\$cap_(?!appname|root_domain|gen_random)\w+/g));
  assert.deepEqual([...used].sort(), declared.sort(), 'every variable is declared and used');
  assert.equal(app.caproverExtra.containerHttpPort, app.environment.POSTRIDER_HTTP_PORT);
  const image = caproverOneClickApp.variables.find(({ id }: Template) => id === app.image).defaultValue;
  return { ...app, image, postgres: services['$$cap_appname-postgres'], folders: foldersOf(app.volumes) };
}

function ofRailway(): Deployed {
  const lines = read('platforms/railway.env')
    .split('\n')
    .filter((line) => /^[A-Z]/.test(line));
  const { PORT, RAILWAY_RUN_UID, ...environment } = Object.fromEntries(lines.map((line) => line.split(/=(.*)/s)));
  assert.equal(PORT, environment.POSTRIDER_HTTP_PORT, 'Railway checks this port');
  assert.equal(RAILWAY_RUN_UID, '0');
  const [, image] = /image (\S+)\.$/m.exec(read('platforms/railway.env'))!;
  return { image: image!, environment, folders: ['/data'] };
}

const TEMPLATES: Record<string, () => Deployed> = {
  Coolify: () => ofCompose('platforms/coolify.yaml', /\$\{IMAGE:\?(.*)\}/),
  Dokploy: () => ofCompose('platforms/dokploy.yaml', /^IMAGE = "(.*)"$/m, 'platforms/dokploy.toml'),
  CapRover: ofCaprover,
  Railway: ofRailway,
};

/** Fills in the placeholders of all platforms. */
function filledIn(name: string, value: string): string {
  const samples: Record<string, string> = {
    POSTRIDER_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
    POSTRIDER_BASE_URL: 'https://mail.example.com',
    POSTRIDER_SMTP_HOSTNAME: 'mail.example.com',
    POSTRIDER_ROUTE: 'mx',
  };
  if (samples[name] !== undefined) return samples[name];
  return value
    .replace(/\$\{\{[^}]*PGPORT\}\}/, '5432')
    .replace(/\$\{\{.*?\}\}/g, 'sample')
    .replace(/\$\{\w+:-(.*?)\}/g, '$1')
    .replace(/\$\{.*?\}/g, 'sample')
    .replace(/\$\$cap_\w+/g, 'sample');
}

const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string };
const compose: Template = parse(read('compose.yaml'), { merge: true });
const node = compose.services['node-1'];
const settingsOf = (names: string[]): string[] => names.filter((name) => /^(POSTRIDER_|PGPASSWORD)/.test(name)).sort();

for (const [name, template] of Object.entries(TEMPLATES)) {
  test(`${name}: the settings and images are those of the compose file, and the service accepts them`, () => {
    const { image, environment, postgres, folders } = template();
    const example = [...read('compose.env.example').matchAll(/^(POSTRIDER_\w+)=/gm)].map(([, one]) => one!);
    const expected = new Set([...Object.keys(node.environment), ...example]);
    assert.deepEqual(settingsOf(Object.keys(environment)), settingsOf([...expected]));
    assert.equal(path.basename(image), `${node.image}:${version}`);
    for (const one of ['POSTRIDER_DATA_DIR', 'POSTRIDER_HTTP_PORT', 'POSTRIDER_SMTP_PORT']) {
      assert.equal(environment[one], node.environment[one], one);
    }
    if (postgres) {
      const { image: database, environment: variables, volumes } = compose.services.postgres;
      assert.equal(postgres.image, database);
      assert.deepEqual(Object.keys(postgres.environment), Object.keys(variables));
      assert.deepEqual(foldersOf(postgres.volumes), foldersOf(volumes));
      assert.equal(postgres.environment.POSTGRES_PASSWORD, environment.PGPASSWORD);
    }
    const variables = Object.fromEntries(
      Object.entries(environment).map(([key, value]) => [key, filledIn(key, value)]),
    );
    const config = readConfig(variables);
    assert.equal(config.databaseUrl?.password, 'sample');
    assert.equal(config.blobs.kind, 'disk');
    for (const folder of [config.dataDir, config.blobs.folder!]) {
      assert.ok(
        folders.some((one) => `${folder}/`.startsWith(`${one}/`)),
        `${folder} is in a volume`,
      );
    }
    assert.deepEqual(config.unknownSettings, []);
  });
}

test('Dokploy has a value for every variable without a default', { skip: missing('python3') }, () => {
  const script = 'import json, sys, tomllib; print(json.dumps(tomllib.load(sys.stdin.buffer)))';
  const text = execFileSync('python3', ['-c', script], { input: read('platforms/dokploy.toml'), encoding: 'utf8' });
  const { variables, config }: Template = JSON.parse(text);
  const required = [...read('platforms/dokploy.yaml').matchAll(/\$\{(\w+):\?/g)].map(([, name]) => name!);
  assert.deepEqual([...new Set(required)].sort(), Object.keys(config.env).sort());
  for (const value of Object.values<string>({ ...config.env, host: config.domains[0].host })) {
    for (const [, name] of value.matchAll(/\$\{(\w+)\}/g)) assert.ok(name! in variables, name!);
  }
  assert.equal(String(config.domains[0].port), node.environment.POSTRIDER_HTTP_PORT);
  assert.equal(config.domains[0].serviceName, 'postrider');
  assert.match(variables.secret_key, /^\$\{base64:32\}$/, 'a key has 32 bytes');
});
