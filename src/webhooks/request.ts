/** One signed request that carries an event to an endpoint; the same for the worker, a test event and the sandbox's clock. */
import { systemClock } from '../base/clock.ts';
import type { HttpClient, HttpOutcome } from '../net/http-client.ts';
import { signedHeaders } from './sign.ts';
import type { Target } from './targets.ts';

const TIMEOUT_MS = 15_000;

export interface EventRequest {
  http: HttpClient;
  target: Target;
  event: { id: string; body: string };
  /** Unix ms, real time: which secrets sign. The signature itself carries the time of the system. */
  nowMs: number;
}

export function postEvent({ http, target, event, nowMs }: EventRequest): Promise<HttpOutcome> {
  return http.post({
    url: target.url,
    headers: signedHeaders(event, target.keys(nowMs), systemClock.now()),
    body: event.body,
    timeoutMs: TIMEOUT_MS,
  });
}
