/**
 * Rules for every file of the project: it starts with a paragraph that says what it is, is short, is named after what it does, and contains
 * no secrets or machine paths. Each checker receives files and returns one sentence per violation.
 */
import type { SourceFile } from './source-tree.ts';

export const LINES_AT_MOST = 600;
const HEADER_CHARACTERS = 30;
const EMPTY_NAMES = /(^|[-./])(manager|managers|helper|helpers|util|utils|common|misc)([-./]|$)/;

/** Returns the text of the comment that opens a file, or an empty text. */
function openingComment(text: string): string {
  const block = /^(?:#!.*\n)?\/\*\*?([\s\S]*?)\*\//.exec(text)?.[1];
  if (block !== undefined)
    return block
      .replace(/^\s*\* ?/gm, ' ')
      .replace(/\s+/g, ' ')
      .trim();
  const lines = /^(?:#!.*\n)?((?:\/\/.*\n)+)/.exec(text)?.[1];
  return (lines ?? '')
    .replace(/^\/\/ ?/gm, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}

export function headerFaults(files: SourceFile[]): string[] {
  return files
    .filter((file) => openingComment(file.text).length < HEADER_CHARACTERS)
    .map((file) => `${file.path}: does not open with a paragraph that says what the file does`);
}

export function lengthFaults(files: SourceFile[]): string[] {
  return files.flatMap((file) => {
    const lines = file.text.split('\n').length - 1;
    return lines > LINES_AT_MOST ? [`${file.path}: ${lines} lines, ${LINES_AT_MOST} at most; it wants a wall`] : [];
  });
}

export function nameFaults(paths: string[]): string[] {
  return paths.flatMap((one) => {
    const faults: string[] = [];
    if (EMPTY_NAMES.test(one)) faults.push(`${one}: a name that says nothing`);
    const name = one.split('/').at(-1)!;
    if (/\.ts$/.test(name) && !/^[a-z0-9]+(-[a-z0-9]+)*(\.slow|\.long|\.config)?(\.test|\.d)?\.ts$/.test(name)) {
      faults.push(`${one}: file names are kebab-case`);
    }
    return faults;
  });
}

const LEAKS: [what: string, pattern: RegExp][] = [
  ["a path of a developer's machine", /(?<![\w.])\/(work|root|home\/[a-z]\w*)\/[\w.]/],
  ['a path of a scratch folder', /(?<![\w.$}])\/tmp\/[\w.]/],
  ['a private key', /-----BEGIN (?:RSA |EC |OPENSSH |ENCRYPTED )?PRIVATE KEY-----\s*\n?[A-Za-z0-9+/=\\n]{40}/],
  ['an API key', /\bpr_(live|test)_[0-9A-Za-z]{20,}/],
  ['a webhook secret', /\bwhsec_(?!MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw)[0-9A-Za-z+/]{24,}/],
  ['a cloud access key', /\bAKIA(?!IOSFODNN7EXAMPLE)[0-9A-Z]{16}\b/],
];

/** Finds secrets and machine paths. The rule’s own file and published example values of other projects are allowed. */
export function leakFaults(files: SourceFile[]): string[] {
  return files.flatMap((file) =>
    LEAKS.filter(([, pattern]) => pattern.test(file.text)).map(([what, pattern]) => {
      const line = file.text.slice(0, pattern.exec(file.text)!.index).split('\n').length;
      return `${file.path}:${line}: holds ${what}`;
    }),
  );
}

/** Finds control characters in code: an escape was meant, for example a word boundary in a pattern. */
export function controlFaults(files: SourceFile[]): string[] {
  return files
    .filter(({ path, text }) => path.endsWith('.ts') && /(?![\t\n\r\x7f-\x9f])\p{Cc}/u.test(text))
    .map(({ path }) => `${path}: holds a control character; write it as an escape`);
}

/**
 * Settings are read in one place; only the entry points may pass the environment to it. The sample programs of the API reference read it, but
 * not the code that writes them.
 */
export function environmentFaults(files: SourceFile[]): string[] {
  const may = /^src\/(main|config|http\/reference\/samples)\.ts$|^src\/cli\//;
  return files
    .filter((file) => !may.test(file.path) && /\bprocess\.env\b/.test(file.text))
    .map((file) => `${file.path}: reads the environment; src/config.ts is the only place that does`);
}

/** Error codes are defined only in the catalogue, and all code uses defined ones. */
export function unfinishedFaults(files: SourceFile[]): string[] {
  return files.flatMap((file) => {
    const found = /\b(TODO|FIXME|XXX|HACK)\b/.exec(file.text);
    return found ? [`${file.path}: says ${found[1]}; finish it or write an issue`] : [];
  });
}
