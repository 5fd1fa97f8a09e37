/**
 * Builds the portal into portal/dist: `node scripts/build-portal.ts [--if-needed]`. With --if-needed, as `npm start` calls it, only if the
 * sources have changed. If it cannot be built (production dependencies only, a read-only file system), it prints a line, and the service
 * starts without the portal.
 */
import { createHash } from 'node:crypto';
import { existsSync, globSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress } from 'node:zlib';

const root = path.resolve(import.meta.dirname, '..');
const portal = path.join(root, 'portal');
const stamp = path.join(portal, 'dist/sources');
/** Inputs of the build. */
const SOURCES = [
  'portal/src',
  'portal/public',
  'portal/index.html',
  'portal/vite.config.ts',
  'clients/typescript/src',
  'package-lock.json',
];

/** Returns the file, or the files of the folder, in a fixed order. */
function filesIn(name: string): string[] {
  return globSync([name, `${name}/**/*`], { cwd: root })
    .filter((file) => statSync(path.join(root, file)).isFile())
    .sort();
}

function digestOfSources(): string {
  const hash = createHash('sha256');
  for (const file of SOURCES.flatMap(filesIn)) hash.update(file).update(readFileSync(path.join(root, file)));
  return hash.digest('hex');
}

function isBuilt(digest: string): boolean {
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === digest;
}

/** At the level that takes a second for the largest file, which happens only at build time. */
async function compressAll(folder: string): Promise<void> {
  await Promise.all(
    readdirSync(folder).map(async (name) => {
      const bytes = readFileSync(path.join(folder, name));
      writeFileSync(path.join(folder, `${name}.br`), await promisify(brotliCompress)(bytes));
    }),
  );
}

async function build(digest: string): Promise<void> {
  const { build: viteBuild } = await import('vite');
  await viteBuild({ configFile: path.join(portal, 'vite.config.ts'), logLevel: 'warn' });
  await compressAll(path.join(portal, 'dist/assets'));
  writeFileSync(stamp, digest);
}

/** Builds the portal if needed. */
export async function buildPortal(): Promise<void> {
  const digest = digestOfSources();
  if (!isBuilt(digest)) await build(digest);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const digest = digestOfSources();
  if (!process.argv.includes('--if-needed')) await build(digest);
  else if (!isBuilt(digest)) {
    console.log('Building the portal; this happens once, and takes some seconds.');
    await build(digest).catch((error: NodeJS.ErrnoException) => {
      const why = error.code === 'ERR_MODULE_NOT_FOUND' ? 'vite is not installed' : error.message.split('\n')[0];
      console.log(`The portal is served as it was built before, or not at all (${why}); everything else works.`);
    });
  }
}
