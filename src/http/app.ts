/**
 * The HTTP server: one node:http server in front of one pipeline for every route. It owns request ids, limits on size, time and
 * number, the last catch of what handlers throw, and the graceful stop, in two steps. While it drains its listener stays open: what was
 * begun is answered, a new request gets 503 on a connection that ends with it, and the routes that answer always still do. Then it
 * closes: nobody is listened to any more, idle connections end at once, and what is left ends at the deadline.
 *
 * Always true: every request that reached us whole gets exactly one answer, unless its client has gone; a body that does not come to
 * its end in time is answered with 503 before its connection is cut.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type Failure, failure } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Cidr } from '../net/address-guard.ts';
import { isTrustedProxy, plainAddress } from '../net/trusted-proxies.ts';
import { refusalAnswer, thrownFailure, writeAnswer } from './answer.ts';
import { withBasePath, withoutBasePath } from './base-path.ts';
import type { BodyBudget } from './body.ts';
import { type Door, throughDoor } from './door.ts';
import { ActiveSet, Exchange, type Load } from './exchange.ts';
import type { IdentifyOptions } from './identify.ts';
import { type BackPressure, createPipeline } from './pipeline.ts';
import { checkForm, MAX_HEADER_BYTES, refuseBytes, refuseTunnel, tooSlow } from './protocol.ts';
import { createRateLimiter } from './rate-limit.ts';
import type { CallerKey, RouteDefinition } from './route.ts';
import { listenTls, type TlsPort, type TlsPortOptions } from './tls-port.ts';

interface HttpLimits {
  /** Requests worked on at once; long polls and streams of events do not count. */
  maxInWork: number;
  /** Memory for request bodies, all together. */
  bodyBudgetBytes: number;
  /** From the first byte to the end of the headers. */
  headersTimeoutMs: number;
  /** From the end of the headers to the end of a body that is read whole. */
  bodyTimeoutMs: number;
  /** The whole request, streamed uploads included. */
  requestTimeoutMs: number;
  keepAliveTimeoutMs: number;
  /** For a client that takes nothing of its answer any more. */
  stallTimeoutMs: number;
}

const defaultLimits: HttpLimits = {
  maxInWork: 1_000,
  bodyBudgetBytes: 256_000_000,
  headersTimeoutMs: 30_000,
  bodyTimeoutMs: 60_000,
  requestTimeoutMs: 900_000,
  keepAliveTimeoutMs: 65_000,
  stallTimeoutMs: 60_000,
};

export interface HttpAppOptions<C extends CallerKey> extends IdentifyOptions<C> {
  host: string;
  /** 0 takes a free one. */
  port: number;
  /** A port with TLS beside it. */
  tls?: Pick<TlsPortOptions, 'port' | 'context'> | undefined;
  log: Log;
  metrics?: Metrics;
  routes: readonly RouteDefinition<C>[];
  /** Interfaces of other services; their routes are among `routes`, below their prefixes. */
  doors?: readonly Door[];
  /** A reason refuses routes that accept mail with OVERLOADED; the others go on. */
  backPressure?: () => BackPressure | undefined;
  /** Every refusal of a caller who is known; called before it is answered. */
  onRefused?(refused: RefusedCall<C>): void;
  /** Networks whose X-Forwarded-For and X-Forwarded-Proto apply; none when absent. */
  trustedProxies?: readonly Cidr[];
  /** A request with X-Forwarded-For came from an address that is not trusted. */
  onUntrustedProxy?(address: string): void;
  /** Requests per second and key; off when absent. */
  rateLimitPerSecond?: number;
  /** The part of that limit which is this process's, when several share it. */
  rateShare?(): number;
  limits?: Partial<HttpLimits>;
  /** Of the base URL (base-path.ts); empty by default. */
  basePath?: string;
}

/** A request of a caller who is known, and why it was refused. */
export interface RefusedCall<C> {
  caller: C;
  requestId: string;
  /** Method and pattern of the route. */
  route: string;
  remoteAddress: string;
  status: number;
  refusal: Failure;
}

