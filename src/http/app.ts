/**
 * Creates the HTTP server: one node:http server with one pipeline for all routes. It assigns request ids, limits the size, time, and number
 * of requests, catches errors that handlers throw, and shuts down gracefully in two steps. While it drains, the listener stays open:
 * requests in progress are completed, new requests get 503 on a connection that then closes, and routes with `always` still respond. Then
 * it closes: it stops listening, ends idle connections immediately, and ends the remaining ones at the deadline.
 *
 * Guarantee: every request that was received completely gets exactly one response unless its client disconnected. A body that is still
 * incomplete at the deadline gets 503 before its connection is cut.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type Failure, failure } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { NO_TRACER, type Tracer } from '../base/trace.ts';
import type { Cidr } from '../net/address-guard.ts';
import { createServer } from '../net/node-http.ts';
import { SHARED_PORT } from '../net/shared-port.ts';
import { isTrustedProxy, plainAddress } from '../net/trusted-proxies.ts';
import { refusalAnswer, thrownFailure, writeAnswer } from './answer.ts';
import { withBasePath, withoutBasePath } from './base-path.ts';
import type { BodyBudget } from './body.ts';
import { type Door, findDoor } from './door.ts';
import { ActiveSet, Exchange, type Load } from './exchange.ts';
import type { IdentifyOptions } from './identify.ts';
import { type BackPressure, createPipeline } from './pipeline.ts';
import { checkRequestHead, MAX_HEADER_BYTES, refuseInvalidHttp, refuseTunnel, tooSlow } from './protocol.ts';
import { createRateLimiter } from './rate-limit.ts';
import type { CallerKey, HttpAnswer, RouteDefinition } from './route.ts';
import { listenTls, type TlsPort, type TlsPortOptions } from './tls-port.ts';

interface HttpLimits {
  /** Maximum requests in progress; long polls and event streams do not count. */
  maxInProgress: number;
  /** Maximum memory for all request bodies together. */
  bodyBudgetBytes: number;
  /** Maximum time from the first byte to the end of the headers. */
  headersTimeoutMs: number;
  /** Maximum time from the end of the headers to the end of a buffered body. */
  bodyTimeoutMs: number;
  /** Maximum time for the complete request, including streamed uploads. */
  requestTimeoutMs: number;
  keepAliveTimeoutMs: number;
  /** Time after which a client that stopped reading its response is disconnected. */
  stallTimeoutMs: number;
}

const defaultLimits: HttpLimits = {
  maxInProgress: 1_000,
  bodyBudgetBytes: 256_000_000,
  headersTimeoutMs: 30_000,
  bodyTimeoutMs: 60_000,
  requestTimeoutMs: 900_000,
  keepAliveTimeoutMs: 65_000,
  stallTimeoutMs: 60_000,
};

export interface HttpAppOptions<C extends CallerKey> extends IdentifyOptions<C> {
  host: string;
  /** 0 selects a free port. */
  port: number;
  /** An additional port with TLS. */
  tls?: Pick<TlsPortOptions, 'port' | 'context'> | undefined;
  log: Log;
  metrics?: Metrics;
  /** Reports requests that accept mail; none are reported if absent. */
  tracer?: Tracer | undefined;
  routes: readonly RouteDefinition<C>[];
  /** APIs of other services. Their routes are in `routes`, below their prefixes. */
  doors?: readonly Door[];
  /** If it returns a reason, routes that accept mail are refused with OVERLOADED; other routes are unaffected. */
  backPressure?: () => BackPressure | undefined;
  /** Called for every request whose caller is known, permitted to make the call, and within its rate limit. */
  onAdmitted?(caller: C, remoteAddress: string): void;
  /** Called for every request of an authenticated caller, before the response is sent. */
  onAnswered?(answered: AnsweredCall<C>): void;
  /** Networks whose X-Forwarded-For and X-Forwarded-Proto are trusted; none if absent. */
  trustedProxies?: readonly Cidr[];
  /** Called if a request with X-Forwarded-For came from an untrusted address. */
  onUntrustedProxy?(address: string): void;
  /** Maximum requests per second and key; unlimited if absent. */
  rateLimitPerSecond?: number;
  /** Returns this process's share of the rate limit if several processes share it. */
  rateShare?(): number;
  limits?: Partial<HttpLimits>;
  /** Path of the base URL (base-path.ts); empty by default. */
  basePath?: string;
}

/** A request of an authenticated caller, and the result. */
export interface AnsweredCall<C> {
  caller: C;
  requestId: string;
  /** Method and pattern of the route. */
  route: string;
  params: Readonly<Record<string, string>>;
  remoteAddress: string;
  userAgent: string | undefined;
  status: number;
  durationMs: number;
  /** The first message that the request accepted. */
  messageId: string | undefined;
  refusal: Failure | undefined;
}

