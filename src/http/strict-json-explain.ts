/**
 * Says where in a JSON text something is wrong. Only ever run on a text that is going to be refused, so it may be slower
 * than the check itself; it is linear all the same, and keeps no stack of its own beyond the nesting of the text.
 */
import { type Issue, MAX_ISSUES } from '../base/failure.ts';

const BACKSLASH = 0x5c;

/** Index of the quote that closes the string opened at `open`, or -1. */
export function closingQuote(text: string, open: number): number {
  let end = text.indexOf('"', open + 1);
  while (end !== -1 && text.charCodeAt(end - 1) === BACKSLASH) {
    let slashes = 1;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return end;
    end = text.indexOf('"', end + 1);
  }
  return end;
}

/** An issue about the body as a whole, at the character `at`; line and column count from one. */
export function positionIssue(text: string, at: number, message: string): Issue {
  let line = 1;
  let lineStart = 0;
  for (let end = text.indexOf('\n'); end !== -1 && end < at; end = text.indexOf('\n', end + 1)) {
    line += 1;
    lineStart = end + 1;
  }
  const column = at - lineStart + 1;
  return { field: '', message: `${message} (line ${line}, column ${column})`, line, column };
}

/** Of a key in a path; nobody names fields like that. */
const MAX_KEY_LENGTH = 200;
const MAX_PATH_LENGTH = 1_000;

/**
 * `field` followed by a member or an element, as refusals write it: `attachments[0].sha256`. Long keys are cut, and what lies
 * deeper than a long path is named by that path: paths are made and compared by the thousand.
 */
export function fieldPath(base: string, part: string | number): string {
  if (base.length > MAX_PATH_LENGTH) return base;
  if (typeof part === 'number') return `${base}[${part}]`;
  const key = part.length > MAX_KEY_LENGTH ? `${part.slice(0, MAX_KEY_LENGTH).toWellFormed()}…` : part;
  return base === '' ? key : `${base}.${key}`;
}

/** An object or list that is open at this point of a text. */
interface Level {
  /** Keys met in this object; undefined for a list. */
  keys: Set<string> | undefined;
  /** Path of the object or list itself. */
  base: string;
  /** Path of the member or element that is being read. */
  field: string;
  index: number;
}

function openLevel(within: Level | undefined, isObject: boolean): Level {
  const base = within?.field ?? '';
  return { keys: isObject ? new Set() : undefined, base, field: isObject ? base : fieldPath(base, 0), index: 0 };
}

const SPACE = /[ \t\r\n]*/y;
const WORD = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const HEX = /[0-9a-fA-F]{4}/y;

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

/** Reads the string that opens at `open`; `at` follows it, or is where it stops being one. */
function readString(text: string, open: number): { ok: boolean; at: number } {
  for (let at = open + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return { ok: true, at: at + 1 };
    if (code < 0x20) return { ok: false, at };
    if (code !== BACKSLASH) continue;
    const escaped = text[at + 1] ?? '';
    if (!'"\\/bfnrtu'.includes(escaped) || escaped === '') return { ok: false, at };
    if (escaped === 'u' && skip(HEX, text, at + 2) === at + 2) return { ok: false, at };
    at += 1;
  }
  return { ok: false, at: text.length };
}

function readScalar(text: string, start: number): { ok: boolean; at: number } {
  if (text[start] === '"') return readString(text, start);
  const at = skip(WORD, text, start);
  return { ok: at > start, at };
}

export interface Explanation {
  /** Index of the first character at which the text stops being JSON (RFC 8259), or its length. */
  endsAt: number;
  /** Keys that occur twice in one object before that, at most a hundred. */
  repeated: Issue[];
}

/** Reads a text token by token; the engine's own message often gives no position. Nesting is bounded by the scan that ran before. */
export function explain(text: string): Explanation {
  const levels: Level[] = [];
  const repeated: Issue[] = [];
  let at = 0;
  /** What may come next: a value, a value or the end of a list, a key, a key or the end of an object, or what follows a value. */
  let expected: 'value' | 'first value' | 'key' | 'first key' | 'after' = 'value';
  for (;;) {
    at = skip(SPACE, text, at);
    const char = text[at] ?? '';
    const level = levels.at(-1);
    if (expected === 'after') {
      if (char === ',' && level !== undefined) {
        expected = level.keys === undefined ? 'value' : 'key';
        level.index += 1;
        if (level.keys === undefined) level.field = fieldPath(level.base, level.index);
      } else if (level !== undefined && char === (level.keys === undefined ? ']' : '}')) levels.pop();
      else return { endsAt: at, repeated };
      at += 1;
    } else if ((expected === 'first key' && char === '}') || (expected === 'first value' && char === ']')) {
      levels.pop();
      expected = 'after';
      at += 1;
    } else if (expected === 'key' || expected === 'first key') {
      const key = char === '"' ? readString(text, at) : { ok: false, at };
      if (!key.ok) return { endsAt: key.at, repeated };
      noteKey(level!, JSON.parse(text.slice(at, key.at)) as string, repeated);
      at = skip(SPACE, text, key.at);
      if (text[at] !== ':') return { endsAt: at, repeated };
      at += 1;
      expected = 'value';
    } else if (char === '{' || char === '[') {
      levels.push(openLevel(level, char === '{'));
      expected = char === '{' ? 'first key' : 'first value';
      at += 1;
    } else {
      const scalar = readScalar(text, at);
      at = scalar.at;
      if (!scalar.ok) return { endsAt: at, repeated };
      expected = 'after';
    }
  }
}

function noteKey(level: Level, key: string, repeated: Issue[]): void {
  level.field = fieldPath(level.base, key);
  if (level.keys?.has(key) && repeated.length < MAX_ISSUES)
    repeated.push({ field: level.field, message: 'is given twice' });
  level.keys?.add(key);
}
