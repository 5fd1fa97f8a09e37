/**
 * From a new connection to a session that can send: banner, EHLO (or HELO), STARTTLS, EHLO again, AUTH.
 *
 *   banner → ehlo → [starttls → tls → ehlo] → [auth] → ready
 *
 * Fixed rules: what was learned before TLS is discarded after it (RFC 3207 §4.2); unencrypted bytes after the 220 end the connection; after
 * a failed handshake nothing more is sent on it; a password or token is only sent over TLS or to this machine. If a peer refuses STARTTLS (4xx,
 * 5xx), the session continues unencrypted if `allowsClear` permits it.
 */
import { addressRefusal } from './address-guard.ts';
import type { Answers, SmtpConnection } from './smtp-connection.ts';
import type {
  LocalRefusal,
  OpenSmtpOptions,
  SmtpAuth,
  SmtpError,
  SmtpStage,
  SmtpTimeouts,
  TokenSource,
} from './smtp-types.ts';
import { allowsClear, clientTlsOptions, keyExchangeOf, peerCertificateOf, peerNameOf, startTlsRefused } from './tls.ts';

type GreetingError = Omit<SmtpError, 'dialogue' | 'remoteAddress' | 'sourceAddress'>;

type Greeting = { ok: true; extensions: Map<string, string> } | { ok: false; error: GreetingError };

export type Greeted = Greeting & { tlsFallback?: string };

function fail(error: GreetingError): { ok: false; error: GreetingError } {
  return { ok: false, error };
}

function refused(stage: SmtpStage, local: LocalRefusal): { ok: false; error: GreetingError } {
  return fail({ stage, local, message: local.text });
}

/** Builds the error of a wait that did not end as expected. */
function failed(stage: SmtpStage, answers: Answers): { ok: false; error: GreetingError } {
  const reply = answers.replies.at(-1);
  if (reply) return fail({ stage, reply, message: `the peer answered ${reply.code} ${reply.text}` });
  const { cause, message } = answers.broken ?? { cause: 'EPROTOCOL', message: 'no reply' };
  return fail({ stage, cause, message });
}

/** Returns keywords in upper case with their parameters; the old form `AUTH=PLAIN` is read as `AUTH PLAIN`. */
function parseExtensions(lines: readonly string[]): Map<string, string> {
  const extensions = new Map<string, string>();
  for (const line of lines.slice(1)) {
    const space = line.search(/[ =]/);
    const name = (space === -1 ? line : line.slice(0, space)).toUpperCase();
    const parameters = space === -1 ? '' : line.slice(space + 1).trim();
    if (name !== '' && !extensions.has(name)) extensions.set(name, parameters);
  }
  return extensions;
}

async function sayHello(connection: SmtpConnection, helo: string, deadlineMs: number): Promise<Greeting> {
  const ehlo = await connection.command(`EHLO ${helo}\r\n`, { count: 1, deadlineMs });
  const reply = ehlo.replies[0];
  if (reply && reply.code >= 200 && reply.code < 300) return { ok: true, extensions: parseExtensions(reply.lines) };
  if (!reply || reply.code < 500 || ehlo.broken) return failed('ehlo', ehlo);
  // RFC 5321 §3.2: fall back to HELO if the server does not know EHLO.
  const plain = await connection.command(`HELO ${helo}\r\n`, { count: 1, deadlineMs });
  const code = plain.replies[0]?.code ?? 0;
  return code >= 200 && code < 300 ? { ok: true, extensions: new Map() } : failed('ehlo', plain);
}

async function upgrade(
  connection: SmtpConnection,
  options: OpenSmtpOptions,
  timeouts: SmtpTimeouts,
): Promise<Greeting> {
  const answers = await connection.command('STARTTLS\r\n', { count: 1, deadlineMs: timeouts.greetingMs });
  if (answers.replies[0]?.code !== 220) return failed('starttls', answers);
  if (connection.broken || connection.hasSurplus) {
    connection.breakOff('EPROTOCOL', 'unencrypted bytes followed the reply to STARTTLS');
    return fail({
      stage: 'tls',
      cause: 'EINJECTED',
      message: 'unencrypted bytes followed the reply to STARTTLS',
    });
  }
  return handshake(connection, options, timeouts);
}