export interface HttpApp {
  readonly server: Server;
  /** Resolves with the port once connections are accepted; rejects if the address is in use. */
  listen(): Promise<{ port: number }>;
  /** Does the same for the TLS port, if there is one. */
  listenTls(): Promise<{ port: number } | undefined>;
  /** Returns whether drain() or stop() was called. */
  draining(): boolean;
  /**
   * Refuses new requests with 503, on connections that are still accepted; resolves once requests in progress are completed or cut at the
   * deadline. Safe to call twice.
   */
  drain(options?: { deadlineMs: number }): Promise<void>;
  /** Drains, then closes the listener and every connection, the last ones at the deadline. Safe to call twice. */
  stop(options?: { deadlineMs: number }): Promise<void>;
}

const DEFAULT_STOP_MS = 20_000;
const SWEEP_MS = 1_000;
/** Limits the field names in a log message, because they come from the client. */
const MAX_LOGGED_FIELDS = 5;
const MAX_LOGGED_LENGTH = 100;

/** Returns a check that refuses a request while the service stops or is overloaded, and counts it as in progress otherwise. */
function checkLoad(traffic: Traffic, maxInProgress: number): (exchange: Exchange) => Failure | undefined {
  return (exchange) => {
    if (traffic.draining) return stopping();
    if (!exchange.waits) {
      const load = exchange.ownLoad ?? traffic;
      if (load.inProgress >= (load.atMost ?? maxInProgress)) return failure('OVERLOADED', { retryAfterSeconds: 1 });
      load.inProgress += 1;
      exchange.countedIn = load;
    }
    return undefined;
  };
}

/** Ends bodies that take too long. Runs once a second, so that requests need no timers of their own. */
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
 * Handles an idle socket. A client that waits for its response may continue. A client that does not read its response is disconnected:
 * otherwise its request would be in progress, and might keep a file open, indefinitely. The timeout is set per socket and not on the
 * server, so Node still closes connections that are idle between requests.
 */
function cutStalled(socket: Socket): void {
  if (socket.writableLength > 0) socket.destroy();
}

/** Logs names of fields and codes only, because values may be confidential. */
function noteRefused(exchange: Exchange, status: number, { code, details }: Failure): void {
  const { routeName: route, remoteAddress: address, caller } = exchange;
  const accountId = (caller as CallerKey | undefined)?.account?.id;
  const fields = details.slice(0, MAX_LOGGED_FIELDS).map(({ field }) => field.slice(0, MAX_LOGGED_LENGTH));
  exchange.log.info({ accountId, address, route, status, code, fields }, 'mail refused');
}

function endTrace(tracer: Tracer, exchange: Exchange, status: number): void {
  const { traceparent, callerTrace, routeName, method, requestId, messageId } = exchange;
  tracer.end({
    context: traceparent!,
    parent: callerTrace,
    name: routeName,
    kind: 'server',
    startMs: performance.timeOrigin + exchange.startedMs,
    endMs: performance.timeOrigin + performance.now(),
    attributes: {
      'http.request.method': method,
      'http.route': routeName.slice(routeName.indexOf(' ') + 1),
      'http.response.status_code': status,
      'postrider.request_id': requestId,
      'postrider.message_id': messageId,
    },
    hasFailed: status >= 500,
  });
}

function serverOf(limits: HttpLimits): Server {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    insecureHTTPParser: false,
    // checkRequestHead validates the Host header, so that the error has the usual shape.
    requireHostHeader: false,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.min(5_000, Math.max(50, limits.headersTimeoutMs / 4)),
  });
  server.timeout = limits.stallTimeoutMs;
  // checkRequestHead counts the headers instead: Node would silently drop those above its limit.
  server.maxHeadersCount = 0;
  return server;
}

