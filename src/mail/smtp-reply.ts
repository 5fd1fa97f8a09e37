/**
 * Replies of remote SMTP servers (RFC 5321 §4.2, enhanced codes of RFC 3463), parsed from bytes as they arrive. Refuses what is
 * no reply, lines of one reply with different codes, and replies without end (512 lines or 64 KB). What comes out is safe to
 * store and to show: no controls, bounded.
 */

export interface SmtpReply {
  code: number;
  /** For example `5.1.1`; only when its class agrees with the code. */
  enhanced?: string;
  /** Lines joined by one space, without the code; an enhanced code is kept where it stands first. At most 1,000 characters. */
  text: string;
  /** The lines without their codes. */
  lines: string[];
}

export type ReplyClass = 'positive' | 'intermediate' | 'transient' | 'permanent';

/** What the reply parser answers to a chunk: the replies it completed, and the error after which the connection is useless. */
export interface ParsedReplies {
  replies: SmtpReply[];
  error?: string;
}

const MAX_LINES = 512;
const MAX_BYTES = 64 * 1024;
const MAX_TEXT_LENGTH = 1000;
const LF = 10;
const CR = 13;
const ENHANCED = /^([245]\.\d{1,3}\.\d{1,3})(?=[ \t]|$)/;
const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu;

/** The class of RFC 5321 §4.2.1 by the first digit. */
export function replyClass(code: number): ReplyClass {
  if (code < 300) return 'positive';
  if (code < 400) return 'intermediate';
  return code < 500 ? 'transient' : 'permanent';
}

function buildReply(code: number, lines: string[]): SmtpReply {
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
  return enhanced === undefined ? { code, text, lines } : { code, enhanced, text, lines };
}

/** Parses one whole reply given as text, for example a stored or a simulated one; undefined when it is none. */
export function parseReply(text: string): SmtpReply | undefined {
  const parser = new SmtpReplyParser();
  const { replies, error } = parser.feed(Buffer.from(`${text.replace(/[\r\n]+$/, '')}\r\n`, 'utf8'));
  return error === undefined && replies.length === 1 && !parser.hasPending() ? replies[0] : undefined;
}

/** Takes the bytes of one connection. After an error it takes nothing more. */
export class SmtpReplyParser {
  #pending: Buffer = Buffer.alloc(0);
  #code = 0;
  #lines: string[] = [];
  #bytes = 0;
  #error: string | undefined;

  /** Whether part of a reply has been read. Before STARTTLS it must be false: what came in plaintext is not to be trusted. */
  hasPending(): boolean {
    return this.#pending.length > 0 || this.#lines.length > 0;
  }

  feed(chunk: Uint8Array): ParsedReplies {
    const replies: SmtpReply[] = [];
    if (this.#error !== undefined) return { replies, error: this.#error };
    const arrived = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const data = this.#pending.length === 0 ? arrived : Buffer.concat([this.#pending, arrived]);
    // What is pending was searched before: a line that comes in byte by byte must not be searched from its start each time.
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
    const raw = line.toString('utf8');
    const match = /^([2-5]\d\d)(?:([ \t-])(.*))?$/s.exec(raw);
    if (match === null) {
      this.#error = `not an SMTP reply: ${raw.slice(0, 100).replace(UNPRINTABLE, ' ').toWellFormed()}`;
      return undefined;
    }
    const code = Number(match[1]);
    if (this.#lines.length > 0 && code !== this.#code) {
      this.#error = `reply whose lines have different codes (${this.#code} and ${code})`;
      return undefined;
    }
    this.#code = code;
    this.#lines.push((match[3] ?? '').replace(UNPRINTABLE, ' ').trim());
    if (match[2] === '-') return undefined;
    const reply = buildReply(code, this.#lines);
    this.#lines = [];
    this.#bytes = 0;
    return reply;
  }
}
