/**
 * Parses JSON more strictly than JSON.parse: valid UTF-8 without a byte order mark, no duplicate keys in an object (in any spelling), no
 * __proto__ key, no lone surrogates, no NUL, no numbers above the range of a double, and limited nesting and number of values. Limits are
 * checked before any value is created, so a hostile body costs little time and no memory. Integers above 2^53 become bigints and keep their
 * digits.
 *
 * A typical body costs one scan from quote to quote, JSON.parse, and one walk over the result. If the text has more keys than the value,
 * keys are duplicated. `explain` then finds them. It runs only on texts that are refused, is linear, and uses no stack beyond the nesting
 * of the text.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import { parseExactJson } from '../base/exact-json.ts';
import { type Failure, type Issue, invalid, MAX_ISSUES, ok, refuse } from '../base/failure.ts';

/** Maximum nesting of arrays and objects. */
export const MAX_DEPTH = 32;
/** Maximum members and elements in one body, on all levels together. */
const MAX_VALUES = 100_000;

const QUOTE = 0x22;

interface Shape {
  /** Members of objects, counted by their colons. */
  members: number;
  failure?: Failure;
}

/** Counts the structural characters outside strings; checks depth and number of values. JSON.parse checks the grammar. */
function scanShape(text: string, maxValues: number): Shape {
  let depth = 0;
  let members = 0;
  let values = 0;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        at = closingQuote(text, at);
        if (at === -1) return { members };
        break;
      }
      case 0x3a: // :
        members += 1;
        break;
      case 0x2c: // ,
        values += 1;
        if (values > maxValues) {
          return { members, failure: invalid([positionIssue(text, at, `has more than ${maxValues} values`)]) };
        }
        break;
      case 0x7b: // {
      case 0x5b: // [
        depth += 1;
        if (depth > MAX_DEPTH) {
          return { members, failure: invalid([positionIssue(text, at, `is nested deeper than ${MAX_DEPTH} levels`)]) };
        }
        break;
      case 0x7d: // }
      case 0x5d: // ]
        depth -= 1;
        break;
    }
  }
  return { members };
}

interface Walk {
  members: number;
  /**
   * Whether the text has \u escapes. Without them it cannot contain NUL or lone surrogates, because the parser and UTF-8 decoding refuse
   * raw ones.
   */
  hasEscapes: boolean;
  /** Whether the text must be parsed again, for the digits of an integer that a double cannot hold. */
  hasLargeIntegers: boolean;
  issues: Issue[];
  /** Keys and indexes from the root to the current position. */
  path: (string | number)[];
}

function report(walk: Walk, message: string): void {
  if (walk.issues.length < MAX_ISSUES) walk.issues.push({ field: walk.path.reduce<string>(fieldPath, ''), message });
}

function checkText(text: string, walk: Walk, prefix: string): void {
  if (text.includes('\0')) report(walk, `${prefix}contains the NUL character`);
  if (!text.isWellFormed()) report(walk, `${prefix}contains half of a surrogate pair`);
}

function checkKey(key: string, value: unknown, walk: Walk): void {
  if (key === '__proto__') report(walk, 'is not an allowed key');
  // A constructor.prototype pair allows prototype pollution through a careless merge.
  if (key === 'constructor' && typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')) {
    report(walk, 'is not an allowed key');
  }
  if (walk.hasEscapes) checkText(key, walk, 'as a key ');
}

function isLargeInteger(value: number): boolean {
  return value > Number.MAX_SAFE_INTEGER || value < Number.MIN_SAFE_INTEGER;
}

function checkValue(value: unknown, walk: Walk): void {
  if (typeof value === 'string') {
    if (walk.hasEscapes) checkText(value, walk, '');
  } else if (typeof value === 'number') {
    if (!Number.isFinite(value)) report(walk, 'is a number that is too large');
    walk.hasLargeIntegers ||= isLargeInteger(value);
  } else if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      walk.path.push(index);
      checkValue(value[index], walk);
      walk.path.pop();
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const key of Object.keys(value)) {
      walk.members += 1;
      walk.path.push(key);
      const member = (value as Record<string, unknown>)[key];
      checkKey(key, member, walk);
      checkValue(member, walk);
      walk.path.pop();
    }
  }
}

/**
 * Returns the total number of object members in a value for which `checkValue` would find no issue; NaN if it might find one. Only for
 * texts without \u escapes. Does not record paths, which are most of the cost of that walk.
 */
function membersOf(value: unknown): number {
  if (typeof value === 'number') return isLargeInteger(value) ? Number.NaN : 0;
  if (typeof value !== 'object' || value === null) return 0;
  let members = 0;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) members += membersOf(value[index]);
    return members;
  }
  for (const key in value) {
    if (key === '__proto__' || key === 'constructor') return Number.NaN;
    members += 1 + membersOf((value as Record<string, unknown>)[key]);
  }
  return members;
}

