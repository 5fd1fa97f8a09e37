/**
 * Prints the section of a version in CHANGELOG.md: `node scripts/release-notes.ts 1.0.0`. Fails if the version is not that of package.json,
 * or if the section is missing or has no date, so that a wrong tag stops a release.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';

/** Returns the text below the heading of the version. Throws with a message if the version cannot be released. */
export function releaseNotes(version: string, changelog: string, packageVersion: string): string {
  if (version !== packageVersion) {
    throw new Error(
      `The version is ${version}, but package.json says ${packageVersion}. Tag the commit of the release.`,
    );
  }
  const [, ...sections] = changelog.split(/^## /m);
  const section = sections.find((one) => one.startsWith(`[${version}]`));
  if (section === undefined) throw new Error(`CHANGELOG.md has no section [${version}]. Add it.`);
  const [heading = '', ...lines] = section.split('\n');
  if (!/ - \d{4}-\d{2}-\d{2}$/.test(heading)) {
    throw new Error(`The heading "${heading}" has no date. Write the date of the release, for example 2026-11-30.`);
  }
  return `${lines.join('\n').trim()}\n`;
}

if (import.meta.main) {
  const read = (name: string): string => readFileSync(path.join(path.dirname(import.meta.dirname), name), 'utf8');
  try {
    const { version } = JSON.parse(read('package.json')) as { version: string };
    process.stdout.write(releaseNotes(process.argv[2] ?? '', read('CHANGELOG.md'), version));
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  }
}
