/**
 * The outbound SMTP client. Opens one session with one peer and sends messages over it one after the other. It connects to the addresses it
 * is given: address-guard.ts checks them before, and delivery/outcome/outcome.ts interprets replies after. If the connection breaks during
 * a message, the result has the stage; from `dot` on the peer may have accepted it.
 */
import { type ConnectResult, connectTcp } from './smtp-connect.ts';
import { type SmtpConnection, smtpConnection, startDialogue } from './smtp-connection.ts';
import { greet } from './smtp-greeting.ts';
import { runTransaction } from './smtp-transaction.ts';
import type {
  DialogueLine,
  OpenSmtpOptions,
  OpenSmtpResult,
  SendResult,
  SmtpError,
  SmtpMessage,
  SmtpSession,
  SmtpTimeouts,
} from './smtp-types.ts';

export type * from './smtp-types.ts';

const DEFAULT_TIMEOUTS: SmtpTimeouts = {
  connectMs: 30_000,
  connectAddressMs: 10_000,
  bannerMs: 60_000,
  greetingMs: 60_000,
  tlsMs: 30_000,
  envelopeMs: 300_000,
  contentMs: 180_000,
  dotMs: 600_000,
};

const QUIT_MS = 2_000;

function makeSession(
  connection: SmtpConnection,
  options: Pick<OpenSmtpOptions, 'host' | 'earlier' | 'mayPipeline'> & {
    extensions: Map<string, string>;
    tlsFallback: string | undefined;
    source: string | undefined;
    localAddress: string | undefined;
    timeouts: SmtpTimeouts;
  },
): SmtpSession {
  const { host, extensions, tlsFallback, source, localAddress, timeouts } = options;
  const opening = [...(options.earlier ?? []), ...connection.dialogue.lines];
  const mayPipeline = options.mayPipeline?.(connection.remoteAddress) ?? true;
  const tls = connection.tls;
  const { cipher, keyExchange, name, verified = false } = connection.peer ?? {};
  let needsReset = false;
  let sentCount = 0;
  let busy = false;

  /** Returns undefined if MAIL may follow. */
  const reset = async (): Promise<SendResult['recipients'][number] | undefined> => {
    if (!needsReset) return undefined;
    const answers = await connection.command('RSET\r\n', { count: 1, deadlineMs: timeouts.greetingMs });
    const reply = answers.replies[0];
    if (reply?.code === 250) {
      needsReset = false;
      return undefined;
    }
    connection.breakOff('EPROTOCOL', 'the peer refused RSET');
    const failed = { recipient: '', accepted: false, stage: 'reset' as const };
    if (reply) return { ...failed, reply };
    const { cause, message } = answers.broken ?? { cause: 'EPROTOCOL', message: 'no reply to RSET' };
    return { ...failed, cause, message };
  };

  const send = async (message: SmtpMessage): Promise<SendResult> => {
    const dialogue = startDialogue();
    connection.dialogue = dialogue;
    const failed = await reset();
    if (failed) {
      return {
        recipients: message.recipients.map((recipient) => ({ ...failed, recipient })),
        dialogue: dialogue.lines,
      };
    }
    const result = await runTransaction({ connection, extensions, timeouts, host, verified, mayPipeline }, message);
    needsReset = result.needsReset;
    if (result.completed) sentCount += 1;
    // RFC 5321 §3.8: after a 421 the server closes, whatever it replied before.
    if (result.recipients.some((one) => one.reply?.code === 421)) {
      connection.breakOff('ECONNRESET', 'the peer closes the session (421)');
    }
    const { recipients, pipeliningFailed, pipeliningSuspected } = result;
    return {
      recipients,
      dialogue: dialogue.lines,
      ...(pipeliningFailed && { pipeliningFailed }),
      ...(pipeliningSuspected && { pipeliningSuspected }),
    };
  };

  return {
    remoteHost: host,
    remoteAddress: connection.remoteAddress,
    sourceAddress: source,
    localAddress,
    tls,
    tlsCipher: cipher,
    tlsKeyExchange: keyExchange,
    tlsPeerName: name,
    verified,
    tlsFallback,
    extensions,
    opening,
    get usable() {
      return connection.broken === undefined;
    },
    get sentCount() {
      return sentCount;
    },
    send: async (message) => {
      if (busy) throw new Error('a message is under way on this SMTP session');
      busy = true;
      connection.dotSent = false;
      try {
        return await send(message);
      } finally {
        busy = false;
      }
    },
    quit: async () => {
      if (!busy && !connection.broken) await connection.command('QUIT\r\n', { count: 1, deadlineMs: QUIT_MS });
      connection.breakOff('ECANCELLED', 'the session was closed');
    },
    cutBeforeDot: () => {
      if (busy && !connection.dotSent) connection.breakOff('ECANCELLED', 'the session was closed');
    },
    destroy: () => connection.breakOff('ECANCELLED', 'the session was closed'),
    onClose: (listener) => connection.onBreak(listener),
  };
}

