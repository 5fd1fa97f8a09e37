/**
 * The words of the outbound SMTP client: what a session is asked for and what it answers. Everything that can go wrong
 * with a peer is a value here; nothing in this file decides whether a failure is temporary.
 */

import type { X509Certificate } from 'node:crypto';
import type { Base64Lines } from '../mail/compose/transfer-encoding.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';

/** Where in the exchange something happened. `dot` means that the final dot was written: the peer may have the mail. */
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

/** What a message asks of the connection: nothing, encryption, or encryption towards a proven peer. */
export type TlsNeed = boolean | 'verified';

/** The certificate of a peer, after the handshake. */
export interface PeerCertificate {
  /** The peer's own. */
  leaf: X509Certificate;
  /** Those behind it, each the issuer of the one before, as far as the peer sent them or this machine knows them. */
  issuers: X509Certificate[];
  /** Why no trusted authority stands behind it, or it is not in its time: a code such as CERT_HAS_EXPIRED. Names are not looked at. */
  chainFault?: string;
}

/** What a look at the certificate came to: whether it proves who the peer is, or why the connection ends. */
export type Inspection = { ok: true; verified: boolean } | { ok: false; cause: string; message: string };

/** One line as it was said: `C` is us, `S` the peer; `atMs` counts from the start of the opening or of the message. */
export interface DialogueLine {
  atMs: number;
  direction: 'C' | 'S';
  text: string;
}

/** A refusal that we make ourselves because sending would break the protocol or a promise; nothing was transmitted. */
export interface LocalRefusal {
  code: number;
  enhanced: string;
  text: string;
}

export interface SmtpError {
  stage: SmtpStage;
  /** What the peer answered, when it was an answer that ended the attempt. */
  reply?: SmtpReply;
  /**
   * Error code: ECONNREFUSED, ETIMEDOUT, ECONNRESET, EPROTOCOL, ECANCELLED, ENOADDRESS, a TLS code, ENOTLS (TLS is required
   * and not offered), EINJECTED (bytes in the clear behind the reply to STARTTLS).
   */
  cause?: string;
  /** Set instead of `reply` when we refused, e.g. to send a password in the clear. */
  local?: LocalRefusal;
  /** One sentence for the log and the attempt's record. */
  message: string;
  /** The address that was dialled last. */
  remoteAddress?: string;
  /** Our address, where one was chosen for it. */
  sourceAddress?: string;
  /** Our address on the connection, where there was one. */
  localAddress?: string;
  /** `TLSv1.3` and the like, when the failure came after a handshake. */
  tlsVersion?: string;
  tlsCipher?: string;
  tlsPeerName?: string;
  dialogue: DialogueLine[];
}

/** Deadlines in milliseconds, each for a whole command and its whole reply, never for idle time. RFC 5321 §4.5.3.2. */
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
   * Until the peer has taken the next block (256 KiB) of the content; default 180,000. In all it has that long and a second
   * for each 24,000 bytes.
   */
  contentMs: number;
  /** From the final dot to its reply; default 600,000. */
  dotMs: number;
}

export interface OpenSmtpOptions {
  /** Name of the peer: for TLS, the dialogue and error texts. */
  host: string;
  /** IP addresses tried in this order; without them `host` is looked up by the system. The caller has guarded them. */
  addresses?: string[];
  port: number;
  /** The name given in EHLO. */
  helo: string;
  /** `opportunistic` uses STARTTLS when offered; `implicit` starts with the handshake (port 465). */
  tls: 'never' | 'opportunistic' | 'required' | 'implicit';
  /** Check the certificate against `host`; a failure ends the attempt at stage `tls`. */
  verifyCertificate: boolean;
  /** Looks at the certificate after the handshake, before anything is said inside TLS. */
  inspect?(peer: PeerCertificate): Inspection;
  /** The name in SNI, where it is not `host` (RFC 7672 §8.1). */
  serverName?: string;
  /** Why opportunistic TLS is not even tried at this address, in words: it was seen to fail. */
  clearBecause?(address: string): string | undefined;
  /** Whether commands may be sent together at this address where the server offers PIPELINING (RFC 2920); true unless given. */
  mayPipeline?(address: string): boolean;
  /** Lines of an earlier connection of the same attempt, which stand before this one's. */
  earlier?: readonly DialogueLine[];
  auth?: { user: string; pass: string };
  /** The address of ours from which this one is dialled; undefined leaves it to the system. */
  sourceFor?(address: string): string | undefined;
  timeouts?: Partial<SmtpTimeouts>;
  signal?: AbortSignal;
}

