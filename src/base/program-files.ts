/**
 * Where the program's files are. It runs from its sources, or from a build (scripts/build-service.ts) that has moved most modules into
 * chunks, so that no other module can refer to a file by its own location.
 */
import { findPackageJSON } from 'node:module';
import path from 'node:path';

/** The folder with package.json, migrations, docs, and the built portal. */
export const PROGRAM_FOLDER = path.dirname(findPackageJSON(import.meta.url)!);

/** Returns the URL of an entry module of a thread; `name` is its path below `src`, without its ending. */
export function moduleUrl(name: string): URL {
  // Chunks of a build are in a folder beside the entry modules, as this file is.
  return new URL(`../${name}${path.extname(import.meta.url)}`, import.meta.url);
}
