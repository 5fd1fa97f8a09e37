/**
 * Writes portal/src/pages/inbox/client-support.json: which email clients support the HTML and CSS features that the inbox looks for. The
 * data is from caniemail.com (MIT, scripts/release/licenses/caniemail.txt), as the npm package caniemail contains it. Run it after a change
 * of VERSION or of client-features.ts; it downloads the package.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { FEATURES } from '../portal/src/pages/inbox/client-features.ts';

const VERSION = '2.0.2';
const OUT = path.resolve(import.meta.dirname, '../portal/src/pages/inbox/client-support.json');

const CLIENTS = [
  'gmail.desktop-webmail',
  'gmail.ios',
  'gmail.android',
  'outlook.windows',
  'outlook.outlook-com',
  'outlook.macos',
  'outlook.ios',
  'outlook.android',
  'apple-mail.macos',
  'apple-mail.ios',
  'yahoo.desktop-webmail',
  'yahoo.ios',
  'yahoo.android',
  'samsung-email.android',
  'aol.desktop-webmail',
  'protonmail.desktop-webmail',
  'fastmail.desktop-webmail',
  'thunderbird.macos',
  'gmx.desktop-webmail',
  'web-de.desktop-webmail',
  't-online-de.desktop-webmail',
];

interface Feature {
  slug: string;
  title: string;
  url: string;
  /** By family, platform, and version, oldest first: "y", "n", "a" (partial), or "u" (unknown), and numbers of notes: "a #1 #2". */
  stats: Record<string, Record<string, Record<string, string>>>;
  notes_by_num: Record<string, string> | null;
}

/** Downloads the data. Numbers as keys get a prefix, because JavaScript would sort them before other keys. */
function download(): { last_update_date: string; data: Feature[] } {
  const folder = mkdtempSync(path.join(tmpdir(), 'caniemail-'));
  try {
    execFileSync('npm', ['pack', '--silent', `caniemail@${VERSION}`], { cwd: folder });
    execFileSync('tar', ['xzf', `caniemail-${VERSION}.tgz`, 'package/data/caniemail.json'], { cwd: folder });
    const text = readFileSync(path.join(folder, 'package/data/caniemail.json'), 'utf8');
    return JSON.parse(text.replaceAll(/"(\d[\d.-]*)"(\s*:)/g, '"v$1"$2'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Returns the status of the latest version of a client, with the numbers of its notes. */
function latest({ stats }: Feature, client: string): { status: string; notes: string[] } {
  const [family = '', platform = ''] = client.split('.');
  const [status = 'u', ...notes] =
    Object.values(stats[family]?.[platform] ?? {})
      .at(-1)
      ?.split(/\s+/) ?? [];
  return { status, notes: notes.map((note) => `v${note.slice(1)}`) };
}

/** Returns a note without links, and without the status that the table has anyway. */
function plainNote(note: string): string {
  const text = note.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').trim();
  const short = text.replace(
    /^(?:(?:partial(?:ly supported| support)?|not supported|buggy)(?: and buggy)?[.:]\s+)+/i,
    '',
  );
  return `${short.charAt(0).toUpperCase()}${short.slice(1)}`.replaceAll(/\s*\(?See #\d+\.?\)?\.?/g, '').trim();
}

/** Returns a feature that some client does not fully support. */
function entry(feature: Feature) {
  const found = CLIENTS.map((client) => latest(feature, client));
  const notes: Record<string, number[]> = {};
  for (const [index, one] of found.entries()) {
    if (one.status !== 'a' && one.status !== 'n') continue;
    for (const number of one.notes) {
      const text = plainNote(feature.notes_by_num?.[number] ?? '');
      if (text !== '') notes[text] = [...(notes[text] ?? []), index];
    }
  }
  const support = found.map(({ status }) => status).join('');
  return { title: feature.title.trim(), support, ...(Object.keys(notes).length > 0 && { notes }) };
}

const { last_update_date: updated, data } = download();
const features: Record<string, ReturnType<typeof entry>> = {};
for (const name of Object.keys(FEATURES).sort()) {
  const feature = data.find(({ slug }) => slug === name);
  if (feature?.url !== `https://www.caniemail.com/features/${name}/`) throw new Error(`caniemail has no ${name}.`);
  const one = entry(feature);
  if (!/[an]/.test(one.support)) throw new Error(`Every client supports ${name}. Remove it from client-features.ts.`);
  features[name] = one;
}
const table = { source: `caniemail ${VERSION}`, updated: updated.slice(0, 10), clients: CLIENTS, features };
writeFileSync(OUT, `${JSON.stringify(table, undefined, 2)}\n`);
console.log(`wrote ${Object.keys(features).length} features`);
