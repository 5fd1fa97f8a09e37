/**
 * The submission listener: accepts connections, bounds them by address and in all, looks after their deadlines, and stops
 * without cutting a mail off: while it drains it turns new connections away and refuses new mails on open ones, and only
 * then it closes. An error of accept() (no file descriptors left) costs the connection that met it and not
 * the listener.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { SmtpServices } from './dialogue.ts';
import { countedAddress, plainAddress } from './peer-address.ts';
import { STOPPING } from './replies.ts';
import { Session } from './session.ts';

export interface SmtpServer {
  /**
   * Resolves with the port once connections are accepted; 0 takes a free one. Rejects with the system's error. Once for STARTTLS
   * and once for implicit TLS: the sessions of both count together.
   */
  listen(port: number, options?: { host?: string; isImplicitTls?: boolean }): Promise<{ port: number }>;
  /** Open sessions. */
  count(): number;
  /**
   * From now on nothing new begins: a connection gets 421 in place of the greeting, MAIL and DATA get 451. Resolves once the
   * mails under way are answered; what is not in whole at the deadline is given up with 421. Safe to call twice.
   */
  drain(options: { deadlineMs: number }): Promise<void>;
  /** Drains, then closes the listener and the sessions with 421, the last ones at the deadline. Safe to call twice. */
  stop(options: { deadlineMs: number }): Promise<void>;
}

const SLOWEST_SWEEP_MS = 1_000;
const FASTEST_SWEEP_MS = 20;
const COMPLAIN_EVERY_MS = 10_000;

export function createSmtpServer(shared: SmtpServices): SmtpServer {
  const { limits, log, metrics } = shared;
  const services: SmtpServices = {
    ...shared,
    closedToMail: () => (isStopping ? 'the service is stopping' : shared.closedToMail()),
  };
  const sessions = new Set<Session>();
  const perAddress = new Map<string, number>();
  let isStopping = false;
  let drained: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;
  let onLast: () => void = () => undefined;
  let onMailOver: () => void = () => undefined;

  const leave = (session: Session, counted: string): void => {
    if (!sessions.delete(session)) return;
    const left = (perAddress.get(counted) ?? 1) - 1;
    if (left === 0) perAddress.delete(counted);
    else perAddress.set(counted, left);
    metrics.smtpSessions.closed();
    onMailOver();
    if (sessions.size === 0) onLast();
  };

  /** Why a connection may not stay, as the reply that says so. */
  const refusalOf = (already: number): string | undefined => {
    if (isStopping) return STOPPING;
    if (already >= limits.maxConnectionsPerAddress) return '421 4.7.0 too many connections from your address';
    return sessions.size >= limits.maxConnections ? '421 4.3.2 too many connections' : undefined;
  };

  const receive = (socket: Socket, isImplicitTls: boolean): undefined => {
    const address = plainAddress(socket.remoteAddress);
    if (address === '') return void socket.destroy();
    const counted = countedAddress(address);
    const already = perAddress.get(counted) ?? 0;
    const refusal = refusalOf(already);
    if (refusal !== undefined && !isImplicitTls) return turnAway(socket, refusal);
    // A refusal can be read within TLS only, and a handshake is work: beyond some of them nothing is said.
    const isBeyond = already >= 2 * limits.maxConnectionsPerAddress || sessions.size >= limits.maxConnections;
    if (refusal !== undefined && isBeyond) return void socket.destroy();
    perAddress.set(counted, already + 1);
    socket.setNoDelay(true);
    const session: Session = new Session(socket, {
      ...{ services, address, isImplicitTls, refusal },
      onMailOver: () => onMailOver(),
      onClosed: () => leave(session, counted),
    });
    sessions.add(session);
    metrics.smtpSessions.opened();
  };

  const listeners: Server[] = [];
  const sweep = setInterval(
    () => {
      const nowMs = performance.now();
      for (const session of sessions) session.checkDeadline(nowMs);
    },
    Math.max(FASTEST_SWEEP_MS, Math.min(SLOWEST_SWEEP_MS, limits.lingerMs / 4, limits.idleMs / 4, limits.dataMs / 4)),
  ).unref();

  const drain = async (deadlineMs: number): Promise<void> => {
    isStopping = true;
    const under = new Set([...sessions].filter((session) => session.hasMail()));
    if (under.size === 0) return;
    await new Promise<void>((resolve) => {
      const giveUp = setTimeout(() => {
        for (const session of under) session.giveUp();
        resolve();
      }, deadlineMs);
      onMailOver = () => {
        for (const session of under) if (!session.hasMail()) under.delete(session);
        if (under.size > 0) return;
        clearTimeout(giveUp);
        resolve();
      };
    });
    onMailOver = () => undefined;
  };

  const drainOnce = (deadlineMs: number): Promise<void> => {
    drained ??= drain(deadlineMs);
    return drained;
  };

  const stop = async (deadlineMs: number): Promise<void> => {
    await drainOnce(deadlineMs);
    for (const listener of listeners) if (listener.listening) listener.close();
    const gone = new Promise<void>((resolve) => {
      onLast = resolve;
      if (sessions.size === 0) resolve();
    });
    for (const session of sessions) session.drain();
    const timer = setTimeout(() => {
      for (const session of sessions) session.destroy();
    }, deadlineMs);
    await gone;
    clearTimeout(timer);
    clearInterval(sweep);
  };

  return {
    count: () => sessions.size,
    listen: (port, { host, isImplicitTls = false } = {}) =>
      new Promise((resolve, reject) => {
        const server = createServer({ allowHalfOpen: true }, (socket) => receive(socket, isImplicitTls));
        listeners.push(server);
        server.once('error', reject);
        server.listen({ port, backlog: 511, ...(host !== undefined && { host }) }, () => {
          server.off('error', reject);
          server.on('error', complain());
          resolve({ port: (server.address() as AddressInfo).port });
        });
      }),
    drain: ({ deadlineMs }) => drainOnce(deadlineMs),
    stop: ({ deadlineMs }) => {
      stopped ??= stop(deadlineMs);
      return stopped;
    },
  };

  function complain(): (error: Error) => void {
    let nextMs = 0;
    return (error) => {
      const nowMs = performance.now();
      if (nowMs < nextMs) return;
      nextMs = nowMs + COMPLAIN_EVERY_MS;
      log.error({ err: error }, 'SMTP connections cannot be accepted');
    };
  }
}

function turnAway(socket: Socket, line: string): undefined {
  socket.on('error', () => undefined);
  socket.resume();
  socket.end(`${line}\r\n`, () => socket.destroySoon());
}
