/**
 * Files of release artifacts: owners, modes, times, and orders that do not depend on the machine or on the time of the build, so that two
 * builds have the same bytes.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, lutimesSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';

export const root = path.resolve(import.meta.dirname, '../..');

/** Runs a program and returns its standard output; its errors appear in the terminal. */
export function run(program: string, args: string[], cwd = root, env: NodeJS.ProcessEnv = process.env): string {
  return execFileSync(program, args, {
    cwd,
    env: { ...env, LC_ALL: 'C', TZ: 'UTC' },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 100_000_000,
  });
}

/** Copies a file or folder; `wanted` decides about each entry by its path below `from`. */
export function copy(from: string, to: string, wanted: (name: string) => boolean = () => true): void {
  mkdirSync(path.dirname(to), { recursive: true });
  cpSync(from, to, { recursive: true, dereference: true, filter: (file) => wanted(path.relative(from, file)) });
}

/**
 * Gives everything below the folder the time of the release, in seconds since 1970, and a mode for all users: 755 for folders and programs,
 * 644 for other files and for everything of npm packages. `modes` has the exceptions, by path below the folder.
 */
export function normalize(folder: string, epoch: number, modes: Record<string, number> = {}): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name);
    if (!entry.isSymbolicLink()) {
      const isProgram = (statSync(file).mode & 0o100) !== 0 && !file.includes('/node_modules/');
      const isOpen = entry.isDirectory() || isProgram;
      chmodSync(file, modes[path.relative(folder, file)] ?? (isOpen ? 0o755 : 0o644));
    }
    lutimesSync(file, epoch, epoch);
  }
  chmodSync(folder, 0o755);
  lutimesSync(folder, epoch, epoch);
}

/** Writes a tar archive of the folder's content, sorted, with one numeric owner. */
export function tar(folder: string, file: string, epoch: number, owner = 0, names = ['.']): void {
  const identity = [`--owner=${owner}`, `--group=${owner}`, '--numeric-owner', `--mtime=@${epoch}`];
  run('tar', ['--create', `--file=${file}`, '--format=gnu', '--sort=name', ...identity, ...names], folder);
}
