/** Messages of PostgreSQL's protocol, version 3: those that a client of the simulation sends, and those that a simulated server answers. */

export type Value = string | number | null;

const PARSE = 'P';
const BIND = 'B';
const DESCRIBE = 'D';
const EXECUTE = 'E';
const SYNC = 'S';

/** Returns one message of the protocol. */
export function message(type: string, ...parts: (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((one) => (typeof one === 'string' ? Buffer.from(`${one}\0`) : one)));
  const head = Buffer.alloc(5);
  head.write(type, 'latin1');
  head.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}

export const int16 = (...values: number[]): Buffer =>
  Buffer.from(values.flatMap((one) => [(one >> 8) & 255, one & 255]));
export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function parameter(value: Value): Buffer {
  if (value === null) return int32(-1);
  const bytes = Buffer.from(String(value));
  return Buffer.concat([int32(bytes.length), bytes]);
}

/** Returns the messages of one statement with parameters, for which `?` stands. */
export function statement(sql: string, params: readonly Value[]): Buffer {
  let count = 0;
  const text = sql.replaceAll('?', () => {
    count += 1;
    return `$${count}`;
  });
  return Buffer.concat([
    message(PARSE, '', text, int16(0)),
    message(BIND, '', '', int16(0, params.length), ...params.map(parameter), int16(0)),
    message(DESCRIBE, Buffer.from('P'), ''),
    message(EXECUTE, '', int32(0)),
    message(SYNC),
  ]);
}

export interface Message {
  type: string;
  /** Including type and length. */
  bytes: Buffer;
  body: Buffer;
}

/** Returns the complete messages in some bytes, and the remaining bytes. */
export function messagesOf(bytes: Buffer): { messages: Message[]; rest: Buffer } {
  const messages: Message[] = [];
  let at = 0;
  while (at + 5 <= bytes.length) {
    const end = at + 1 + bytes.readInt32BE(at + 1);
    if (end > bytes.length) break;
    const type = String.fromCharCode(bytes[at]!);
    messages.push({ type, bytes: bytes.subarray(at, end), body: bytes.subarray(at + 5, end) });
    at = end;
  }
  return { messages, rest: bytes.subarray(at) };
}

export function textAt(body: Buffer, at: number): { text: string; next: number } {
  const end = body.indexOf(0, at);
  return { text: body.toString('utf8', at, end), next: end + 1 };
}

const NUMBERS = new Set([20, 21, 23, 1700]);

/** Returns the rows of a reply; throws the error in it. */
export function readRows<T>(said: Buffer): T[] {
  let columns: { name: string; isNumber: boolean }[] = [];
  const rows: T[] = [];
  for (const { type, body } of messagesOf(said).messages) {
    if (type === 'E') throw new Error(`the database: ${body.toString('utf8').replaceAll('\0', ' ')}`);
    if (type === 'T') columns = columnsOf(body);
    if (type !== 'D') continue;
    let at = 2;
    const row: Record<string, Value> = {};
    for (const { name, isNumber } of columns) {
      const length = body.readInt32BE(at);
      at += 4;
      const text = length < 0 ? null : body.toString('utf8', at, at + length);
      if (length > 0) at += length;
      row[name] = text !== null && isNumber ? Number(text) : text;
    }
    rows.push(row as T);
  }
  return rows;
}

function columnsOf(body: Buffer): { name: string; isNumber: boolean }[] {
  const columns: { name: string; isNumber: boolean }[] = [];
  let at = 2;
  for (let count = body.readInt16BE(0); count > 0; count -= 1) {
    const { text, next } = textAt(body, at);
    columns.push({ name: text, isNumber: NUMBERS.has(body.readInt32BE(next + 6)) });
    at = next + 18;
  }
  return columns;
}

/** Returns an ErrorResponse as a server sends it. */
export function refusal(severity: 'ERROR' | 'FATAL', code: string, text: string): Buffer {
  const fields = [`S${severity}`, `V${severity}`, `C${code}`, `M${text}`];
  return message('E', ...fields, Buffer.from([0]));
}

/** Returns a ReadyForQuery. */
export const ready = (status: string): Buffer => message('Z', Buffer.from(status));

/** Messages up to a Sync, or a Query: they are answered together. */
export interface Request {
  messages: Message[];
  /** Text of a Query, or of the first parsed statement. */
  text: string;
  isQuery: boolean;
}

/** Reads the requests of one client: a startup packet, which has no type, and then requests. No password is required. */
export class RequestReader {
  isStarted = false;
  #rest: Buffer = Buffer.alloc(0);
  #partial: Message[] = [];

  /** Returns the requests that are complete with these bytes; `isEnd` if the client says that it ends. */
  read(chunk: Buffer): { requests: Request[]; isEnd: boolean } {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    if (!this.isStarted && !this.#start()) return { requests: [], isEnd: false };
    const { messages, rest } = messagesOf(this.#rest);
    this.#rest = rest;
    const requests: Request[] = [];
    for (const one of messages) {
      this.#partial.push(one);
      if (one.type !== 'Q' && one.type !== 'S') continue;
      requests.push(requestOf(this.#partial));
      this.#partial = [];
    }
    return { requests, isEnd: messages.some(({ type }) => type === 'X') };
  }

  #start(): boolean {
    if (this.#rest.length < 4 || this.#rest.length < this.#rest.readInt32BE(0)) return false;
    this.#rest = this.#rest.subarray(this.#rest.readInt32BE(0));
    this.isStarted = true;
    return true;
  }
}

function requestOf(messages: Message[]): Request {
  const last = messages.at(-1)!;
  const isQuery = last.type === 'Q';
  const parse = messages.find(({ type }) => type === 'P');
  const text = isQuery ? textAt(last.body, 0).text : parse ? textAt(parse.body, textAt(parse.body, 0).next).text : '';
  return { messages, text, isQuery };
}

/** Returns the answer to a startup packet. */
export function greeting(pid: number): Buffer {
  const parameters = { server_version: '18.6', client_encoding: 'UTF8', DateStyle: 'ISO, MDY', TimeZone: 'UTC' };
  const said = Object.entries({ ...parameters, standard_conforming_strings: 'on', integer_datetimes: 'on' });
  return Buffer.concat([
    message('R', int32(0)),
    ...said.map(([name, value]) => message('S', name, value)),
    message('K', int32(pid), int32(pid)),
    ready('I'),
  ]);
}
