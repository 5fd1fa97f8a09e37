/**
 * A connection to one SMTP peer. It writes commands, collects replies, and enforces deadlines. It does not know the order of commands. Its
 * invariants are:
 *
 * - Every wait has one deadline in total; a peer that sends byte by byte does not extend it.
 * - An unexpected reply breaks the connection (a 421 closes it), so a reply is never assigned to the wrong command.
 * - A break is final: the socket is destroyed, and the waiting caller gets the replies so far together with the cause.
 * - The dialogue is kept, limited to 60 lines of 500 characters: the first 40 and the last 19 if there are more, because a failure appears
 *   at the end. Secrets and content are never part of it.
 *
 * There is one callback per batch of replies and no promise per line, because this is the hot path of every delivery.
 */

import type { Socket } from 'node:net';
import tls, { type ConnectionOptions, type TLSSocket } from 'node:tls';
import { type SmtpReply, SmtpReplyParser } from '../mail/smtp-reply.ts';
import type { DialogueLine } from './smtp-types.ts';

export interface Break {
  /** An error code: ETIMEDOUT, ECONNRESET, EPROTOCOL, ECANCELLED, or a TLS code. */
  cause: string;
  message: string;
}

export interface Answers {
  replies: SmtpReply[];
  /** Set if the connection broke before all replies arrived. */
  broken?: Break;
}

/** The peer of a TLS connection. */
export interface TlsPeer {
  cipher: string;
  /** The group of the key exchange; undefined if OpenSSL does not name it. */
  keyExchange: string | undefined;
  /** The name in its certificate. */
  name: string | undefined;
  /** Whether its identity was verified. */
  verified: boolean;
}

export interface SmtpConnection {
  readonly broken: Break | undefined;
  readonly tls: string | undefined;
  /** Set after the TLS handshake. */
  peer: TlsPeer | undefined;
  readonly tlsSocket: TLSSocket | undefined;
  readonly remoteAddress: string;
  dialogue: Dialogue;
  /** True if the final dot of the current message was written: the peer may have accepted the message. */
  dotSent: boolean;
  /** True if bytes arrived that belong to no expected reply. */
  readonly hasSurplus: boolean;
  /**
   * Writes one or more complete command lines in one write and waits for `count` replies. The dialogue records `shown` instead if it is
   * set.
   */
  command(lines: string, options: Wait & { shown?: string }): Promise<Answers>;
  /** Waits for replies to data that is written separately. */
  expect(wait: Wait): Promise<Answers>;
  /** True if all expected replies have arrived. */
  readonly settled: boolean;
  /** Sets a new deadline for the current wait, and the message if it expires. */
  extendDeadline(deadlineMs: number, message?: string): void;
  cork(): void;
  uncork(): void;
  /** Returns false if the socket's buffer is full; the caller must then await drained(). */
  write(data: Buffer | string): boolean;
  /** Resolves when the buffer is empty, a reply arrived, or the connection broke. */
  drained(): Promise<void>;
  /** Writes the data. Resolves when its memory can be reused: the system has the bytes, or drained() would resolve. */
  writeReusable(data: Buffer): Promise<void>;
  startTls(options: ConnectionOptions, deadlineMs: number): Promise<Break | undefined>;
  breakOff(cause: string, message: string): void;
  onBreak(listener: () => void): void;
}

/**
 * Expects `count` replies within `deadlineMs`. With `nextReplyMs`, each reply after the first must also arrive within that time of the
 * previous one.
 */
export interface Wait {
  count: number;
  deadlineMs: number;
  nextReplyMs?: number;
}

interface Waiting {
  count: number;
  replies: SmtpReply[];
  resolve: (answers: Answers) => void;
  nextReplyMs: number | undefined;
  /** If `nextReplyMs` is set: the monotonic time in ms at which the complete wait ends. */
  untilMs: number;
}

function describe(error: NodeJS.ErrnoException): Break {
  return { cause: error.code ?? 'EPROTOCOL', message: error.message };
}

/**
 * idle ─command, expect─▶ waiting ─all replies─▶ idle         a deadline, a stray reply, or the end of the socket ─▶ broken
 */