export interface HttpApp {
  readonly server: Server;
  /** Resolves with the port once connections are accepted; rejects when the address is taken. */
  listen(): Promise<{ port: number }>;
  /** The same for the port with TLS, where there is one. */
  listenTls(): Promise<{ port: number } | undefined>;
  /** True from the moment drain() or stop() was called. */
  draining(): boolean;
  /**
   * Refuses new requests with 503, on connections that are still accepted; resolves once what is in work is answered, or was
   * cut at the deadline. Safe to call twice.
   */
  drain(options?: { deadlineMs: number }): Promise<void>;
  /** Drains, then closes the listener and every connection, the last ones at the deadline. Safe to call twice. */
  stop(options?: { deadlineMs: number }): Promise<void>;
}

const DEFAULT_STOP_MS = 20_000;
const SWEEP_MS = 1_000;
/** Of what the log shows of a refusal; names of fields come from the client. */
const MAX_LOGGED_FIELDS = 5;
const MAX_LOGGED_LENGTH = 100;

function checkLoad(traffic: Traffic, maxInWork: number): (exchange: Exchange) => Failure | undefined {
  return (exchange) => {
    if (traffic.draining) return stopping();
    if (!exchange.waits) {
      const load = exchange.ownLoad ?? traffic;
      if (load.inWork >= (load.atMost ?? maxInWork)) return failure('OVERLOADED', { retryAfterSeconds: 1 });
      load.inWork += 1;
      exchange.countedIn = load;
    }
    return undefined;
  };
}

/** Ends bodies that take too long; looked at once a second, so that no request pays for a timer of its own. */
function sweepSlowBodies(traffic: Traffic, bodyTimeoutMs: number): NodeJS.Timeout {
  const timer = setInterval(() => {
    const latest = performance.now() - bodyTimeoutMs;
    for (const exchange of traffic.live) {
      if (exchange.failReading !== undefined && exchange.startedMs < latest) {
        exchange.mustClose = true;
        exchange.broken = tooSlow;
        exchange.failReading(tooSlow);
      }
    }
  }, SWEEP_MS);
  return timer.unref();
}

/**
 * Nothing came or went for a while. Who waits for an answer may go on; one that does not take what is written is cut off, or
 * it would count as in work, and hold a file, for good. Set here instead of on the server, so that Node goes on
 * closing connections that are idle between requests.
 */
function cutStalled(socket: Socket): void {
  if (socket.writableLength > 0) socket.destroy();
}

/** Names of fields and codes only: what a field held may be anybody's business. */
function noteRefused(exchange: Exchange, status: number, { code, details }: Failure): void {
  const { routeName: route, remoteAddress: address, caller } = exchange;
  const accountId = (caller as CallerKey | undefined)?.account?.id;
  const fields = details.slice(0, MAX_LOGGED_FIELDS).map(({ field }) => field.slice(0, MAX_LOGGED_LENGTH));
  exchange.log.info({ accountId, address, route, status, code, fields }, 'mail refused');
}

function serverOf(limits: HttpLimits): Server {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    insecureHTTPParser: false,
    // Validated by checkForm, which answers in the one shape.
    requireHostHeader: false,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.min(5_000, Math.max(50, limits.headersTimeoutMs / 4)),
  });
  server.timeout = limits.stallTimeoutMs;
  return server;
}