/** Creates the server, which accepts no connections until listen(). */
export function createHttpApp<C extends CallerKey>(options: HttpAppOptions<C>): HttpApp {
  const limits = { ...defaultLimits, ...options.limits };
  const { log, metrics, basePath = '', trustedProxies = [], doors = [], tracer = NO_TRACER } = options;
  const budget: BodyBudget = { limitBytes: limits.bodyBudgetBytes, heldBytes: 0 };
  const traffic = openTraffic(budget);
  const rate = options.rateLimitPerSecond;
  const pipeline = createPipeline({
    routes: options.routes,
    authenticate: options.authenticate,
    sessions: options.sessions,
    operatorKeys: options.operatorKeys,
    rateLimiter: rate === undefined ? undefined : createRateLimiter(rate, { share: options.rateShare ?? (() => 1) }),
    budget,
    tracer,
    onAdmitted: options.onAdmitted,
    overloaded: checkLoad(traffic, limits.maxInProgress),
    backPressure: options.backPressure,
  });
  const server = serverOf(limits);

  function onAnswered(exchange: Exchange, { status, refusal }: HttpAnswer, durationMs: number): void {
    options.onAnswered?.({
      caller: exchange.caller as C,
      requestId: exchange.requestId,
      route: exchange.routeName,
      params: exchange.params,
      remoteAddress: exchange.remoteAddress,
      userAgent: exchange.headers['user-agent'],
      status,
      durationMs,
      messageId: exchange.messageId,
      refusal,
    });
  }

  async function answerExchange(exchange: Exchange): Promise<void> {
    try {
      const answer = await pipeline(exchange).catch((error: unknown) =>
        refusalAnswer({ failure: thrownFailure(error, exchange.log) }, exchange.requestId),
      );
      if (answer === undefined) return;
      // The handler only sees an aborted body, not that the service is stopping.
      const isCutOff = exchange.isGivenUp && answer.status >= 400;
      const complete = isCutOff ? refusalAnswer({ failure: stopping() }, exchange.requestId) : answer;
      const final = exchange.door?.shape(complete, exchange) ?? complete;
      const durationMs = performance.now() - exchange.startedMs;
      metrics?.countHttp(exchange.routeName, final.status, durationMs / 1000);
      if (final.refusal !== undefined && exchange.acceptsMail) noteRefused(exchange, final.status, final.refusal);
      if (exchange.caller !== undefined) onAnswered(exchange, final, durationMs);
      if (exchange.traceparent !== undefined) endTrace(tracer, exchange, final.status);
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
    if (doors.length > 0) exchange.door = findDoor(doors, request);
    response.on('timeout', cutStalled);
    traffic.live.add(exchange);
    if (request.headers['x-forwarded-for'] !== undefined) noteForwarded(request);
    const malformed = checkRequestHead(request);
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
    refuseInvalidHttp(error, socket as Socket, exchanges);
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
    server.listen({ ...where, backlog: 1024, ...SHARED_PORT }, () => {
      server.removeListener('error', reject);
      resolve({ port: (server.address() as AddressInfo).port });
    });
  });
}

/** The requests in progress, for limits, deadlines, and shutdown. */
interface Traffic extends Load {
  /** All exchanges without a response. */
  live: ActiveSet<Exchange>;
  budget: BodyBudget;
  draining: boolean;
  /** The exchanges in `live` that started before the drain. */
  awaited: Set<Exchange>;
  /** Called when the last awaited exchange has its response. */
  onAnswered(): void;
}

/** Time before the deadline at which requests with an incomplete body get 503. */
const BODY_MARGIN_MS = 2_000;
/** Maximum time that connections in the middle of a request stay open after the listener closes. */
const CLOSE_MS = 2_000;

function openTraffic(budget: BodyBudget): Traffic {
  return {
    live: new ActiveSet(),
    inProgress: 0,
    budget,
    draining: false,
    awaited: new Set(),
    onAnswered: () => undefined,
  };
}

/** Called when the exchange has its response, or its client disconnected. */
function release(traffic: Traffic, exchange: Exchange): void {
  traffic.live.delete(exchange);
  traffic.budget.heldBytes -= exchange.heldBytes;
  exchange.heldBytes = 0;
  if (exchange.countedIn !== undefined) exchange.countedIn.inProgress -= 1;
  exchange.countedIn = undefined;
  if (traffic.awaited.delete(exchange) && traffic.awaited.size === 0) traffic.onAnswered();
}

/** Returns the error for requests that arrive while the service stops. */
function stopping(): Failure {
  return failure('OVERLOADED', {
    message: 'The service is stopping and accepted nothing. Retry the request.',
    retryAfterSeconds: 1,
  });
}

/** Aborts bodies that are still being read. */
function breakOffBodies(exchanges: Iterable<Exchange>): void {
  for (const exchange of exchanges) {
    if (exchange.request.complete) continue;
    exchange.mustClose = true;
    exchange.isGivenUp = true;
    if (exchange.isStreamed) exchange.breakOff();
    else exchange.failReading?.({ failure: stopping() });
  }
}

/** Refuses new requests; resolves once requests in progress are completed, or cut at the deadline. Called once. */
function drain(traffic: Traffic, deadlineMs: number): Promise<void> {
  traffic.draining = true;
  traffic.awaited = new Set(traffic.live);
  for (const exchange of traffic.awaited) if (exchange.waits) exchange.abort();
  if (traffic.awaited.size === 0) return Promise.resolve();
  return new Promise((resolve) => {
    const bodyTimer = setTimeout(() => breakOffBodies(traffic.awaited), Math.max(0, deadlineMs - BODY_MARGIN_MS));
    const finish = (): void => {
      clearTimeout(bodyTimer);
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

/** Stops listening; Node's close() ends idle connections immediately, and the others end after their response. */
async function closeServer(server: Server, tlsPort: TlsPort | undefined, deadlineMs: number): Promise<void> {
  if (!server.listening) return;
  const deadline = setTimeout(() => server.closeAllConnections(), Math.min(deadlineMs, CLOSE_MS));
  // A kept-alive connection whose response was in progress when close() was called becomes idle later.
  const idle = setInterval(() => server.closeIdleConnections(), 100);
  await Promise.all([new Promise((resolve) => server.close(resolve)), tlsPort?.close()]);
  clearTimeout(deadline);
  clearInterval(idle);
}