class Connection implements SmtpConnection {
  dialogue: Dialogue;
  dotSent = false;
  broken: Break | undefined;
  tls: string | undefined;
  peer: TlsPeer | undefined;
  readonly remoteAddress: string;
  #socket: Socket | TLSSocket;
  readonly #parser = new SmtpReplyParser();
  #waiting: Waiting | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Resolves the pending drained() or writeReusable(). */
  #wake: (() => void) | undefined;
  readonly #onBreak: (() => void)[] = [];

  constructor(socket: Socket, dialogue: Dialogue) {
    this.dialogue = dialogue;
    this.remoteAddress = socket.remoteAddress ?? '';
    this.#socket = socket;
    this.#listen();
  }

  get hasSurplus(): boolean {
    return this.#parser.hasPending() || this.#socket.readableLength > 0;
  }

  get tlsSocket(): TLSSocket | undefined {
    return this.tls === undefined ? undefined : (this.#socket as TLSSocket);
  }

  get settled(): boolean {
    return this.#waiting === undefined;
  }

  readonly #onData = (chunk: Buffer): void => {
    const { replies, error } = this.#parser.feed(chunk);
    for (const reply of replies) this.#takeReply(reply);
    if (error !== undefined) this.breakOff('EPROTOCOL', `the peer violated the protocol: ${error}`);
  };
  readonly #onError = (error: NodeJS.ErrnoException): void => {
    const { cause, message } = describe(error);
    this.#lose(cause, message);
  };
  readonly #onEnd = (): void => this.#lose('ECONNRESET', 'the peer closed the connection');
  readonly #onDrain = (): void => this.#wake?.();

  #listen(): void {
    const socket = this.#socket.on('data', this.#onData).on('error', this.#onError);
    socket.on('end', this.#onEnd).on('close', this.#onEnd).on('drain', this.#onDrain);
  }

  #unlisten(): void {
    const socket = this.#socket.off('data', this.#onData).off('error', this.#onError);
    socket.off('end', this.#onEnd).off('close', this.#onEnd).off('drain', this.#onDrain);
  }

  #takeReply(reply: SmtpReply): void {
    const { code, lines, codes } = reply;
    for (const [index, line] of lines.entries()) {
      this.dialogue.record('S', `${codes?.[index] ?? code}${index === lines.length - 1 ? ' ' : '-'}${line}`);
    }
    const waiting = this.#waiting;
    if (waiting) {
      waiting.replies.push(reply);
      if (waiting.replies.length === waiting.count) this.#settle();
      else if (waiting.nextReplyMs !== undefined) {
        this.#startTimer(Math.min(waiting.nextReplyMs, waiting.untilMs - performance.now()));
      }
    } else if (code === 421) this.breakOff('ECONNRESET', `the peer closes the session: ${reply.text}`);
    else this.breakOff('EPROTOCOL', 'the peer sent a reply without a command');
  }

  #settle(): void {
    const done = this.#waiting;
    if (!done) return;
    this.#waiting = undefined;
    clearTimeout(this.#timer);
    done.resolve(this.broken ? { replies: done.replies, broken: this.broken } : { replies: done.replies });
    this.#wake?.();
  }

  /**
   * Breaks the connection because the peer closed it or is silent. A refusal that the peer had started counts as its reply, because some
   * servers close after `421-too many connections`.
   */
  #lose(cause: string, message: string): void {
    const unfinished = this.#waiting && !this.broken ? this.#parser.end() : undefined;
    if (unfinished) this.#takeReply(unfinished);
    this.breakOff(cause, message);
  }

  breakOff(cause: string, message: string): void {
    if (this.broken) return;
    this.broken = { cause, message };
    this.#socket.destroy();
    this.#settle();
    this.#wake?.();
    for (const listener of this.#onBreak.splice(0)) listener();
  }

  onBreak(listener: () => void): void {
    if (this.broken) listener();
    else this.#onBreak.push(listener);
  }

  command(lines: string, options: Wait & { shown?: string }): Promise<Answers> {
    if (this.broken) return Promise.resolve({ replies: [], broken: this.broken });
    for (const line of (options.shown ?? lines).split('\r\n')) if (line !== '') this.dialogue.record('C', line);
    const answers = this.expect(options);
    this.#socket.write(lines, 'utf8');
    return answers;
  }

  expect({ count, deadlineMs, nextReplyMs }: Wait): Promise<Answers> {
    if (this.broken) return Promise.resolve({ replies: [], broken: this.broken });
    if (this.#waiting) throw new Error('two commands wait on one SMTP connection');
    this.#startTimer(deadlineMs);
    return new Promise((resolve) => {
      const untilMs = nextReplyMs === undefined ? 0 : performance.now() + deadlineMs;
      this.#waiting = { count, replies: [], resolve, nextReplyMs, untilMs };
    });
  }

  extendDeadline(deadlineMs: number, message?: string): void {
    if (this.#waiting) this.#startTimer(deadlineMs, message);
  }

  #startTimer(deadlineMs: number, message = `no complete reply within ${deadlineMs} ms`): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#lose('ETIMEDOUT', message), deadlineMs);
  }

  cork(): void {
    this.#socket.cork();
  }

  uncork(): void {
    this.#socket.uncork();
  }

  write(data: Buffer | string): boolean {
    return this.broken ? true : this.#socket.write(data as Buffer);
  }

  drained(): Promise<void> {
    return this.#socket.writableNeedDrain ? this.#untilWoken() : Promise.resolve();
  }

  writeReusable(data: Buffer): Promise<void> {
    if (this.broken || this.#waiting === undefined) return Promise.resolve();
    this.#socket.write(data, () => this.#wake?.());
    return this.#untilWoken();
  }

  /** Resolves when the socket drains, a reply settles the wait, or the connection breaks; immediately if nothing is pending. */
  #untilWoken(): Promise<void> {
    if (this.broken || this.#waiting === undefined) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined;
        resolve();
      };
    });
  }

  startTls(options: ConnectionOptions, deadlineMs: number): Promise<Break | undefined> {
    const plain = this.#socket;
    this.#unlisten();
    // The TLS socket gets the errors of the plain socket, which would also be thrown if it had no listener.
    plain.on('error', () => {});
    const secure = tls.connect({ ...options, socket: plain });
    this.#socket = secure;
    return new Promise((resolve) => {
      onHandshake(secure, deadlineMs, (failure) => {
        if (failure) {
          secure.on('error', () => {});
          this.breakOff(failure.cause, failure.message);
          plain.destroy();
        } else {
          this.tls = secure.getProtocol() ?? undefined;
          this.#listen();
        }
        resolve(failure);
      });
    });
  }
}

