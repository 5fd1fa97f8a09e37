/**
 * Settlements of messages in hand, by the clock of each message's mode. Nothing waits here for a paused destination: what waits is
 * put off, that is settled as delayed (or bounces, when it expires first), without an attempt, and is claimed again when the
 * pause is over, spread over a tenth of its length.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { DEAD_LETTER_AFTER_CRASHES } from '../work/work.ts';
import type { Destinations } from './destinations.ts';
import type { Held } from './held.ts';
import { deadLettered, type Outcome } from './outcome.ts';
import type { Settlement } from './settle.ts';
import { type AttemptFacts, settlementOf, suppressedSettlementOf } from './settlement.ts';

/** Of a pause: over so much time after it those that waited come back. */
const SPREAD = 1 / 10;

export interface ResultDeps {
  clock: Clock;
  log: Log;
  destinations: Destinations;
  /** Uniform in [0, 1); the jitter of retries. */
  random(): number;
}

export class Results {
  readonly #deps: ResultDeps;

  constructor(deps: ResultDeps) {
    this.#deps = deps;
  }

  /** Unix ms by the clock of the message's mode. */
  nowOf({ job }: Held): number {
    return this.#deps.clock.now() + (job.clockOffsetMs ?? 0);
  }

  /** The settlement of an attempt, or with `facts` null of none. */
  of(held: Held, result: { outcome: Outcome; facts: AttemptFacts | null }): Settlement {
    const { destinations, random } = this.#deps;
    const pause = result.outcome.kind === 'temporary' ? destinations.pauseOf(held.destination) : undefined;
    return settlementOf({ job: held.job, ...result, pause, nowMs: this.nowOf(held), random: random() });
  }

  /** The settlement of what is not tried now: a dead letter, a suppressed address, a paused destination. */
  withoutAttempt(held: Held): Settlement | undefined {
    const { messageId, crashes, suppressed } = held.job;
    if (suppressed) return suppressedSettlementOf(held.job, this.nowOf(held));
    if (crashes >= DEAD_LETTER_AFTER_CRASHES) {
      this.#deps.log.error({ messageId, crashes }, 'message dead-lettered: it crashed its workers');
      return this.of(held, { outcome: deadLettered(), facts: null });
    }
    return this.putOff(held);
  }

  /** The settlement of a message whose destination is paused. */
  putOff(held: Held): Settlement | undefined {
    const { destinations, random } = this.#deps;
    const paused = destinations.pauseOf(held.destination);
    if (!paused) return undefined;
    const { outcome, host, beganMs, untilMs } = paused;
    const pause = { host, untilMs: untilMs + Math.round((untilMs - beganMs) * SPREAD * random()) };
    return settlementOf({ job: held.job, outcome, facts: null, pause, nowMs: this.nowOf(held), random: random() });
  }
}
