/**
 * The steps of a webhook delivery, for the worker and for a sandbox whose clock is moved (real requests, at times and with a schedule by
 * that clock): claims it with the data that its attempt needs, sends the event as a signed request, alone or with others (batch.ts), and
 * records the result.
 *
 * The only place that decides between success, retry, failure and disabling: any 2xx is success, and 410 disables the endpoint; everything
 * else, including redirects and events that a batch's response lists as failed, is retried until the schedule ends.
 */
import { jitter, webhookDelayMs } from '../base/backoff.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { NO_TRACER, type Tracer } from '../base/trace.ts';
import { WEBHOOK_WORK } from '../events/events.ts';
import type { HttpClient, HttpOutcome } from '../net/http-client.ts';
import { retryAfterMs } from '../net/retry-after.ts';
import type { SandboxKind } from '../sandbox/sandbox.ts';
import type { Database } from '../storage/database.ts';
import { type ChosenKind, type ClaimRequest, type ClaimResult, claimedItem, type Item, timeOf } from '../work/work.ts';
import { batchOf, failedEventIds } from './batch.ts';
import {
  claimOperation,
  type EventText,
  eventTextOperation,
  presentTargetsOperation,
  type StoredTarget,
  type WebhookJob,
} from './claim.ts';
import type { EndpointLane } from './lanes.ts';
import { PresentEndpoints } from './present-endpoints.ts';
import { type SettleAnswer, settleOperation, untriedOf, type WebhookSettlement } from './settle.ts';
import { createTargets, signedHeaders, type Target } from './sign.ts';
import type { EndpointTarget } from './store.ts';

export type Classification =
  | { kind: 'succeeded' | 'failed' | 'gone'; nextAttemptMs: null }
  | { kind: 'retry'; nextAttemptMs: number };

export interface Answer {
  responseStatus: number | null;
  responseStart: string | null;
  error: string | null;
  latencyMs: number;
}

export interface AnswerFacts {
  outcome: HttpOutcome;
  /** Whether the response reports this event as failed, or may do so. */
  isListedAsFailed?: boolean;
  /** Attempts made so far, including this one. */
  attempts: number;
  /** Unix ms, by the clock that decides the schedule. */
  nowMs: number;
  /** Real time, for comparison with dates in the response; nowMs by default. */
  realNowMs?: number;
  /** Uniform in [0, 1). */
  random: number;
}

export function classify(answer: AnswerFacts): Classification {
  const { outcome, nowMs } = answer;
  const isAccepted = outcome.ok && outcome.status >= 200 && outcome.status < 300;
  if (isAccepted && !answer.isListedAsFailed) return { kind: 'succeeded', nextAttemptMs: null };
  if (outcome.ok && outcome.status === 410) return { kind: 'gone', nextAttemptMs: null };
  const delayMs = webhookDelayMs(answer.attempts);
  if (delayMs === undefined) return { kind: 'failed', nextAttemptMs: null };
  const requested = outcome.ok ? retryAfterMs(outcome.headers['retry-after'], answer.realNowMs ?? nowMs) : 0;
  return { kind: 'retry', nextAttemptMs: nowMs + Math.max(jitter(delayMs, answer.random), requested) };
}

export function answerOf(outcome: HttpOutcome): Answer {
  const latencyMs = Math.round(outcome.latencyMs);
  if (!outcome.ok) return { responseStatus: null, responseStart: null, error: outcome.message, latencyMs };
  const { status } = outcome;
  return {
    responseStatus: status,
    responseStart: outcome.bodyStart,
    error: status >= 200 && status < 300 ? null : `the endpoint returned HTTP status ${status}${redirectNote(status)}`,
    latencyMs,
  };
}

function redirectNote(status: number): string {
  return status >= 300 && status < 400
    ? '; Postrider does not follow redirects, so set the URL of the webhook to the final address'
    : '';
}

/** An event to be sent to an endpoint. */
export interface Delivery extends WebhookJob {
  event: EventText;
}

const TIMEOUT_MS = 15_000;
const GONE = 'the event is no longer stored, because its retention period has ended';
const INCOMPLETE = 'the response was cut off, so it may have listed this event as failed';
const LISTED_AS_FAILED = 'the response of the endpoint listed this event in `failed`';

const NONE_FAILED: ReadonlySet<string> = new Set();

/** Returns the error of an event that the response of its batch lists as failed, or may list. */
export function listedError(failed: ReadonlySet<string> | 'unknown'): string {
  return failed === 'unknown' ? INCOMPLETE : LISTED_AS_FAILED;
}

/** Start time of a request that has not started. */
export const NOT_STARTED = Number.POSITIVE_INFINITY;

export interface EventRequest {
  http: HttpClient;
  target: Target;
  event: { id: string; body: string };
  /** Unix ms, real time: selects the signing secrets. The signature itself carries the system time. */
  nowMs: number;
  /** Whether to return the complete response body. */
  keepBody?: boolean;
  /** The trace context of the request. */
  traceparent?: string | undefined;
}

