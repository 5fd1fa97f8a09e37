/** What is recorded of an attempt, from the answer that it got or from the reason why none was made. */
import type { HttpOutcome } from '../net/http-client.ts';
import { answerOf, classify } from './attempt.ts';
import type { EventText, Settled, WebhookJob } from './job.ts';

/** An event on its way to an endpoint. */
export interface Delivery extends WebhookJob {
  event: EventText;
}

interface Times {
  /** Unix ms, by the clock of the endpoint's mode. */
  nowMs: number;
  /** What that is ahead of the real time. */
  clockOffsetMs: number;
}

function blank(job: Delivery, atMs: number): Settled {
  const { seq, fence, accountId, webhookId, eventSeq, event } = job;
  return {
    ...{ seq, fence, accountId, webhookId, eventSeq, eventId: event.id, eventType: event.type },
    ...{ result: 'failed', tried: true, url: null, nextAttemptMs: null },
    ...{ responseStatus: null, responseStart: null, error: null, latencyMs: null },
    ...{ mode: job.mode, atMs },
  };
}

export interface Attempt extends Times {
  outcome: HttpOutcome;
  /** Where the request went. */
  url: string;
  /** Uniform in [0, 1), for the jitter. */
  random: number;
}

export function settledOf(job: Delivery, { outcome, url, random, nowMs, clockOffsetMs }: Attempt): Settled {
  const classified = classify({ outcome, attempts: job.attempts + 1, nowMs, realNowMs: nowMs - clockOffsetMs, random });
  const { kind: result, nextAttemptMs } = classified;
  return { ...blank(job, nowMs), ...answerOf(outcome), url, result, nextAttemptMs };
}

export function untriedOf(job: Delivery, { nowMs, error }: { nowMs: number; error: string }): Settled {
  return { ...blank(job, nowMs), tried: false, error };
}
