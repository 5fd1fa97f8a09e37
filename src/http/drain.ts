/**
 * The end of the HTTP server, in two steps. While it drains its listener stays open: what was begun is answered, a new
 * request gets 503 on a connection that ends with it, and the routes that answer always still do. Then it closes:
 * nobody is listened to any more, idle connections end at once, and what is left ends at the deadline.
 *
 * Always true: a body that does not come to its end in time is answered with 503 before its connection is cut.
 */
import type { Server } from 'node:http';
import { ActiveSet } from '../base/active-set.ts';
import { type Failure, failure } from '../base/failure.ts';
import type { BodyBudget } from './body.ts';
import type { Exchange } from './exchange.ts';

/** What is going on, for limits, deadlines and the stop. */
export interface Traffic {
  /** Every exchange that has no answer yet. */
  live: ActiveSet<Exchange>;
  inWork: number;
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

export function openTraffic(budget: BodyBudget): Traffic {
  return { live: new ActiveSet(), inWork: 0, budget, draining: false, awaited: new Set(), onAnswered: () => undefined };
}

/** The exchange is answered, or nobody is there for its answer. */
export function release(traffic: Traffic, exchange: Exchange): void {
  traffic.live.delete(exchange);
  traffic.budget.heldBytes -= exchange.heldBytes;
  exchange.heldBytes = 0;
  if (exchange.counted) traffic.inWork -= 1;
  exchange.counted = false;
  if (traffic.awaited.delete(exchange) && traffic.awaited.size === 0) traffic.onAnswered();
}

/** The refusal of requests that come while the service stops. */
export function stopping(): Failure {
  return failure('OVERLOADED', {
    message: 'The service is stopping and has accepted nothing; repeat the request.',
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
export function drain(traffic: Traffic, deadlineMs: number): Promise<void> {
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
export function closeServer(server: Server, deadlineMs: number): Promise<void> {
  if (!server.listening) return Promise.resolve();
  return new Promise((resolve) => {
    const deadline = setTimeout(() => server.closeAllConnections(), Math.min(deadlineMs, CLOSE_MS));
    // A kept connection becomes idle when its answer was under way as close() came.
    const idle = setInterval(() => server.closeIdleConnections(), 100);
    server.close(() => {
      clearTimeout(deadline);
      clearInterval(idle);
      resolve();
    });
  });
}
