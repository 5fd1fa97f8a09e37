/**
 * Listens on ports: accepts connections, limits them per address and in total, and enforces their deadlines. It stops without cutting off a
 * message: while it drains, it refuses new connections, and new messages on open ones, and closes sessions only after that. If accept()
 * fails (for example, because no file descriptors are left), one connection is lost, and the listener continues.
 */

import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { SHARED_PORT } from '../net/shared-port.ts';
import { isTrustedProxy, plainAddress } from '../net/trusted-proxies.ts';
import { type SmtpServices, STOPPING } from './dialogue.ts';
import { readProxyHeader } from './proxy-header.ts';
import { Session } from './session.ts';
import { countedAddress } from './session-wire.ts';

export interface ListenOptions {
  host?: string;
  isImplicitTls?: boolean;
  /** No PROXY protocol header is required, even from trusted proxies. Used for connections from this machine to itself. */
  isDirect?: boolean;
}

export interface SmtpServer {
  /**
   * Resolves with the port once connections are accepted; 0 uses any free one. Rejects with the system's error. Called once for STARTTLS
   * and once for implicit TLS: the sessions of both are counted together.
   */
  listen(port: number, options?: ListenOptions): Promise<{ port: number }>;
  /** Number of open sessions. */
  count(): number;
  /**
   * Starts refusing new work: a connection gets 421 instead of the greeting, and MAIL and DATA get 451. Resolves when all pending messages
   * have a reply; incomplete ones get 421 at the deadline. Safe to call twice.
   */
  drain(options: { deadlineMs: number }): Promise<void>;
  /** Drains, then closes the listener and ends the sessions with 421, the last ones at the deadline. Safe to call twice. */
  stop(options: { deadlineMs: number }): Promise<void>;
}

const SLOWEST_SWEEP_MS = 1_000;
const FASTEST_SWEEP_MS = 20;
const LOG_INTERVAL_MS = 10_000;

/** Open sessions, in total and by counted address. */
class Sessions {
  readonly open = new Set<Session>();
  readonly #perAddress = new Map<string, number>();

  ofAddress(counted: string): number {
    return this.#perAddress.get(counted) ?? 0;
  }

  add(session: Session, counted: string): void {
    this.open.add(session);
    this.#perAddress.set(counted, this.ofAddress(counted) + 1);
  }

  /** Returns false if it was already removed. */
  remove(session: Session, counted: string): boolean {
    if (!this.open.delete(session)) return false;
    const left = this.ofAddress(counted) - 1;
    if (left > 0) this.#perAddress.set(counted, left);
    else this.#perAddress.delete(counted);
    return true;
  }
}

/** listening ─drain─▶ refuses new work, pending messages end ─stop─▶ listeners closed, sessions end ─▶ stopped */
class ListeningServer implements SmtpServer {
  readonly #services: SmtpServices;
  readonly #sessions = new Sessions();
  readonly #listeners: Server[] = [];
  /** Connections of trusted proxies that have not sent their PROXY protocol header yet. */
  readonly #withoutHeader = new Set<Socket>();
  readonly #noteProxy: (address: string, reason: string) => void;
  readonly #sweep: NodeJS.Timeout;
  #isStopping = false;
  #drained: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;
  /** Called when a message or a session has ended. */
  #onEnded: () => void = () => undefined;

