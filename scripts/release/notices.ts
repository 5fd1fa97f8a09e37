/** The licenses of everything that the artifacts contain and that others wrote. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from './files.ts';
import { lock, nameOf, portalPackages, servicePackages } from './lock.ts';

const LICENSE_FILE = /^(licen[cs]e|copying|notice)/i;

/** Returns the texts of a package's license files, or a line if it has none. */
function texts(folder: string): string {
  const names = readdirSync(path.join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile() && LICENSE_FILE.test(entry.name))
    .map((entry) => entry.name)
    .sort();
  if (names.length === 0) return 'The package contains no license text.';
  return names
    .map((name) =>
      readFileSync(path.join(root, folder, name), 'utf8')
        .replaceAll('\r\n', '\n')
        .trim(),
    )
    .join('\n\n');
}

/** The portal contains data of others that no installed package has: each name is a file in licenses/. */
const DATA = [{ name: 'Can I email (data)', license: 'MIT', file: 'caniemail.txt' }];

/** Returns THIRD_PARTY_NOTICES. Throws if a package has no license. */
export function notices(): string {
  const node = Object.keys(lock.packages).find((name) => lock.packages[name]!.optional && isInstalled(name));
  const folders = [...new Set([...servicePackages(), ...portalPackages(), ...(node ? [node] : [])])];
  const parts = new Map<string, string>();
  for (const folder of folders) {
    const { version, license } = lock.packages[folder]!;
    if (!license) throw new Error(`${folder} has no license.`);
    const name = folder === node ? 'Node.js' : nameOf(folder);
    parts.set(`${name} ${version}`, `${name} ${version} (${license})\n\n${texts(folder)}\n`);
  }
  for (const { name, license, file } of DATA) {
    const text = readFileSync(path.join(import.meta.dirname, 'licenses', file), 'utf8').trim();
    parts.set(name, `${name} (${license})\n\n${text}\n`);
  }
  const sorted = [...parts].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, text]) => text);
  const line = `\n${'-'.repeat(80)}\n\n`;
  return ['Postrider includes the following software.\n', ...sorted].join(line);
}

function isInstalled(folder: string): boolean {
  try {
    return readdirSync(path.join(root, folder)).length > 0;
  } catch {
    return false;
  }
}