function dialledOf(reached: ConnectResult): Pick<SmtpError, 'remoteAddress' | 'sourceAddress' | 'localAddress'> {
  const { address, source } = reached;
  return {
    ...(address === undefined ? {} : { remoteAddress: address }),
    ...(source === undefined ? {} : { sourceAddress: source }),
    ...(reached.ok && reached.localAddress !== undefined && { localAddress: reached.localAddress }),
  };
}

/** RFC 5321 §3.1: sends QUIT to a server that refused with a reply before closing the connection. */
async function sayGoodbye(connection: SmtpConnection, { reply }: Pick<SmtpError, 'reply'>): Promise<void> {
  if (reply && !connection.broken) {
    await connection.command('QUIT\r\n', { count: 1, deadlineMs: QUIT_MS });
  }
  connection.breakOff('ECANCELLED', 'the session could not be opened');
}

/** TLS details for an error after the handshake. */
function tlsOf({
  tls,
  peer,
}: SmtpConnection): Pick<SmtpError, 'tlsVersion' | 'tlsCipher' | 'tlsKeyExchange' | 'tlsPeerName'> {
  return {
    ...(tls === undefined ? {} : { tlsVersion: tls }),
    ...(peer === undefined ? {} : { tlsCipher: peer.cipher }),
    ...(peer?.keyExchange === undefined ? {} : { tlsKeyExchange: peer.keyExchange }),
    ...(peer?.name === undefined ? {} : { tlsPeerName: peer.name }),
  };
}

/**
 * Connects and greets. Returns a session that can send, or an error with stage, reply or cause, and the dialogue so far. `signal` cancels
 * the opening only; an open session is ended with quit() or destroy(). Throws only for a `helo` or credentials that would break a command.
 */
export async function openSmtpSession(options: OpenSmtpOptions): Promise<OpenSmtpResult> {
  if (!/^[\x21-\x7e]+$/.test(options.helo)) throw new Error('helo must be printable ASCII without spaces');
  const { auth } = options;
  if (auth && /\0/.test(auth.user + ('pass' in auth ? auth.pass : '')))
    throw new Error('credentials must not hold NUL');
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
  const dialogue = startDialogue();
  const spoken = (): DialogueLine[] => [...(options.earlier ?? []), ...dialogue.lines];
  const reached = await connectTcp({ ...options, ...timeouts });
  if (!reached.ok) {
    const { stage, cause, message } = reached;
    return { ok: false, error: { stage, cause, message, ...dialledOf(reached), dialogue: spoken() } };
  }
  const connection = smtpConnection(reached.socket, dialogue);
  const onAbort = (): void => connection.breakOff('ECANCELLED', 'the attempt was cancelled');
  options.signal?.addEventListener('abort', onAbort, { once: true });
  const greeting = await greet(connection, options, timeouts);
  options.signal?.removeEventListener('abort', onAbort);
  if (greeting.ok) {
    const { extensions, tlsFallback } = greeting;
    const { source, localAddress } = reached;
    const session = { ...options, extensions, tlsFallback, source, localAddress, timeouts };
    return { ok: true, session: makeSession(connection, session) };
  }
  const error = { ...greeting.error, ...tlsOf(connection), ...dialledOf(reached), dialogue: spoken() };
  // The server counts the connection until it is closed: the next attempt, or a session without TLS, must not begin before.
  await sayGoodbye(connection, greeting.error);
  return { ok: false, error };
}
