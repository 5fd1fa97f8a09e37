/**
 * Walks through the MIME structure of a message line by line (RFC 2046 §5.1): which lines are headers, delimiters or bodies, and
 * how deep the parts stand in each other. Needs only the lines it asks for (`wants`), so that the body of a plain mail
 * costs nothing. Time is linear in the text, whatever the depth, the number of parts and the boundaries.
 *
 *   header ──empty line──▶ leaf body │ multipart: preamble │ message/rfc822: header of the mail inside
 *   delimiter of a multipart that is open ──▶ everything inside it ends, header of its next part
 *   closing delimiter ──▶ that multipart ends too, its epilogue is nobody's
 *
 * Stops, with a fault, at what is nested deeper or has more parts than allowed.
 */
import { parameterisedValue, parameterValue } from './content-type-field.ts';

export interface Entity {
  kind: 'leaf' | 'multipart' | 'message';
  /** In lower case; the default where the header has none. */
  type: string;
  /** Whether the header has a Content-Type. */
  typed: boolean;
  /** Content-Transfer-Encoding in lower case; empty when there is none. */
  encoding: string;
  boundary: string | undefined;
  parent: Entity | undefined;
  /** Offsets in the message: the header with its empty line ends where the body starts. */
  headerStart: number;
  bodyStart: number;
  /** Without the line end that belongs to the delimiter behind it. */
  bodyEnd: number;
}

export interface MimeLimits {
  /** Multiparts and messages inside each other. */
  depth: number;
  parts: number;
  /** Which types hold a message that is walked into where it is not encoded; message/rfc822 alone unless told. */
  nests?(type: string): boolean;
}

interface Open {
  entity: Entity;
  /** What the same boundary meant before. */
  shadowed: number | undefined;
}

/** Beyond this a Content-Type is read no further; none that says something is as long. */
const MAX_FIELD_LENGTH = 16_384;
const DASH = 45;

/** Encodings that leave the bytes as they are; only these may hold other entities (RFC 2045 §6.4). */
export function isIdentity(encoding: string): boolean {
  return encoding === '' || encoding === '7bit' || encoding === '8bit' || encoding === 'binary';
}

function isMail(type: string): boolean {
  return type === 'message/rfc822';
}

export class MimeWalk {
  readonly entities: Entity[] = [];
  fault: 'depth' | 'parts' | undefined;
  readonly #limits: MimeLimits;
  readonly #nests: (type: string) => boolean;
  readonly #open: Open[] = [];
  /** Index in `#open` by boundary. */
  readonly #levels = new Map<string, number>();
  /** The entity whose header or leaf body is being read; none in preambles and epilogues. */
  #current: Entity | undefined;
  #inHeader = false;
  #field: 'type' | 'encoding' | undefined;
  #type: string | undefined;
  #encoding: string | undefined;

  constructor(limits: MimeLimits) {
    this.#limits = limits;
    this.#nests = limits.nests ?? isMail;
  }

