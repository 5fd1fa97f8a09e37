/**
 * Defines the state of one SMTP session that its commands can read and change, with the limits and replies of all sessions.
 *
 *   greeting ─EHLO─▶ plain ─STARTTLS─▶ (state discarded) ─EHLO─▶ secure ─AUTH─▶ logged in
 *   logged in ─MAIL─▶ envelope ─RCPT…─▶ ─DATA─▶ content ─dot─▶ logged in
 *
 * RSET and EHLO return to "logged in". Commands are answered one after the other, in order. A command that has to wait delays the later
 * commands of its session, but no other session.
 *
 * Limits are sizes, counts, and deadlines. Every deadline covers a complete command or mail, not the time between two bytes, so a client
 * that sends one byte at a time is disconnected like a silent one. If large mail is allowed, content extends its deadline by the time that
 * it takes at the slowest accepted rate.
 *
 * Replies are strings (RFC 5321 §4.2, enhanced codes of RFC 3463), either fixed or built from a Failure. Every reply is one line of
 * printable ASCII, for any input.
 */

import type { Caller } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { errorCatalog, type Failure, Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Tracer } from '../base/trace.ts';
import type { Taken } from '../inbound/inbound.ts';
import type { Address } from '../mail/address.ts';
import type { Cidr } from '../net/address-guard.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Hold } from './command.ts';
import type { RecipientReports } from './dsn.ts';
import type { TlsIdentity } from './tls-identity.ts';

export interface SmtpLimits {
  /** Maximum size of one submitted message, in bytes; announced with SIZE (RFC 1870). */
  maxMessageBytes: number;
  /** Bytes of a message over the limit that are read and discarded; after that the connection is closed. */
  maxDiscardBytes: number;
  maxRecipients: number;
  maxConnectionsPerAddress: number;
  maxConnections: number;
  /** Syntax errors, and unknown or misplaced commands, since the last accepted mail; the next one closes the session. */
  maxClientErrors: number;
  /** Commands since the last accepted mail that did not lead to one (NOOP, RSET, refused senders…). */
  maxFruitless: number;
  /** Addresses refused in one transaction, not counting those above maxRecipients; for inbound mail, in one session. */
  maxRefusedRecipients: number;
  /** Maximum time from one command to the next (RFC 5321 §4.5.3.2.7). */
  idleMs: number;
  /** Maximum time from the 354 reply to the final dot, without the time that content adds. */
  dataMs: number;
  /** Content extends the deadline by the time that it takes at this rate; an infinite rate adds nothing. */
  dataBytesPerSecond: number;
  handshakeMs: number;
  /** Delay of the greeting for an address that has never logged in. A client that sends before the greeting is refused. */
  greetingMs: number;
  /**
   * Delay of the greeting for an address that has logged in: long enough to detect clients that do not wait at all, and short enough for
   * clients that send one mail per connection.
   */
  knownGreetingMs: number;
  /** How long the client can take to read the last reply before the connection is closed. */
  lingerMs: number;
  /** Maximum time for the PROXY protocol header of a trusted proxy. */
  proxyHeaderMs: number;
}

export const defaultLimits: SmtpLimits = {
  maxMessageBytes: 2_000_000,
  maxDiscardBytes: 20_000_000,
  maxRecipients: 50,
  maxConnectionsPerAddress: 50,
  maxConnections: 10_000,
  maxClientErrors: 20,
  maxFruitless: 200,
  maxRefusedRecipients: 1_000,
  idleMs: 300_000,
  dataMs: 600_000,
  dataBytesPerSecond: Number.POSITIVE_INFINITY,
  handshakeMs: 60_000,
  greetingMs: 20,
  knownGreetingMs: 3,
  lingerMs: 3_000,
  proxyHeaderMs: 10_000,
};

/** Maximum length of a command with its CRLF: 512 (RFC 5321 §4.5.3.1.4). */
const COMMAND_BYTES = 512;
/**
 * MAIL can have 26 more bytes for SIZE, 17 for BODY, 10 for SMTPUTF8, 500 for AUTH, 34 for HOLDFOR or HOLDUNTIL, 8 for RET, and 107 for
 * ENVID (RFC 1870, 6152, 6531, 4954, 4865, 3461).
 */
