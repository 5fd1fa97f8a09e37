/**
 * Replies of remote SMTP servers (RFC 5321 §4.2, enhanced codes of RFC 3463), parsed from bytes as they arrive. Refuses lines that
 * are not replies, and replies without an end (512 lines or 64 KB). Lines that are not UTF-8 are read as Latin-1. If the lines of
 * one reply have different codes, the code of the last line counts. The text is safe to store and to show: no control characters,
 * bounded in length.
 */
import { isUtf8 } from 'node:buffer';

export interface SmtpReply {
  code: number;
  /** For example `5.1.1`; only when its class agrees with the code. */
  enhanced?: string;
  /** Lines joined by one space, without the code; a leading enhanced code is kept. At most 1,000 characters. */
  text: string;
  /** The lines without their codes. */
  lines: string[];
  /** The code of each line, if they differ. */
  codes?: number[];
}

export type ReplyClass = 'positive' | 'intermediate' | 'transient' | 'permanent';

/** The replies that a chunk completed, and the error after which the connection cannot be used. */
export interface ParsedReplies {
  replies: SmtpReply[];
  error?: string;
}

const MAX_LINES = 512;
const MAX_BYTES = 64 * 1024;
const MAX_TEXT_LENGTH = 1000;
/** Code, `-` if more lines follow, and text. */
const LINE = /^([2-5]\d\d)(?:([ \t-])(.*))?$/s;
const LF = 10;
const CR = 13;
const ENHANCED = /^([245]\.\d{1,3}\.\d{1,3})(?=[ \t]|$)/;
const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu;

/** Returns the class of RFC 5321 §4.2.1 by the first digit. */
export function replyClass(code: number): ReplyClass {
  if (code < 300) return 'positive';
  if (code < 400) return 'intermediate';
  return code < 500 ? 'transient' : 'permanent';
}

function buildReply(codes: number[], lines: string[]): SmtpReply {
  const code = codes.at(-1)!;
  let enhanced: string | undefined;
  const texts: string[] = [];
  for (const line of lines) {
    const found = ENHANCED.exec(line)?.[1];
    if (found !== undefined && Number(found[0]) === Math.floor(code / 100)) {
      if (found === enhanced) {
        texts.push(line.slice(found.length).trim());
        continue;
      }
      enhanced ??= found;
    }
    texts.push(line);
  }
  const text = texts
    .filter((line) => line !== '')
    .join(' ')
    .slice(0, MAX_TEXT_LENGTH)
    .toWellFormed();
  const isMixed = codes.some((one) => one !== code);
  return {
    code,
    ...(enhanced === undefined ? {} : { enhanced }),
    text,
    lines,
    ...(isMixed ? { codes } : {}),
  };
}

/**
 * Parses one reply given as text, for example a stored or a simulated one; undefined if the text is not exactly one reply. A refusal
 * whose last line announces another one (`421-too many connections`) is accepted, as from a server that closes the connection there.
 */
export function parseReply(text: string): SmtpReply | undefined {
  const parser = new SmtpReplyParser();
  const { replies, error } = parser.feed(Buffer.from(`${text.replace(/[\r\n]+$/, '')}\r\n`, 'utf8'));
  if (error !== undefined) return undefined;
  if (replies.length === 0) return parser.end();
  return replies.length === 1 && !parser.hasPending() ? replies[0] : undefined;
}

/** Parses the bytes of one connection. After an error it parses nothing more. */
export class SmtpReplyParser {
  #pending: Buffer = Buffer.alloc(0);
  #codes: number[] = [];
  #lines: string[] = [];
  #bytes = 0;
  #error: string | undefined;

  /** Returns whether a reply is incomplete. Must be false before STARTTLS: data received unencrypted is not trusted. */
  hasPending(): boolean {
    return this.#pending.length > 0 || this.#lines.length > 0;
  }

  feed(chunk: Uint8Array): ParsedReplies {
    const replies: SmtpReply[] = [];
    if (this.#error !== undefined) return { replies, error: this.#error };
    const arrived = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const data = this.#pending.length === 0 ? arrived : Buffer.concat([this.#pending, arrived]);
    // The pending bytes were searched before: a line that arrives byte by byte must not be searched from its start each time.
    let searchFrom = this.#pending.length;
    let start = 0;
    for (;;) {
      const end = data.indexOf(LF, searchFrom);
      if (end < 0) break;
      const reply = this.#takeLine(data.subarray(start, end > start && data[end - 1] === CR ? end - 1 : end));
      if (this.#error !== undefined) return { replies, error: this.#error };
      if (reply !== undefined) replies.push(reply);
      start = end + 1;
      searchFrom = start;
    }
    if (this.#bytes + data.length - start > MAX_BYTES) {
      this.#error = `reply of more than ${MAX_BYTES} bytes`;
      return { replies, error: this.#error };
    }
    this.#pending = start === data.length ? Buffer.alloc(0) : Buffer.from(data.subarray(start));
    return { replies };
  }

  #takeLine(line: Buffer): SmtpReply | undefined {
    this.#bytes += line.length + 2;
    if (this.#bytes > MAX_BYTES || this.#lines.length >= MAX_LINES) {
      this.#error = `reply of more than ${MAX_LINES} lines or ${MAX_BYTES} bytes`;
      return undefined;
    }
    const raw = line.toString(isUtf8(line) ? 'utf8' : 'latin1');
    const match = LINE.exec(raw);
    if (match === null) {
      this.#error = `not an SMTP reply: ${raw.slice(0, 100).replace(UNPRINTABLE, ' ').toWellFormed()}`;
      return undefined;
    }
    this.#codes.push(Number(match[1]));
    this.#lines.push((match[3] ?? '').replace(UNPRINTABLE, ' ').trim());
    return match[2] === '-' ? undefined : this.#complete();
  }

  #complete(): SmtpReply {
    const reply = buildReply(this.#codes, this.#lines);
    this.#codes = [];
    this.#lines = [];
    this.#bytes = 0;
    return reply;
  }

  /**
   * Returns the refusal (4xx, 5xx) that the peer had started when the connection ended: without its last line, or without the end of that
   * line. Undefined if there is none; an incomplete positive reply does not count.
   */
  end(): SmtpReply | undefined {
    const line = this.#pending;
    this.#pending = Buffer.alloc(0);
    if (this.#error === undefined && /^[2-5]\d\d(?:[ \t-]|\r?$)/.test(line.toString('latin1'))) {
      const reply = this.#takeLine(line.at(-1) === CR ? line.subarray(0, -1) : line);
      if (reply !== undefined) return reply.code >= 400 ? reply : undefined;
    }
    return (this.#codes.at(-1) ?? 0) >= 400 ? this.#complete() : undefined;
  }
}
