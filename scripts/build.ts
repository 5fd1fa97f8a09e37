/**
 * Builds the portal into portal/dist and the service into build: `node scripts/build.ts [--if-needed]`. The build of the service consists
 * of a few large modules, of which a start loads some dozens instead of nearly a thousand. With --if-needed, as `npm start` calls it, builds
 * only what has changed. If something cannot be built (production dependencies only, a read-only file system), prints a line, and the
 * service starts from its sources, or without the portal.
 */
import { createHash } from 'node:crypto';
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress } from 'node:zlib';

const root = path.resolve(import.meta.dirname, '..');

interface Target {
  name: string;
  /** Below the root. */
  folder: string;
  /** Files and folders that it is built from. */
  sources: string[];
  build(): Promise<void>;
  /** The consequence if it cannot be built. */
  otherwise: string;
}

const PORTAL: Target = {
  name: 'portal',
  folder: 'portal/dist',
  sources: [
    'portal/src',
    'portal/public',
    'portal/index.html',
    'portal/vite.config.ts',
    'clients/typescript/src',
    'package-lock.json',
  ],
  build: async () => {
    const { build } = await import('vite');
    await build({ configFile: path.join(root, 'portal/vite.config.ts'), logLevel: 'warn' });
    await compressAll(path.join(root, 'portal/dist/assets'));
  },
  otherwise: 'It is served as it was built before, or not at all; everything else works.',
};

const SERVICE: Target = {
  name: 'service',
  folder: 'build',
  sources: ['src', 'bin', 'scripts/build.ts', 'package-lock.json'],
  build: replaceService,
  otherwise: 'It runs from its sources: a start takes longer, and memory use is higher.',
};

/** The program and its threads, which program-files.ts finds. All other modules go into chunks. */
const ENTRIES = [
  'main',
  'roles/operations',
  'storage/sqlite/thread',
  'storage/sqlite/checkpoint-thread',
  'templates/mjml-thread',
  'inbound-routes/verifier-thread',
];

/** Matches characters whose escape would change the meaning: after a backslash, and in String.raw. */
const UNESCAPABLE = /\\[^\0-\x7f]|String\.raw`[^`]*[^\0-\x7f]/;

/** Escapes characters beyond ASCII, for which Node keeps a whole source in two bytes per character. */
function ascii(code: string): string {
  const found = UNESCAPABLE.exec(code);
  if (found) throw new Error(`the sources contain ${found[0]}: replace its characters beyond ASCII by escapes`);
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Writes the service into `bin` and `src` of the folder. It finds its packages and other files in the folder, or above it. */
export async function writeService(folder: string): Promise<void> {
  const { rolldown } = await import('rolldown');
  const bundle = await rolldown({
    input: Object.fromEntries(ENTRIES.map((name) => [name, path.join(root, 'src', `${name}.ts`)])),
    platform: 'node',
    transform: { target: 'esnext' },
    // Scanners see the versions and licenses of packages that stay outside. Rolldown's own helpers are part of the build.
    external: /^(?!@oxc-project\/)[^./\0]/,
  });
  const { output } = await bundle.generate({
    format: 'esm',
    chunkFileNames: 'chunks/[name]-[hash].js',
    comments: false,
  });
  await bundle.close();
  const write = (name: string, content: string | Buffer, mode = 0o644): void => {
    const file = path.join(folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content, { mode });
  };
  for (const one of output) {
    if (one.type !== 'chunk') throw new Error(`${one.fileName} is not a module`);
    write(`src/${one.fileName}`, ascii(one.code));
  }
  for (const name of globSync('src/http/reference/*.{css,js,svg}', { cwd: root })) {
    write(name, readFileSync(path.join(root, name)));
  }
  const bin = readFileSync(path.join(root, 'bin/postrider.js'), 'utf8');
  write('bin/postrider.js', bin.replace('../src/main.ts', '../src/main.js'), 0o755);
}

/** Replaces the build only when the new one is complete, so that a start at the same time finds a whole program. */
async function replaceService(): Promise<void> {
  const folder = path.join(root, SERVICE.folder);
  const fresh = `${folder}-${process.pid}`;
  try {
    await writeService(fresh);
    rmSync(folder, { recursive: true, force: true });
    renameSync(fresh, folder);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    // The old build is of other sources.
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Returns the file, or the files of the folder without tests, in a fixed order. */
function filesIn(name: string): string[] {
  return globSync([name, `${name}/**/*`], { cwd: root })
    .filter((file) => !/\.test\.tsx?$/.test(file) && statSync(path.join(root, file)).isFile())
    .sort();
}

function digestOf({ sources }: Target): string {
  const digest = createHash('sha256');
  for (const file of sources.flatMap(filesIn)) digest.update(file).update(readFileSync(path.join(root, file)));
  return digest.digest('hex');
}

const stampOf = ({ folder }: Target): string => path.join(root, folder, 'sources');

function isBuilt(target: Target, digest: string): boolean {
  const stamp = stampOf(target);
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

async function build(target: Target, digest: string): Promise<void> {
  await target.build();
  writeFileSync(stampOf(target), digest);
}

async function buildIfNeeded(target: Target): Promise<void> {
  const digest = digestOf(target);
  if (!isBuilt(target, digest)) await build(target, digest);
}

/** Builds the portal if needed. */
export const buildPortal = (): Promise<void> => buildIfNeeded(PORTAL);

/** Builds the service if needed. Returns the path of the program. */
export async function buildService(): Promise<string> {
  await buildIfNeeded(SERVICE);
  return path.join(root, SERVICE.folder, 'bin/postrider.js');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isForced = !process.argv.includes('--if-needed');
  for (const target of [PORTAL, SERVICE]) {
    const digest = digestOf(target);
    if (isForced) await build(target, digest);
    else if (!isBuilt(target, digest)) {
      console.log(`Building the ${target.name}; this happens once, and takes some seconds.`);
      await build(target, digest).catch((error: NodeJS.ErrnoException) => {
        const why =
          error.code === 'ERR_MODULE_NOT_FOUND' ? 'development dependencies are missing' : error.message.split('\n')[0];
        console.log(`The ${target.name} could not be built (${why}). ${target.otherwise}`);
      });
    }
  }
}
