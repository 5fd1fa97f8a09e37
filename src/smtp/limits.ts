/**
 * How much one client of the submission port may ask of us: sizes, counts and deadlines. Every deadline is for a whole
 * command or a whole mail and not for the time between two bytes, so that a client that drips is cut off like one that is silent.
 */

export interface SmtpLimits {
  /** Of one message as submitted; announced with SIZE (RFC 1870). */
  maxMessageBytes: number;
  /** Of one message that is too large and is read to its end; beyond this the connection closes. */
  maxDiscardBytes: number;
  maxRecipients: number;
  maxConnectionsPerAddress: number;
  maxConnections: number;
  /** Syntax errors, unknown or misplaced commands since the last accepted mail; the next one closes the session. */
  maxClientErrors: number;
  /** Commands that brought no mail nearer (NOOP, RSET, refused senders…) since the last accepted one. */
  maxFruitless: number;
  /** Addresses refused in one transaction, beside those beyond the number of recipients. */
  maxRefusedRecipients: number;
  /** From one command to the next, RFC 5321 §4.5.3.2.7. */
  idleMs: number;
  /** From 354 to the final dot. */
  dataMs: number;
  handshakeMs: number;
  /** How long a client from an address that never logged in waits for the greeting; who speaks before it is refused. */
  greetingMs: number;
  /** The same for an address that did: long enough to see who does not wait at all, and short enough for a mail a connection. */
  knownGreetingMs: number;
  /** How long the last reply may take to be read before the connection is cut. */
  lingerMs: number;
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
  handshakeMs: 60_000,
  greetingMs: 20,
  knownGreetingMs: 3,
  lingerMs: 3_000,
};

/** Longest command with its CRLF: 512 (RFC 5321 §4.5.3.1.4). */
const COMMAND_BYTES = 512;
/** MAIL: 26 more for SIZE, 17 for BODY, 10 for SMTPUTF8, 500 for AUTH, 34 for a hold (RFC 1870, 6152, 6531, 4954, 4865). */
const MAIL_BYTES = COMMAND_BYTES + 26 + 17 + 10 + 500 + 34;
/** AUTH and the lines of its exchange: RFC 4954 §4. */
export const AUTH_BYTES = 12_288;

/** How long the command that begins like this may be, with its CRLF. */
export function commandLimit(beginning: string): number {
  const verb = beginning.slice(0, 5).toUpperCase();
  if (verb === 'MAIL ') return MAIL_BYTES;
  return verb === 'AUTH ' ? AUTH_BYTES : COMMAND_BYTES;
}