  constructor(shared: SmtpServices) {
    const closedToMail = (): string | undefined =>
      this.#isStopping ? 'the service is stopping' : shared.closedToMail();
    this.#services = { ...shared, closedToMail };
    const warn = limitRate();
    this.#noteProxy = (address, reason) => {
      const message = 'PROXY protocol header missing or invalid; connection of a trusted proxy closed';
      warn(() => shared.log.warn({ address, reason }, message));
    };
    const { lingerMs, idleMs, dataMs } = shared.limits;
    const everyMs = Math.min(SLOWEST_SWEEP_MS, lingerMs / 4, idleMs / 4, dataMs / 4);
    this.#sweep = setInterval(() => this.#checkDeadlines(), Math.max(FASTEST_SWEEP_MS, everyMs)).unref();
  }

  count(): number {
    return this.#sessions.open.size;
  }

  listen(
    port: number,
    { host, isImplicitTls = false, isDirect = false }: ListenOptions = {},
  ): Promise<{ port: number }> {
    return new Promise((resolve, reject) => {
      const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
        this.#accept(socket, { isImplicitTls, isDirect }),
      );
      this.#listeners.push(server);
      server.once('error', reject);
      server.listen({ port, backlog: 511, ...(host !== undefined && { host }), ...SHARED_PORT }, () => {
        server.off('error', reject);
        server.on('error', logErrors(this.#services.log));
        resolve({ port: (server.address() as AddressInfo).port });
      });
    });
  }

  drain({ deadlineMs }: { deadlineMs: number }): Promise<void> {
    this.#drained ??= this.#drain(deadlineMs);
    return this.#drained;
  }

  stop({ deadlineMs }: { deadlineMs: number }): Promise<void> {
    this.#stopped ??= this.#stop(deadlineMs);
    return this.#stopped;
  }

  #checkDeadlines(): void {
    const nowMs = performance.now();
    for (const session of this.#sessions.open) session.checkDeadline(nowMs);
  }

  /** Returns the reply that refuses a connection, if any. */
  #refusalOf(openFromAddress: number): string | undefined {
    const { maxConnectionsPerAddress, maxConnections } = this.#services.limits;
    if (this.#isStopping) return STOPPING;
    if (openFromAddress >= maxConnectionsPerAddress) return '421 4.7.0 too many connections from your address';
    return this.count() >= maxConnections ? '421 4.3.2 too many connections; try again later' : undefined;
  }

  /** Determines the address of the client: that of the peer, or the one that a trusted proxy reports. */
  #accept(socket: Socket, { isImplicitTls, isDirect }: Required<Omit<ListenOptions, 'host'>>): undefined {
    const address = plainAddress(socket.remoteAddress);
    if (address === '') return void socket.destroy();
    const { trustedProxies = [], limits } = this.#services;
    if (isDirect || !isTrustedProxy(address, trustedProxies)) return this.#receive(socket, address, isImplicitTls);
    if (this.#withoutHeader.size >= limits.maxConnections) return void socket.destroy();
    this.#withoutHeader.add(socket);
    socket.once('close', () => this.#withoutHeader.delete(socket));
    readProxyHeader(socket, {
      timeoutMs: limits.proxyHeaderMs,
      onHeader: (client = address) => {
        this.#withoutHeader.delete(socket);
        this.#receive(socket, client, isImplicitTls);
        if (!isImplicitTls) socket.resume();
      },
      onRefused: (reason) => this.#noteProxy(address, reason),
    });
  }

  #receive(socket: Socket, address: string, isImplicitTls: boolean): undefined {
    const { limits, metrics } = this.#services;
    const counted = countedAddress(address);
    const openFromAddress = this.#sessions.ofAddress(counted);
    const refusal = this.#refusalOf(openFromAddress);
    if (refusal !== undefined && !isImplicitTls) return refuse(socket, refusal);
    // With implicit TLS, a client can read a refusal only after a handshake, which is expensive. Above a second limit, close silently.
    const isOverLimit = openFromAddress >= 2 * limits.maxConnectionsPerAddress || this.count() >= limits.maxConnections;
    if (refusal !== undefined && isOverLimit) return void socket.destroy();
    const session: Session = new Session(socket, {
      services: this.#services,
      address,
      isImplicitTls,
      refusal,
      onMailEnded: () => this.#onEnded(),
      onClosed: () => {
        if (!this.#sessions.remove(session, counted)) return;
        metrics.smtpSessions.closed();
        this.#onEnded();
      },
    });
    this.#sessions.add(session, counted);
    metrics.smtpSessions.opened();
  }

  /** Resolves when `isOver` returns true. At the deadline, calls `giveUp`, which must make it true immediately or by ending sessions. */
  #until(isOver: () => boolean, deadlineMs: number, giveUp: () => void): Promise<void> {
    if (isOver()) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#onEnded = () => undefined;
        resolve();
      };
      const timer = setTimeout(() => {
        giveUp();
        if (isOver()) end();
      }, deadlineMs);
      this.#onEnded = () => {
        if (isOver()) end();
      };
    });
  }

  async #drain(deadlineMs: number): Promise<void> {
    this.#isStopping = true;
    const withMail = [...this.#sessions.open].filter((session) => session.hasMail());
    let isGivenUp = false;
    await this.#until(
      () => isGivenUp || !withMail.some((session) => session.hasMail()),
      deadlineMs,
      () => {
        for (const session of withMail) session.giveUp();
        isGivenUp = true;
      },
    );
  }

  async #stop(deadlineMs: number): Promise<void> {
    await this.drain({ deadlineMs });
    for (const listener of this.#listeners) if (listener.listening) listener.close();
    for (const socket of this.#withoutHeader) socket.destroy();
    for (const session of this.#sessions.open) session.drain();
    await this.#until(
      () => this.count() === 0,
      deadlineMs,
      () => {
        for (const session of this.#sessions.open) session.destroy();
      },
    );
    clearInterval(this.#sweep);
  }
}

export function createSmtpServer(services: SmtpServices): SmtpServer {
  return new ListeningServer(services);
}

/** Runs the given function at most once in ten seconds. */
function limitRate(): (write: () => void) => void {
  let nextMs = 0;
  return (write) => {
    const nowMs = performance.now();
    if (nowMs < nextMs) return;
    nextMs = nowMs + LOG_INTERVAL_MS;
    write();
  };
}

/** Logs errors of a listener, at a limited rate. */
function logErrors(log: SmtpServices['log']): (error: Error) => void {
  const report = limitRate();
  return (error) => report(() => log.error({ err: error }, 'SMTP connections cannot be accepted'));
}

function refuse(socket: Socket, line: string): undefined {
  socket.on('error', () => undefined);
  socket.resume();
  socket.end(`${line}\r\n`, () => socket.destroySoon());
}
