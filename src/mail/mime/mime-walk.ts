/**
 * Walks through the MIME structure of a message line by line (RFC 2046 §5.1). It finds headers, delimiters, and bodies, and tracks how
 * deep the parts are nested. It only needs the lines that it requests (`wants`), so the body of a message without parts costs nothing. The
 * time is linear in the length of the text, for any depth, number of parts, and boundaries.
 *
 *   header ──empty line──▶ leaf body │ multipart: preamble │ message/rfc822: header of the enclosed message
 *   delimiter of an open multipart ──▶ everything inside it ends; the header of its next part follows
 *   closing delimiter ──▶ that multipart also ends; its epilogue follows
 *
 * The walk stops if the nesting or the number of parts exceeds a limit.
 *
 * This file also parses Content-Type and Content-Disposition of received mail (RFC 2045 §5.1, RFC 2183): the main value and parameters,
 * with comments, quoted strings, and values in RFC 2231 sections. Like email clients, the parser skips invalid text and accepts a missing
 * semicolon (`text/html charset=utf-8`). A content type that is not `token/token` counts as text/plain (RFC 2045 §5.2).
 */

export interface FieldParameter {
  /** The name in lower case, including the asterisks of RFC 2231. */
  name: string;
  /** The value without quotes and escapes. */
  value: string;
  /** The value as written, with quotes. */
  raw: string;
  /** The value as written, up to the next semicolon. Some clients do not quote values that contain spaces. */
  rest: string;
}

interface ParameterizedValue {
  /** The type or disposition in lower case, without comments and whitespace; empty if the field starts with a parameter. */
  main: string;
  /** Whether `main` is a media type: two tokens with a slash between them. */
  isMediaType: boolean;
  parameters: FieldParameter[];
}

/** More parameters of one field are ignored. Even the longest file name in RFC 2231 sections needs far fewer. */
const MAX_PARAMETERS = 100;