function syntaxFailure(text: string): Failure {
  const { endsAt: at } = explain(text);
  const message = at >= text.length ? 'ends before its JSON is complete' : 'is not valid JSON';
  return invalid([positionIssue(text, at, message)]);
}

/** A failure includes the value if the text is JSON, so other issues can be reported too. Do not use it for anything else. */
export type ParsedJson = { ok: true; value: unknown } | { ok: false; failure: Failure; value?: unknown };

/** Returns the value in `bytes`, or INVALID_REQUEST with every issue. An issue names its field, or its line and column in the text. */
export function parseStrictJson(bytes: Buffer, maxValues = MAX_VALUES): ParsedJson {
  if (bytes.length === 0) return refuse(invalid([{ field: '', message: 'is empty; send a JSON object' }]));
  const ascii = isAscii(bytes);
  if (!ascii && !isUtf8(bytes)) return refuse(invalid([{ field: '', message: 'is not valid UTF-8' }]));
  if (!ascii && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) {
    return refuse(invalid([{ field: '', message: 'starts with a byte order mark; send UTF-8 without one' }]));
  }
  const text = ascii ? bytes.toString('latin1') : bytes.toString('utf8');
  const shape = scanShape(text, maxValues);
  if (shape.failure) return refuse(shape.failure);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refuse(syntaxFailure(text));
  }
  const hasEscapes = text.includes('\\u');
  if (!hasEscapes && membersOf(value) === shape.members) return ok(value);
  const walk: Walk = { members: 0, hasEscapes, hasLargeIntegers: false, issues: [], path: [] };
  checkValue(value, walk);
  const repeated = walk.members === shape.members ? [] : explain(text).repeated;
  const issues = [...walk.issues, ...repeated];
  if (issues.length > 0) return { ...refuse(invalid(issues)), value };
  return ok(walk.hasLargeIntegers ? parseExactJson(text) : value);
}

const BACKSLASH = 0x5c;

/** Returns the index of the quote that closes the string opened at `open`, or -1. */
function closingQuote(text: string, open: number): number {
  let end = text.indexOf('"', open + 1);
  while (end !== -1 && text.charCodeAt(end - 1) === BACKSLASH) {
    let slashes = 1;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return end;
    end = text.indexOf('"', end + 1);
  }
  return end;
}

/** Returns an issue of the body as a whole, at the character `at`; line and column start at one. */
function positionIssue(text: string, at: number, message: string): Issue {
  let line = 1;
  let lineStart = 0;
  for (let end = text.indexOf('\n'); end !== -1 && end < at; end = text.indexOf('\n', end + 1)) {
    line += 1;
    lineStart = end + 1;
  }
  const column = at - lineStart + 1;
  return { field: '', message: `${message} (line ${line}, column ${column})`, line, column };
}

/** Maximum length of a key in a path. */
const MAX_KEY_LENGTH = 200;
const MAX_PATH_LENGTH = 1_000;

/**
 * Appends a member or an element to `field`, as error details name it: `attachments[0].sha256`. Long keys are cut, and anything below a
 * long path is named by that path, because paths are created and compared by the thousand.
 */
export function fieldPath(base: string, part: string | number): string {
  if (base.length > MAX_PATH_LENGTH) return base;
  if (typeof part === 'number') return `${base}[${part}]`;
  const key = part.length > MAX_KEY_LENGTH ? `${part.slice(0, MAX_KEY_LENGTH).toWellFormed()}…` : part;
  return base === '' ? key : `${base}.${key}`;
}

/** An object or array that is open at this point of a text. */
interface Level {
  /** Keys of this object so far; undefined for an array. */
  keys: Set<string> | undefined;
  /** Path of the object or array itself. */
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

/** Reads the string that starts at `open`; `at` is the position after it, or of the first invalid character. */
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

interface Explanation {
  /** Index of the first character that makes the text invalid (RFC 8259), or the length of the text. */
  endsAt: number;
  /** Duplicate keys before that position, up to a hundred. */
  repeated: Issue[];
}

/** Reads a text token by token, because V8's message often has no position. The earlier scan has limited the nesting. */
export function explain(text: string): Explanation {
  const levels: Level[] = [];
  const repeated: Issue[] = [];
  let at = 0;
  /** The tokens that may come next: a value, a value or the end of an array, a key, a key or the end of an object, or a separator. */
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
    repeated.push({ field: level.field, message: 'is given more than once' });
  level.keys?.add(key);
}