/** Builds the server; nothing listens until listen(). */
export function createHttpApp<C extends CallerKey>(options: HttpAppOptions<C>): HttpApp {
  const limits = { ...defaultLimits, ...options.limits };
  const { log, metrics, basePath = '', trustedProxies = [], doors = [] } = options;
  const budget: BodyBudget = { limitBytes: limits.bodyBudgetBytes, heldBytes: 0 };
  const traffic = openTraffic(budget);
  const rate = options.rateLimitPerSecond;
  const pipeline = createPipeline({
    routes: options.routes,
    authenticate: options.authenticate,
    sessions: options.sessions,
    rateLimiter: rate === undefined ? undefined : createRateLimiter(rate, { share: options.rateShare ?? (() => 1) }),
    budget,
    overloaded: checkLoad(traffic, limits.maxInWork),
    backPressure: options.backPressure,
  });
  const server = serverOf(limits);
  // Counted by checkForm instead: Node would drop the headers beyond its own limit without a word.
  server.maxHeadersCount = 0;

  function onRefused(exchange: Exchange, status: number, refusal: Failure): void {
    const { requestId, routeName: route, remoteAddress } = exchange;
    options.onRefused?.({ caller: exchange.caller as C, requestId, route, remoteAddress, status, refusal });
  }

  async function answerExchange(exchange: Exchange): Promise<void> {
    try {
      const answer = await pipeline(exchange).catch((error: unknown) =>
        refusalAnswer({ failure: thrownFailure(error, exchange.log) }, exchange.requestId),
      );
      if (answer === undefined) return;
      // Its handler only knows that the body broke off, not that the service is stopping.
      const isCutOff = exchange.isGivenUp && answer.status >= 400;
      const whole = isCutOff ? refusalAnswer({ failure: stopping() }, exchange.requestId) : answer;
      const final = exchange.door?.shape(whole, exchange) ?? whole;
      metrics?.countHttp(exchange.routeName, final.status);
      if (final.refusal !== undefined && exchange.acceptsMail) noteRefused(exchange, final.status, final.refusal);
      if (final.refusal !== undefined && exchange.caller !== undefined)
        onRefused(exchange, final.status, final.refusal);
      await writeAnswer(exchange, { ...final, headers: withBasePath(final.headers, basePath) }, traffic.draining);
    } catch (error) {
      exchange.log.error({ err: error }, 'response could not be written');
      exchange.response.destroy();
    } finally {
      release(traffic, exchange);
    }
  }

  function noteForwarded({ socket }: IncomingMessage): void {
    if (!isTrustedProxy(socket.remoteAddress, trustedProxies)) {
      options.onUntrustedProxy?.(plainAddress(socket.remoteAddress));
    }
  }

  function onRequest(request: IncomingMessage, response: ServerResponse): void {
    if (basePath !== '') request.url = withoutBasePath(request.url ?? '/', basePath);
    const exchange = new Exchange(request, response, log, trustedProxies);
    if (doors.length > 0) exchange.door = throughDoor(doors, request);
    response.on('timeout', cutStalled);
    traffic.live.add(exchange);
    if (request.headers['x-forwarded-for'] !== undefined) noteForwarded(request);
    const malformed = checkForm(request);
    if (malformed !== undefined) {
      exchange.mustClose = true;
      const refusal = refusalAnswer(malformed, exchange.requestId);
      const answer = exchange.door?.shape(refusal, exchange) ?? refusal;
      void writeAnswer(exchange, answer, traffic.draining).finally(() => release(traffic, exchange));
      return;
    }
    void answerExchange(exchange);
  }

  server.on('request', onRequest);
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', onRequest);
  server.on('connect', (_request, socket) => refuseTunnel(socket as Socket));
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const exchanges = [...traffic.live].filter((exchange) => exchange.request.socket === socket);
    refuseBytes(error, socket as Socket, exchanges);
  });
  let drained: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;
  let tlsPort: TlsPort | undefined;
  const sweep = sweepSlowBodies(traffic, limits.bodyTimeoutMs);
  const drainOnce = ({ deadlineMs } = { deadlineMs: DEFAULT_STOP_MS }): Promise<void> => {
    drained ??= drain(traffic, deadlineMs);
    return drained;
  };

  return {
    server,
    draining: () => traffic.draining,
    listen: () => listenOn(server, options),
    listenTls: async () => {
      const { host, tls } = options;
      const onConnection = (socket: Socket): unknown => server.emit('connection', socket);
      tlsPort = tls && (await listenTls({ ...tls, host, log, onConnection }));
      return tlsPort;
    },
    drain: drainOnce,
    stop: (options = { deadlineMs: DEFAULT_STOP_MS }) => {
      stopped ??= drainOnce(options)
        .then(() => closeServer(server, tlsPort, options.deadlineMs))
        .finally(() => clearInterval(sweep));
      return stopped;
    },
  };
}

