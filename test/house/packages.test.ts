/** Dependencies are pinned and do not name a registry, and both dialects have the same migrations. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { root } from './source-tree.ts';

type Groups = Partial<Record<'dependencies' | 'devDependencies' | 'optionalDependencies', Record<string, string>>>;

function loosePins(manifest: Groups): string[] {
  const all = { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.optionalDependencies };
  return Object.entries(all)
    .filter(([, version]) => !/^(?:npm:[\w@/-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
    .map(([name, version]) => `${name}@${version}`);
}

function registryHosts(lockfile: string): string[] {
  return [...lockfile.matchAll(/"resolved":\s*"([^"]+)"/g)]
    .map((match) => match[1]!)
    .filter((url) => /^https?:/.test(url));
}

test('every dependency is pinned to an exact version', () => {
  const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as Groups;
  assert.deepEqual(loosePins(manifest), []);
  const loose = {
    dependencies: { a: '^1.0.0', b: 'latest', d: 'npm:e@^1.0.0' },
    devDependencies: { c: '1.0.0', f: 'npm:g@1.0.0' },
  };
  assert.deepEqual(loosePins(loose), ['a@^1.0.0', 'b@latest', 'd@npm:e@^1.0.0'], 'control: ranges are found');
});

test('the lock file names no registry', () => {
  assert.deepEqual(registryHosts(readFileSync(path.join(root, 'package-lock.json'), 'utf8')), []);
  const url = 'https://registry.example/a.tgz';
  assert.deepEqual(registryHosts(`{"resolved": "${url}"}`), [url], 'control: a host is found');
});

/** Returns gaps and duplicates of one folder, and numbers that only one of the dialects has. */
function migrationFaults(sqlite: string[], postgres: string[] | undefined): string[] {
  const number = (file: string): string => /^(\d{4})-[a-z0-9-]+\.sql$/.exec(file)?.[1] ?? `?${file}`;
  const faults: string[] = [];
  const numbers = sqlite.map(number).sort();
  numbers.forEach((one, index) => {
    if (one !== String(index + 1).padStart(4, '0')) faults.push(`sqlite: ${one} is out of order or misnamed`);
  });
  if (postgres) {
    const others = new Set(postgres.map(number));
    for (const one of numbers) if (!others.delete(one)) faults.push(`postgres lacks ${one}`);
    for (const one of others) faults.push(`sqlite lacks ${one}`);
  }
  return faults;
}

test('migrations are numbered without gaps and the same for every dialect', () => {
  const files = (dialect: string): string[] | undefined => {
    const folder = path.join(root, 'migrations', dialect);
    return existsSync(folder) ? readdirSync(folder).filter((file) => file.endsWith('.sql')) : undefined;
  };
  assert.deepEqual(migrationFaults(files('sqlite') ?? [], files('postgres')), []);
  assert.equal(migrationFaults(['0001-a.sql', '0003-b.sql'], undefined).length, 1, 'control: a gap is found');
  assert.deepEqual(migrationFaults(['0001-a.sql', '0002-b.sql'], ['0001-a.sql']), ['postgres lacks 0002'], 'control');
  assert.equal(migrationFaults(['0001-a.sql'], ['0001-a.sql', '0002-c.sql']).length, 1, 'control: the other way');
});

test('every file in durations.json exists', () => {
  const known = Object.keys(JSON.parse(readFileSync(path.join(root, 'test/durations.json'), 'utf8')));
  assert.notEqual(known.length, 0);
  assert.deepEqual(
    known.filter((file) => !existsSync(path.join(root, file))),
    [],
  );
});
