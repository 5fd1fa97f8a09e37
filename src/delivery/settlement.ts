/**
 * Turns the outcome of an attempt into what is recorded of it: the next state, the next attempt, the event and the attempt as
 * the API shows them. Pure.
 *
 * Schedule: at once, then after 1, 5, 15, 30 min, 1, 2, 4 h, then every 6 h (±10 %); where our host is blocked after 15 min, 1, 2,
 * 4 h, then every 6 h, since nothing but people lifts a block. A next attempt that would fall behind the
 * end of the lifetime is made at its end; only an attempt made at or after the end turns into a Bounce `expired`. So no
 * message expires without an attempt, whatever the clock did in between, unless its destination was paused at its end.
 * While a destination is paused nothing of it is tried, whatever the schedule says; what is put off for it untried is
 * charged no attempt.
 */

import { blockedDelayMs, deliveryDelayMs, jitter } from '../base/backoff.ts';
import { iso } from '../base/clock.ts';
import { newId } from '../base/ids.ts';
import { sameAddressKey } from '../mail/address.ts';
import { type DeliveryJob, SUPPRESSED } from '../messages/messages.ts';
import { expired, type Outcome } from './outcome.ts';
import type { AttemptRecord, SettledEvent, Settlement } from './settle.ts';

/** How one attempt went, beside its outcome. */
export interface AttemptFacts {
  startedAtMs: number;
  durationMs: number;
  host: string | null;
  address: string | null;
  tls: string | null;
  /** Why the mail went in the clear although TLS is offered, in words. */
  tlsFallback: string | null;
  dialogue: AttemptRecord['dialogue'];
}

export interface Settling {
  job: DeliveryJob;
  outcome: Outcome;
  /** Null when no attempt was made (a dead letter, or one that waits for the end of a pause). */
  facts: AttemptFacts | null;
  /** Its destination is paused. */
  pause?: { untilMs: number; host: string | null } | undefined;
  nowMs: number;
  /** Uniform in [0, 1), for the jitter. */
  random: number;
}

const DAY_MS = 86_400_000;

const SOFT: ReadonlySet<Outcome['category']> = new Set([
  'expired',
  'mailbox-full',
  'our-side',
  'rate-limited',
  'greylisted',
]);

/** When to try again after attempt number `attempts` failed at `nowMs`; undefined when the lifetime has ended. */
export function nextAttemptAtMs(options: {
  attempts: number;
  nowMs: number;
  expiresAtMs: number;
  random: number;
  category: Outcome['category'];
}): number | undefined {
  const { attempts, nowMs, expiresAtMs, random } = options;
  if (nowMs >= expiresAtMs) return undefined;
  const delayMs = options.category === 'blocked' ? blockedDelayMs(attempts) : deliveryDelayMs(attempts);
  return Math.min(nowMs + jitter(delayMs, random), expiresAtMs);
}

/** `bounce` of the event body; `deliveryDelay` is the same with its next attempt. */
export function failureDetail(outcome: Outcome, facts: Pick<AttemptFacts, 'host'> | null): Record<string, unknown> {
  const hard = outcome.kind === 'permanent' && !SOFT.has(outcome.category);
  return {
    kind: hard ? 'hard' : 'soft',
    category: outcome.category,
    // Null where there was no reply.
    smtpCode: outcome.smtpCode,
    enhancedCode: outcome.enhancedCode,
    reply: outcome.reply,
    remoteHost: facts?.host ?? null,
    owner: outcome.owner,
    advice: outcome.advice,
    suppressed: outcome.suppress,
  };
}

function attemptRecord(outcome: Outcome, facts: AttemptFacts): AttemptRecord {
  return {
    time: iso(facts.startedAtMs),
    durationMs: facts.durationMs,
    host: facts.host,
    address: facts.address,
    tls: facts.tls,
    ...(facts.tlsFallback === null ? {} : { tlsFallback: facts.tlsFallback }),
    dialogue: facts.dialogue,
    reply: outcome.reply,
    outcome: outcome.kind === 'delivered' ? 'delivered' : outcome.kind === 'temporary' ? 'delayed' : 'bounced',
  };
}

