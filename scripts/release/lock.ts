/** The packages that a release contains, read from package-lock.json: those of the service, and those that the portal's build includes. */
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from './files.ts';

export interface LockedPackage {
  version: string;
  integrity?: string;
  license?: string;
  dev?: boolean;
  devOptional?: boolean;
  optional?: boolean;
  dependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

interface Lock {
  packages: Record<string, LockedPackage>;
}

export const lock = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')) as Lock;

/** Returns the name of a package from its path in the lock file. */
export const nameOf = (folder: string): string => folder.slice(folder.lastIndexOf('node_modules/') + 13);

/** Returns the paths of the packages that the service imports, without Node. */
export function servicePackages(): string[] {
  return Object.entries(lock.packages)
    .filter(([folder, one]) => folder !== '' && !one.dev && !one.devOptional && !one.optional)
    .map(([folder]) => folder);
}

/** Returns the path of the package that an import of `name` in the package `from` finds. */
export function resolve(from: string, name: string): string | undefined {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const found = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
    if (lock.packages[found]) return found;
    if (folder === '') return undefined;
  }
}

/** Returns the paths of the packages that the portal imports, directly or through others. */
export function portalPackages(): string[] {
  const found = new Set<string>();
  const add = (from: string, name: string): void => {
    const folder = resolve(from, name);
    if (folder === undefined || name.startsWith('@types/') || found.has(folder)) return;
    found.add(folder);
    const { dependencies, peerDependencies } = lock.packages[folder]!;
    for (const next of Object.keys({ ...dependencies, ...peerDependencies })) add(folder, next);
  };
  for (const file of globSync('portal/src/**/*.{ts,tsx,css}', { cwd: root })) {
    if (file.includes('.test.')) continue;
    const text = readFileSync(path.join(root, file), 'utf8');
    for (const [, name] of text.matchAll(/(?:^(?:import|export|\}).*|import\()'((?:@[\w.-]+\/)?\w[\w.-]*)/gm))
      add('', name!);
  }
  return [...found].sort();
}