function listenOn(server: Server, where: { host: string; port: number }): Promise<{ port: number }> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(where.port, where.host, 1024, () => {
      server.removeListener('error', reject);
      resolve({ port: (server.address() as AddressInfo).port });
    });
  });
}

/** What is going on, for limits, deadlines and the stop. */
interface Traffic extends Load {
  /** Every exchange that has no answer yet. */
  live: ActiveSet<Exchange>;
  budget: BodyBudget;
  draining: boolean;
  /** Of those in `live`, the ones that were begun before the drain. */
  awaited: Set<Exchange>;
  /** The last awaited one has its answer. */
  onAnswered(): void;
}

/** Before the deadline: so long a client has to read that its body will not be waited for. */
const LAST_CALL_MS = 2_000;
/** Connections that are in the middle of a request when the listener closes. */
const CLOSE_MS = 2_000;

function openTraffic(budget: BodyBudget): Traffic {
  return { live: new ActiveSet(), inWork: 0, budget, draining: false, awaited: new Set(), onAnswered: () => undefined };
}

/** The exchange is answered, or nobody is there for its answer. */
function release(traffic: Traffic, exchange: Exchange): void {
  traffic.live.delete(exchange);
  traffic.budget.heldBytes -= exchange.heldBytes;
  exchange.heldBytes = 0;
  if (exchange.countedIn !== undefined) exchange.countedIn.inWork -= 1;
  exchange.countedIn = undefined;
  if (traffic.awaited.delete(exchange) && traffic.awaited.size === 0) traffic.onAnswered();
}

/** The refusal of requests that come while the service stops. */
function stopping(): Failure {
  return failure('OVERLOADED', {
    message: 'The service is stopping and accepted nothing. Retry the request.',
    retryAfterSeconds: 1,
  });
}

/** Ends bodies that are still being read, for their readers. */
function breakOffBodies(exchanges: Iterable<Exchange>): void {
  for (const exchange of exchanges) {
    if (exchange.request.complete) continue;
    exchange.mustClose = true;
    exchange.isGivenUp = true;
    if (exchange.isStreamed) exchange.breakOff();
    else exchange.failReading?.({ failure: stopping() });
  }
}

/** Refuses what comes from now on; resolves once what was begun is answered, or is cut at the deadline. Called once. */
function drain(traffic: Traffic, deadlineMs: number): Promise<void> {
  traffic.draining = true;
  traffic.awaited = new Set(traffic.live);
  for (const exchange of traffic.awaited) if (exchange.waits) exchange.abort();
  if (traffic.awaited.size === 0) return Promise.resolve();
  return new Promise((resolve) => {
    const lastCall = setTimeout(() => breakOffBodies(traffic.awaited), Math.max(0, deadlineMs - LAST_CALL_MS));
    const finish = (): void => {
      clearTimeout(lastCall);
      clearTimeout(deadline);
      resolve();
    };
    const deadline = setTimeout(() => {
      for (const exchange of traffic.awaited) exchange.request.socket?.destroy();
      finish();
    }, deadlineMs);
    traffic.onAnswered = finish;
  });
}

/** Stops listening, closes idle connections at once (Node does with close()), and the others when they are answered. */
async function closeServer(server: Server, tlsPort: TlsPort | undefined, deadlineMs: number): Promise<void> {
  if (!server.listening) return;
  const deadline = setTimeout(() => server.closeAllConnections(), Math.min(deadlineMs, CLOSE_MS));
  // A kept connection becomes idle when its answer was under way as close() came.
  const idle = setInterval(() => server.closeIdleConnections(), 100);
  await Promise.all([new Promise((resolve) => server.close(resolve)), tlsPort?.close()]);
  clearTimeout(deadline);
  clearInterval(idle);
}
