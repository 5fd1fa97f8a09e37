/**
 * Reads exported files of other services as rows with their line numbers. The first character distinguishes JSON from CSV; the file name
 * does not matter. CSV is read as a stream: comma, semicolon, or tab, with quotes, and with a first line that names the columns. JSON is
 * one value or several in a row, such as pages of a list, and is limited to 200 MB because it is parsed at once.
 */
import { closeSync, createReadStream, openSync, readSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { CommandError } from './command.ts';
import { fieldName, type Row } from './import-sources.ts';

const MAX_JSON_BYTES = 200_000_000;
const MAX_CSV_LINE = 1_000_000;

export interface FileRow {
  /** `line 7` of a CSV file, `item 7` of a JSON file, from 1. */
  place: string;
  row: Row;
}

function unreadable(file: string, message: string): CommandError {
  return new CommandError('UNREADABLE', `${file} ${message}`);
}

/** Returns the first character that is not white space; undefined for an empty file. */
function firstCharacter(file: string): string | undefined {
  try {
    if (!statSync(file).isFile()) throw unreadable(file, 'is not a file');
    const handle = openSync(file, 'r');
    try {
      const buffer = Buffer.alloc(4_096);
      return buffer
        .toString('utf8', 0, readSync(handle, buffer))
        .replace(/^\uFEFF/, '')
        .trimStart()[0];
    } finally {
      closeSync(handle);
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw unreadable(file, isMissing ? 'does not exist' : `cannot be read: ${(error as Error).message}`);
  }
}

/** Returns the rows of a file in order. Throws a CommandError that names file and line if it cannot be read. */
export async function* fileRows(file: string): AsyncGenerator<FileRow> {
  const first = firstCharacter(file);
  if (first === undefined) throw unreadable(file, 'is empty');
  if (first === '{' || first === '[') yield* jsonRows(file);
  else yield* csvRows(file);
}

function rowOf(value: unknown): Row {
  if (typeof value === 'string') {
    // A list of addresses (a SendGrid group), or of identities (SES v1).
    return value.includes('@') ? { email: value, groupid: '' } : { identityname: value, identitytype: 'DOMAIN' };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {};
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [fieldName(name), member]));
}

/** Names of members in which services return the items of a list. */
const LISTS = [
  'Suppressions',
  'Bounces',
  'Domains',
  'SenderSignatures',
  'SuppressedDestinationSummaries',
  'EmailIdentities',
  'Identities',
  'Templates',
  'TemplatesMetadata',
  'templates',
  'items',
  'data',
  'result',
];

/** Returns the items of a response, which is a list, a page of a list, or a single object. */
function itemsOf(value: unknown): unknown[] {
  if (Array.isArray(value)) {
    const isPages = value.some((one) => listIn(one) !== undefined || templateIn(one) !== undefined);
    return isPages ? value.flatMap(itemsOf) : value;
  }
  return listIn(value) ?? [templateIn(value) ?? value];
}

/** Returns the template in a response of SES or Mailgun, which wrap a single template in a member. */
function templateIn(value: unknown): unknown {
  const { Template, template } = (value ?? {}) as Record<string, unknown>;
  return [Template, template].find((one) => typeof one === 'object' && one !== null);
}

function listIn(value: unknown): unknown[] | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const members = value as Record<string, unknown>;
  const name = LISTS.find((one) => Array.isArray(members[one]));
  return name === undefined ? undefined : (members[name] as unknown[]);
}

/** Returns the JSON values of a text that has one, or several after each other, with or without white space between them. */
function jsonValues(file: string, text: string): unknown[] {
  try {
    return [JSON.parse(text)];
  } catch {
    const values: unknown[] = [];
    for (let at = 0; at < text.length; ) {
      const end = endOfValue(text, at);
      const part = text.slice(at, end);
      if (part.trim() === '') break;
      try {
        values.push(JSON.parse(part));
      } catch (error) {
        const line = text.slice(0, at + part.search(/\S/)).split('\n').length;
        const where = values.length === 0 ? '' : ` from line ${line} on`;
        throw unreadable(file, `is not valid JSON${where}: ${(error as Error).message}`);
      }
      at = end;
    }
    return values;
  }
}

