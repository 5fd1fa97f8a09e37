/**
 * The architectures of the Debian package, the image, and the executable, and the Node binary of each, which is the one that
 * package-lock.json pins.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { root, run } from './files.ts';
import { lock } from './lock.ts';

export const ARCHITECTURES = ['amd64', 'arm64'] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

/** Returns Node's name of the architecture. */
export const nodeArchitecture = (architecture: Architecture): 'x64' | 'arm64' =>
  architecture === 'amd64' ? 'x64' : 'arm64';

/** Returns the npm package that has the Node binary. */
const packageOf = (architecture: Architecture): string => `node-linux-${nodeArchitecture(architecture)}`;

/** The architecture of this machine. */
export const ownArchitecture: Architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';

export const nodeVersion = lock.packages[`node_modules/${packageOf('amd64')}`]!.version;

/** Returns the path of the Node binary; downloads its package into `work` unless npm installed it. */
export function nodeBinary(architecture: Architecture, work: string): string {
  const name = packageOf(architecture);
  const installed = path.join(root, 'node_modules', name, 'bin/node');
  if (existsSync(installed)) return installed;
  const { version, integrity } = lock.packages[`node_modules/${name}`]!;
  const file = path.join(work, `${name}-${version}.tgz`);
  run('npm', ['pack', `${name}@${version}`, '--silent', '--pack-destination', work]);
  const found = `sha512-${createHash('sha512').update(readFileSync(file)).digest('base64')}`;
  if (found !== integrity) throw new Error(`${name} ${version} is not the package that package-lock.json names.`);
  run('tar', ['--extract', `--file=${file}`, '--directory', work, 'package/bin/node']);
  return path.join(work, 'package/bin/node');
}
