/**
 * Finds the files of the program. It runs from its sources, or from a build (scripts/build.ts) that has moved most modules into chunks, so
 * no other module can refer to a file by its own location.
 */
import { findPackageJSON } from 'node:module';
import path from 'node:path';

/** The folder with package.json, migrations, docs, and the built portal. */
export const PROGRAM_FOLDER = path.dirname(findPackageJSON(import.meta.url)!);

/** Returns the URL of an entry module of the build; `name` is its path below `src`, without its ending. */
export function moduleUrl(name: string): URL {
  // This module is in a subfolder of `src`, both in the sources and in a build.
  return new URL(`../${name}${path.extname(import.meta.url)}`, import.meta.url);
}
