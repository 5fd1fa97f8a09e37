/**
 * What the answer to one attempt means: the only place that decides between success, retry, giving up and disabling.
 * Any 2xx is success and 410 disables the endpoint; everything else, redirects included, is tried again until the
 * schedule ends. Pure: time and chance come in as arguments.
 */
import { jitter, webhookDelayMs } from '../base/backoff.ts';
import type { HttpOutcome } from '../net/http-client.ts';

/** Longest wait that a Retry-After is granted. */
const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

export type Classification =
  | { kind: 'succeeded' | 'failed' | 'gone'; nextAttemptMs: null }
  | { kind: 'retry'; nextAttemptMs: number };

/** How the answer is recorded. */
export interface Answer {
  responseStatus: number | null;
  responseStart: string | null;
  error: string | null;
  latencyMs: number;
}

export interface AnswerFacts {
  outcome: HttpOutcome;
  /** Attempts made since the work began, this one included. */
  attempts: number;
  /** Unix ms, by the clock that decides the schedule. */
  nowMs: number;
  /** What dates in the answer are compared with; the same unless given. */
  realNowMs?: number;
  /** Uniform in [0, 1). */
  random: number;
}

export function classify(answer: AnswerFacts): Classification {
  const { outcome, nowMs } = answer;
  if (outcome.ok && outcome.status >= 200 && outcome.status < 300) return { kind: 'succeeded', nextAttemptMs: null };
  if (outcome.ok && outcome.status === 410) return { kind: 'gone', nextAttemptMs: null };
  const delayMs = webhookDelayMs(answer.attempts);
  if (delayMs === undefined) return { kind: 'failed', nextAttemptMs: null };
  const asked = outcome.ok ? retryAfterMs(outcome.headers['retry-after'], answer.realNowMs ?? nowMs) : 0;
  return { kind: 'retry', nextAttemptMs: nowMs + Math.max(jitter(delayMs, answer.random), asked) };
}

/** Milliseconds that a Retry-After header (RFC 9110 §10.2.3: seconds or a date) asks for; 0 when it says nothing. */
export function retryAfterMs(header: string | undefined, nowMs: number): number {
  if (header === undefined) return 0;
  const text = header.trim();
  const waitMs = /^\d{1,12}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isFinite(waitMs) ? Math.min(Math.max(waitMs, 0), MAX_RETRY_AFTER_MS) : 0;
}

export function answerOf(outcome: HttpOutcome): Answer {
  const latencyMs = Math.round(outcome.latencyMs);
  if (!outcome.ok) return { responseStatus: null, responseStart: null, error: outcome.message, latencyMs };
  const { status } = outcome;
  return {
    responseStatus: status,
    responseStart: outcome.bodyStart,
    error: status >= 200 && status < 300 ? null : `the endpoint answered ${status}${redirectNote(status)}`,
    latencyMs,
  };
}

function redirectNote(status: number): string {
  return status >= 300 && status < 400 ? '; redirects are not followed, save the final address instead' : '';
}
