/**
 * The line to one SMTP peer: writes commands, collects replies, keeps deadlines. It knows nothing of the order of
 * commands. Always true:
 *
 * - Every wait has one deadline for the whole of it; a peer that drips bytes does not extend it.
 * - A reply nobody waits for breaks the connection (a 421 is a farewell), so replies can never be taken for others.
 * - A break is final: the socket is destroyed, whoever waits gets what had arrived together with the cause.
 *
 * One callback per batch of replies and no promise per line: this is the hot path of every delivery.
 */
import type { Socket } from 'node:net';
import tls, { type ConnectionOptions, type TLSSocket } from 'node:tls';
import { type SmtpReply, SmtpReplyParser } from '../mail/smtp-reply.ts';
import { type Dialogue, startDialogue } from './smtp-dialogue.ts';

export interface Break {
  /** An error code: ETIMEDOUT, ECONNRESET, EPROTOCOL, ECANCELLED, or a TLS code. */
  cause: string;
  message: string;
}

export interface Answers {
  replies: SmtpReply[];
  /** Set when the connection broke before all replies came. */
  broken?: Break;
}

export interface SmtpConnection {
  readonly broken: Break | undefined;
  readonly tls: string | undefined;
  readonly remoteAddress: string;
  dialogue: Dialogue;
  /** The final dot of the message under way was written: the peer may have it. */
  dotSent: boolean;
  /** Bytes arrived that belong to no awaited reply. */
  readonly hasSurplus: boolean;
  /** Writes one or more complete command lines at once and waits for `count` replies. `shown` replaces them in the dialogue. */
  ask(lines: string, options: { count: number; deadlineMs: number; shown?: string }): Promise<Answers>;
  /** Waits for replies to what is written separately. */
  expect(count: number, deadlineMs: number): Promise<Answers>;
  /** Whether the awaited replies have all come. */
  readonly settled: boolean;
  /** A new deadline for the wait under way, and what is said when it passes. */
  redeadline(deadlineMs: number, message?: string): void;
  cork(): void;
  uncork(): void;
  /** False when the socket's buffer is full: then await drained(). */
  write(data: Buffer | string): boolean;
  /** Resolves when the buffer has emptied, a reply has come, or the connection broke. */
  drained(): Promise<void>;
  /** Writes, and resolves when the memory may be used again: the system has the bytes, or drained() would resolve. */
  hand(data: Buffer): Promise<void>;
  startTls(options: ConnectionOptions, deadlineMs: number): Promise<Break | undefined>;
  breakOff(cause: string, message: string): void;
  onBreak(listener: () => void): void;
}

interface Waiting {
  count: number;
  replies: SmtpReply[];
  resolve: (answers: Answers) => void;
}

function describe(error: NodeJS.ErrnoException): Break {
  return { cause: error.code ?? 'EPROTOCOL', message: error.message };
}

