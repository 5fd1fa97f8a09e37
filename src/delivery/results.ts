/**
 * What becomes of the messages of a transmission, and of those that wait for the same destination: settled, put back into
 * their lane, or put off untried until a pause is over. Nothing waits here for a paused destination: what waits is settled as
 * delayed (or bounces, when it expires first), without an attempt, and is claimed again when the pause is over, spread over a
 * tenth of its length.
 */
import type { Clock } from '../base/clock.ts';
import type { Transmission } from './by-smtp.ts';
import type { Connections } from './connections.ts';
import type { Destination, Destinations } from './destinations.ts';
import type { Marks } from './marks.ts';
import type { Outcome } from './outcome.ts';
import type { Schedule } from './schedule.ts';
import { type AttemptFacts, settlementOf } from './settlement.ts';
import type { Settler } from './settler.ts';
import type { Held, Window } from './window.ts';

/** How many waiting messages one failed dial speaks for. */
const MAX_SPOKEN_FOR = 2_000;
/** Of a pause: over so much time after it those that waited come back. */
const SPREAD = 1 / 10;

export interface ResultDeps {
  clock: Clock;
  window: Window;
  destinations: Destinations;
  schedule: Schedule;
  connections: Pick<Connections, 'count'>;
  settler: Pick<Settler, 'add'>;
  marks: Pick<Marks, 'lift'>;
  random(): number;
  /** Whether the lease of a job is good for a result. */
  holds(held: Held): boolean;
}

export interface Results {
  settle(held: Held, result: { outcome: Outcome; facts: AttemptFacts | null }): void;
  /** Puts a message off untried when its destination is paused; answers whether it is. */
  putOff(held: Held): boolean;
  /** Back to wait, untried: at the front of its lane, or put off. */
  putBack(held: Held): void;
  /** Takes in a transmission that began at `startedMs`. */
  apply(destination: Destination, transmission: Transmission, startedMs: number): void;
}

export function openResults(deps: ResultDeps): Results {
  const { clock, window, destinations, schedule, settler, marks, random } = deps;

  /** By the clock of the job's mode. */
  const nowOf = (held: Held): number => clock.now() + (held.job.clockOffsetMs ?? 0);

  const settle: Results['settle'] = (held, result) => {
    const pause = result.outcome.kind === 'temporary' ? destinations.pauseOf(held.destination) : undefined;
    window.move(held, 'settling');
    settler.add(settlementOf({ job: held.job, ...result, pause, nowMs: nowOf(held), random: random() }));
  };

  const putOff = (held: Held): boolean => {
    const pause = destinations.pauseOf(held.destination);
    if (!pause) return false;
    const { outcome, host, beganMs, untilMs } = pause;
    const spread = { host, untilMs: untilMs + Math.round((untilMs - beganMs) * SPREAD * random()) };
    window.move(held, 'settling');
    settler.add(
      settlementOf({ job: held.job, outcome, facts: null, pause: spread, nowMs: nowOf(held), random: random() }),
    );
    return true;
  };

  const putBack = (held: Held): void => {
    if (putOff(held)) return;
    window.move(held, 'waiting');
    schedule.add(held, { first: true });
  };

  /** One failed dial speaks for everybody who was waiting for it: they would have gone over the same connection. */
  const speakForOthers = (destination: Destination, { results }: Transmission): void => {
    if (deps.connections.count(destination.key) > 0) return;
    const first = results.find((one) => one.kind === 'judged');
    if (first?.kind !== 'judged') return;
    for (const held of schedule.waitingAt(destination, MAX_SPOKEN_FOR)) {
      if (held.quarantined || !deps.holds(held)) continue;
      schedule.forget(held);
      settle(held, { outcome: first.outcome, facts: first.facts });
    }
  };

  const apply: Results['apply'] = (destination, transmission, startedMs) => {
    const { signal, results } = transmission;
    const pauseBegan = destinations.hear(destination, signal, startedMs);
    for (const result of results) {
      const { held } = result;
      if (held.state !== 'trying') continue;
      if (result.kind === 'judged') {
        settle(held, { outcome: result.outcome, facts: result.facts });
        continue;
      }
      held.returns += 1;
      marks.lift([held]);
      putBack(held);
    }
    if (pauseBegan) {
      for (const held of schedule.waitingAt(destination)) {
        schedule.forget(held);
        putOff(held);
      }
    }
    if (signal.kind === 'unreachable') speakForOthers(destination, transmission);
    if (signal.kind !== 'nothing') schedule.changed(destination);
  };

  return { settle, putOff, putBack, apply };
}
