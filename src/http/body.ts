/**
 * Reads and validates request bodies and queries. A body is read into one Buffer: Content-Encoding and Content-Type are checked first, then
 * bytes are counted. Reading stops at the size limit, at the deadline (the sweep in app.ts ends it through exchange.failReading), or if all
 * bodies in memory together exceed their budget. A body whose Content-Length is too large is refused before any of it is read. All issues
 * of a body or query are reported in one error response.
 */
import type { TSchema } from 'typebox';
import {
  errorCatalog,
  type Failure,
  type FailureCode,
  failure,
  type Issue,
  invalid,
  MAX_ISSUES,
  ok,
  type Result,
  refuse,
} from '../base/failure.ts';
import type { Exchange } from './exchange.ts';
import type { Refusal } from './route.ts';
import type { ParsedJson } from './strict-json.ts';
import { compile, type Validator } from './validate.ts';

export interface BodyRules {
  maxBytes: number;
  tooLarge: FailureCode;
  /** The required Content-Type; undefined accepts any. */
  type: 'application/json' | 'text/csv' | undefined;
}

/** Memory for bodies that are being read or processed, for all requests together. */
export interface BodyBudget {
  limitBytes: number;
  heldBytes: number;
}

/** Smaller bodies are not counted against the budget. */
const UNCOUNTED_BYTES = 64 * 1024;

/** From this size on, a body of known length is read into one allocation, so it is never in memory twice. */
const ONE_PIECE_BYTES = 1_000_000;

/** A refused body is discarded up to this multiple of its limit, so that a client that writes all of it first gets the response. */
const DISCARDED_TIMES = 2;

const EMPTY = Buffer.alloc(0);

function tooLarge(rules: BodyRules): Failure {
  return failure(rules.tooLarge, {
    message: `${errorCatalog[rules.tooLarge].text} The limit is ${rules.maxBytes} bytes.`,
  });
}

