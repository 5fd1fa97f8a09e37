/**
 * Checks and edits mail from SMTP submission while it streams, without rebuilding it. Header order, folding, MIME structure, and body bytes
 * stay as submitted; submitted-header.ts defines the edits of the header. Received and DKIM-Signature are added at delivery. Memory is
 * limited by the maximum header size; time is linear in the size of the mail.
 *
 * A message is refused, with a text that states the problem and its position, if it has:
 *   a CR or LF that is not part of CRLF, NUL, a line over 998 octets (RFC 5321 §4.5.3.1.6)   550 5.6.0
 *   a malformed header                                                                        550 5.6.0
 *   a From that displays another sender than the verified one, or none                        550 5.7.1
 *   MIME parts nested deeper than 100, more than 1,000 parts or fields, over 100 Received     554 5.6.0
 *   a header over 262,144 bytes, or a total size over `maxBytes` as submitted                 552 5.3.4
 *
 * If the mail is too large, that reason takes precedence.
 *
 * A message that ends after its header fields has no body (RFC 5322 §3.5); the empty line is added. A message that ends within a header
 * line is refused.
 *
 * `smtpUtf8` refers to the header of the message itself. The session refuses such a message if its client did not declare SMTPUTF8 (RFC
 * 6531 §3.6). For SMTP, the headers of MIME parts belong to the body, so bytes above 0x7F in them only set `eightBit`.
 */
import { isAscii } from 'node:buffer';
import { ByteQueue } from '../../base/byte-queue.ts';
import { MimeWalk } from './mime-walk.ts';
import { type HeaderSummary, readSubmittedHeader } from './submitted-header.ts';
import { excessive, malformed, type SubmissionRefusal, tooLarge } from './submitted-refusal.ts';

export type { SubmissionRefusal } from './submitted-refusal.ts';

export interface SubmittedMail extends HeaderSummary {
  /** Whether the content has a byte above 0x7F. */
  eightBit: boolean;
  /** Size of the edited content that was written to the sink. */
  sizeBytes: number;
}

export type SubmissionResult = { ok: true; mail: SubmittedMail } | { ok: false; refusal: SubmissionRefusal };

export interface SubmissionReader {
  /**
   * Writes the bytes between DATA and the dot: unstuffed, with the CRLF before the dot, and split anywhere. Edited content is passed to the
   * sink immediately (the header once it is complete) and without a copy, so the memory of a chunk must not be reused. After a refusal
   * nothing else is passed to the sink, and bytes are only counted.
   */
  write(chunk: Buffer): void;
  /** Returns the mail, or why it is refused. */
  end(): SubmissionResult;
  /** Submitted bytes so far. */
  readonly sizeBytes: number;
}

export interface SubmissionOptions {
  sink(chunk: Buffer): void;
  nowMs: number;
  /** Limit of the mail as submitted; added bytes do not count. */
  maxBytes: number;
  /** Domain of an added Message-ID if the domain of From cannot be used. */
  hostname: string;
}

const MAX_LINE_BYTES = 998;
const MAX_HEADER_BYTES = 262_144;
const MAX_DEPTH = 100;
const MAX_PARTS = 1000;
const CRLF = Buffer.from('\r\n');

/** Returns whether some email client may open this type as a nested message: some open every message type except message/partial. */
function mayNest(type: string): boolean {
  return type.startsWith('message/') && type !== 'message/partial';
}

class Reader implements SubmissionReader {
  readonly #options: SubmissionOptions;
  readonly #walk = new MimeWalk({ depth: MAX_DEPTH, parts: MAX_PARTS, nests: mayNest });
  #sizeBytes = 0;
  #writtenBytes = 0;
  #refusal: SubmissionRefusal | undefined;
  #summary: HeaderSummary | undefined;
  #eightBit = false;
  /** The start of an incomplete header. */
  readonly #held = new ByteQueue();
  /** The incomplete line, as Latin-1. */
  #rest = '';
  #lines = 0;

