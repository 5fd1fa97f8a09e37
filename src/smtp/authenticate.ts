/**
 * AUTH (RFC 4954): PLAIN and LOGIN, inside TLS only. Every well-formed login that fails gets the same reply after the same work. Failures
 * are counted by address and by user name. Each failed login and each malformed exchange is logged in one line; names and passwords are
 * never logged, except names in the form of Postrider's own.
 *
 * Refused are responses that are not Base64 of the mechanism (RFC 4616), control characters in names, and names that are not UTF-8.
 */
import { isUtf8 } from 'node:buffer';
import type { Caller, SmtpAuthenticator } from '../accounts/accounts.ts';
import { Unavailable } from '../base/failure.ts';
import {
  AUTH_BYTES,
  type CommandHandler,
  type Dialogue,
  LOGIN_FAILED,
  type Login,
  NEEDS_TLS,
  type Pending,
} from './dialogue.ts';
import type { LoginAttempt, LoginGuard } from './login-guard.ts';

export interface Logins {
  authenticator: SmtpAuthenticator;
  guard: LoginGuard;
  /** Called for a login, and for each MAIL of its session, that is permitted. */
  onUsed?(caller: Caller, address: string): void;
}

interface Credentials {
  username: string;
  password: string;
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const CONTROL = /[\x00-\x1f\x7f]/;

/** Returns the bytes of a response; undefined if it is not Base64. `=` is an empty initial response (RFC 4954 §4). */
function decodeResponse(text: string): Buffer | undefined {
  if (text === '=') return Buffer.alloc(0);
  return BASE64.test(text) ? Buffer.from(text, 'base64') : undefined;
}

/** Returns the text of a LOGIN response; undefined if it is invalid. */
function decodeText(text: string): string | undefined {
  const bytes = decodeResponse(text);
  return bytes !== undefined && isUtf8(bytes) ? bytes.toString('utf8') : undefined;
}

type PlainResponse = { ok: true; value: Credentials } | { ok: false; why: 'malformed' | 'other identity' };

/** Parses `authzid NUL authcid NUL password`; an authzid other than the authcid is refused. */
function readPlain(text: string): PlainResponse {
  const parts = decodeText(text)?.split('\0');
  if (parts?.length !== 3) return { ok: false, why: 'malformed' };
  const [identity, username, password] = parts as [string, string, string];
  if (CONTROL.test(identity + username)) return { ok: false, why: 'malformed' };
  if (identity !== '' && identity !== username) return { ok: false, why: 'other identity' };
  return { ok: true, value: { username, password } };
}

const MALFORMED = '501 5.5.2 invalid response: expected Base64 data of this mechanism';
const CANCELLED = '501 5.0.0 authentication canceled';
const TOO_LONG = `501 5.5.6 line too long: at most ${AUTH_BYTES} bytes`;
const TOO_MANY = '421 4.7.0 too many failed logins; try again later';
/** The reason in the list of rejected requests. */
const OUTSIDE = '535 5.7.8 the address of the client is not in allowedNetworks of the credential';
const NOT_NOW = '454 4.7.0 temporary authentication failure; try again later';
const OUR_NAMES = /^smtp_[0-9A-Za-z]{1,40}$/;

export function authenticate(logins: Logins): CommandHandler {
  return (dialogue, argument) => begin(logins, dialogue, argument);
}

function begin(logins: Logins, dialogue: Dialogue, argument: string): Pending {
  if (!dialogue.isSecure) return dialogue.clientError(NEEDS_TLS);
  if (!dialogue.isExtended) return dialogue.clientError('503 5.5.1 send EHLO first');
  if (dialogue.login !== undefined) return dialogue.clientError('503 5.5.1 already authenticated');
  const [mechanism = '', initial, ...more] = argument.split(' ').filter(Boolean);
  if (mechanism === '' || more.length > 0) return dialogue.clientError('501 5.5.4 syntax: AUTH PLAIN or AUTH LOGIN');
  switch (mechanism.toUpperCase()) {
    case 'PLAIN':
      return initial === undefined
        ? ask(dialogue, '', (text) => plain(logins, dialogue, text))
        : plain(logins, dialogue, initial);
    case 'LOGIN':
      return initial === undefined
        ? ask(dialogue, 'Username:', (text) => askPassword(logins, dialogue, text))
        : askPassword(logins, dialogue, initial);
    default:
      return dialogue.clientError('504 5.5.4 unsupported mechanism; use PLAIN or LOGIN');
  }
}

/** Replies to a malformed exchange, which ends with that. */
export function malformedLogin(dialogue: Dialogue, line: string): undefined {
  dialogue.takeLine = undefined;
  dialogue.log.warn({ address: dialogue.address }, 'SMTP login malformed or canceled');
  dialogue.clientError(line);
}

/** Sends a challenge and passes the response on, unless it is a cancellation (RFC 4954 §4). */
function ask(dialogue: Dialogue, challenge: string, next: (text: string) => Pending): undefined {
  dialogue.reply(`334 ${Buffer.from(challenge).toString('base64')}`);
  dialogue.takeLine = (line) => {
    dialogue.takeLine = undefined;
    if (line === undefined) return malformedLogin(dialogue, TOO_LONG);
    if (line === '*') return malformedLogin(dialogue, CANCELLED);
    return next(line);
  };
}

function plain(logins: Logins, dialogue: Dialogue, text: string): Pending {
  const response = readPlain(text);
  if (response.ok) return logIn(logins, dialogue, response.value);
  if (response.why === 'malformed') return malformedLogin(dialogue, MALFORMED);
  // Checked like a wrong password, with the same reply.
  return logIn(logins, dialogue, { username: '', password: '' });
}

function askPassword(logins: Logins, dialogue: Dialogue, encodedName: string): undefined {
  const username = decodeText(encodedName);
  if (username === undefined || /[\x00-\x1f\x7f]/.test(username)) return malformedLogin(dialogue, MALFORMED);
  ask(dialogue, 'Password:', (text) => {
    const password = decodeText(text);
    if (password === undefined) return malformedLogin(dialogue, MALFORMED);
    return logIn(logins, dialogue, { username, password });
  });
}

async function logIn(logins: Logins, dialogue: Dialogue, credentials: Credentials): Promise<void> {
  const { authenticator, guard } = logins;
  const { username } = credentials;
  const login = { ...credentials, address: dialogue.address };
  const address = dialogue.countedAddress;
  let attempt: LoginAttempt | undefined;
  try {
    const known = await authenticator.recall(login);
    if (known !== undefined) {
      guard.succeeded(address, username);
      return welcome(logins, dialogue, { username, caller: known });
    }
    attempt = await guard.enter(address, username);
    if (attempt === undefined) return refuse(dialogue, username, TOO_MANY);
    const result = await authenticator.logIn(login);
    if (result.ok) {
      attempt.succeeded();
      return welcome(logins, dialogue, { username, caller: result.value });
    }
    if (result.outside !== undefined) noteOutside(dialogue, result.outside);
  } catch (error) {
    attempt?.undecided();
    if (!(error instanceof Unavailable)) throw error;
    dialogue.log.warn({ err: error }, 'SMTP login could not be checked');
    return dialogue.reply(NOT_NOW);
  }
  refuse(dialogue, username, attempt.failed() ? TOO_MANY : LOGIN_FAILED);
}

function welcome({ onUsed }: Logins, dialogue: Dialogue, login: Login): undefined {
  dialogue.login = login;
  onUsed?.(login.caller, dialogue.address);
  dialogue.reply('235 2.7.0 authentication succeeded');
}

/** Reports a correct password from an address that is not allowed, to the log and the account; the client gets the usual reply. */
function noteOutside({ address, log, services }: Dialogue, caller: Caller): void {
  const { account, keyId: credentialId, mode } = caller;
  log.warn(
    { accountId: account.id, credentialId, mode, address },
    'SMTP login from an address outside allowedNetworks',
  );
  services.profile.onRefused?.({ caller, address, verb: 'AUTH', reply: OUTSIDE });
}

function refuse(dialogue: Dialogue, username: string, line: string): undefined {
  dialogue.services.metrics.smtpAuthFailures.inc();
  const shown = OUR_NAMES.test(username) ? { username } : {};
  dialogue.log.warn({ address: dialogue.address, ...shown }, 'SMTP login failed');
  if (line === TOO_MANY) dialogue.hangUp(line);
  else dialogue.clientError(line);
}