function deliveryEvent(settling: Settling, attempts: number): SettledEvent {
  const { job, outcome, facts, nowMs } = settling;
  const delivery = {
    remoteHost: facts?.host ?? null,
    reply: outcome.reply,
    tls: facts?.tls ?? null,
    ...(facts?.tlsFallback ? { tlsFallback: facts.tlsFallback } : {}),
    attempts,
    latencyMs: Math.max(0, nowMs - job.createdAt),
  };
  return { id: newId('evt', nowMs), type: 'Delivery', detail: { delivery } };
}

/** When the message is next, with its attempt counted or, where it was put off untried, at the end of the pause. */
function nextAfter(
  { job, facts, pause, nowMs, random, outcome: { category } }: Settling,
  attempts: number,
): number | undefined {
  const expiresAtMs = job.expiresAt;
  const scheduled = nextAttemptAtMs({ attempts: Math.max(1, attempts), nowMs, expiresAtMs, random, category });
  if (scheduled === undefined || !pause) return scheduled;
  return Math.min(expiresAtMs, facts ? Math.max(scheduled, pause.untilMs) : pause.untilMs);
}

/** The settlement of one message. Sandbox messages never suppress. */
export function settlementOf(settling: Settling): Settlement {
  const { job, facts, nowMs } = settling;
  const host = facts ?? settling.pause ?? null;
  const attempts = job.attempts + (facts ? 1 : 0);
  let outcome = job.mode === 'sandbox' ? { ...settling.outcome, suppress: false } : settling.outcome;
  let nextMs: number | undefined;
  if (outcome.kind === 'temporary') {
    nextMs = nextAfter(settling, attempts);
    if (nextMs === undefined) outcome = expired(outcome);
  }
  let event: SettledEvent | null = null;
  if (outcome.kind === 'delivered') event = deliveryEvent(settling, attempts);
  else if (outcome.kind === 'permanent') {
    event = { id: newId('evt', nowMs), type: 'Bounce', detail: { bounce: failureDetail(outcome, host) } };
  } else if (job.status !== 'delayed') {
    const deliveryDelay = { ...failureDetail(outcome, host), nextAttemptAt: iso(nextMs!) };
    event = { id: newId('evt', nowMs), type: 'DeliveryDelay', detail: { deliveryDelay } };
  }
  return {
    ...untried(job, nowMs),
    attempts,
    attempt: facts ? attemptRecord(outcome, facts) : null,
    to: outcome.kind === 'delivered' ? 'delivered' : outcome.kind === 'temporary' ? 'delayed' : 'bounced',
    nextAttemptAtMs: nextMs ?? null,
    event,
    suppress: suppressionOf(job, outcome, nowMs),
  };
}

function suppressionOf(job: DeliveryJob, { suppress, suppressDays }: Outcome, nowMs: number): Settlement['suppress'] {
  if (!suppress) return null;
  const untilMs = suppressDays === undefined ? null : nowMs + suppressDays * DAY_MS;
  return { email: sameAddressKey(job.recipient), untilMs };
}

/** What every settlement of this message begins with: no attempt was made, and nothing follows. */
function untried(job: DeliveryJob, nowMs: number) {
  return {
    seq: job.seq,
    fence: job.fence,
    accountId: job.accountId,
    mode: job.mode,
    messageId: job.messageId,
    emailSeq: job.emailSeq,
    retain: job.retain,
    atMs: nowMs,
    attempts: job.attempts,
    attempt: null,
    nextAttemptAtMs: null,
    suppress: null,
    followedBy: null,
    sandboxOutcome: null,
  };
}

/** The settlement of a message whose address came onto the suppression list while it waited. */
export function suppressedSettlementOf(job: DeliveryJob, nowMs: number, detail = SUPPRESSED): Settlement {
  return {
    ...untried(job, nowMs),
    to: 'suppressed',
    event: { id: newId('evt', nowMs), type: 'Reject', detail },
    sandboxOutcome: job.mode === 'sandbox' ? 'Suppressed' : null,
  };
}