  constructor(options: SubmissionOptions) {
    this.#options = options;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  write(chunk: Buffer): void {
    this.#sizeBytes += chunk.length;
    if (this.#refusal !== undefined || chunk.length === 0) return;
    if (this.#sizeBytes > this.#options.maxBytes) {
      this.#refusal = this.#sizeRefusal();
      return;
    }
    const text = chunk.toString('latin1');
    const whole = this.#rest === '' ? text : this.#rest + text;
    if (text.includes('\0')) {
      const line = this.#lines + whole.slice(0, whole.indexOf('\0')).split('\n').length;
      this.#refusal = malformed(`line ${line} has a NUL byte; encode binary data in Base64`);
      return;
    }
    if (this.#summary === undefined) this.#writeHeader(chunk, whole);
    else {
      this.#scan(whole, 0);
      if (this.#refusal !== undefined) return;
      this.#eightBit ||= !isAscii(chunk);
      this.#sink(chunk);
    }
  }

  end(): SubmissionResult {
    if (this.#refusal === undefined && this.#rest.endsWith('\r')) this.#refuseLine('carriage return', this.#lines + 1);
    if (this.#refusal === undefined && this.#summary === undefined) this.#endInHeader();
    if (this.#sizeBytes > this.#options.maxBytes) this.#refusal = this.#sizeRefusal();
    if (this.#refusal !== undefined) return { ok: false, refusal: this.#refusal };
    const mail = { ...this.#summary!, eightBit: this.#eightBit, sizeBytes: this.#writtenBytes };
    return { ok: true, mail };
  }

  #sizeRefusal(): SubmissionRefusal {
    return tooLarge(
      `the message is larger than ${this.#options.maxBytes} bytes; make it smaller, or send large files over the HTTP API`,
    );
  }

  #sink(chunk: Buffer): void {
    this.#writtenBytes += chunk.length;
    this.#options.sink(chunk);
  }

  #refuseLine(what: 'carriage return' | 'line feed', line: number): void {
    const other = what === 'line feed' ? 'a carriage return before it' : 'a line feed after it';
    this.#refusal = malformed(`line ${line} has a ${what} without ${other}; every line must end in CRLF`);
  }

  /**
   * Checks the complete lines of `text` and keeps the rest. In the header, it stops after the empty line and returns the index after it;
   * otherwise it returns -1.
   */
  #scan(text: string, from: number): number {
    const inHeader = this.#summary === undefined;
    const walk = this.#walk;
    let at = from;
    let lines = this.#lines;
    for (let lf = text.indexOf('\n', at); lf >= 0; lf = text.indexOf('\n', at)) {
      lines += 1;
      const end = lf - 1;
      // The first CR of the line must be the one before its LF.
      if (text.indexOf('\r', at) !== end || end < at) {
        const cr = text.indexOf('\r', at);
        this.#refuseLine(cr >= 0 && cr < end ? 'carriage return' : 'line feed', lines);
        return -1;
      }
      if (end - at > MAX_LINE_BYTES) {
        this.#refuseLength(lines);
        return -1;
      }
      const next = lf + 1;
      if (inHeader) {
        if (end === at) {
          this.#lines = lines;
          this.#rest = '';
          return next;
        }
      } else if (walk.wants(text, at)) {
        // The positions of the parts are not needed here.
        walk.line(text.slice(at, end), 0, 0);
        if (walk.exceeded !== undefined) {
          this.#refuseStructure(walk.exceeded, lines);
          return -1;
        }
      }
      at = next;
    }
    this.#lines = lines;
    this.#keepRest(text.slice(at));
    return -1;
  }

  #keepRest(rest: string): void {
    this.#rest = rest;
    const cr = rest.indexOf('\r');
    if (cr >= 0 && cr < rest.length - 1) this.#refuseLine('carriage return', this.#lines + 1);
    else if (rest.length - (cr < 0 ? 0 : 1) > MAX_LINE_BYTES) this.#refuseLength(this.#lines + 1);
  }

  #refuseLength(line: number): void {
    const text = `line ${line} is longer than ${MAX_LINE_BYTES} bytes; fold header fields, encode bodies (quoted-printable or Base64)`;
    this.#refusal = malformed(text);
  }

  #refuseStructure(exceeded: 'depth' | 'parts', line: number): void {
    const what =
      exceeded === 'depth' ? `MIME parts nested deeper than ${MAX_DEPTH} levels` : `more than ${MAX_PARTS} MIME parts`;
    this.#refusal = excessive(
      `the message has ${what} (line ${line}); send fewer parts, or put the files in an archive`,
    );
  }

  #writeHeader(chunk: Buffer, whole: string): void {
    const carried = whole.length - chunk.length;
    const found = this.#scan(whole, 0);
    if (this.#refusal !== undefined) return;
    const inChunk = found < 0 ? chunk.length : found - carried;
    if (this.#held.length + inChunk > MAX_HEADER_BYTES) {
      this.#refusal = tooLarge(`the header is larger than ${MAX_HEADER_BYTES} bytes; shorten it`);
      return;
    }
    if (found < 0) {
      this.#held.push(chunk);
      return;
    }
    const single = this.#held.length === 0;
    this.#held.push(chunk.subarray(0, inChunk));
    const block = this.#held.bytes;
    this.#held.clear();
    const fields = block.subarray(0, block.length - CRLF.length);
    const edited = this.#readHeader(fields, single ? whole.slice(0, fields.length) : fields.toString('latin1'));
    if (edited === undefined) return;
    this.#scan(whole, found);
    if (this.#refusal !== undefined) return;
    const body = chunk.subarray(inChunk);
    this.#eightBit ||= !isAscii(body);
    if (single && edited === fields) this.#sink(chunk);
    else {
      this.#sink(edited === fields ? block : Buffer.concat([edited, CRLF]));
      if (body.length > 0) this.#sink(body);
    }
  }

  /** Checks the fields; returns them after the edits, or undefined if the mail is refused. */
  #readHeader(fields: Buffer, text: string): Buffer | undefined {
    const header = readSubmittedHeader(fields, text, this.#options);
    if (!header.ok) {
      this.#refusal = header.refusal;
      return undefined;
    }
    this.#summary = header.summary;
    const edited = header.edited ?? fields;
    this.#eightBit = header.summary.smtpUtf8;
    this.#walk.beginBody({ type: header.contentType, encoding: header.transferEncoding }, 0);
    return edited;
  }

  #endInHeader(): void {
    if (this.#rest !== '') {
      this.#refusal = malformed(
        `the message ends in line ${this.#lines + 1} of its header without a line end; end every line with CRLF`,
      );
      return;
    }
    const fields = this.#held.bytes;
    const edited = this.#readHeader(fields, fields.toString('latin1'));
    if (edited !== undefined) this.#sink(Buffer.concat([edited, CRLF]));
  }
}

export function createSubmissionReader(options: SubmissionOptions): SubmissionReader {
  return new Reader(options);
}