export function postEvent({
  http,
  target,
  event,
  nowMs,
  keepBody = false,
  traceparent,
}: EventRequest): Promise<HttpOutcome> {
  return http.post({
    url: target.url,
    headers: {
      ...target.headers,
      ...(traceparent !== undefined && { traceparent }),
      ...signedHeaders(event, target.keys(nowMs), systemClock.now()),
    },
    body: event.body,
    timeoutMs: TIMEOUT_MS,
    keepBody,
  });
}

/** An event to be sent, and its target. */
export interface WebhookItem extends Item<Delivery> {
  /** The endpoint as it was claimed. */
  endpoint: StoredTarget;
  /** Undefined if the secret cannot be decrypted. */
  target: Target | undefined;
  /** Set while its attempt runs. */
  request: EndpointRequest | undefined;
}

/** A request in flight, with one event or several. */
export interface EndpointRequest {
  readonly lane: EndpointLane;
  readonly items: readonly WebhookItem[];
  /** Items whose attempt has not ended. */
  running: number;
  /** By performance.now(). */
  startedMs: number;
  isSlow: boolean;
}

interface SentEvent {
  item: WebhookItem;
  id: string;
  body: string;
}

export interface AttemptRunnerDeps {
  database: Database;
  http: HttpClient;
  clock: Clock;
  log: Log;
  /** The service's key that encrypts secrets. */
  secretKey: Uint8Array;
  /** Reports requests; without it, the trace context of the email is sent. */
  tracer?: Tracer | undefined;
  /** Uniform in [0, 1), for jitter; default Math.random. */
  random?: () => number;
  /** How old the data of an endpoint may be at the start of an attempt, in ms. */
  endpointFreshMs?: number | undefined;
}

function endTrace(
  tracer: Tracer,
  attempt: { job: Delivery; context: string | undefined; target: Target; outcome: HttpOutcome; hasFailed: boolean },
): void {
  const { job, context, target, outcome, hasFailed } = attempt;
  if (context === undefined) return;
  const endMs = performance.timeOrigin + performance.now();
  tracer.end({
    context,
    parent: job.event.traceparent ?? undefined,
    name: 'webhook',
    kind: 'client',
    startMs: endMs - outcome.latencyMs,
    endMs,
    attributes: {
      'http.request.method': 'POST',
      'server.address': URL.parse(target.url)?.hostname,
      'http.response.status_code': outcome.ok ? outcome.status : undefined,
      'error.type': outcome.ok ? undefined : outcome.kind,
      'postrider.webhook_id': job.webhookId,
      'postrider.event_id': job.event.id,
      'postrider.event_type': job.event.type,
      'postrider.attempt': job.attempts + 1,
    },
    hasFailed,
  });
}

export class AttemptRunner implements ChosenKind<WebhookItem, WebhookSettlement> {
  readonly kind = WEBHOOK_WORK;
  readonly #deps: AttemptRunnerDeps;
  readonly #targetOf: (row: EndpointTarget) => Target;
  readonly #endpoints: PresentEndpoints;