const MAIL_BYTES = COMMAND_BYTES + 26 + 17 + 10 + 500 + 34 + 8 + 107;
/** RCPT can have 500 more bytes for ORCPT and 28 for NOTIFY (RFC 3461 §4). */
const RCPT_BYTES = COMMAND_BYTES + 500 + 28;
/** Maximum length of AUTH and of the lines of its exchange (RFC 4954 §4). */
export const AUTH_BYTES = 12_288;

/** Returns the maximum length of the command that starts like this, with its CRLF. */
export function commandLimit(start: string): number {
  const verb = start.slice(0, 5).toUpperCase();
  if (verb === 'MAIL ') return MAIL_BYTES;
  if (verb === 'RCPT ') return RCPT_BYTES;
  return verb === 'AUTH ' ? AUTH_BYTES : COMMAND_BYTES;
}

const MAX_REPLY_BYTES = 500;

/** Returns the text as a valid one-line reply: other characters become `?`, and a long text is truncated. */
export function cleanReply(text: string): string {
  return text.replace(/[^\x20-\x7e]+/g, '?').slice(0, MAX_REPLY_BYTES);
}

/** Returns the reply for a failure, with its first issue. */
export function replyFor(failure: Failure): string {
  const [issue] = failure.details;
  const isNamed = issue !== undefined && failure.code === 'INVALID_REQUEST';
  return `${errorCatalog[failure.code].smtp} ${isNamed ? `${issue.field} ${issue.message}` : failure.message}`;
}

export const BUSY = '451 4.3.2 temporarily unable to accept mail; try again later';
export const BROKEN = '451 4.3.0 internal server error; try again later';
export const STOPPING = '421 4.3.2 service shutting down; reconnect';
export const NEEDS_TLS = '530 5.7.0 must issue a STARTTLS command first';
export const NEEDS_LOGIN = '530 5.7.0 authentication required';
export const LOGIN_FAILED = '535 5.7.8 authentication failed; check username and password';
export const NO_MAIL = '503 5.5.1 send MAIL FROM first';
export const TOO_LARGE = (maxBytes: number): string =>
  `552 5.3.4 message exceeds the maximum size of ${maxBytes} bytes`;

/** The services that all sessions share. */
export interface SmtpServices {
  /** Name in the greeting. */
  hostname: string;
  profile: Profile;
  blobs: Blobs;
  tls: TlsIdentity;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  /** Reports submissions; none are reported if absent. */
  tracer?: Tracer | undefined;
  limits: SmtpLimits;
  /** Networks whose connections must start with a PROXY protocol header; none if undefined. */
  trustedProxies?: readonly Cidr[];
  /** Returns why no new mail is accepted right now; undefined if it is. */
  closedToMail(): string | undefined;
  /** Returns why a completely received mail is not stored; undefined if it is. Draining is not a reason. */
  closedToContent(): string | undefined;
}

export type CommandHandler = (dialogue: Dialogue, argument: string) => Pending;

/** The commands and rules of a port, for submission or inbound mail. */
export interface Profile {
  /** Commands of this port, at least MAIL, RCPT, and DATA. */
  verbs: ReadonlyMap<string, CommandHandler>;
  /** EHLO extensions of this port, in addition to those of every port. */
  offered(dialogue: Dialogue): readonly string[];
  /** Returns whether a client from this address has logged in before, which shortens the delay of the greeting. */
  knows(countedAddress: string): boolean;
  /** Called for a 4xx or 5xx reply to a logged-in client. */
  onRefused?(refused: RefusedCommand): void;
}

export interface RefusedCommand {
  caller: Caller;
  address: string;
  verb: string | undefined;
  /** As sent, without its CRLF. */
  reply: string;
}

export interface Login {
  username: string;
  caller: Caller;
}

interface EnvelopeParts {
  smtpUtf8: boolean;
  /** Number of RCPT commands that were refused. */
  refused: number;
}

/** A submitted mail between MAIL and its completion. */
export interface SubmissionEnvelope extends EnvelopeParts {
  kind: 'submission';
  from: Address;
  /** When to release the mail; undefined means immediately. */
  hold: Hold | undefined;
  /** By normalized address. */
  recipients: Map<string, Address>;
  /** Delivery reports by normalized address, for recipients with NOTIFY or ORCPT. */
  reports: Map<string, RecipientReports>;
  /** Parameters of MAIL: ENVID, and RET below. */
  envid: string | undefined;
  ret: 'full' | 'headers' | undefined;
  /** Offset of the clock of the sender's mode from real time, in ms. */
  clockOffsetMs: number;
}