async function handshake(
  connection: SmtpConnection,
  options: OpenSmtpOptions,
  timeouts: SmtpTimeouts,
): Promise<Greeting> {
  const { host, serverName = host, verifyCertificate: verify, inspect } = options;
  const tlsOptions = clientTlsOptions(serverName, { verify, observe: inspect !== undefined });
  const broken = await connection.startTls(tlsOptions, timeouts.tlsMs);
  if (broken) return fail({ stage: 'tls', ...broken });
  const socket = connection.tlsSocket!;
  const cipher = socket.getCipher().name;
  const peer = { cipher, keyExchange: keyExchangeOf(socket), name: peerNameOf(socket, host), verified: verify };
  connection.peer = peer;
  if (!inspect) return { ok: true, extensions: new Map() };
  const certificate = peerCertificateOf(socket);
  const none = { ok: false as const, cause: 'ENOCERTIFICATE', message: 'the server presented no certificate' };
  const inspected = certificate ? inspect(certificate) : none;
  if (inspected.ok) {
    peer.verified ||= inspected.verified;
    return { ok: true, extensions: new Map() };
  }
  connection.breakOff('EPROTOCOL', inspected.message);
  return fail({ stage: 'tls', cause: inspected.cause, message: inspected.message });
}

type Mechanism = 'PLAIN' | 'LOGIN' | 'XOAUTH2' | 'OAUTHBEARER';

/** Returns the first of the mechanisms that the server offers. */
function offeredOf<M extends Mechanism>(extensions: ReadonlyMap<string, string>, mechanisms: readonly M[]) {
  const offered = (extensions.get('AUTH') ?? '').toUpperCase().split(' ');
  return mechanisms.find((mechanism) => offered.includes(mechanism));
}

interface Authentication {
  auth: SmtpAuth;
  host: string;
  port: number;
  deadlineMs: number;
}

async function authenticate(
  connection: SmtpConnection,
  extensions: ReadonlyMap<string, string>,
  { auth, ...options }: Authentication,
): Promise<GreetingError | undefined> {
  if (connection.tls === undefined && addressRefusal(connection.remoteAddress, []) !== 'loopback') {
    const text = `${options.host} does not offer TLS; Postrider does not send the ${'pass' in auth ? 'password' : 'access token'} unencrypted`;
    return refused('auth', { code: 538, enhanced: '5.7.11', text }).error;
  }
  return 'pass' in auth
    ? authenticateByPassword(connection, extensions, { ...options, ...auth })
    : authenticateByToken(connection, extensions, { ...options, ...auth });
}

/** A longer initial response follows in its own line (RFC 4954 §4, RFC 5321 §4.5.3.1.4). */
const MAX_COMMAND_BYTES = 512;

const base64 = (text: string): string => Buffer.from(text).toString('base64');

async function authenticateByPassword(
  connection: SmtpConnection,
  extensions: ReadonlyMap<string, string>,
  { user, pass, host, deadlineMs }: { user: string; pass: string; host: string; deadlineMs: number },
): Promise<GreetingError | undefined> {
  const mechanism = offeredOf(extensions, ['PLAIN', 'LOGIN']);
  if (!mechanism) {
    const text = `${host} offers neither AUTH PLAIN nor AUTH LOGIN; remove user and password from the route`;
    return refused('auth', { code: 504, enhanced: '5.5.4', text }).error;
  }
  const steps =
    mechanism === 'PLAIN' ? [`AUTH PLAIN ${base64(`\0${user}\0${pass}`)}`] : ['AUTH LOGIN', base64(user), base64(pass)];
  for (const [index, step] of steps.entries()) {
    const shown = index === 0 ? `AUTH ${mechanism}${mechanism === 'PLAIN' ? ' ***' : ''}` : '***';
    const answers = await connection.command(`${step}\r\n`, { count: 1, deadlineMs, shown });
    const wanted = index === steps.length - 1 ? 235 : 334;
    if (answers.replies[0]?.code !== wanted) return failed('auth', answers).error;
  }
  return undefined;
}

/**
 * XOAUTH2 (the mechanism of Google and Microsoft) or OAUTHBEARER (RFC 7628). A server that refuses the token sends a challenge with the
 * reason first, and its reply after the client's empty response.
 */
