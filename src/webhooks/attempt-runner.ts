/**
 * One attempt to carry an event to an endpoint: a signed request, and what is recorded of it. The same for the worker, a test
 * event and the sandbox's clock.
 */
import { type Clock, systemClock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { HttpClient, HttpOutcome } from '../net/http-client.ts';
import { DEAD_LETTER_AFTER_CRASHES } from '../work/work.ts';
import { type Delivery, settledOf, untriedOf } from './delivery-record.ts';
import type { Settled } from './job.ts';
import { signedHeaders } from './sign.ts';
import type { EndpointTarget } from './store.ts';
import { createTargets, type Target } from './targets.ts';
import type { ClaimedBatch } from './work-store.ts';

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

/** An event on its way, and where it goes: undefined when the endpoint's secret does not open. */
export interface Outgoing {
  job: Delivery;
  target: Target | undefined;
}

export interface AttemptRunnerDeps {
  http: HttpClient;
  clock: Clock;
  log: Log;
  /** The service's key that seals secrets. */
  secretKey: Uint8Array;
  /** Uniform in [0, 1), for jitter; default Math.random. */
  random?: () => number;
}

export class AttemptRunner {
  readonly #deps: AttemptRunnerDeps;
  readonly #targetOf: (row: EndpointTarget) => Target;

  constructor(deps: AttemptRunnerDeps) {
    this.#deps = deps;
    this.#targetOf = createTargets(deps.secretKey);
  }

  outgoing(batch: Pick<ClaimedBatch, 'jobs' | 'events' | 'targets'>): Outgoing[] {
    const events = new Map(batch.events.map((event) => [event.seq, event]));
    const targets = new Map(batch.targets.map((row) => [row.id, row]));
    return batch.jobs.map((row) => ({
      job: { ...row, event: events.get(row.eventSeq)! },
      target: this.#openTarget(targets.get(row.webhookId)!),
    }));
  }

  /** One secret that does not open spoils no other's delivery. */
  #openTarget(row: EndpointTarget): Target | undefined {
    try {
      return this.#targetOf(row);
    } catch (error) {
      this.#deps.log.error({ webhook: row.id, cause: (error as Error).message }, 'webhook secret does not open');
      return undefined;
    }
  }

  /** The result of what is not tried. `nowMs` is by the clock of the endpoint's mode. */
  withoutAttempt({ job, target }: Outgoing, nowMs: number): Settled | undefined {
    if (job.crashes >= DEAD_LETTER_AFTER_CRASHES)
      return untriedOf(job, { nowMs, error: 'our side failed over this delivery three times; retry it by hand' });
    const error = 'the secret of this endpoint cannot be read any more; rotate it and retry';
    return target ? undefined : untriedOf(job, { nowMs, error });
  }

  /** Sends it; `nowOf` is the clock of the endpoint's mode. */
  async attempt({ job, target }: Outgoing, nowOf: () => number): Promise<Settled> {
    const { http, clock, random = Math.random } = this.#deps;
    const outcome = await postEvent({ http, target: target!, event: job.event, nowMs: clock.now() });
    const nowMs = nowOf();
    const clockOffsetMs = nowMs - clock.now();
    return settledOf(job, { outcome, url: target!.url, nowMs, clockOffsetMs, random: random() });
  }
}
