/**
 * The program of the version that made test/fixtures/upgrade, taken from the history of the repository and installed with its own
 * packages, for tests that run it next to this version. Without that history the tests are skipped.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { missing } from './requirements.ts';

const root = path.resolve(import.meta.dirname, '../..');
/** The last commit whose newest migration is 0053. */
const COMMIT = 'ea624fd3b06adbfbd4f5f7add99eeae42915fe00';
/** Its sources say 1.0.0, as this version's do. */
export const EARLIER_VERSION = '1.0.0-rc.1';

export interface EarlierVersion {
  folder: string;
  /** Its entry point. */
  program: string;
  remove(): void;
}

/**
 * False if the earlier version can be installed, otherwise the reason for `{ skip }`. In CI, a history without it is an error, unless only
 * the newest commits were fetched.
 */
export function noEarlierVersion(): string | false {
  const absent = missing('git', 'npm', 'tar');
  if (absent) return absent;
  const git = (...args: string[]) => spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  if (git('cat-file', '-e', `${COMMIT}^{commit}`).status === 0) return false;
  const reason = `the history has no commit ${COMMIT.slice(0, 8)}: fetch all of it`;
  const isShallow = git('rev-parse', '--is-shallow-repository').stdout?.trim() !== 'false';
  if (process.env.CI && !isShallow) throw new Error(`${reason}, and CI skips nothing`);
  return reason;
}

/** Installs the earlier version into a temporary folder; with everything that a release needs if it will build one. */
export function installEarlierVersion({ forRelease = false } = {}): EarlierVersion {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-earlier-'));
  const archive = execFileSync('git', ['archive', COMMIT], { cwd: root, maxBuffer: 200_000_000 });
  execFileSync('tar', ['--extract', '--directory', folder], { input: archive });
  for (const name of ['package.json', 'src/config.ts']) {
    const file = path.join(folder, name);
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace(/(version\b.*['"])1\.0\.0(?=['"])/i, `$1${EARLIER_VERSION}`),
    );
  }
  const omitted = forRelease ? [] : ['--omit=dev', '--omit=optional'];
  const options = [...omitted, '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'];
  execFileSync('npm', ['ci', ...options], { cwd: folder, stdio: 'pipe' });
  return {
    folder,
    program: path.join(folder, 'bin/postrider.js'),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
