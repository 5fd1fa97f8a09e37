/** Reads the source tree for the house tests: its files, and the imports of each. */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

export const root = path.resolve(import.meta.dirname, '../..');

export interface SourceFile {
  /** From the root, with forward slashes. */
  path: string;
  text: string;
}

export interface Import {
  /** The text between the quotes. */
  specifier: string;
  /** From the root, for relative specifiers. */
  target: string | undefined;
  /** `import type` and `export type`: erased at run time. */
  typeOnly: boolean;
}

/** Reads the files below the root, or below that of another checkout, that match one of the patterns. */
export function readFiles(patterns: string[], folder = root): SourceFile[] {
  return globSync(patterns, { cwd: folder, exclude: (name) => name === 'node_modules' })
    .map((file) => file.split(path.sep).join('/'))
    .sort()
    .map((file) => ({ path: file, text: readFileSync(path.join(folder, file), 'utf8') }));
}

/** Returns product code: everything in src except tests. */
export function productFiles(folder = root): SourceFile[] {
  return readFiles(['src/**/*.ts'], folder).filter((file) => !file.path.endsWith('.test.ts'));
}

/** Returns paths that belong to the project: tracked, or new and not ignored. All files outside a repository. */
export function projectPaths(): string[] {
  try {
    const list = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return list.split('\0').filter(Boolean);
  } catch {
    const outside = /^(node_modules|data|\.git|coverage)(\/|$)/;
    return globSync(['**/*', '.*', '.ci/*'], { cwd: root, exclude: (name) => outside.test(name) });
  }
}

const STATEMENT = /^\s*(?:import|export)\s+(type\s+)?(?:([^'";]*?)\sfrom\s+)?'([^']+)'/gm;
/** Braces in which every name is a type. */
const TYPES_ALONE = /^\{(\s*type\s[^,}]+,?)+\s*\}$/;
const DYNAMIC = /\b(?:import|new URL)\(\s*'([^']+)'/g;

/** Returns the static and dynamic imports of one file; worker files named by `new URL('./x.ts', …)` count as imports. */
export function importsOf(file: SourceFile): Import[] {
  const found: Import[] = [];
  const add = (specifier: string, typeOnly: boolean): void => {
    const relative = specifier.startsWith('.');
    const target = relative ? path.posix.join(path.posix.dirname(file.path), specifier) : undefined;
    found.push({ specifier, target, typeOnly });
  };
  for (const match of file.text.matchAll(STATEMENT)) {
    add(match[3]!, match[1] !== undefined || TYPES_ALONE.test(match[2]?.trim() ?? ''));
  }
  for (const match of file.text.matchAll(DYNAMIC)) {
    if (match[0].startsWith('import') || /^\..*\.ts$/.test(match[1]!)) add(match[1]!, false);
  }
  return found;
}
