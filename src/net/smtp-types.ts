/**
 * Types of the outbound SMTP client: its options and results. Every failure of a peer is a value here; nothing in this file decides whether
 * a failure is temporary.
 */

import type { X509Certificate } from 'node:crypto';
import type { Base64Lines } from '../mail/compose/transfer-encoding.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';

/** Where in the exchange something happened. `dot` means that the final dot was written: the peer may have accepted the mail. */
export type SmtpStage =
  | 'dns'
  | 'connect'
  | 'banner'
  | 'ehlo'
  | 'starttls'
  | 'tls'
  | 'auth'
  | 'mail'
  | 'rcpt'
  | 'data'
  | 'dot'
  | 'reset';

/** What a message requires of the connection: nothing, encryption, or encryption to a verified peer. */
export type TlsNeed = boolean | 'verified';

/** The certificate of a peer, after the handshake. */
export interface PeerCertificate {
  /** The peer's own certificate. */
  leaf: X509Certificate;
  /** Its chain, each the issuer of the one before, as far as the peer sent them or this machine knows them. */
  issuers: X509Certificate[];
  /** Why the chain is not trusted, or the certificate is outside its validity: a code such as CERT_HAS_EXPIRED. Names are not checked. */
  chainFault?: string;
}

/** The result of inspecting the certificate: whether it verifies the peer, or why the connection ends. */
export type Inspection = { ok: true; verified: boolean } | { ok: false; cause: string; message: string };

/** One line of the dialogue: `C` is Postrider, `S` the peer; `atMs` counts from the start of the opening or of the message. */
export interface DialogueLine {
  atMs: number;
  direction: 'C' | 'S';
  text: string;
}

/** A refusal by Postrider itself because sending would break the protocol or a promise; nothing was transmitted. */
export interface LocalRefusal {
  code: number;
  enhanced: string;
  text: string;
}

export interface SmtpError {
  stage: SmtpStage;
  /** The peer's reply, if a reply ended the attempt. */
  reply?: SmtpReply;
  /**
   * Error code: ECONNREFUSED, ETIMEDOUT, ECONNRESET, EPROTOCOL, ECANCELLED, ENOADDRESS, a TLS code, ENOTLS (TLS is required and not
   * offered), EINJECTED (unencrypted bytes after the reply to STARTTLS).
   */
  cause?: string;
  /** Set instead of `reply` for a local refusal, for example to send a password unencrypted. */
  local?: LocalRefusal;
  /** One sentence for the log and the attempt's record. */
  message: string;
  /** The last address that was tried. */
  remoteAddress?: string;
  /** The local address, if one was chosen. */
  sourceAddress?: string;
  /** The local address of the connection, if there was one. */
  localAddress?: string;
  /** Protocol version such as `TLSv1.3`, if the failure came after a handshake. */
  tlsVersion?: string;
  tlsCipher?: string;
  tlsKeyExchange?: string;
  tlsPeerName?: string;
  dialogue: DialogueLine[];
}

/** Deadlines in milliseconds, each for a complete command and its complete reply, never for idle time. RFC 5321 §4.5.3.2. */
export interface SmtpTimeouts {
  /** All addresses together; default 30,000. */
  connectMs: number;
  /** One address; default 10,000. */
  connectAddressMs: number;
  /** Default 60,000. */
  bannerMs: number;
  /** EHLO, STARTTLS, AUTH and RSET, each; default 60,000. */
  greetingMs: number;
  /** The TLS handshake; default 30,000. */
  tlsMs: number;
  /** MAIL, each RCPT, DATA, or all of them when pipelined; default 300,000. */
  envelopeMs: number;
  /**
   * Until the peer has read the next block (256 KiB) of the content; default 180,000. In total it has that time plus a second for each
   * 24,000 bytes.
   */
  contentMs: number;
  /** From the final dot to its reply; default 600,000. */
  dotMs: number;
}

/** OAuth 2.0 access tokens. */
export interface TokenSource {
  /** Returns a valid token; rejects with the reason, as a sentence without its full stop. */
  get(): Promise<string>;
  /** Reports a token that the server refused, so that the next call requests another one. */
  reject(token: string): void;
}

/** Credentials for AUTH: a password (PLAIN, LOGIN), or a token for each session (XOAUTH2, OAUTHBEARER). */
export type SmtpAuth = { user: string; pass: string } | { user: string; tokens: TokenSource };