const MEDIA_TYPE = /^([a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+)[ \t]*(?=;|$)/;
/** An empty parameter is ignored; a value is a token or a quoted string (RFC 9110 §5.6.6). */
const PARAMETER =
  /[ \t]*;[ \t]*(?:([a-z0-9!#$%&'*+.^_`|~-]+)=(?:([a-z0-9!#$%&'*+.^_`|~-]+)|"((?:[^"\\]|\\.)*)"))?[ \t]*/y;

/** Returns whether a Content-Type header is this type in UTF-8. Parameters other than charset are ignored (RFC 8259 §11). */
function isMediaType(header: string | undefined, type: string): boolean {
  if (header === type) return true;
  const text = (header ?? '').toLowerCase();
  const match = MEDIA_TYPE.exec(text);
  if (match?.[1] !== type) return false;
  let charset: string | undefined;
  for (PARAMETER.lastIndex = match[0].length; PARAMETER.lastIndex < text.length; ) {
    const parameter = PARAMETER.exec(text);
    if (parameter === null) return false;
    if (parameter[1] !== 'charset') continue;
    if (charset !== undefined) return false;
    charset = parameter[2] ?? parameter[3];
  }
  return charset === undefined || charset === 'utf-8' || charset === 'utf8';
}

function wrongType(exchange: Exchange, rules: BodyRules): Failure | undefined {
  const { headers } = exchange;
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    return failure('UNSUPPORTED_MEDIA_TYPE', {
      message: 'Compressed bodies are not supported. Send the body without Content-Encoding.',
    });
  }
  if (rules.type === undefined || isMediaType(headers['content-type'], rules.type)) return undefined;
  if (rules.type === 'application/json') return failure('UNSUPPORTED_MEDIA_TYPE');
  return failure('UNSUPPORTED_MEDIA_TYPE', {
    message: `The body must be ${rules.type} in UTF-8. Set Content-Type accordingly.`,
  });
}

class BodyCollector {
  size = 0;
  private chunks: Buffer[] = [];
  private whole: Buffer | undefined = undefined;

  add(chunk: Buffer, announcedBytes: number | undefined): void {
    if (this.whole === undefined && announcedBytes !== undefined && this.size + chunk.length > ONE_PIECE_BYTES) {
      this.whole = Buffer.allocUnsafeSlow(announcedBytes);
      let at = 0;
      for (const piece of this.chunks) at += piece.copy(this.whole, at);
      this.chunks = [];
    }
    if (this.whole === undefined) this.chunks.push(chunk);
    else chunk.copy(this.whole, this.size);
    this.size += chunk.length;
  }

  /** Frees the memory of a body that was refused. */
  clear(): void {
    this.chunks = [];
    this.whole = undefined;
  }

  bytes(): Buffer {
    if (this.whole !== undefined) return this.whole;
    return this.chunks.length === 1 ? this.chunks[0]! : Buffer.concat(this.chunks, this.size);
  }
}

function overBudget(exchange: Exchange, budget: BodyBudget, chunkBytes: number, size: number): boolean {
  if (size <= UNCOUNTED_BYTES) return false;
  const bytes = exchange.heldBytes === 0 ? size : chunkBytes;
  if (budget.heldBytes + bytes > budget.limitBytes) return true;
  exchange.heldBytes += bytes;
  budget.heldBytes += bytes;
  return false;
}

/** Returns the body, a refusal, or undefined if the client disconnected. After a refusal the remaining body is neither kept nor parsed. */
export function readBody(
  exchange: Exchange,
  rules: BodyRules,
  budget: BodyBudget,
): Buffer | Refusal | undefined | Promise<Buffer | Refusal | undefined> {
  const { headers, request } = exchange;
  const length = headers['content-length'];
  if (length === undefined && headers['transfer-encoding'] === undefined) return EMPTY;
  const announcedBytes = length === undefined ? undefined : Number(length);
  if (announcedBytes === 0) return EMPTY;
  exchange.discardsBytes = DISCARDED_TIMES * rules.maxBytes;
  const typeFailure = wrongType(exchange, rules);
  // An empty chunked body has no type, so only its first byte decides.
  if (typeFailure !== undefined && announcedBytes !== undefined) return { failure: typeFailure };
  if (announcedBytes !== undefined && announcedBytes > rules.maxBytes) return { failure: tooLarge(rules) };
  if (exchange.broken !== undefined) return exchange.broken;
  if (request.destroyed) return undefined;
  return new Promise((resolve) => {
    const collector = new BodyCollector();
    let isSettled = false;
    const settle = (outcome: Buffer | Refusal | undefined) => {
      if (isSettled) return;
      isSettled = true;
      exchange.failReading = undefined;
      if (!Buffer.isBuffer(outcome)) {
        collector.clear();
        budget.heldBytes -= exchange.heldBytes;
        exchange.heldBytes = 0;
      }
      resolve(outcome);
    };
    exchange.failReading = settle;
    request.on('data', (chunk: Buffer) => {
      if (isSettled) return;
      if (typeFailure !== undefined) return settle({ failure: typeFailure });
      const size = collector.size + chunk.length;
      if (size > rules.maxBytes) return settle({ failure: tooLarge(rules) });
      if (overBudget(exchange, budget, chunk.length, size)) return settle({ failure: failure('OVERLOADED') });
      collector.add(chunk, announcedBytes);
    });
    request.on('end', () => settle(collector.size === 0 ? EMPTY : collector.bytes()));
    request.on('close', () => settle(undefined));
    if (exchange.waitsForContinue) exchange.response.writeContinue();
    exchange.waitsForContinue = false;
  });
}

/**
 * Returns issues that a schema cannot express, for fields that match the schema. In lists, elements that do not match are undefined.
 * `malformed` names the fields that are present but invalid, and therefore not missing.
 */
export type FurtherIssues = (fields: Record<string, unknown>, malformed: ReadonlySet<string>) => readonly Issue[];

interface BodyChecks<T> {
  validate: Validator<T>;
  furtherIssues?: FurtherIssues | undefined;
}

/** Adds the issues of another check, except for fields that already have an issue and fields inside those in `unread`. */
function add(issues: Issue[], further: readonly Issue[], unread: readonly Issue[]): void {
  const reported = new Set(issues.map((issue) => issue.field));
  const isUnread = (field: string): boolean =>
    unread.some((one) => field.startsWith(`${one.field}.`) || field.startsWith(`${one.field}[`));
  issues.push(...further.filter(({ field }) => !reported.has(field) && !isUnread(field)));
}

/**
 * Returns all issues of a body in one error: invalid JSON, schema violations, and issues that a schema cannot express. The last kind is
 * checked only if there are other issues: the handler checks a valid body itself, in its own order and with further errors (404, 409).
 * Issues found `elsewhere` (query, headers) come first.
 */
export function checkBody<T>(json: ParsedJson, checks: BodyChecks<T>, elsewhere: readonly Issue[] = []): Result<T> {
  /** Fields that strict-json.ts refuses although they are valid JSON; their values are unknown. */
  const unread = json.ok ? [] : json.failure.details;
  const issues = [...unread];
  if ('value' in json) {
    const validated = checks.validate(json.value);
    if (validated.ok && issues.length === 0 && elsewhere.length === 0) return validated;
    if (!validated.ok) add(issues, validated.failure.details, unread);
    const fields = validated.ok ? (validated.value as Record<string, unknown>) : validated.fitting();
    if (checks.furtherIssues !== undefined && fields !== undefined && issues.length < MAX_ISSUES) {
      const named = issues.map(({ field }) => field.split(/[.[]/, 1)[0]!);
      const malformed = new Set(named.filter((name) => Object.hasOwn(json.value as object, name)));
      add(issues, checks.furtherIssues(fields, malformed), unread);
    }
  }
  return refuse(invalid([...elsewhere, ...issues]));
}

type Property = { type?: unknown; items?: { enum?: unknown } };

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}

function convert(text: string, property: Property | undefined): unknown {
  const type = property?.type;
  if (type === 'integer' && /^-?\d{1,15}$/.test(text)) return Number(text);
  if (type === 'number' && /^-?\d{1,15}(\.\d{1,15})?$/.test(text)) return Number(text);
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

function readPairs(search: string, properties: Record<string, Property>, issues: Issue[]): Record<string, unknown> {
  const query = Object.create(null) as Record<string, unknown>;
  for (const pair of search === '' ? [] : search.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decode(equals === -1 ? pair : pair.slice(0, equals));
    const text = equals === -1 ? '' : decode(pair.slice(equals + 1));
    if (name === undefined || text === undefined) {
      issues.push({ field: name ?? '', message: 'is not valid percent-encoded UTF-8' });
      continue;
    }
    if (text.includes('\0')) issues.push({ field: name, message: 'contains the NUL character' });
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (property?.type === 'array') {
      // Allowed values never contain commas; other texts may.
      const values = property.items?.enum ? text.split(',') : [text];
      query[name] = [...((query[name] as unknown[]) ?? []), ...values];
    } else if (name in query) issues.push({ field: name, code: 'DUPLICATE', message: 'is given more than once' });
    else query[name] = convert(text, property);
  }
  return query;
}

/**
 * Validates a query string; without a schema, every parameter is unknown. Names and values are decoded strictly (UTF-8, `+` is a space). A
 * value is converted to a number or a boolean only if the schema requires that type and the entire text is one. A repeated parameter is an
 * issue unless the schema allows an array. An array of names can also be one text with commas.
 */
export type QueryReader = (search: string) => Result<Record<string, unknown>>;

const NOTHING = { type: 'object', properties: {}, additionalProperties: false };

/** Compiles a reader for one route. Throws if the schema is not a closed object. */
export function compileQuery(schema: TSchema | undefined): QueryReader {
  const shape = (schema ?? NOTHING) as { properties?: Record<string, Property>; additionalProperties?: unknown };
  if (shape.additionalProperties !== false) throw new Error('a query schema refuses unknown parameters: use closed()');
  const validate = compile((schema ?? NOTHING) as TSchema);
  const properties = shape.properties ?? {};
  return (search) => {
    const issues: Issue[] = [];
    const query = readPairs(search, properties, issues);
    const validated = validate(query);
    if (validated.ok && issues.length === 0) return ok(query);
    const wrong = validated.ok ? [] : validated.failure.details;
    // The index is removed, because a client that sends a repeatable parameter once does not expect a list.
    issues.push(...wrong.map((issue) => ({ ...issue, field: issue.field.replace(/\[\d+\]$/, '') })));
    return refuse(invalid(issues.slice(0, 100)));
  };
}