  constructor(deps: AttemptRunnerDeps) {
    this.#deps = deps;
    this.#targetOf = createTargets(deps.secretKey);
    this.#endpoints = new PresentEndpoints({
      read: (ids) => deps.database.execute(presentTargetsOperation, { ids }),
      freshMs: deps.endpointFreshMs,
    });
  }

  /** Also returns how many rows became due. */
  async claim(request: ClaimRequest): Promise<ClaimResult<WebhookItem> & { freed: number }> {
    const startedMs = performance.now();
    const batch = await this.#deps.database.execute(claimOperation, request);
    const events = new Map(batch.events.map((event) => [event.seq, event]));
    const endpoints = new Map(batch.targets.map((row) => [row.id, this.#endpoints.note(row, startedMs)]));
    const items = batch.jobs.map((job): WebhookItem => {
      const endpoint = endpoints.get(job.webhookId)!;
      return {
        ...claimedItem({ ...job, event: events.get(job.eventSeq)! }, request.nowMs + request.leaseMs),
        endpoint,
        target: this.#openTarget(endpoint),
        request: undefined,
      };
    });
    return { items, taken: batch.taken, overQuota: batch.overQuota, freed: batch.freed };
  }

  /** A secret that cannot be decrypted must not fail other deliveries. */
  #openTarget(row: EndpointTarget): Target | undefined {
    try {
      return this.#targetOf(row);
    } catch (error) {
      this.#deps.log.error({ webhook: row.id, error: (error as Error).message }, 'webhook secret cannot be decrypted');
      return undefined;
    }
  }

  /** Returns whether the endpoint of these items is still as it was when they were claimed, except for changes in the last second. */
  async isUnchanged(items: readonly WebhookItem[]): Promise<boolean> {
    for (const endpoint of new Set(items.map((item) => item.endpoint)))
      if (!(await this.#endpoints.isUnchanged(endpoint))) return false;
    return true;
  }

  deadLetter(item: WebhookItem): WebhookSettlement {
    return this.#untried(item, 'an internal error occurred three times; retry this delivery manually');
  }

  withoutAttempt(item: WebhookItem): WebhookSettlement | undefined {
    if (item.target) return undefined;
    return this.#untried(
      item,
      'the secret of this webhook cannot be decrypted; rotate the secret, then retry this delivery',
    );
  }

  #untried(item: WebhookItem, error: string): WebhookSettlement {
    return untriedOf(item.job, item.job.event, { atMs: timeOf(item, this.#deps.clock), error });
  }

  async attempt(item: WebhookItem): Promise<WebhookSettlement> {
    return (await this.attemptTogether([item]))[0]!;
  }

  /** Sends the events of one endpoint in one request; returns their results in the same order. */
  async attemptTogether(items: readonly WebhookItem[]): Promise<WebhookSettlement[]> {
    const target = items[0]!.target!;
    if (items.length > 1 && target.maxBatch === 1) throw new Error('a request to this endpoint has one event');
    const sent: SentEvent[] = [];
    for (const item of items) {
      const { formatted, event } = item.job;
      const body = formatted ?? event.body ?? (await this.#readBody(event));
      if (body !== undefined) sent.push({ item, id: event.id, body });
    }
    const results = sent.length === 0 ? [] : await this.#post(sent, target);
    if (results.length === items.length) return results;
    const resultOf = new Map(results.map((settled, index) => [sent[index]!.item, settled]));
    return items.map((item) => resultOf.get(item) ?? this.#untried(item, GONE));
  }

  /** Returns the results in the order of the events. */
  async #post(sent: readonly SentEvent[], target: Target): Promise<WebhookSettlement[]> {
    const { http, clock, random = Math.random, tracer = NO_TRACER } = this.#deps;
    const isBatch = target.maxBatch > 1;
    const event = isBatch ? batchOf(sent) : sent[0]!;
    const contexts = sent.map(({ item: { job } }) =>
      job.event.traceparent === null ? undefined : tracer.begin(job.event.traceparent),
    );
    // A request has one context; several events have no common one.
    const traceparent = sent.length === 1 ? contexts[0] : undefined;
    const outcome = await postEvent({ http, target, event, nowMs: clock.now(), keepBody: isBatch, traceparent });
    const answer = answerOf(outcome);
    const failed = isBatch ? failedEventIds(outcome) : NONE_FAILED;
    return sent.map(({ item, id }, index) => {
      const { job } = item;
      const atMs = timeOf(item, clock);
      const isFailed = failed === 'unknown' || failed.has(id);
      const { kind: result, nextAttemptMs } = classify({
        outcome,
        isListedAsFailed: isFailed,
        attempts: job.attempts + 1,
        nowMs: atMs,
        realNowMs: clock.now(),
        random: random(),
      });
      endTrace(tracer, { job, context: contexts[index], target, outcome, hasFailed: result !== 'succeeded' });
      return {
        ...untriedOf(job, job.event, { atMs, error: '' }),
        ...answer,
        error: isFailed ? listedError(failed) : answer.error,
        tried: true,
        url: target.url,
        result,
        nextAttemptMs,
      };
    });
  }

  /** Reads the JSON of a large event; undefined if it is no longer stored. */
  #readBody({ seq }: EventText): Promise<string | undefined> {
    return this.#deps.database.execute(eventTextOperation, { seq });
  }

  async record(settled: WebhookSettlement[]): Promise<readonly number[]> {
    return (await this.settle(settled)).lost;
  }

  /** Records results; also returns the endpoints that this disabled, and how many rows became due. */
  async settle(settled: WebhookSettlement[]): Promise<SettleAnswer> {
    const { database, clock, log } = this.#deps;
    const answer = await database.execute(settleOperation, { nowMs: clock.now(), settled });
    for (const webhookId of answer.disabled) log.warn({ webhook: webhookId }, 'webhook endpoint disabled');
    return answer;
  }
}

const MOST = 50;

/** The schedule with the smallest jitter. */
function shortestWaitsMs(): number[] {
  const waits: number[] = [];
  for (let attempts = 1; ; attempts += 1) {
    const delayMs = webhookDelayMs(attempts);
    if (delayMs === undefined) return waits;
    waits.push(Math.floor(delayMs * 0.9));
  }
}

export function createSandboxWebhooks(deps: AttemptRunnerDeps): SandboxKind {
  return Object.assign(new AttemptRunner(deps), { shortestWaitsMs: shortestWaitsMs(), most: MOST });
}