export interface OpenSmtpOptions {
  /** Name of the peer: for TLS, the dialogue, and error texts. */
  host: string;
  /** IP addresses to try in this order; without them the system resolves `host`. The caller has checked them. */
  addresses?: string[];
  port: number;
  /** The name to give in EHLO. */
  helo: string;
  /** `opportunistic` uses STARTTLS when offered; `implicit` starts with the handshake (port 465). */
  tls: 'never' | 'opportunistic' | 'required' | 'implicit';
  /** Verify the certificate against `host`; a failure ends the attempt at stage `tls`. */
  verifyCertificate: boolean;
  /** Inspects the certificate after the handshake, before anything is sent inside TLS. */
  inspect?(peer: PeerCertificate): Inspection;
  /** The name in SNI, if it is not `host` (RFC 7672 §8.1). */
  serverName?: string;
  /** Returns why opportunistic TLS is skipped at this address, as text: it failed before. */
  clearBecause?(address: string): string | undefined;
  /** Whether commands may be pipelined at this address if the server supports PIPELINING (RFC 2920); true by default. */
  mayPipeline?(address: string): boolean;
  /** Lines of an earlier connection of the same attempt, which precede this one's. */
  earlier?: readonly DialogueLine[];
  auth?: SmtpAuth;
  /** Returns the local address to connect from; undefined leaves it to the system. */
  sourceFor?(address: string): string | undefined;
  timeouts?: Partial<SmtpTimeouts>;
  signal?: AbortSignal;
}

/**
 * Content with CRLF lines, not dot-stuffed; a stream is read as fast as the peer accepts it. The memory of Base64 lines may be reused once
 * the next chunk is requested; other chunks are not overwritten.
 */
export type SmtpContent = Buffer | Buffer[] | AsyncIterable<Buffer | Base64Lines>;

export interface SmtpMessage {
  /** Empty for the null reverse-path. */
  mailFrom: string;
  recipients: string[];
  content: SmtpContent;
  /** Size of the content, for SIZE= and the deadline of its transfer. */
  sizeBytes: number;
  /** Header fields contain raw UTF-8: SMTPUTF8 is required. */
  smtpUtf8: boolean;
  /** The content has bytes above 0x7f: 8BITMIME is required. */
  eightBit: boolean;
  /** Refuse to send over a connection that provides less. */
  requireTls?: TlsNeed;
  /**
   * Called right before the final dot is written, without which the peer accepts nothing. If it returns false, the connection is closed
   * instead, and the message ends with the cause ECANCELLED.
   */
  mayEnd?(): boolean;
}

/** The result for one recipient: accepted (`reply` is the one to the final dot), or refused or failed at `stage`. */
export interface RecipientResult {
  recipient: string;
  accepted: boolean;
  stage: SmtpStage;
  reply?: SmtpReply;
  /** Error code of the socket, the resolver, or this client. */
  cause?: string;
  local?: LocalRefusal;
  /** One sentence, present if `reply` is not. */
  message?: string;
}

export interface SendResult {
  /** In the order of the given recipients. */
  recipients: RecipientResult[];
  /** Only this message's lines; `session.opening` has the earlier ones. */
  dialogue: DialogueLine[];
  /** The server supports PIPELINING but lost or refused pipelined commands. No content was sent. */
  pipeliningFailed?: true;
  /** The connection was lost, or the peer violated the protocol, during pipelined commands. */
  pipeliningSuspected?: true;
}

export interface SmtpSession {
  readonly remoteHost: string;
  readonly remoteAddress: string;
  /** The local address, if one was chosen. */
  readonly sourceAddress: string | undefined;
  /** The local address of the connection. */
  readonly localAddress: string | undefined;
  /** `TLSv1.2`, `TLSv1.3`, or undefined if unencrypted. */
  readonly tls: string | undefined;
  /** OpenSSL's name, such as `TLS_AES_256_GCM_SHA384`. */
  readonly tlsCipher: string | undefined;
  /** The group of the key exchange, such as `X25519MLKEM768`. */
  readonly tlsKeyExchange: string | undefined;
  /** The name in the certificate: the host's if it has that, otherwise its first. */
  readonly tlsPeerName: string | undefined;
  /** The certificate was verified for `remoteHost`. */
  readonly verified: boolean;
  /** Why the session is unencrypted although the peer offers TLS, as text. */
  readonly tlsFallback: string | undefined;
  /** Names in upper case with their parameters, from the last EHLO. */
  readonly extensions: ReadonlyMap<string, string>;
  /** The dialogue from the banner to the last reply before the first message. */
  readonly opening: DialogueLine[];
  /** False once the connection is closed, broken, or in an unknown state. */
  readonly usable: boolean;
  /** Messages for which the final dot was answered. */
  readonly sentCount: number;
  /** Sends one message at a time; a second call while one runs throws. Errors of the peer never reject. */
  send(message: SmtpMessage): Promise<SendResult>;
  /** Sends QUIT, waits briefly for the reply, then closes. Never rejects. */
  quit(): Promise<void>;
  /** Closes immediately; a message in progress ends with the cause ECANCELLED. */
  destroy(): void;
  /** The same, but only for a message in progress whose final dot is not written yet. */
  cutBeforeDot(): void;
  /** Calls back once when the connection is closed, also by an idle peer; immediately if it is closed already. */
  onClose(listener: () => void): void;
}

export type OpenSmtpResult = { ok: true; session: SmtpSession } | { ok: false; error: SmtpError };
