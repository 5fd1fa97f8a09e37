/**
 * Reads a request's body into one Buffer: checks Content-Encoding and Content-Type first, then counts bytes and stops at
 * the cap, at the deadline (the sweep in app.ts ends a reading through exchange.failReading), or when all bodies in memory
 * together exceed their budget. A body that is announced too large is refused before a byte of it is read.
 */
import { catalogue, type Failure, type FailureCode, failure } from '../base/failure.ts';
import type { Refusal } from './answer.ts';
import type { Exchange } from './exchange.ts';

export interface BodyRules {
  /** Bytes. */
  maxBytes: number;
  tooLarge: FailureCode;
  /** undefined: any Content-Type. */
  type: 'application/json' | 'text/csv' | undefined;
}

/** Memory for bodies that are being read or worked on, all requests together. */
export interface BodyBudget {
  limitBytes: number;
  heldBytes: number;
}

/** A body in one packet is not worth counting. */
const UNCOUNTED_BYTES = 64 * 1024;

/** From here on a body of known length is gathered in one allocation, so that it is never held twice. */
const ONE_PIECE_BYTES = 1_000_000;

const EMPTY = Buffer.alloc(0);

function tooLarge(rules: BodyRules): Failure {
  return failure(rules.tooLarge, {
    message: `${catalogue[rules.tooLarge].text} The body may have at most ${rules.maxBytes} bytes.`,
  });
}

const MEDIA_TYPE = /^([a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+)[ \t]*(?=;|$)/;
/** RFC 9110 §5.6.6: an empty parameter is none; a value is a token or a quoted string. */
const PARAMETER =
  /[ \t]*;[ \t]*(?:([a-z0-9!#$%&'*+.^_`|~-]+)=(?:([a-z0-9!#$%&'*+.^_`|~-]+)|"((?:[^"\\]|\\.)*)"))?[ \t]*/y;

/** Whether a Content-Type header names this type in UTF-8; parameters but charset mean nothing here (RFC 8259 §11). */
export function isMediaType(header: string | undefined, type: string): boolean {
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
      message: 'Compressed bodies are not accepted; send the body without Content-Encoding.',
    });
  }
  if (rules.type === undefined || isMediaType(headers['content-type'], rules.type)) return undefined;
  if (rules.type === 'application/json') return failure('UNSUPPORTED_MEDIA_TYPE');
  return failure('UNSUPPORTED_MEDIA_TYPE', {
    message: `The body must be ${rules.type} in UTF-8; say so in Content-Type.`,
  });
}

class Gatherer {
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

/**
 * The body, a refusal, or undefined when the client went away in the middle. With a refusal the rest of the body is
 * neither kept nor parsed.
 */
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
  const typeFailure = wrongType(exchange, rules);
  // An empty chunked body has no type, so only its first byte decides.
  if (typeFailure !== undefined && announcedBytes !== undefined) return { failure: typeFailure };
  if (announcedBytes !== undefined && announcedBytes > rules.maxBytes) return { failure: tooLarge(rules) };
  if (exchange.broken !== undefined) return exchange.broken;
  if (request.destroyed) return undefined;
  return new Promise((resolve) => {
    const gatherer = new Gatherer();
    let over = false;
    const settle = (outcome: Buffer | Refusal | undefined) => {
      if (over) return;
      over = true;
      exchange.failReading = undefined;
      resolve(outcome);
    };
    exchange.failReading = settle;
    request.on('data', (chunk: Buffer) => {
      if (over) return;
      if (typeFailure !== undefined) return settle({ failure: typeFailure });
      const size = gatherer.size + chunk.length;
      if (size > rules.maxBytes) return settle({ failure: tooLarge(rules) });
      if (overBudget(exchange, budget, chunk.length, size)) return settle({ failure: failure('OVERLOADED') });
      gatherer.add(chunk, announcedBytes);
    });
    request.on('end', () => settle(gatherer.size === 0 ? EMPTY : gatherer.bytes()));
    request.on('close', () => settle(undefined));
    if (exchange.waitsForContinue) exchange.response.writeContinue();
    exchange.waitsForContinue = false;
  });
}
