/** The words of the SMTP sink: what it does and what it saw. */
import type { TestCertificate } from './test-certificate.ts';

export type SinkStage =
  | 'banner'
  | 'ehlo'
  | 'helo'
  | 'starttls'
  | 'auth'
  | 'mail'
  | 'rcpt'
  | 'data'
  | 'dot'
  | 'rset'
  | 'quit';

export interface SinkMessage {
  from: string;
  to: string[];
  /** As the client meant it: dots removed, without the final dot's line. */
  content: Buffer;
  /** Unix milliseconds at which the dot was answered. */
  at: number;
  /** Number of the connection, from 1. */
  session: number;
  tls: string | undefined;
  /** The user that authenticated. */
  auth: string | undefined;
  mailParameters: string;
}

export interface SinkContext {
  stage: SinkStage;
  session: number;
  /** The command's line, or the name of the stage for banner and dot. */
  line: string;
  /** How often this stage was reached on any connection, from 1. */
  occurrence: number;
  from: string;
  to: string[];
  tls: string | undefined;
}

/** A reply without its line end (lines of a multi-line reply separated by CRLF), or what to do besides. */
export type SinkAction =
  | string
  | {
      reply?: string;
      delayMs?: number;
      /** Sent in the same write, behind the reply, as it is. */
      inject?: string;
      /** One byte of the reply each so many milliseconds. */
      dripMs?: number;
      /** Continuation lines without an end. */
      endless?: boolean;
      /** Say nothing, ever, and read on. */
      silent?: boolean;
      /** Cut the connection after the reply, or instead of it. */
      drop?: boolean;
      /** For starttls: what follows the reply in place of a handshake. */
      handshake?: 'garbage' | 'reset' | 'stalled' | 'alert';
    };

/** One action for always, several for the first times (then the default), or a function; undefined is the default. */
export type SinkRule =
  | SinkAction
  | SinkAction[]
  | ((context: SinkContext) => SinkAction | undefined | Promise<SinkAction | undefined>);

export interface SinkOptions {
  script?: Partial<Record<SinkStage, SinkRule>>;
  tls?: 'none' | 'starttls' | 'implicit';
  certificate?: TestCertificate;
  /** Speaks TLS 1.0 only, as very old servers do. */
  oldTls?: boolean;
  /** Lines of the EHLO answer; STARTTLS and AUTH are added by themselves. */
  extensions?: string[];
  /** Demands this user and password. */
  auth?: { user: string; pass: string };
  port?: number;
  /** Address to listen on; default 127.0.0.1. */
  host?: string;
  /** Keep only counts, for load. */
  discard?: boolean;
  onMessage?: (message: SinkMessage) => void;
}

export interface SmtpSink {
  port: number;
  host: string;
  messages: SinkMessage[];
  /** Messages answered with 2xx at the dot, also when discarded. */
  readonly accepted: number;
  commands: string[];
  violations: string[];
  connections: {
    readonly now: number;
    readonly peak: number;
    readonly total: number;
    /** Address of the client of each. */
    readonly from: readonly string[];
  };
  /** Replaces the script for what comes. */
  setScript(script: Partial<Record<SinkStage, SinkRule>>): void;
  /** Cuts every open connection. */
  dropAll(): void;
  close(): Promise<void>;
}
