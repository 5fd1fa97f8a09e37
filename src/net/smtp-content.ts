/**
 * Writes a message's content and the final dot. A small message is sent in one write with its dot; a large one as fast as the peer reads
 * it, with little of it in memory. If the peer replies before the dot, that reply is the result and the connection is closed, because the
 * rest of the content would be read as commands.
 *
 * Dot-stuffing follows RFC 5321 §4.5.2, over content that arrives in any number of chunks. Content without a line that starts with a dot is
 * not copied. A dot after a bare CR or bare LF is refused instead of stuffed: receivers disagree whether that starts a line, which enables
 * SMTP smuggling.
 */
import { isAscii } from 'node:buffer';
import type { Base64Lines } from '../mail/compose/transfer-encoding.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { SmtpConnection } from './smtp-connection.ts';
import type { LocalRefusal, SmtpContent, SmtpTimeouts } from './smtp-types.ts';

const ONE_WRITE_BYTES = 262_144;
/** A peer that is slower than this over a complete large message is given up, even if it never stalls. */
const SLOWEST_BYTES_PER_SECOND = 24_000;

interface ContentOptions {
  sizeBytes: number;
  timeouts: SmtpTimeouts;
  /** The peer lacks 8BITMIME: a byte above 0x7f in a stream ends the connection. */
  sevenBit: boolean;
  /** See SmtpMessage. */
  mayEnd: (() => boolean) | undefined;
}

type Chunks = AsyncIterable<Buffer | Base64Lines> | Iterable<Buffer>;

export interface ContentResult {
  stage: 'data' | 'dot';
  reply?: SmtpReply;
  local?: LocalRefusal;
}

function* slices(chunks: Iterable<Buffer>): Generator<Buffer> {
  for (const chunk of chunks) {
    for (let from = 0; from < chunk.length; from += ONE_WRITE_BYTES) yield chunk.subarray(from, from + ONE_WRITE_BYTES);
  }
}

/** Returns whether the dot may be written; otherwise the connection is closed. */
function mayEnd(connection: SmtpConnection, options: ContentOptions): boolean {
  if (options.mayEnd === undefined || options.mayEnd()) return true;
  connection.breakOff('ECANCELLED', 'the message was taken back before its final dot');
  return false;
}

function writeDot(connection: SmtpConnection, end: string): void {
  connection.dotSent = true;
  connection.write(end);
}

async function writeSmall(
  connection: SmtpConnection,
  chunks: Buffer[],
  options: ContentOptions,
): Promise<ContentResult> {
  if (!mayEnd(connection, options)) return { stage: 'data' };
  const stuffer = dotStuffer();
  const answers = connection.expect({ count: 1, deadlineMs: options.timeouts.dotMs });
  connection.dialogue.record('C', `<${options.sizeBytes} bytes>`);
  connection.cork();
  for (const chunk of chunks) {
    for (const piece of stuffer.push(chunk) ?? []) connection.write(piece);
  }
  writeDot(connection, stuffer.end());
  connection.uncork();
  const reply = (await answers).replies[0];
  return reply ? { stage: 'dot', reply } : { stage: 'dot' };
}

/** Resolves with undefined once everything is written, or with why it stopped. */
async function pump(
  connection: SmtpConnection,
  chunks: Chunks,
  options: { sevenBit: boolean; stuffer: ReturnType<typeof dotStuffer>; progress(): void },
): Promise<LocalRefusal | 'stopped' | undefined> {
  const { sevenBit, stuffer } = options;
  for await (const chunk of chunks) {
    if (Buffer.isBuffer(chunk)) {
      if (sevenBit && !isAscii(chunk)) {
        return { code: 554, enhanced: '5.6.3', text: 'the receiving server does not support 8-bit content (8BITMIME)' };
      }
      const pieces = stuffer.push(chunk);
      if (!pieces) return { code: 554, enhanced: '5.6.0', text: 'the content has a dot after a bare CR or LF' };
      let hasCapacity = true;
      for (const piece of pieces) hasCapacity = connection.write(piece);
      if (!hasCapacity) await connection.drained();
    } else {
      stuffer.pass();
      await connection.writeReusable(chunk.base64);
    }
    if (connection.broken || connection.settled) return 'stopped';
    options.progress();
  }
  return undefined;
}

/**
 * Gives the peer time for each block (RFC 5321 §4.5.3.2.5), within the total; returns the function that starts the next block's deadline.
 */
