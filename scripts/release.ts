/**
 * Builds the release: `npm run release -- --out DIR`. Writes npm packages of the service and the TypeScript client, a Debian package, a
 * container image, a single executable, bills of materials, license notices, and SHA256SUMS. Two builds of the same commit have the same
 * bytes. It needs Debian's dpkg-deb and mmdebstrap, and publishes nothing. With --sign it signs SHA256SUMS.
 */
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { manifest, writeApp } from './release/app.ts';
import { writeDeb } from './release/deb.ts';
import { writeExecutable } from './release/executable.ts';
import { normalize, root, run } from './release/files.ts';
import { writeImage } from './release/image.ts';
import { ARCHITECTURES, type Architecture, ownArchitecture } from './release/node.ts';
import { sbom } from './release/sbom.ts';
import { checkSigner, sign } from './release/sign.ts';

const USAGE = `usage: npm run release -- --out DIR [options]

  --out DIR          folder for the artifacts; its earlier artifacts are replaced
  --only PARTS       npm, deb, image, executable, or several, separated by commas (default: all)
  --arch NAMES       amd64, arm64, or both, separated by commas (default: this machine's)
  --compression N    gzip level of the Debian package and the image, 1 to 9 (default: 9)
  --sign FILE        sign SHA256SUMS with the minisign secret key in FILE

SOURCE_DATE_EPOCH sets the time of all files (default: the time of the last commit). MINISIGN_PASSWORD is the password of an encrypted key
(default: minisign asks for it in the terminal).`;

interface Plan {
  out: string;
  parts: string[];
  architectures: Architecture[];
  level: number;
  /** Seconds since 1970. */
  epoch: number;
  /** The file of the secret key that signs the release. */
  key: string | undefined;
}

const PARTS = ['npm', 'deb', 'image', 'executable'];

/** Reads the command line. Throws with a message if it is invalid. */
function plan(args: string[]): Plan {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ args, options: { out: text, only: text, arch: text, compression: text, sign: text } });
  const list = <T extends string>(value: string, known: readonly T[], option: string): T[] =>
    value.split(',').map((one) => {
      const found = known.find((name) => name === one);
      if (found === undefined) throw new Error(`${option} must be one of ${known.join(', ')}.`);
      return found;
    });
  if (!values.out) throw new Error('--out is missing.');
  const epoch = Number(process.env.SOURCE_DATE_EPOCH ?? run('git', ['log', '-1', '--format=%ct']));
  if (!Number.isSafeInteger(epoch)) throw new Error('SOURCE_DATE_EPOCH must be a number of seconds.');
  const level = Number(values.compression ?? 9);
  if (!(level >= 1 && level <= 9)) throw new Error('--compression must be a number from 1 to 9.');
  const key = values.sign === undefined ? undefined : path.resolve(values.sign);
  if (key !== undefined) checkSigner(key);
  return {
    out: path.resolve(values.out),
    parts: list(values.only ?? PARTS.join(','), PARTS, '--only'),
    architectures: list(values.arch ?? ownArchitecture, ARCHITECTURES, '--arch'),
    level,
    epoch,
    key,
  };
}

async function release({ out, parts, architectures, level, epoch }: Plan, work: string): Promise<void> {
  const { name, version } = manifest;
  const app = path.join(work, name);
  await writeApp(app);
  normalize(app, epoch);
  if (parts.includes('npm')) {
    for (const folder of [app, path.join(root, 'clients/typescript')]) {
      run('npm', ['pack', folder, '--silent', '--pack-destination', out]);
    }
    writeFileSync(path.join(out, `${name}-${version}.cdx.json`), sbom(epoch));
  }
  for (const architecture of architectures) {
    if (parts.includes('deb')) writeDeb(app, work, out, { architecture, epoch, level });
    if (parts.includes('executable')) await writeExecutable(app, work, out, { architecture });
    if (!parts.includes('image')) continue;
    const { file, packages } = await writeImage(app, work, out, { architecture, epoch, level });
    writeFileSync(file.replace(/tar$/, 'cdx.json'), sbom(epoch, { packages, architecture }));
  }
  copyFileSync(path.join(app, 'THIRD_PARTY_NOTICES'), path.join(out, 'THIRD_PARTY_NOTICES'));
}

/** Writes SHA256SUMS, which `sha256sum --check` reads, and prints it with the sizes in MB. Returns its path. */
function sum(out: string): string {
  const lines = readdirSync(out)
    .filter((name) => name !== 'SHA256SUMS')
    .sort()
    .map((name) => {
      const bytes = readFileSync(path.join(out, name));
      const line = `${createHash('sha256').update(bytes).digest('hex')}  ${name}`;
      console.log(`${line}  ${(bytes.length / 1e6).toFixed(1)} MB`);
      return line;
    });
  const file = path.join(out, 'SHA256SUMS');
  writeFileSync(file, `${lines.join('\n')}\n`);
  return file;
}

let wanted: Plan;
try {
  wanted = plan(process.argv.slice(2));
} catch (error) {
  console.error(`${(error as Error).message}\n\n${USAGE}`);
  process.exit(2);
}
const work = mkdtempSync(path.join(os.tmpdir(), 'postrider-release-'));
try {
  mkdirSync(wanted.out, { recursive: true });
  for (const name of readdirSync(wanted.out)) {
    if (/^(postrider[-_]|SHA256SUMS(\.minisig)?$|THIRD_PARTY_NOTICES$)/.test(name)) rmSync(path.join(wanted.out, name));
  }
  await release(wanted, work);
  const file = sum(wanted.out);
  const { key, epoch } = wanted;
  if (key !== undefined) sign(file, { key, epoch, password: process.env.MINISIGN_PASSWORD });
} finally {
  rmSync(work, { recursive: true, force: true });
}
