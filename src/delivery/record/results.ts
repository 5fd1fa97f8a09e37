/**
 * Determines the record of a delivery attempt: the next status, the time of the next attempt, and the event and the attempt as the API
 * shows them. Times are by the clock of the message's mode. After the record is stored, updates the metrics and the log, and removes
 * content.
 *
 * Schedule (base/backoff.ts): the first attempt is immediate. Retries are later if the destination blocks this host, since only the
 * operators of the destination can lift a block. A next attempt after the end of the message's lifetime is moved to that end; only an
 * attempt at or after the end becomes a Bounce `expired`. So no message expires without an attempt, even if the clock jumps, unless its
 * destination was paused at the end.
 *
 * Messages for a paused destination do not wait in memory, whatever the schedule. They are settled without an attempt: as delayed, or as
 * bounced if their lifetime has ended. Delayed ones are claimed again after the pause, spread over a tenth of its length.
 */

import { blockedDelayMs, deliveryDelayMs, jitter } from '../../base/backoff.ts';
import { type Clock, iso } from '../../base/clock.ts';
import { newId } from '../../base/ids.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { Tracer } from '../../base/trace.ts';
import { sameAddressKey } from '../../mail/address.ts';
import { type DeliveryJob, SUPPRESSED } from '../../messages/messages.ts';
import type { BlobRemover } from '../../storage/blobs/remove.ts';
import type { Database } from '../../storage/database.ts';
import { timeOf } from '../../work/work.ts';
import { type Pause, spreadOf } from '../destinations/pause-steps.ts';
import type { Providers } from '../destinations/providers.ts';
import type { Registry } from '../destinations/registry.ts';
import type { RelayLimits } from '../destinations/relay-limits.ts';
import { causeOf, causeText } from '../outcome/cause.ts';
import { deadLettered, expired, type Outcome } from '../outcome/outcome.ts';
import { explanations } from '../outcome/outcome-texts.ts';
import type { Admission } from '../queue/admission.ts';
import type { DeliveryItem } from '../queue/delivery-item.ts';
import {
  type AttemptFacts,
  type AttemptRecord,
  type SettledEvent,
  type Settlement,
  settleOperation,
} from './settle.ts';

export interface ResultDeps {
  database: Database;
  clock: Clock;
  log: Log;
  metrics?: ResultMetrics | undefined;
  remover: Pick<BlobRemover, 'add'>;
  registry: Pick<Registry, 'pauseOf'>;
  relayLimits: Pick<RelayLimits, 'turnAfter'>;
  /** The large providers, by which bounces are counted; none by default. */
  providers?: Pick<Providers, 'byHost'> | undefined;
  /** Reports attempts; none are reported if absent. */
  tracer?: Tracer | undefined;
  /** Uniform in [0, 1), for the jitter of retries. */
  random(): number;
}

export class Results {
  readonly #deps: ResultDeps;

  constructor(deps: ResultDeps) {
    this.#deps = deps;
  }

  /** Returns the time in Unix ms, by the clock of the message's mode. */
  nowOf(item: DeliveryItem): number {
    return timeOf(item, this.#deps.clock);
  }

  /** Returns the settlement of an attempt; `facts` is null if none was made. */
  of(item: DeliveryItem, result: { outcome: Outcome; facts: AttemptFacts | null }): Settlement {
    const { registry, random } = this.#deps;
    // After a detour, the next attempt starts at the domain's own destination, so a pause of this one does not apply.
    const { destination, detour } = item.hop;
    const pause = result.outcome.kind === 'temporary' && !detour ? registry.pauseOf(destination) : undefined;
    const settlement = settlementOf({ job: item.job, ...result, pause, nowMs: this.nowOf(item), random: random() });
    if (result.facts) this.#trace(item, settlement, { ...result, facts: result.facts });
    return settlement;
  }

  #trace(
    { job }: DeliveryItem,
    { to, attempts }: Settlement,
    attempt: { outcome: Outcome; facts: AttemptFacts },
  ): void {
    const { tracer } = this.#deps;
    if (tracer === undefined || job.traceparent === undefined || job.traceparent === null) return;
    const context = tracer.begin(job.traceparent);
    if (context === undefined) return;
    const { outcome, facts } = attempt;
    const endMs = performance.timeOrigin + performance.now();
    tracer.end({
      context,
      parent: job.traceparent,
      name: 'delivery attempt',
      kind: 'client',
      startMs: endMs - facts.durationMs,
      endMs,
      attributes: {
        'server.address': facts.host ?? undefined,
        'network.peer.address': facts.address ?? undefined,
        'tls.protocol.version': facts.tls ?? undefined,
        'postrider.message_id': job.messageId,
        'postrider.recipient_domain': job.recipient.slice(job.recipient.lastIndexOf('@') + 1),
        'postrider.attempt': attempts,
        'postrider.status': to,
        'postrider.category': outcome.category,
        'postrider.smtp_code': outcome.smtpCode ?? undefined,
      },
      hasFailed: to !== 'delivered',
    });
  }