/** Calls back once, when the handshake has finished or failed. */
function onHandshake(secure: TLSSocket, deadlineMs: number, done: (failure: Break | undefined) => void): void {
  const finish = (failure?: Break): void => {
    clearTimeout(timeout);
    secure.off('error', onFailure).off('close', onClosed).off('secureConnect', onSecure);
    done(failure);
  };
  const onFailure = (error: NodeJS.ErrnoException): void => finish(describe(error));
  const onClosed = (): void =>
    finish({ cause: 'ECONNRESET', message: 'the peer closed the connection during the TLS handshake' });
  const onSecure = (): void => finish();
  const tooLate = { cause: 'ETIMEDOUT', message: `no TLS handshake within ${deadlineMs} ms` };
  const timeout = setTimeout(() => finish(tooLate), deadlineMs);
  secure.on('error', onFailure).on('close', onClosed).on('secureConnect', onSecure);
}

/** Wraps a connected socket that has not been read from. */
export function smtpConnection(socket: Socket, dialogue: Dialogue = startDialogue()): SmtpConnection {
  return new Connection(socket, dialogue);
}

const MAX_LINES = 60;
const KEPT_AT_START = 40;
const MAX_CHARACTERS = 500;
const CONTROLS = /[\x00-\x1f\x7f]/g;

export interface Dialogue {
  readonly lines: DialogueLine[];
  record(direction: 'C' | 'S', text: string): void;
}

export function startDialogue(): Dialogue {
  const lines: DialogueLine[] = [];
  const start = performance.now();
  return {
    lines,
    record: (direction, text) => {
      const atMs = Math.round(performance.now() - start);
      const short = text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS - 1)}…` : text;
      if (lines.length === MAX_LINES) {
        lines.splice(KEPT_AT_START, 2, { atMs: lines[KEPT_AT_START + 1]!.atMs, direction: 'S', text: '…' });
      }
      lines.push({ atMs, direction, text: short.replace(CONTROLS, '?') });
    },
  };
}