async function authenticateByToken(
  connection: SmtpConnection,
  extensions: ReadonlyMap<string, string>,
  options: { user: string; tokens: TokenSource; host: string; port: number; deadlineMs: number },
): Promise<GreetingError | undefined> {
  const { user, tokens, host, port, deadlineMs } = options;
  const mechanism = offeredOf(extensions, ['XOAUTH2', 'OAUTHBEARER']);
  if (!mechanism) {
    const text = `${host} offers neither AUTH XOAUTH2 nor AUTH OAUTHBEARER; use a user and a password in the route`;
    return refused('auth', { code: 504, enhanced: '5.5.4', text }).error;
  }
  let token: string;
  try {
    token = await tokens.get();
  } catch (error) {
    return refused('auth', { code: 454, enhanced: '4.7.0', text: (error as Error).message }).error;
  }
  const isX = mechanism === 'XOAUTH2';
  // RFC 5801 §4: a comma and an equals sign in the name are encoded.
  const authzid = user.replaceAll('=', '=3D').replaceAll(',', '=2C');
  const opening = isX ? `user=${user}` : `n,a=${authzid},\x01host=${host}\x01port=${port}`;
  const response = base64(`${opening}\x01auth=Bearer ${token}\x01\x01`);
  const command = `AUTH ${mechanism} ${response}\r\n`;
  const fitsLine = command.length <= MAX_COMMAND_BYTES;
  const first = fitsLine ? command : `AUTH ${mechanism}\r\n`;
  let answers = await connection.command(first, {
    count: 1,
    deadlineMs,
    shown: `AUTH ${mechanism}${fitsLine ? ' ***' : ''}`,
  });
  if (!fitsLine && answers.replies[0]?.code === 334)
    answers = await connection.command(`${response}\r\n`, { count: 1, deadlineMs, shown: '***' });
  if (answers.replies[0]?.code === 235) return undefined;
  if (answers.replies[0]?.code === 334) {
    // RFC 7628 §3.2.3: the dummy response of OAUTHBEARER is one %x01.
    const dummy = isX ? '' : base64('\x01');
    answers = await connection.command(`${dummy}\r\n`, { count: 1, deadlineMs, shown: dummy });
  }
  if ((answers.replies[0]?.code ?? 0) >= 500) tokens.reject(token);
  return failed('auth', answers).error;
}

/** From the EHLO that offers STARTTLS to the one inside TLS, or unencrypted if both sides allow it. */
async function secure(
  connection: SmtpConnection,
  offered: Greeting & { ok: true },
  { options, timeouts }: { options: OpenSmtpOptions; timeouts: SmtpTimeouts },
): Promise<Greeted> {
  const known = allowsClear(options) ? options.clearBecause?.(connection.remoteAddress) : undefined;
  if (known !== undefined) return { ...offered, tlsFallback: known };
  const secured = await upgrade(connection, options, timeouts);
  if (secured.ok) return sayHello(connection, options.helo, timeouts.greetingMs);
  const { stage, reply } = secured.error;
  // After a 421 the peer closes; any other refusal leaves the session unchanged (RFC 3207 §4).
  const refusal = stage === 'starttls' && reply && reply.code >= 400 && reply.code !== 421 && !connection.broken;
  return refusal && allowsClear(options) ? { ...offered, tlsFallback: startTlsRefused(reply) } : secured;
}

/** Brings a connection to the point where MAIL may follow; returns the extensions of the last EHLO. */
export async function greet(
  connection: SmtpConnection,
  options: OpenSmtpOptions,
  timeouts: SmtpTimeouts,
): Promise<Greeted> {
  if (options.tls === 'implicit') {
    const secured = await handshake(connection, options, timeouts);
    if (!secured.ok) return secured;
  }
  const banner = await connection.expect({ count: 1, deadlineMs: timeouts.bannerMs });
  if (banner.replies[0]?.code !== 220) return failed('banner', banner);
  let hello: Greeted = await sayHello(connection, options.helo, timeouts.greetingMs);
  if (!hello.ok) return hello;
  const wantsStartTls = options.tls === 'opportunistic' || options.tls === 'required';
  if (wantsStartTls && hello.extensions.has('STARTTLS')) {
    hello = await secure(connection, hello, { options, timeouts });
    if (!hello.ok) return hello;
  } else if (options.tls === 'required') {
    const message = `${options.host} does not offer STARTTLS, and TLS is required`;
    return fail({ stage: 'starttls', cause: 'ENOTLS', message });
  }
  if (!options.auth) return hello;
  const { auth, host, port } = options;
  const deadlineMs = timeouts.greetingMs;
  const error = await authenticate(connection, hello.extensions, { auth, host, port, deadlineMs });
  return error ? fail(error) : hello;
}
