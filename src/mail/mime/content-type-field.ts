/**
 * Content-Type and Content-Disposition fields as they stand in received mail (RFC 2045 §5.1, RFC 2183): main value and parameters,
 * with comments, quoted strings, and values in RFC 2231 pieces. Takes what it can and skips the rest, as mail clients do.
 */

export interface FieldParameter {
  /** In lower case, with the asterisks of RFC 2231. */
  name: string;
  /** Without quotes and escapes. */
  value: string;
  /** As written, with quotes. */
  raw: string;
}

export interface ParameterisedValue {
  /** What stands before the first semicolon, in lower case, without comments and white space. */
  main: string;
  parameters: FieldParameter[];
}

const TOKEN_END = /[ \t\r\n;("]/g;

function behindComment(text: string, at: number): number {
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
    else if (c === '(') at = behindComment(text, at);
    else return at;
  }
}

function behindQuoted(text: string, at: number): number {
  for (let i = at + 1; i < text.length; i += 1) {
    if (text[i] === '\\') i += 1;
    else if (text[i] === '"') return i + 1;
  }
  return text.length;
}

function behindToken(text: string, at: number): number {
  TOKEN_END.lastIndex = at;
  return TOKEN_END.exec(text)?.index ?? text.length;
}

/** Reads the unfolded value of such a field. */
export function parameterisedValue(text: string): ParameterisedValue {
  let at = skipSpace(text, 0);
  let main = '';
  while (at < text.length && text[at] !== ';') {
    const end = text[at] === '"' ? behindQuoted(text, at) : behindToken(text, at);
    main += text.slice(at, end);
    at = skipSpace(text, end);
  }
  const parameters: FieldParameter[] = [];
  let equals = -1;
  while (at < text.length) {
    at = skipSpace(text, at + 1);
    const semicolon = text.indexOf(';', at);
    const stop = semicolon < 0 ? text.length : semicolon;
    // Looked for once: a search from every semicolon would take quadratic time.
    if (equals < at) equals = text.indexOf('=', at);
    if (equals < 0) break;
    if (equals > stop) {
      at = stop;
      continue;
    }
    const name = text
      .slice(at, equals)
      .replace(/\([^()]*\)/g, '')
      .trim()
      .toLowerCase();
    const from = skipSpace(text, equals + 1);
    const quoted = text[from] === '"';
    const end = quoted ? behindQuoted(text, from) : behindToken(text, from);
    const raw = text.slice(from, end);
    const value = quoted
      ? raw.slice(1, raw.length > 1 && raw.endsWith('"') ? -1 : undefined).replace(/\\(.)/gsu, '$1')
      : raw;
    if (name !== '') parameters.push({ name, value, raw });
    const next = text.indexOf(';', end);
    at = next < 0 ? text.length : next;
  }
  return { main: main.toLowerCase(), parameters };
}

/** The value of a parameter, also where it is given in pieces (`boundary*0=…; boundary*1=…`) or with a charset (RFC 2231). */
export function parameterValue(parameters: readonly FieldParameter[], name: string): string | undefined {
  const whole = parameters.find((one) => one.name === name);
  if (whole) return whole.value;
  const extended = parameters.find((one) => one.name === `${name}*`);
  if (extended) return percentDecoded(extended.value.replace(/^[^']*'[^']*'/, ''));
  const byName = new Map(parameters.map((one) => [one.name, one.value]));
  let value = '';
  for (let i = 0; ; i += 1) {
    const plain = byName.get(`${name}*${i}`);
    const coded = byName.get(`${name}*${i}*`);
    if (plain === undefined && coded === undefined) return i === 0 ? undefined : value;
    value += plain ?? percentDecoded(i === 0 ? coded!.replace(/^[^']*'[^']*'/, '') : coded!);
  }
}

function percentDecoded(text: string): string {
  return text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
