/** The types of the SMTP sink: its actions and its records. */
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
  /** Without dot-stuffing and without the final dot's line. */
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
  /** The command line, or the name of the stage for banner and dot. */
  line: string;
  /** How often this stage was reached on any connection, from 1. */
  occurrence: number;
  from: string;
  to: string[];
  tls: string | undefined;
}

/** A reply without its line end (lines of a multi-line reply separated by CRLF), or another action. */
export type SinkAction =
  | string
  | {
      reply?: string;
      delayMs?: number;
      /** Sent in the same write after the reply, unchanged. */
      inject?: string;
      /** Sends the reply byte by byte at this interval. */
      dripMs?: number;
      /** Sends continuation lines without end. */
      endless?: boolean;
      /** Never replies, but keeps reading. */
      silent?: boolean;
      /** Cuts the connection after the reply, or instead of it. */
      drop?: boolean;
      /** For starttls: follows the reply instead of a handshake. */
      handshake?: 'garbage' | 'reset' | 'stalled' | 'alert';
    };

/** One action for every time, several for the first times (then the default), or a function; undefined is the default. */
export type SinkRule =
  | SinkAction
  | SinkAction[]
  | ((context: SinkContext) => SinkAction | undefined | Promise<SinkAction | undefined>);

export interface SinkOptions {
  script?: Partial<Record<SinkStage, SinkRule>>;
  tls?: 'none' | 'starttls' | 'implicit';
  certificate?: TestCertificate;
  /** Supports only TLS 1.0, as very old servers do. */
  oldTls?: boolean;
  /** Lines of the EHLO reply; STARTTLS and AUTH are added automatically. */
  extensions?: string[];
  /** Requires this user and password. */
  auth?: { user: string; pass: string };
  /** Requires an access token of this user instead, by this mechanism. */
  oauth?: { user: string; mechanism: 'XOAUTH2' | 'OAUTHBEARER'; isValid(token: string): boolean };
  port?: number;
  /** Address to listen on; 127.0.0.1 by default. */
  host?: string;
  /** Keeps only counts, for load tests. */
  discard?: boolean;
  onMessage?: (message: SinkMessage) => void;
}

export interface SmtpSink {
  port: number;
  host: string;
  messages: SinkMessage[];
  /** Messages answered with 2xx at the dot, including discarded ones. */
  readonly accepted: number;
  commands: string[];
  violations: string[];
  connections: {
    readonly now: number;
    readonly peak: number;
    readonly total: number;
    /** The client address of each connection. */
    readonly from: readonly string[];
  };
  /** Replaces the script from now on. */
  setScript(script: Partial<Record<SinkStage, SinkRule>>): void;
  /** Cuts every open connection. */
  dropAll(): void;
  close(): Promise<void>;
}