/**
 * Content with CRLF lines, not dot-stuffed; a stream is pulled as fast as the peer takes it. The memory of Base64 lines
 * may be used again once the next chunk is asked for, that of other chunks is left alone.
 */
export type SmtpContent = Buffer | Buffer[] | AsyncIterable<Buffer | Base64Lines>;

export interface SmtpMessage {
  /** Empty for the null reverse-path. */
  mailFrom: string;
  recipients: string[];
  content: SmtpContent;
  /** Bytes of the content, for SIZE= and the deadline of its transfer. */
  sizeBytes: number;
  /** Header fields hold raw UTF-8: SMTPUTF8 is needed. */
  smtpUtf8: boolean;
  /** The content has bytes above 0x7f: 8BITMIME is needed. */
  eightBit: boolean;
  /** Refuse to send over a connection that offers less. */
  requireTls?: TlsNeed;
  /**
   * Asked in the moment before the final dot is written, without which the peer takes nothing. False: the connection is cut
   * instead, and the message ends with the cause ECANCELLED.
   */
  mayEnd?(): boolean;
}

/** The result of one recipient: accepted (`reply` is the one to the final dot), or refused or failed at `stage`. */
export interface RecipientResult {
  recipient: string;
  accepted: boolean;
  stage: SmtpStage;
  reply?: SmtpReply;
  /** Error code of the socket, the resolver or our own code. */
  cause?: string;
  local?: LocalRefusal;
  /** One sentence, present whenever `reply` is not. */
  message?: string;
}

export interface SendResult {
  /** In the order of the recipients asked for. */
  recipients: RecipientResult[];
  /** Only this message's lines; `session.opening` has those before it. */
  dialogue: DialogueLine[];
  /** The server offers PIPELINING, and lost or refused commands that were sent together. Nothing of the content was sent. */
  pipeliningFailed?: true;
  /** The connection was lost, or broke the protocol, among commands that were sent together. */
  pipeliningSuspected?: true;
}

export interface SmtpSession {
  readonly remoteHost: string;
  readonly remoteAddress: string;
  /** Our address, where one was chosen. */
  readonly sourceAddress: string | undefined;
  /** Our address on the connection. */
  readonly localAddress: string | undefined;
  /** `TLSv1.2`, `TLSv1.3`, or undefined in the clear. */
  readonly tls: string | undefined;
  /** As OpenSSL calls it, such as `TLS_AES_256_GCM_SHA384`. */
  readonly tlsCipher: string | undefined;
  /** The name in the certificate: that of the host where it has it, otherwise its first. */
  readonly tlsPeerName: string | undefined;
  /** The certificate was checked, and is valid for `remoteHost`. */
  readonly verified: boolean;
  /** Why the session is in the clear although the peer offers TLS, in words. */
  readonly tlsFallback: string | undefined;
  /** Names in upper case with their parameters, of the EHLO in force. */
  readonly extensions: ReadonlyMap<string, string>;
  /** The dialogue from the banner to the last reply before the first message. */
  readonly opening: DialogueLine[];
  /** False once the connection is closed, broken, or in a state nobody knows. */
  readonly usable: boolean;
  /** Messages for which the final dot was answered. */
  readonly sentCount: number;
  /** One message at a time; a second call while one runs throws. Never rejects because of the peer. */
  send(message: SmtpMessage): Promise<SendResult>;
  /** QUIT, a short wait for the answer, then close. Never rejects. */
  quit(): Promise<void>;
  /** Closes at once; a message under way ends with the cause ECANCELLED. */
  destroy(): void;
  /** The same for a message under way whose final dot was not written yet; otherwise nothing happens. */
  cutBeforeDot(): void;
  /** Called once when the connection is gone, also by the peer while idle. Called at once when it is gone already. */
  onClose(listener: () => void): void;
}

export type OpenSmtpResult = { ok: true; session: SmtpSession } | { ok: false; error: SmtpError };
