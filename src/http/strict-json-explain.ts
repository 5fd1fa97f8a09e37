/**
 * Says where in a JSON text something is wrong. Only ever run on a text that is going to be refused, so it may be slower
 * than the check itself; it is linear all the same, and keeps no stack of its own beyond the nesting of the text.
 */
import type { Issue } from '../base/failure.ts';

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

/** Of a key in a place; nobody names fields like that. */
const MAX_KEY_LENGTH = 200;
const MAX_PLACE_LENGTH = 1_000;

/**
 * `field` followed by a member or an element, as refusals write it: `attachments[0].sha256`. Long keys are cut, and what lies
 * deeper than a long place is told as that place: places are made and compared by the thousand.
 */
export function fieldPath(base: string, part: string | number): string {
  if (base.length > MAX_PLACE_LENGTH) return base;
  if (typeof part === 'number') return `${base}[${part}]`;
  const key = part.length > MAX_KEY_LENGTH ? `${part.slice(0, MAX_KEY_LENGTH).toWellFormed()}…` : part;
  return base === '' ? key : `${base}.${key}`;
}

interface Level {
  /** Keys seen in this object; undefined for an array. */
  keys: Set<string> | undefined;
  /** Path of the object or array itself. */
  base: string;
  /** Path of the member or element that is being read. */
  field: string;
  index: number;
}

function enter(level: Level | undefined, object: boolean): Level {
  const base = level === undefined ? '' : level.field;
  return { keys: object ? new Set() : undefined, base, field: object ? base : fieldPath(base, 0), index: 0 };
}

function nextElement(level: Level | undefined): void {
  if (level === undefined || level.keys !== undefined) return;
  level.index += 1;
  level.field = fieldPath(level.base, level.index);
}

/** Takes note of a key; true when its object has it already. */
function isRepeated(level: Level, key: string): boolean {
  level.field = fieldPath(level.base, key);
  if (level.keys?.has(key)) return true;
  level.keys?.add(key);
  return false;
}

/** Every key that occurs twice in one object of a valid JSON text, at most `limit` of them. */
export function duplicateKeys(text: string, limit: number): Issue[] {
  const issues: Issue[] = [];
  const levels: Level[] = [];
  let stringStart = 0;
  let stringEnd = 0;
  for (let at = 0; at < text.length && issues.length < limit; at += 1) {
    const level = levels.at(-1);
    const char = text[at];
    if (char === '"') {
      stringStart = at;
      stringEnd = closingQuote(text, at);
      at = stringEnd;
    } else if (char === '{' || char === '[') levels.push(enter(level, char === '{'));
    else if (char === '}' || char === ']') levels.pop();
    else if (char === ',') nextElement(level);
    else if (char === ':' && level !== undefined) {
      const key = JSON.parse(text.slice(stringStart, stringEnd + 1)) as string;
      if (isRepeated(level, key)) issues.push({ field: level.field, message: 'is given twice' });
    }
  }
  return issues;
}

const SPACE = /[ \t\r\n]*/y;
const WORD = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const HEX = /[0-9a-fA-F]{4}/y;

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

/** Reads the string that opens at `open`; ok tells whether `at` is behind its end or at its issue. */
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

/**
 * Index of the first character at which a text stops being JSON (RFC 8259), or its length when it ends too early.
 * The engine's own message often gives no position. Nesting is bounded by the scan that ran before.
 */
export function syntaxErrorAt(text: string): number {
  const open: ('{' | '[')[] = [];
  let at = 0;
  /** What may come next: a value, a value or the end of an array, a key, a key or the end of an object, or what follows a value. */
  let want: 'value' | 'first' | 'key' | 'first key' | 'after' = 'value';
  for (;;) {
    at = skip(SPACE, text, at);
    const char = text[at] ?? '';
    if (want === 'after') {
      const level = open.at(-1);
      if (level === undefined) return at;
      if (char === ',') want = level === '{' ? 'key' : 'value';
      else if (char === (level === '{' ? '}' : ']')) open.pop();
      else return at;
      at += 1;
    } else if (want === 'key' || want === 'first key') {
      if (char === '}' && want === 'first key') {
        open.pop();
        want = 'after';
        at += 1;
        continue;
      }
      const key = char === '"' ? readString(text, at) : { ok: false, at };
      if (!key.ok) return key.at;
      at = skip(SPACE, text, key.at);
      if (text[at] !== ':') return at;
      at += 1;
      want = 'value';
    } else if (char === '{' || char === '[') {
      open.push(char);
      want = char === '{' ? 'first key' : 'first';
      at += 1;
    } else if (char === ']' && want === 'first') {
      open.pop();
      want = 'after';
      at += 1;
    } else {
      const value = char === '"' ? readString(text, at) : { ok: skip(WORD, text, at) > at, at: skip(WORD, text, at) };
      if (!value.ok) return value.at;
      at = value.at;
      want = 'after';
    }
  }
}