/** An inbound mail, between MAIL and its completion. */
export interface InboundEnvelope extends EnvelopeParts {
  kind: 'inbound';
  /** Empty for the null sender. */
  from: string;
  sizeBytes: number;
  /** By normalized address. */
  recipients: Map<string, InboundRecipient>;
}

export interface InboundRecipient extends Taken {
  address: string;
}

/** Undefined if the command has completed, otherwise a promise of its completion. */
export type Pending = Promise<void> | undefined;

/** Logs that a message or a recipient from a logged-in client was refused. */
export function noteRefused({ log, login, address }: Pick<Dialogue, 'log' | 'login' | 'address'>, reply: string): void {
  if (login === undefined) return;
  const { account, keyId, mode } = login.caller;
  log.info({ accountId: account.id, credentialId: keyId, mode, address, reply }, 'mail refused');
}

export function refuse(dialogue: Dialogue, line: string): undefined {
  dialogue.fruitless += 1;
  noteRefused(dialogue, line);
  dialogue.reply(line);
}

/** Returns whether a reply reports a malformed command, as opposed to a malformed address in it. */
export function isSyntaxError(reply: string): boolean {
  return /^\d{3} 5\.5\.4 /.test(reply);
}

/** Runs a check. If the storage is unavailable, replies 451 so that the client retries later. */
export function orBusy(dialogue: Dialogue, check: () => Pending): Pending {
  return check()?.catch((error: unknown) => {
    if (!(error instanceof Unavailable)) throw error;
    dialogue.log.warn({ err: error }, 'SMTP sender or recipient could not be checked');
    refuse(dialogue, BUSY);
  });
}

/** Receives one mail, from the 354 reply to the reply to its final dot. */
export interface MailTransfer {
  /** Reads the bytes from index `from` on. Returns the position after the final dot, or -1 if it has not arrived. */
  push(chunk: Buffer, from: number): number;
  /** Resolves when more bytes can be written; undefined if they can be written now. */
  untilReady(): Promise<void> | undefined;
  /** Returns whether a message that is too large has exceeded maxDiscardBytes, so the connection must be closed. */
  isEndless(): boolean;
  /** Returns the reply after the final dot. Never rejects. */
  finish(): Promise<{ line: string; accepted: boolean }>;
  /** Discards a message that will not be completed. */
  abort(): void;
}

/** The state that a command can read and change. The session owns the connection. */
export interface Dialogue {
  readonly services: SmtpServices;
  readonly log: Log;
  /** Address of the client, as in the Received field. */
  readonly address: string;
  /** The group of addresses that limits count as one client, for example an IPv6 /64. */
  readonly countedAddress: string;
  /** Undefined before EHLO or HELO. */
  helo: string | undefined;
  /** Whether the client used EHLO, not HELO. */
  isExtended: boolean;
  isSecure: boolean;
  login: Login | undefined;
  envelope: SubmissionEnvelope | InboundEnvelope | undefined;
  /** Number of recipients that were refused in this session, in all its messages. */
  refusedRecipients: number;
  /** The TLS version, such as `TLSv1.3`; null if unencrypted. */
  readonly tlsProtocol: string | null;
  /** Receives the next line instead of the command parser (AUTH); the line is undefined if its text is invalid. */
  takeLine: ((line: string | undefined) => Pending) | undefined;
  /** The current command; undefined if it is unknown. */
  verb: string | undefined;
  /** Receives the data after DATA, up to its final dot. */
  transfer: MailTransfer | undefined;
  /** Number of commands since the last accepted message that made no progress, such as refused or repeated ones. */
  fruitless: number;
  /** Sends one line, together with the replies to other pipelined commands. */
  reply(line: string): undefined;
  /** Replies to an error that a correct client does not make; after too many of them the session ends. */
  clientError(line: string): undefined;
  /** Sends a last line and closes the connection. */
  hangUp(line: string): undefined;
  /** Continues with TLS, as if the client had just connected. */
  startTls(): undefined;
}
