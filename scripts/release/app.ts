/** The application as it is installed: the built service and portal, migrations, documentation, and packages. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { buildPortal, writeService } from '../build.ts';
import { copy, root } from './files.ts';
import { lock, servicePackages } from './lock.ts';
import { notices } from './notices.ts';

export interface Manifest {
  name: string;
  version: string;
  description: string;
  license: string;
  /** npm compares it with the provenance of a published package. */
  repository?: string | Record<string, string>;
  type: string;
  engines: Record<string, string>;
  bin: Record<string, string>;
  dependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  overrides: Record<string, string>;
}

export const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as Manifest;

/** Writes the application into the folder. */
export async function writeApp(folder: string): Promise<void> {
  await buildPortal();
  await writeService(folder);
  copy(path.join(root, 'migrations'), path.join(folder, 'migrations'));
  copy(path.join(root, 'portal/dist'), path.join(folder, 'portal/dist'), (name) => name !== 'sources');
  copy(path.join(root, 'docs'), path.join(folder, 'docs'), (name) => !name.startsWith('decisions'));
  for (const name of ['LICENSE', 'README.md', 'CHANGELOG.md', 'SECURITY.md']) {
    copy(path.join(root, name), path.join(folder, name));
  }
  writeFileSync(path.join(folder, 'THIRD_PARTY_NOTICES'), notices());
  const { name, version, description, license, repository, type, engines, bin } = manifest;
  const { dependencies, optionalDependencies, overrides } = manifest;
  // npm ignores the overrides of a package that it installs, so the dependencies come with it, as they were tested.
  const bundleDependencies = Object.keys(dependencies);
  const about = { name, version, description, license, repository };
  const published = { ...about, type, engines, bin, dependencies, bundleDependencies };
  const text = JSON.stringify({ ...published, optionalDependencies, overrides }, null, 2);
  writeFileSync(path.join(folder, 'package.json'), `${text}\n`);
  writePackages(folder);
}

/** Files of packages that nothing imports: hidden ones, source maps, type declarations, documentation, and tests. */
const UNUSED =
  /(^|\/)\.|\.(map|d\.[cm]?ts|html)$|^(test|tests|docs|benchmarks?|examples?)(\/|$)|^(?!licen[cs]e|copying|notice).*\.md$/i;

/** Copies the packages that the service imports into `node_modules` of the folder. */
function writePackages(folder: string): void {
  for (const name of servicePackages()) {
    const installed = JSON.parse(readFileSync(path.join(root, name, 'package.json'), 'utf8')) as { version: string };
    const wanted = lock.packages[name]!.version;
    if (installed.version !== wanted) throw new Error(`${name} is ${installed.version}, not ${wanted}. Run npm ci.`);
    copy(path.join(root, name), path.join(folder, name), (file) => file !== 'node_modules' && !UNUSED.test(file));
  }
}