function blockDeadlines(connection: SmtpConnection, options: ContentOptions): { firstMs: number; progress(): void } {
  const { contentMs } = options.timeouts;
  const end = performance.now() + contentMs + (options.sizeBytes / SLOWEST_BYTES_PER_SECOND) * 1000;
  const stalled = `the peer took nothing more of the content for ${contentMs} ms`;
  return {
    firstMs: contentMs,
    progress: () => {
      const leftMs = Math.max(0, end - performance.now());
      if (leftMs > contentMs) connection.extendDeadline(contentMs, stalled);
      else connection.extendDeadline(leftMs, 'the peer took the content too slowly');
    },
  };
}

async function writeLarge(connection: SmtpConnection, chunks: Chunks, options: ContentOptions): Promise<ContentResult> {
  const stuffer = dotStuffer();
  const { firstMs, progress } = blockDeadlines(connection, options);
  const answers = connection.expect({ count: 1, deadlineMs: firstMs });
  connection.dialogue.record('C', `<${options.sizeBytes} bytes>`);
  let stopped: LocalRefusal | 'stopped' | undefined;
  try {
    stopped = await pump(connection, chunks, { sevenBit: options.sevenBit, stuffer, progress });
  } catch (error) {
    connection.breakOff('ECONTENT', `the content could not be read: ${(error as Error).message}`);
    stopped = 'stopped';
  }
  if (stopped === undefined && (connection.broken || !mayEnd(connection, options))) stopped = 'stopped';
  if (stopped !== undefined) {
    connection.breakOff('EPROTOCOL', 'the content was not sent to its end');
    const reply = (await answers).replies[0];
    if (stopped !== 'stopped') return { stage: 'data', local: stopped };
    return reply ? { stage: 'data', reply } : { stage: 'data' };
  }
  writeDot(connection, stuffer.end());
  connection.extendDeadline(options.timeouts.dotMs);
  const reply = (await answers).replies[0];
  return reply ? { stage: 'dot', reply } : { stage: 'dot' };
}

/** Resolves with the reply to the final dot, or the stage that was reached. */
export function writeContent(
  connection: SmtpConnection,
  content: SmtpContent,
  options: ContentOptions,
): Promise<ContentResult> {
  if (connection.broken) return Promise.resolve({ stage: 'data' });
  const chunks = Buffer.isBuffer(content) ? [content] : content;
  if (!Array.isArray(chunks)) return writeLarge(connection, chunks, options);
  const small = chunks.reduce((sum, chunk) => sum + chunk.length, 0) <= ONE_WRITE_BYTES;
  return small ? writeSmall(connection, chunks, options) : writeLarge(connection, slices(chunks), options);
}

const CR = 13;
const LF = 10;
const DOT = 46;
const LF_DOT = Buffer.from('\n.');
const CR_DOT = Buffer.from('\r.');
const DOT_BYTES = Buffer.from('.');

export interface DotStuffer {
  /** Returns the chunk ready for the wire, or undefined if it has a dot after a bare CR or LF. */
  push(chunk: Buffer): Buffer[] | undefined;
  /** Records that complete lines were written directly, none of which starts with a dot. */
  pass(): void;
  /** Returns what ends the content: the line of the final dot, preceded by a line end if the content lacks one. */
  end(): string;
}

export function dotStuffer(): DotStuffer {
  // The two bytes before the chunk; content starts as if after a line end.
  let last = LF;
  let beforeLast = CR;

  return {
    push: (chunk) => {
      if (chunk.length === 0) return [];
      const first = chunk[0];
      if (first === DOT && (last === CR || (last === LF && beforeLast !== CR))) return undefined;
      if (chunk.indexOf(CR_DOT) !== -1) return undefined;
      const pieces: Buffer[] = [];
      if (first === DOT && last === LF) pieces.push(DOT_BYTES);
      let from = 0;
      for (let at = chunk.indexOf(LF_DOT); at !== -1; at = chunk.indexOf(LF_DOT, at + 1)) {
        if ((at === 0 ? last : chunk[at - 1]) !== CR) return undefined;
        pieces.push(chunk.subarray(from, at + 1), DOT_BYTES);
        from = at + 1;
      }
      pieces.push(from === 0 ? chunk : chunk.subarray(from));
      beforeLast = chunk.length > 1 ? chunk[chunk.length - 2]! : last;
      last = chunk[chunk.length - 1]!;
      return pieces;
    },
    pass: () => {
      beforeLast = CR;
      last = LF;
    },
    end: () => (last === LF && beforeLast === CR ? '.\r\n' : '\r\n.\r\n'),
  };
}
