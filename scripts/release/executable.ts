/**
 * The single executable for Linux: Node with the application as compressed data, which executable-main.ts unpacks. The injection only
 * copies bytes, so that each machine can build it for every architecture.
 */
import { hash } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';
import { constants, zstdCompress } from 'node:zlib';
import { manifest } from './app.ts';
import { run } from './files.ts';
import { type Architecture, nodeArchitecture, nodeBinary } from './node.ts';

/** The files of the application, in the order of their content. */
export interface ApplicationIndex {
  version: string;
  files: { name: string; sizeBytes: number; sha256: string }[];
}

/** Runs the program as npm does. */
const START = "module.exports = () => import('./bin/postrider.js');\n";

/** Packs the application in `app` for the architecture. Returns the path of the executable in `out`. */
export async function writeExecutable(
  app: string,
  work: string,
  out: string,
  { architecture }: { architecture: Architecture },
): Promise<string> {
  const folder = path.join(work, `executable-${architecture}`);
  mkdirSync(folder);
  const names = readdirSync(app, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(app, path.join(entry.parentPath, entry.name)))
    .sort();
  const contents = names.map((name) => ({ name, content: readFileSync(path.join(app, name)) }));
  contents.push({ name: 'start.cjs', content: Buffer.from(START) });
  const index: ApplicationIndex = {
    version: manifest.version,
    files: contents.map(({ name, content }) => ({ name, sizeBytes: content.length, sha256: hash('sha256', content) })),
  };
  const all = Buffer.concat(contents.map(({ content }) => content));
  const params = { [constants.ZSTD_c_checksumFlag]: 1 };
  const main = readFileSync(path.join(import.meta.dirname, 'executable-main.ts'), 'utf8');
  writeFileSync(path.join(folder, 'main.js'), stripTypeScriptTypes(main));
  writeFileSync(path.join(folder, 'index.json'), JSON.stringify(index));
  writeFileSync(path.join(folder, 'files.zst'), await promisify(zstdCompress)(all, { params }));
  const file = path.join(out, `postrider-${manifest.version}-linux-${nodeArchitecture(architecture)}`);
  // Relative paths: the executable contains that of the main script.
  const settings = {
    main: 'main.js',
    mainFormat: 'module',
    executable: nodeBinary(architecture, work),
    output: file,
    disableExperimentalSEAWarning: true,
    useCodeCache: false,
    useSnapshot: false,
    execArgv: ['--disable-sigusr1'],
    assets: { index: 'index.json', files: 'files.zst' },
  };
  writeFileSync(path.join(folder, 'settings.json'), JSON.stringify(settings));
  run(process.execPath, ['--build-sea', 'settings.json'], folder);
  chmodSync(file, 0o755);
  return file;
}