  /** Returns the settlement of a message that was in progress during three crashes. */
  deadLetter(item: DeliveryItem): Settlement {
    const { messageId, crashes } = item.job;
    this.#deps.log.error({ messageId, crashes }, 'message dead-lettered: its attempts crashed');
    return this.of(item, { outcome: deadLettered(), facts: null });
  }

  /** Returns the settlement of a message that is not attempted: its address is suppressed, or its destination is paused. */
  withoutAttempt(item: DeliveryItem, admission: Admission = { kind: 'run' }): Settlement | undefined {
    if (item.job.suppressed) return this.suppressed(item);
    return admission.kind === 'wait' ? this.defer(item, admission.pause) : undefined;
  }

  /** Returns the settlement of a message whose address is suppressed: it is not sent. */
  suppressed(item: DeliveryItem): Settlement {
    return suppressedSettlementOf(item.job, this.nowOf(item));
  }

  /** Returns the settlement of a message whose destination is paused: deferred to the end of the pause, without an attempt. */
  defer(item: DeliveryItem, paused: Pause): Settlement {
    const { random, relayLimits } = this.#deps;
    const { destination, detour } = item.hop;
    if (detour?.before) return this.of(item, detour.before);
    const { outcome, host, mailDueMs } = paused;
    const isLimit = outcome.category === 'relay-limit';
    const turnMs = isLimit ? relayLimits.turnAfter(destination, mailDueMs) : undefined;
    const pause = { host, mailDueMs: turnMs ?? mailDueMs + Math.round(spreadOf(paused) * random()) };
    return settlementOf({ job: item.job, outcome, facts: null, pause, nowMs: this.nowOf(item), random: random() });
  }

