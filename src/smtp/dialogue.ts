/**
 * The state of one SMTP session and what its commands may do with it.
 *
 *   greeting ─EHLO─▶ plain ─STARTTLS─▶ (all forgotten) ─EHLO─▶ secure ─AUTH─▶ logged in
 *   logged in ─MAIL─▶ envelope ─RCPT…─▶ ─DATA─▶ content ─dot─▶ logged in
 *
 * RSET and EHLO return to "logged in". Commands are answered one after the other, in order; a command that has to wait delays the later
 * ones of its session, but no other session.
 *
 * Limits are sizes, counts, and deadlines. Every deadline covers a complete command or mail and not the time between two bytes, so that a
 * client that sends byte by byte is disconnected like a silent one. If mail may be large, content extends its deadline by the time that it
 * takes at the slowest accepted rate.
 *
 * Replies are texts (RFC 5321 §4.2, enhanced codes of RFC 3463): fixed ones, and those of a refusal. Every reply is one line of printable
 * ASCII, for any input.
 */

import type { Caller } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { catalogue, type Failure, Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
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
  /** Syntax errors, unknown or misplaced commands since the last accepted mail; the next one closes the session. */
  maxClientErrors: number;
  /** Commands since the last accepted mail that did not lead to one (NOOP, RSET, refused senders…). */
  maxFruitless: number;
  /** Addresses refused in one transaction, besides those over the number of recipients; for inbound mail, in one session. */
  maxRefusedRecipients: number;
  /** From one command to the next, RFC 5321 §4.5.3.2.7. */
  idleMs: number;
  /** From 354 to the final dot, plus what content adds to it. */
  dataMs: number;
  /** Content adds the time that it takes at this rate; an infinite rate adds nothing. */
  dataBytesPerSecond: number;
  handshakeMs: number;
  /** How long a client from an address that never logged in waits for the greeting; a client that sends before it is refused. */
  greetingMs: number;
  /**
   * The same for an address that has logged in: long enough to detect clients that do not wait at all, and short enough for one mail per
   * connection.
   */
  knownGreetingMs: number;
  /** How long reading the last reply may take before the connection is closed. */
  lingerMs: number;
  /** For the PROXY protocol header of a trusted proxy. */
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

/** Longest command with its CRLF: 512 (RFC 5321 §4.5.3.1.4). */
const COMMAND_BYTES = 512;
/**
 * MAIL: 26 more for SIZE, 17 for BODY, 10 for SMTPUTF8, 500 for AUTH, 34 for a hold, 8 for RET and 107 for ENVID (RFC 1870, 6152, 6531,
 * 4954, 4865, 3461).
 */
const MAIL_BYTES = COMMAND_BYTES + 26 + 17 + 10 + 500 + 34 + 8 + 107;
/** RCPT: 500 more for ORCPT, 28 for NOTIFY (RFC 3461 §4). */
const RCPT_BYTES = COMMAND_BYTES + 500 + 28;
/** AUTH and the lines of its exchange: RFC 4954 §4. */
export const AUTH_BYTES = 12_288;

/** Returns the maximum length of the command that starts like this, with its CRLF. */
export function commandLimit(beginning: string): number {
  const verb = beginning.slice(0, 5).toUpperCase();
  if (verb === 'MAIL ') return MAIL_BYTES;
  if (verb === 'RCPT ') return RCPT_BYTES;
  return verb === 'AUTH ' ? AUTH_BYTES : COMMAND_BYTES;
}

const LONGEST = 500;

/** Returns the text as a valid reply of one line. */
export function cleanReply(text: string): string {
  return text.replace(/[^\x20-\x7e]+/g, '?').slice(0, LONGEST);
}

/** Returns the reply for a refusal, with its first issue. */
export function replyFor(failure: Failure): string {
  const [issue] = failure.details;
  const isNamed = issue !== undefined && failure.code === 'INVALID_REQUEST';
  return `${catalogue[failure.code].smtp} ${isNamed ? `${issue.field} ${issue.message}` : failure.message}`;
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
  limits: SmtpLimits;
  /** Networks whose connections must start with a PROXY protocol header; none when absent. */
  trustedProxies?: readonly Cidr[];
  /** Returns why no mail may start right now; undefined if it may. */
  closedToMail(): string | undefined;
  /** Returns why a completely received mail may not be kept; undefined if it may. Draining is not a reason. */
  closedToContent(): string | undefined;
}

export type CommandHandler = (dialogue: Dialogue, argument: string) => Pending;

/** The purpose of a port: submission or inbound mail. */
export interface Profile {
  /** Commands of this port: at least MAIL, RCPT and DATA. */
  verbs: ReadonlyMap<string, CommandHandler>;
  /** EHLO extensions of this port, in addition to those of every port. */
  offered(dialogue: Dialogue): readonly string[];
  /** Whether clients from this address logged in before: their greeting is delayed less. */
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
  /** When to release the mail; undefined immediately. */
  hold: Hold | undefined;
  /** By normalized address. */
  recipients: Map<string, Address>;
  /** Delivery reports by normalized address, for recipients with NOTIFY or ORCPT. */
  reports: Map<string, RecipientReports>;
  /** ENVID and RET of MAIL. */
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
  recipients: Map<string, TakenRecipient>;
}

export interface TakenRecipient extends Taken {
  address: string;
}

/** Undefined if everything is done, else a promise of completion. */
export type Pending = Promise<void> | undefined;

/** Logs a mail, or a recipient of it, that is refused to a logged-in client. */
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

/** Whether a reply reports a malformed command, as opposed to a malformed address in it. */
export function isSyntaxError(reply: string): boolean {
  return /^\d{3} 5\.5\.4 /.test(reply);
}

/** A storage failure is reported as back-pressure. */
export function orBusy(dialogue: Dialogue, check: () => Pending): Pending {
  return check()?.catch((error: unknown) => {
    if (!(error instanceof Unavailable)) throw error;
    dialogue.log.warn({ err: error }, 'SMTP sender or recipient could not be checked');
    refuse(dialogue, BUSY);
  });
}

/** A mail from 354 to the reply to its dot. */
export interface MailTransfer {
  /** Reads bytes from `from` on; returns the position after the final dot, or -1 if it has not arrived. */
  push(chunk: Buffer, from: number): number;
  /** Resolves when more bytes can be written; undefined if they can. */
  untilReady(): Promise<void> | undefined;
  /** More bytes arrived than are read of a mail that is too large. */
  isEndless(): boolean;
  /** Returns the reply, after the dot. Never rejects. */
  finish(): Promise<{ line: string; accepted: boolean }>;
  /** The mail will not be completed. */
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
  /** EHLO was used, not HELO. */
  isExtended: boolean;
  isSecure: boolean;
  login: Login | undefined;
  envelope: SubmissionEnvelope | InboundEnvelope | undefined;
  /** Recipients that were refused in this session, in all its mails. */
  refusedRecipients: number;
  /** Such as `TLSv1.3`; null if unencrypted. */
  readonly tlsProtocol: string | null;
  /** Receives the next line instead of the command parser (AUTH); undefined if its text is invalid. */
  takeLine: ((line: string | undefined) => Pending) | undefined;
  /** The current command, if it is a known one. */
  verb: string | undefined;
  /** Receives data after DATA up to its dot. */
  transfer: MailTransfer | undefined;
  /** Commands since the last accepted mail that did not lead to one. */
  fruitless: number;
  /** Sends one line, together with those of other pipelined commands. */
  reply(line: string): undefined;
  /** The same for errors that a correct client does not make; after too many the session ends. */
  clientError(line: string): undefined;
  /** Sends a last line and closes. */
  hangUp(line: string): undefined;
  /** Continues in TLS, as if the client had just connected. */
  startTls(): undefined;
}