const TOKEN_END = /[ \t\r\n;("]/g;
/** A token of RFC 2045 §5.1, in which characters beyond ASCII are accepted. */
const TOKEN = /[^\x00-\x20\x7f()<>@,;:\\"/[\]?=]+/y;
/** The name of a parameter and its equals sign. */
const NAME_AND_EQUALS = /[\w*-]{1,60}[ \t]{0,10}=/y;
const MAIN_END = ' \t\r\n,;(';

function endOfComment(text: string, at: number): number {
  let depth = 0;
  for (let i = at; i < text.length; i += 1) {
    const c = text[i];
    if (c === '\\') i += 1;
    else if (c === '(') depth += 1;
    else if (c === ')') {
      depth -= 1;
      if (depth === 0) return i + 1;
    }
  }
  return text.length;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  for (;;) {
    const c = text[at];
    if (c === ' ' || c === '\t' || c === '\r' || c === '\n') at += 1;
    else if (c === '(') at = endOfComment(text, at);
    else return at;
  }
}

function endOfQuoted(text: string, at: number): number {
  for (let i = at + 1; i < text.length; i += 1) {
    if (text[i] === '\\') i += 1;
    else if (text[i] === '"') return i + 1;
  }
  return text.length;
}

function endOfToken(text: string, at: number): number {
  TOKEN_END.lastIndex = at;
  return TOKEN_END.exec(text)?.index ?? text.length;
}

/** Skips white space, comments, and everything that separates parameters. */
function skipSeparators(text: string, from: number): number {
  let at = skipSpace(text, from);
  while (text[at] === ';' || text[at] === ',') at = skipSpace(text, at + 1);
  return at;
}

function endOfMainToken(text: string, at: number): number {
  TOKEN.lastIndex = at;
  return TOKEN.test(text) ? TOKEN.lastIndex : at;
}

function isMainEnd(text: string, at: number): boolean {
  return at === text.length || MAIN_END.includes(text[at]!);
}

/** Returns the end of text that is not a token. */
function endOfMalformed(text: string, from: number): number {
  let at = from;
  while (!isMainEnd(text, at)) at = text[at] === '"' ? endOfQuoted(text, at) : at + 1;
  return at;
}

/** Reads the main value: a token, or two tokens with a slash between them. Returns it and where the parameters start. */
function readMain(text: string): { main: string; isMediaType: boolean; end: number } {
  const start = skipSpace(text, 0);
  const end = endOfMainToken(text, start);
  const next = skipSpace(text, end);
  if (end > start && text[next] === '/') {
    const second = skipSpace(text, next + 1);
    const secondEnd = endOfMainToken(text, second);
    if (secondEnd > second && isMainEnd(text, secondEnd)) {
      const main = `${text.slice(start, end)}/${text.slice(second, secondEnd)}`;
      return { main, isMediaType: true, end: secondEnd };
    }
  }
  const malformedEnd = endOfMalformed(text, end);
  const main = text.slice(start, malformedEnd);
  const startsWithParameter = main.includes('=') || text[skipSpace(text, malformedEnd)] === '=';
  return startsWithParameter
    ? { main: '', isMediaType: false, end: start }
    : { main, isMediaType: false, end: malformedEnd };
}

/** Returns where the parameter after a value starts, even if the semicolon is missing. */
function nextParameter(text: string, valueEnd: number): number {
  let at = skipSpace(text, valueEnd);
  while (text[at] === ',') at = skipSpace(text, at + 1);
  NAME_AND_EQUALS.lastIndex = at;
  if (text[at] === ';' || NAME_AND_EQUALS.test(text)) return at;
  const semicolon = text.indexOf(';', valueEnd);
  return semicolon < 0 ? text.length : semicolon;
}

/** Returns the end of an unquoted value, without a comma that separates it from the next parameter. */
function endOfUnquoted(text: string, from: number): number {
  let end = endOfToken(text, from);
  if (end < text.length) while (end > from && text[end - 1] === ',') end -= 1;
  return end;
}

function readParameters(text: string, start: number): FieldParameter[] {
  const parameters: FieldParameter[] = [];
  let at = skipSeparators(text, start);
  let equals = -1;
  while (at < text.length && parameters.length < MAX_PARAMETERS) {
    const semicolon = text.indexOf(';', at);
    const stop = semicolon < 0 ? text.length : semicolon;
    // The next equals sign is searched only once: a search from every semicolon would take quadratic time.
    if (equals < at) equals = text.indexOf('=', at);
    if (equals < 0) break;
    if (equals > stop) {
      at = skipSeparators(text, stop);
      continue;
    }
    const name = text
      .slice(at, equals)
      .replace(/\([^()]*\)/g, '')
      .trim()
      .replace(/^.*[ \t\r\n,]/s, '')
      .toLowerCase();
    const from = skipSpace(text, equals + 1);
    const quoted = text[from] === '"';
    const end = quoted ? endOfQuoted(text, from) : endOfUnquoted(text, from);
    const raw = text.slice(from, end);
    const value = quoted
      ? raw.slice(1, raw.length > 1 && raw.endsWith('"') ? -1 : undefined).replace(/\\(.)/gsu, '$1')
      : raw;
    const restEnd = text.indexOf(';', end);
    if (name !== '') parameters.push({ name, value, raw, rest: text.slice(from, restEnd < 0 ? text.length : restEnd) });
    at = skipSeparators(text, nextParameter(text, end));
  }
  return parameters;
}

/** Parses the unfolded value of a Content-Type or Content-Disposition field. */
export function parameterizedValue(text: string): ParameterizedValue {
  const { main, isMediaType, end } = readMain(text);
  return { main: main.toLowerCase(), isMediaType, parameters: readParameters(text, end) };
}

/** Returns the transfer encoding in lower case. Some mailers write `8-bit` or `7 bit`. */
function transferEncodingName(text: string): string {
  let written = '';
  for (let at = skipSpace(text, 0); at < text.length && text[at] !== ';'; ) {
    const end = text[at] === '"' ? endOfQuoted(text, at) : endOfToken(text, at);
    written += text.slice(at, end);
    at = skipSpace(text, end);
  }
  return written.toLowerCase().replace(/^([78])-bit$/, '$1bit');
}

/** Returns the value of a parameter, even if it is in sections (`boundary*0=…; boundary*1=…`) or has a charset (RFC 2231). */
export function parameterValue(parameters: readonly FieldParameter[], name: string): string | undefined {
  const single = parameters.find((one) => one.name === name);
  if (single) return single.value;
  const extended = parameters.find((one) => one.name === `${name}*`);
  if (extended) return percentDecoded(extended.value.replace(/^[^']*'[^']*'/, ''));
  const byName = new Map(parameters.map((one) => [one.name, one.value]));
  let value = '';
  for (let i = 0; ; i += 1) {
    const plain = byName.get(`${name}*${i}`);
    const encoded = byName.get(`${name}*${i}*`);
    if (plain === undefined && encoded === undefined) return i === 0 ? undefined : value;
    value += plain ?? percentDecoded(i === 0 ? encoded!.replace(/^[^']*'[^']*'/, '') : encoded!);
  }
}

function percentDecoded(text: string): string {
  return text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

export interface Entity {
  kind: 'leaf' | 'multipart' | 'message';
  /** The media type in lower case; the default if the header has none. */
  type: string;
  /** Whether the header has a Content-Type. */
  typed: boolean;
  /** The Content-Transfer-Encoding in lower case; empty if there is none. */
  encoding: string;
  /** The charset as written in the header; empty if there is none. */
  charset: string;
  boundary: string | undefined;
  parent: Entity | undefined;
  /** Offsets in the message. The header, including the empty line after it, ends where the body starts. */
  headerStart: number;
  bodyStart: number;
  /** The end of the body, without the line end that belongs to the following delimiter. */
  bodyEnd: number;
}

export interface MimeLimits {
  /** Maximum nesting of multiparts and messages. */
  depth: number;
  parts: number;
  /** Returns whether an unencoded part of this type contains a message to walk into; by default, only message/rfc822. */
  nests?(type: string): boolean;
}

/** The rest of a longer Content-Type is ignored; no meaningful one is this long. */
const MAX_FIELD_LENGTH = 16_384;
const DASH = 45;

/** Returns whether the encoding leaves the bytes unchanged. Only parts with such an encoding may contain other entities (RFC 2045 §6.4). */
export function isIdentity(encoding: string): boolean {
  return encoding === '' || encoding === '7bit' || encoding === '8bit' || encoding === 'binary';
}

function isMessageType(type: string): boolean {
  return type === 'message/rfc822';
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 9;
}

/** Reads the two header fields that define the structure of the body, line by line. */
class StructureFields {
  type: string | undefined;
  encoding: string | undefined;
  /** The field that the last line belongs to. */
  #field: 'type' | 'encoding' | undefined;

  /** Whether the next line would be ignored if it continues a folded field. */
  get ignoresFolded(): boolean {
    return this.#field === undefined || this[this.#field]!.length >= MAX_FIELD_LENGTH;
  }

  line(line: string): void {
    const first = line.charCodeAt(0);
    if (isSpace(first)) {
      if (!this.ignoresFolded) this[this.#field!] += line;
      return;
    }
    this.#field = undefined;
    if ((first | 32) !== 99) return;
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon)).trimEnd().toLowerCase();
    if (name === 'content-type') this.#begin('type', line.slice(colon + 1));
    else if (name === 'content-transfer-encoding') this.#begin('encoding', line.slice(colon + 1));
  }

  /** Starts a field. If a field occurs twice, the first one applies. */
  #begin(field: 'type' | 'encoding', value: string): void {
    if (this[field] !== undefined) return;
    this.#field = field;
    this[field] = value;
  }
}

/** The open multiparts and messages, from the outermost, and their boundaries. */
class OpenEntities {
  readonly #open: { entity: Entity; shadowed: number | undefined }[] = [];
  /** The index in #open by boundary. An inner boundary shadows an outer one with the same text. */
  readonly #levels = new Map<string, number>();

  get depth(): number {
    return this.#open.length;
  }

  hasBoundaries(): boolean {
    return this.#levels.size > 0;
  }

  push(entity: Entity): void {
    let shadowed: number | undefined;
    if (entity.boundary !== undefined) {
      shadowed = this.#levels.get(entity.boundary);
      this.#levels.set(entity.boundary, this.#open.length);
    }
    this.#open.push({ entity, shadowed });
  }

  /** Returns the level of the multipart that the line delimits; trailing whitespace is padding (RFC 2046 §5.1.1). */
  delimited(line: string): { level: number; isClosing: boolean } | undefined {
    let end = line.length;
    while (end > 2 && (line.charCodeAt(end - 1) === 0x20 || line.charCodeAt(end - 1) === 9)) end -= 1;
    const text = line.slice(2, end);
    const opening = this.#levels.get(text);
    if (opening !== undefined) return { level: opening, isClosing: false };
    const closing = text.endsWith('--') ? this.#levels.get(text.slice(0, -2)) : undefined;
    return closing === undefined ? undefined : { level: closing, isClosing: true };
  }

  entityAt(level: number): Entity {
    return this.#open[level]!.entity;
  }

  /** Closes the entities from this level inward; their bodies end at `bodyEnd`. */
  endFrom(level: number, bodyEnd: number): void {
    while (this.#open.length > level) {
      const { entity, shadowed } = this.#open.pop()!;
      entity.bodyEnd = Math.max(entity.bodyStart, bodyEnd);
      if (entity.boundary === undefined) continue;
      if (shadowed === undefined) this.#levels.delete(entity.boundary);
      else this.#levels.set(entity.boundary, shadowed);
    }
  }
}

export class MimeWalk {
  readonly entities: Entity[] = [];
  /** The limit that the message exceeds. */
  exceeded: 'depth' | 'parts' | undefined;
  readonly #limits: MimeLimits;
  readonly #open = new OpenEntities();
  /** The entity whose header or leaf body is being read; undefined in preambles and epilogues. */
  #current: Entity | undefined;
  /** The structure fields of the current header. */
  #header: StructureFields | undefined;

  constructor(limits: MimeLimits) {
    this.#limits = limits;
  }

  /** Returns whether the line from `at` in `text` must be passed to `line`. */
  wants(text: string, at: number): boolean {
    if (this.#header !== undefined) return !(this.#header.ignoresFolded && isSpace(text.charCodeAt(at)));
    return this.#open.hasBoundaries() && text.charCodeAt(at) === DASH && text.charCodeAt(at + 1) === DASH;
  }

  /** Starts a message whose header starts at `offset`. */
  begin(offset: number): void {
    this.#enter(undefined, offset);
  }

  /** Starts after a header that the caller has already read; `fields` are the values of its fields. */
  beginBody(fields: { type: string | undefined; encoding: string | undefined }, bodyStart: number): void {
    this.#enter(undefined, 0);
    this.#endHeader(fields, bodyStart);
  }

  /** Whether the next line belongs to a header. */
  get isInHeader(): boolean {
    return this.#header !== undefined;
  }

  /** Whether the next line would be ignored if it continues a folded field of a header (RFC 5322 §2.2.3). */
  get ignoresFolded(): boolean {
    return this.#header?.ignoresFolded ?? false;
  }

  /**
   * Reads the next line, without its CRLF; `offset` is where it starts in the message, `next` is where the following line starts.
   * Returns whether the line is a delimiter.
   */
  line(line: string, offset: number, next: number): boolean {
    if (this.#open.hasBoundaries() && line.startsWith('--') && this.#delimiter(line, offset, next)) return true;
    if (this.#header === undefined) return false;
    if (line === '') this.#endHeader(this.#header, next);
    else this.#header.line(line);
    return false;
  }

  /** Ends the message. */
  end(offset: number): void {
    this.#closeCurrent(offset, offset);
    this.#open.endFrom(0, offset);
  }

  #enter(parent: Entity | undefined, headerStart: number): void {
    if (this.entities.length > this.#limits.parts) this.exceeded = 'parts';
    const type = parent?.type === 'multipart/digest' ? 'message/rfc822' : 'text/plain';
    const [bodyStart, bodyEnd] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    const fields = { kind: 'leaf', type, typed: false, encoding: '', charset: '', boundary: undefined } as const;
    this.#current = { ...fields, parent, headerStart, bodyStart, bodyEnd };
    this.entities.push(this.#current);
    this.#header = new StructureFields();
  }

  #endHeader(fields: { type: string | undefined; encoding: string | undefined }, bodyStart: number): void {
    const entity = this.#current!;
    this.#header = undefined;
    entity.bodyStart = bodyStart;
    if (fields.encoding !== undefined) entity.encoding = transferEncodingName(fields.encoding);
    if (fields.type !== undefined) {
      const { main, isMediaType, parameters } = parameterizedValue(fields.type);
      if (main !== '') entity.type = isMediaType ? main : 'text/plain';
      entity.typed = true;
      entity.charset = parameterValue(parameters, 'charset') ?? '';
      if (entity.type.startsWith('multipart/')) entity.boundary = parameterValue(parameters, 'boundary') || undefined;
    }
    const nests = this.#limits.nests ?? isMessageType;
    if (entity.boundary !== undefined) {
      entity.kind = 'multipart';
      this.#current = undefined;
    } else if (nests(entity.type) && isIdentity(entity.encoding)) entity.kind = 'message';
    if (entity.kind === 'leaf') return;
    this.#open.push(entity);
    if (this.#open.depth > this.#limits.depth) this.exceeded = 'depth';
    if (entity.kind === 'message') this.#enter(entity, bodyStart);
  }

  /** Returns whether the line is a delimiter of an open multipart. */
  #delimiter(line: string, offset: number, next: number): boolean {
    const found = this.#open.delimited(line);
    if (found === undefined) return false;
    const { level, isClosing } = found;
    this.#closeCurrent(offset, offset - 2);
    this.#open.endFrom(level + 1, offset - 2);
    if (isClosing) this.#open.endFrom(level, next);
    else this.#enter(this.#open.entityAt(level), next);
    return true;
  }

  /** Closes the current leaf or header; a header without an empty line has no body. */
  #closeCurrent(offset: number, bodyEnd: number): void {
    const entity = this.#current;
    if (entity === undefined) return;
    if (this.#header !== undefined) entity.bodyStart = offset;
    entity.bodyEnd = Math.max(entity.bodyStart, bodyEnd);
    this.#current = undefined;
    this.#header = undefined;
  }
}

/** Walks through a complete message, decoded as Latin-1, until it ends or exceeds a limit. */
export function walkThrough(text: string, limits: MimeLimits): MimeWalk {
  const walk = new MimeWalk(limits);
  walk.begin(0);
  for (let at = 0; at < text.length && walk.exceeded === undefined; ) {
    const lineEnd = text.indexOf('\r\n', at);
    const end = lineEnd < 0 ? text.length : lineEnd;
    const next = lineEnd < 0 ? text.length : lineEnd + 2;
    if (walk.wants(text, at)) walk.line(text.slice(at, end), at, next);
    at = next;
  }
  walk.end(text.length);
  return walk;
}
