/** The manifests of deploy/ are valid for the programs that read them: schemas, references, the unit, the values of settings. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { readConfig } from '../../src/config.ts';
import { missing } from '../kit/requirements.ts';
import { composeShape } from './deploy-shapes.ts';
import { root } from './source-tree.ts';

const read = (name: string): string => readFileSync(path.join(root, 'deploy', name), 'utf8');
const ajv = new Ajv({ allErrors: true, strict: false });

/** Returns the parts of the document that the shape does not allow. */
function faults(shape: object, document: unknown): string[] {
  const validate = ajv.compile(shape);
  return validate(document) ? [] : (validate.errors ?? []).map((one) => `${one.instancePath} ${one.message}`);
}

// biome-ignore lint/suspicious/noExplicitAny: manifests are read by path
type Document = any;
const compose = (): Document => parse(read('compose.yaml'), { merge: true });

test('the compose file is valid and references only its own volumes and services', () => {
  const document = compose();
  assert.deepEqual(faults(composeShape, document), []);
  for (const [name, service] of Object.entries<Document>(document.services)) {
    for (const volume of (service.volumes ?? []) as string[]) {
      const [source = ''] = volume.split(':');
      if (source.startsWith('.')) continue;
      assert.ok(source in document.volumes, `${name} mounts ${source}`);
    }
    const needed: string[] = Array.isArray(service.depends_on)
      ? service.depends_on
      : Object.keys(service.depends_on ?? {});
    for (const one of needed) assert.ok(one in document.services, `${name} needs ${one}`);
  }
  document.services.balancer.volume = ['x:/y'];
  assert.match(faults(composeShape, document).join(), /additional properties/, 'control: a misspelled key is found');
});

/** Fills in `${NAME:-default}` and `${NAME:?message}` as Compose does. */
function filledIn(value: string, variables: Record<string, string>): string {
  return value.replace(/\$\{(\w+)(?::([-?])([^}]*))?\}/g, (_, name: string, kind: string, rest: string) => {
    if (variables[name]) return variables[name];
    assert.equal(kind, '-', `${name}: ${rest}`);
    return rest;
  });
}

test('compose nodes accept any password, share one volume, and read every other variable', () => {
  const secret = Buffer.alloc(32, 7).toString('base64');
  const variables = { POSTGRES_PASSWORD: 'a/b@c:d#e?f%20', POSTRIDER_SECRET_KEY: secret };
  const { services } = compose();
  const [one, two] = [services['node-1'], services['node-2']];
  for (const node of [one, two]) {
    assert.deepEqual(node.env_file, ['compose.env']);
    const settings = Object.entries<string>(node.environment).map(([name, value]) => [
      name,
      filledIn(value, variables),
    ]);
    const config = readConfig(Object.fromEntries(settings));
    assert.equal(config.databaseUrl?.password, variables.POSTGRES_PASSWORD);
    assert.deepEqual(config.blobs, { kind: 'disk', folder: '/content' });
    assert.ok(node.volumes.includes('content:/content'));
  }
  assert.notEqual(one.volumes[0], two.volumes[0], 'each node has its own data directory');
  assert.match(read('Dockerfile'), /mkdir \/data \/content && chown 65532:65532 \/data \/content/);
});

test('systemd accepts the unit and its drop-in, and knows every directive', {
  skip: missing('systemd-analyze'),
}, (t) => {
  const folder = temporary(t);
  const verify = (unit: string): string => {
    mkdirSync(path.join(folder, 'postrider.service.d'), { recursive: true });
    writeFileSync(path.join(folder, 'postrider.service.d/tls.conf'), read('postrider-tls.conf'));
    const file = path.join(folder, 'postrider.service');
    writeFileSync(file, unit.replaceAll('/opt/postrider', root));
    try {
      return execFileSync('sh', ['-c', `systemd-analyze verify --man=no ${file} 2>&1`], { encoding: 'utf8' });
    } catch (error) {
      return String((error as { stdout?: string }).stdout);
    }
  };
  const unit = read('postrider.service');
  assert.equal(verify(unit), '');
  assert.match(verify(unit.replace('NoNewPrivileges', 'NoNewPrivilege')), /Unknown key/, 'control');
  assert.match(read('postrider.sh'), /--property=User=postrider/);
  assert.match(unit, /^User=postrider$/m);
});

function temporary(t: TestContext): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-deploy-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('the image has a compile cache that a start only reads', { timeout: 120_000 }, (t) => {
  const folder = temporary(t);
  for (const name of ['bin', 'src', 'migrations', 'package.json', 'deploy']) {
    cpSync(path.join(root, name), path.join(folder, name), { recursive: true });
  }
  // The unchanged packages, and a separate cache directory.
  mkdirSync(path.join(folder, 'node_modules'));
  for (const name of readdirSync(path.join(root, 'node_modules')).filter((one) => one !== '.cache')) {
    symlinkSync(path.join(root, 'node_modules', name), path.join(folder, 'node_modules', name));
  }
  const { NODE_COMPILE_CACHE: _, ...env } = process.env;
  env.PATH = `${path.dirname(process.execPath)}:${process.env.PATH}`;
  const warm = (): string[] => {
    execFileSync('sh', ['deploy/compile-cache.sh'], { cwd: folder, env, stdio: ['ignore', 'ignore', 'inherit'] });
    const cache = path.join(folder, 'node_modules/.cache/postrider');
    return readdirSync(cache, { recursive: true }).map(String).sort();
  };
  const made = warm();
  assert.ok(made.length > 200, `${made.length} files`);
  assert.deepEqual(warm(), made, 'nothing is left to compile');
  assert.match(
    read('Dockerfile'),
    /^USER 65532:65532\nRUN sh deploy\/compile-cache\.sh$/m,
    'created by the user that reads it',
  );
});