  /** Records settlements; returns the rows whose lease was lost, for which nothing was recorded. */
  async record(settlements: Settlement[]): Promise<readonly number[]> {
    const { lost, blobKeys } = await this.#deps.database.execute(settleOperation, settlements);
    const unrecorded = new Set(lost);
    for (const one of settlements) if (!unrecorded.has(one.seq)) noteRecorded(this.#deps, one);
    // Recording never waits for the removal of content.
    this.#deps.remover.add(blobKeys);
    return lost;
  }
}

export interface SettlementInput {
  job: DeliveryJob;
  outcome: Outcome;
  /** Null if no attempt was made (a dead letter, or a message deferred by a pause). */
  facts: AttemptFacts | null;
  /** Set if the destination is paused. `mailDueMs` is before `untilMs` if the fallback route takes over before the pause ends. */
  pause?: { mailDueMs: number; untilMs?: number; host: string | null } | undefined;
  nowMs: number;
  /** Uniform in [0, 1), for the jitter. */
  random: number;
}

const DAY_MS = 86_400_000;

/** Returns the time of the next attempt after attempt number `attempts` failed at `nowMs`; undefined if the lifetime has ended. */
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

/** Returns the `bounce` object of an event body; a `deliveryDelay` object also has the time of the next attempt. */
export function failureDetail(outcome: Outcome, facts: Pick<AttemptFacts, 'host'> | null): Record<string, unknown> {
  return {
    kind: outcome.kind === 'permanent' ? explanations[outcome.category].bounce : 'soft',
    category: outcome.category,
    smtpCode: outcome.smtpCode,
    enhancedCode: outcome.enhancedCode,
    reply: outcome.reply,
    remoteHost: facts?.host ?? null,
    owner: outcome.owner,
    advice: outcome.advice,
    suppressed: outcome.suppress,
  };
}

function attemptRecord(outcome: Outcome, { startedAtMs, ...facts }: AttemptFacts): AttemptRecord {
  return {
    time: iso(startedAtMs),
    ...facts,
    reply: outcome.reply,
    outcome: outcome.kind === 'delivered' ? 'delivered' : outcome.kind === 'temporary' ? 'delayed' : 'bounced',
  };
}

function deliveryEvent(settling: SettlementInput, attempts: number): SettledEvent {
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

/**
 * Returns the time of the next attempt, or undefined if the lifetime has ended. `attempts` includes the attempt that was just made. A
 * message that was deferred without an attempt is due at the end of the pause.
 */
function nextAfter(
  { job, facts, pause, nowMs, random, outcome: { category } }: SettlementInput,
  attempts: number,
): number | undefined {
  const expiresAtMs = job.expiresAt;
  const scheduled = nextAttemptAtMs({ attempts: Math.max(1, attempts), nowMs, expiresAtMs, random, category });
  if (scheduled === undefined || !pause) return scheduled;
  const { mailDueMs, untilMs = mailDueMs } = pause;
  const usesFallback = mailDueMs < untilMs;
  return Math.min(expiresAtMs, facts && !usesFallback ? Math.max(scheduled, mailDueMs) : mailDueMs);
}

/** Returns the settlement of one message. Sandbox messages never suppress an address. */
export function settlementOf(settling: SettlementInput): Settlement {
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
    cause: outcome.kind === 'temporary' ? causeText(causeOf(job.recipient, outcome)) : null,
    event,
    suppress: suppressionOf(job, outcome, nowMs),
  };
}

function suppressionOf(job: DeliveryJob, { suppress, suppressDays }: Outcome, nowMs: number): Settlement['suppress'] {
  if (!suppress) return null;
  const untilMs = suppressDays === undefined ? null : nowMs + suppressDays * DAY_MS;
  return { email: sameAddressKey(job.recipient), untilMs };
}

/** Returns the fields that every settlement has, with the values for one without an attempt. */
function untried(job: DeliveryJob, nowMs: number) {
  const { seq, fence, accountId, mode, messageId, emailSeq, retain, attempts } = job;
  return {
    seq,
    fence,
    accountId,
    mode,
    messageId,
    emailSeq,
    retain,
    attempts,
    atMs: nowMs,
    attempt: null,
    nextAttemptAtMs: null,
    suppress: null,
    followedBy: null,
    sandboxOutcome: null,
  };
}

/** Returns the settlement of a message whose address was suppressed while it waited. */
export function suppressedSettlementOf(job: DeliveryJob, nowMs: number, detail = SUPPRESSED): Settlement {
  return {
    ...untried(job, nowMs),
    to: 'suppressed',
    event: { id: newId('evt', nowMs), type: 'Reject', detail },
    sandboxOutcome: job.mode === 'sandbox' ? 'Suppressed' : null,
  };
}

export type ResultMetrics = Pick<
  Metrics,
  | 'delivered'
  | 'bounced'
  | 'delayed'
  | 'suppressed'
  | 'deliverySeconds'
  | 'attemptSeconds'
  | 'attemptsByReply'
  | 'countTls'
  | 'countBounce'
>;

function noteRecorded(
  { metrics, providers, log }: Pick<ResultDeps, 'metrics' | 'providers' | 'log'>,
  settlement: Settlement,
): void {
  const { accountId, mode, messageId, to, attempt, attempts, event } = settlement;
  if (metrics) {
    metrics[to][mode].inc();
    if (attempt) {
      metrics.attemptSeconds.observe(attempt.durationMs / 1000);
      metrics.attemptsByReply[classOf(attempt.reply)].inc();
      metrics.countTls(attempt.tls, attempt.tlsKeyExchange);
    }
    const delivery = event?.detail.delivery as { latencyMs: number } | undefined;
    if (delivery) metrics.deliverySeconds.observe(delivery.latencyMs / 1000);
    const bounce = event?.detail.bounce as { category: string; remoteHost: string | null } | undefined;
    if (bounce && mode === 'live') {
      metrics.countBounce(bounce.category, providers?.byHost(bounce.remoteHost ?? '')?.name ?? 'other');
    }
  }
  const tried =
    attempt === null
      ? {}
      : { attempts, host: attempt.host, address: attempt.address, tls: attempt.tls, reply: attempt.reply };
  const nextAttemptAtMs = settlement.nextAttemptAtMs ?? undefined;
  log.info({ accountId, mode, messageId, eventId: event?.id, ...tried, nextAttemptAtMs }, `mail ${to}`);
}

/** Returns the class of the deciding reply; errors of sockets and resolvers, and Postrider's own refusals, have none. */
function classOf(reply: string | null): '2xx' | '4xx' | '5xx' | 'none' {
  const first = /^([245])\d\d /.exec(reply ?? '')?.[1];
  return first === undefined ? 'none' : (`${first}xx` as '2xx' | '4xx' | '5xx');
}