/** Returns the position after the list or object that starts at `from`: its brackets are balanced there, except in strings. */
function endOfValue(text: string, from: number): number {
  const structure = /["[\]{}]/g;
  structure.lastIndex = from;
  let depth = 0;
  for (let found = structure.exec(text); found !== null; found = structure.exec(text)) {
    const [character] = found;
    if (character === '"') structure.lastIndex = endOfString(text, found.index);
    else if (character === '{' || character === '[') depth += 1;
    else depth -= 1;
    if (depth <= 0 && character !== '"') return found.index + 1;
  }
  return text.length;
}

/** Returns the position after the string whose first quote is at `from`. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

async function* jsonRows(file: string): AsyncGenerator<FileRow> {
  const { size } = statSync(file);
  if (size > MAX_JSON_BYTES) {
    throw unreadable(
      file,
      `has ${size} bytes, but a JSON file can have up to ${MAX_JSON_BYTES}. Try: split it into several files`,
    );
  }
  const text = (await readFile(file, 'utf8')).replace(/^\uFEFF/, '');
  let number = 0;
  for (const value of jsonValues(file, text)) {
    for (const item of itemsOf(value)) {
      number += 1;
      yield { place: `item ${number}`, row: rowOf(item) };
    }
  }
}

interface Line {
  number: number;
  text: string;
}

/** Returns the records of a CSV file: lines, joined while a quote is open. */
async function* records(file: string): AsyncGenerator<Line> {
  let rest = '';
  let number = 1;
  let record = '';
  let startedAt = 1;
  const take = (line: string): Line | undefined => {
    if (record === '') startedAt = number;
    record += record === '' ? line : `\n${line}`;
    number += 1;
    if (record.length > MAX_CSV_LINE)
      throw unreadable(file, `has an unclosed quote or too long a row in line ${startedAt}`);
    if ((record.split('"').length - 1) % 2 === 1) return undefined;
    const done = { number: startedAt, text: record.replace(/\r$/, '') };
    record = '';
    return done;
  };
  for await (const chunk of createReadStream(file, { encoding: 'utf8' })) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop()!;
    for (const line of lines) {
      const done = take(line);
      if (done && done.text.trim() !== '') yield done;
    }
  }
  const last = take(rest);
  if (last === undefined) throw unreadable(file, `has an unclosed quote in line ${startedAt}`);
  if (last.text.trim() !== '') yield last;
}

function cellsOf(text: string, separator: string): string[] {
  const cells: string[] = [];
  let at = 0;
  while (at <= text.length) {
    const quoted = /^[ ]*"((?:[^"]|"")*)"[ ]*/.exec(text.slice(at));
    if (quoted) {
      cells.push(quoted[1]!.replaceAll('""', '"'));
      at += quoted[0].length;
      if (text[at] !== separator && at < text.length) at = text.indexOf(separator, at);
      if (at === -1) break;
      at += 1;
      continue;
    }
    const end = text.indexOf(separator, at);
    cells.push(text.slice(at, end === -1 ? undefined : end).trim());
    if (end === -1) break;
    at = end + 1;
  }
  return cells;
}

/** Columns of a file without a first line of names: the format that SES imports. */
const UNNAMED = ['emailaddress', 'reason'];

async function* csvRows(file: string): AsyncGenerator<FileRow> {
  let names: string[] | undefined;
  let separator = ',';
  for await (const { number, text } of records(file)) {
    if (names === undefined) {
      const head = text.replace(/^\uFEFF/, '');
      separator = [',', '\t', ';'].find((one) => head.includes(one)) ?? ',';
      const cells = cellsOf(head, separator);
      if (!cells.some((cell) => cell.includes('@'))) {
        names = cells.map(fieldName);
        continue;
      }
      names = UNNAMED;
    }
    const cells = cellsOf(text.replace(/^\uFEFF/, ''), separator);
    yield { place: `line ${number}`, row: Object.fromEntries(names.map((name, i) => [name, cells[i] ?? ''])) };
  }
}