/** Takes over a connected socket that has not been read from. */
export function smtpConnection(socket: Socket, dialogue: Dialogue = startDialogue()): SmtpConnection {
  let current: Socket | TLSSocket = socket;
  let broken: Break | undefined;
  let tlsVersion: string | undefined;
  let waiting: Waiting | undefined;
  let timer: NodeJS.Timeout | undefined;
  let wakeDrained: (() => void) | undefined;
  const remoteAddress = socket.remoteAddress ?? '';
  const listeners: (() => void)[] = [];

  const settle = (): void => {
    const done = waiting;
    if (!done) return;
    waiting = undefined;
    clearTimeout(timer);
    done.resolve(broken ? { replies: done.replies, broken } : { replies: done.replies });
    wakeDrained?.();
  };

  const breakOff = (cause: string, message: string): void => {
    if (broken) return;
    broken = { cause, message };
    current.destroy();
    settle();
    wakeDrained?.();
    for (const listener of listeners.splice(0)) listener();
  };

  const takeReply = (reply: SmtpReply): void => {
    const { code, lines } = reply;
    for (const [index, line] of lines.entries()) {
      connection.dialogue.record('S', `${code}${index === lines.length - 1 ? ' ' : '-'}${line}`);
    }
    if (waiting) {
      waiting.replies.push(reply);
      if (waiting.replies.length === waiting.count) settle();
    } else if (code === 421) {
      breakOff('ECONNRESET', `the peer closes the session: ${reply.text}`);
    } else {
      breakOff('EPROTOCOL', 'the peer sent a reply to no command');
    }
  };

  const parser = new SmtpReplyParser();
  const onData = (chunk: Buffer): void => {
    const { replies, fault } = parser.feed(chunk);
    for (const reply of replies) takeReply(reply);
    if (fault !== undefined) breakOff('EPROTOCOL', `the peer broke the protocol: ${fault}`);
  };
  const onError = (error: NodeJS.ErrnoException): void => {
    const { cause, message } = describe(error);
    breakOff(cause, message);
  };
  const onEnd = (): void => breakOff('ECONNRESET', 'the peer closed the connection');
  const onDrain = (): void => wakeDrained?.();

  const listen = (): void => {
    current.on('data', onData).on('error', onError).on('end', onEnd).on('close', onEnd).on('drain', onDrain);
  };
  const unlisten = (): void => {
    current.off('data', onData).off('error', onError).off('end', onEnd).off('close', onEnd).off('drain', onDrain);
  };

  const startTimer = (deadlineMs: number, message = `no complete reply within ${deadlineMs} ms`): void => {
    clearTimeout(timer);
    timer = setTimeout(() => breakOff('ETIMEDOUT', message), deadlineMs);
  };

  const expect = (count: number, deadlineMs: number): Promise<Answers> => {
    if (broken) return Promise.resolve({ replies: [], broken });
    if (waiting) throw new Error('two commands wait on one SMTP connection');
    startTimer(deadlineMs);
    return new Promise((resolve) => {
      waiting = { count, replies: [], resolve };
    });
  };

  const startTls = (options: ConnectionOptions, deadlineMs: number): Promise<Break | undefined> =>
    new Promise((resolve) => {
      const plain = current;
      unlisten();
      // The plain socket's errors reach the TLS socket; without a listener of its own they would be thrown.
      plain.on('error', () => {});
      const secure = tls.connect({ ...options, socket: plain });
      current = secure;
      let timeout: NodeJS.Timeout | undefined;
      const finish = (failure?: Break): void => {
        clearTimeout(timeout);
        secure.off('error', onFailure).off('close', onClosed).off('secureConnect', onSecure);
        if (failure) {
          secure.on('error', () => {});
          breakOff(failure.cause, failure.message);
          plain.destroy();
        } else {
          tlsVersion = secure.getProtocol() ?? undefined;
          listen();
        }
        resolve(failure);
      };
      const onFailure = (error: NodeJS.ErrnoException): void => finish(describe(error));
      const onClosed = (): void => finish({ cause: 'ECONNRESET', message: 'the peer closed during the TLS handshake' });
      const onSecure = (): void => finish();
      secure.on('error', onFailure).on('close', onClosed).on('secureConnect', onSecure);
      timeout = setTimeout(
        () => finish({ cause: 'ETIMEDOUT', message: `no TLS handshake within ${deadlineMs} ms` }),
        deadlineMs,
      );
    });

  const connection: SmtpConnection = {
    dialogue,
    dotSent: false,
    remoteAddress,
    get broken() {
      return broken;
    },
    get tls() {
      return tlsVersion;
    },
    get hasSurplus() {
      return parser.hasPending() || current.readableLength > 0;
    },
    get settled() {
      return waiting === undefined;
    },
    ask: (lines, options) => {
      if (broken) return Promise.resolve({ replies: [], broken });
      for (const line of (options.shown ?? lines).split('\r\n')) {
        if (line !== '') connection.dialogue.record('C', line);
      }
      const answers = expect(options.count, options.deadlineMs);
      current.write(lines, 'utf8');
      return answers;
    },
    expect,
    redeadline: (deadlineMs, message) => {
      if (waiting) startTimer(deadlineMs, message);
    },
    cork: () => current.cork(),
    uncork: () => current.uncork(),
    write: (data) => (broken ? true : current.write(data as Buffer)),
    drained: () =>
      new Promise((resolve) => {
        if (broken || waiting === undefined || !current.writableNeedDrain) {
          resolve();
          return;
        }
        wakeDrained = () => {
          wakeDrained = undefined;
          resolve();
        };
      }),
    hand: (data) =>
      new Promise((resolve) => {
        if (broken || waiting === undefined) {
          resolve();
          return;
        }
        wakeDrained = () => {
          wakeDrained = undefined;
          resolve();
        };
        current.write(data, () => wakeDrained?.());
      }),
    startTls,
    breakOff,
    onBreak: (listener) => {
      if (broken) listener();
      else listeners.push(listener);
    },
  };
  listen();
  return connection;
}