  /** Whether the line from `at` in `text` has to be given to `line`. */
  wants(text: string, at: number): boolean {
    if (this.#inHeader) return true;
    return this.#levels.size > 0 && text.charCodeAt(at) === DASH && text.charCodeAt(at + 1) === DASH;
  }

  /** Begins with a message whose header starts here. */
  begin(offset: number): void {
    this.#enter(undefined, offset);
  }

  /** Begins behind a header that was read already; the values are those of its fields. */
  beginBody(fields: { type: string | undefined; encoding: string | undefined }, bodyStart: number): void {
    this.#enter(undefined, 0);
    this.#type = fields.type;
    this.#encoding = fields.encoding;
    this.#endHeader(bodyStart);
  }

  /** The next line, without its CRLF; `offset` is where it starts in the message, `next` where the one behind it does. */
  line(line: string, offset: number, next: number): void {
    if (this.#levels.size > 0 && line.startsWith('--') && this.#delimiter(line, offset, next)) return;
    if (!this.#inHeader) return;
    if (line === '') this.#endHeader(next);
    else this.#headerLine(line);
  }

  /** The message ends here. */
  end(offset: number): void {
    this.#closeCurrent(offset, offset);
    while (this.#open.length > 0) this.#pop(offset);
  }

  #enter(parent: Entity | undefined, offset: number): void {
    if (this.entities.length > this.#limits.parts) this.fault = 'parts';
    const inDigest = parent?.type === 'multipart/digest';
    const type = inDigest ? 'message/rfc822' : 'text/plain';
    const bodyStart = Number.POSITIVE_INFINITY;
    this.#current = {
      kind: 'leaf',
      type,
      typed: false,
      encoding: '',
      boundary: undefined,
      parent,
      headerStart: offset,
      bodyStart,
      bodyEnd: bodyStart,
    };
    this.entities.push(this.#current);
    this.#inHeader = true;
    this.#field = undefined;
    this.#type = undefined;
    this.#encoding = undefined;
  }

  #headerLine(line: string): void {
    const first = line.charCodeAt(0);
    if (first === 0x20 || first === 9) {
      if (this.#field === 'type' && this.#type!.length < MAX_FIELD_LENGTH) this.#type += line;
      else if (this.#field === 'encoding' && this.#encoding!.length < MAX_FIELD_LENGTH) this.#encoding += line;
      return;
    }
    this.#field = undefined;
    if ((first | 32) !== 99) return;
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon)).trimEnd().toLowerCase();
    if (name === 'content-type' && this.#type === undefined) {
      this.#field = 'type';
      this.#type = line.slice(colon + 1);
    } else if (name === 'content-transfer-encoding' && this.#encoding === undefined) {
      this.#field = 'encoding';
      this.#encoding = line.slice(colon + 1);
    }
  }

  #endHeader(bodyStart: number): void {
    const entity = this.#current!;
    entity.bodyStart = bodyStart;
    entity.encoding = this.#encoding === undefined ? '' : parameterisedValue(this.#encoding).main;
    this.#inHeader = false;
    if (this.#type !== undefined) {
      const { main, parameters } = parameterisedValue(this.#type);
      if (main !== '') entity.type = main;
      entity.typed = true;
      if (main.startsWith('multipart/')) entity.boundary = parameterValue(parameters, 'boundary') || undefined;
    }
    if (entity.boundary !== undefined) {
      entity.kind = 'multipart';
      this.#push(entity);
      this.#current = undefined;
    } else if (this.#nests(entity.type) && isIdentity(entity.encoding)) {
      entity.kind = 'message';
      this.#push(entity);
      this.#enter(entity, bodyStart);
    }
  }

  #push(entity: Entity): void {
    let shadowed: number | undefined;
    if (entity.boundary !== undefined) {
      shadowed = this.#levels.get(entity.boundary);
      this.#levels.set(entity.boundary, this.#open.length);
    }
    this.#open.push({ entity, shadowed });
    if (this.#open.length > this.#limits.depth) this.fault = 'depth';
  }

  #pop(bodyEnd: number): void {
    const { entity, shadowed } = this.#open.pop()!;
    entity.bodyEnd = Math.max(entity.bodyStart, bodyEnd);
    if (entity.boundary === undefined) return;
    if (shadowed === undefined) this.#levels.delete(entity.boundary);
    else this.#levels.set(entity.boundary, shadowed);
  }

  /** Whether the line is a delimiter of an open multipart; white space behind it is padding (RFC 2046 §5.1.1). */
  #delimiter(line: string, offset: number, next: number): boolean {
    let end = line.length;
    while (end > 2 && (line.charCodeAt(end - 1) === 0x20 || line.charCodeAt(end - 1) === 9)) end -= 1;
    const text = line.slice(2, end);
    const level = this.#levels.get(text);
    const closed = level === undefined && text.endsWith('--') ? this.#levels.get(text.slice(0, -2)) : undefined;
    const found = level ?? closed;
    if (found === undefined) return false;
    this.#closeCurrent(offset, offset - 2);
    while (this.#open.length > found + 1) this.#pop(offset - 2);
    const { entity } = this.#open[found]!;
    if (closed !== undefined) this.#pop(next);
    else this.#enter(entity, next);
    return true;
  }

  /** Ends the leaf or the header that is being read; a header without an empty line has no body. */
  #closeCurrent(offset: number, bodyEnd: number): void {
    const entity = this.#current;
    if (entity === undefined) return;
    if (this.#inHeader) entity.bodyStart = offset;
    entity.bodyEnd = Math.max(entity.bodyStart, bodyEnd);
    this.#current = undefined;
    this.#inHeader = false;
  }
}

/** The structure of a whole message, read as Latin-1; up to the place of a fault, if there is one. */
export function walkThrough(text: string, limits: MimeLimits): MimeWalk {
  const walk = new MimeWalk(limits);
  walk.begin(0);
  for (let at = 0; at < text.length && walk.fault === undefined; ) {
    const lineEnd = text.indexOf('\r\n', at);
    const end = lineEnd < 0 ? text.length : lineEnd;
    const next = lineEnd < 0 ? text.length : lineEnd + 2;
    if (walk.wants(text, at)) walk.line(text.slice(at, end), at, next);
    at = next;
  }
  walk.end(text.length);
  return walk;
}
