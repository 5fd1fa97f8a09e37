/** Deaths during a start or a planned stop: after a number of steps, unless it has finished by then. */
import type { Choices } from './choices.ts';
import type { SimulatedNode } from './node.ts';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

/** Share of starts and stops that are cut. */
const SHARE = 0.3;

export type Death = 'power cut' | 'kill';

export interface Cuts {
  /** The node starts or stops from now on. */
  begun(node: SimulatedNode, what: 'start' | 'stop'): void;
  /** Called between any two steps. */
  look(): void;
}

interface Cutting {
  timeline: Timeline;
  random: Random;
  choices: Choices;
  count(what: string): void;
  /** Ends a running node and restarts it. */
  die(node: SimulatedNode, how: Death): void;
}

export function createCuts({ timeline, random, choices, count, die }: Cutting): Cuts {
  const draw = random.stream('cuts');
  const due = new Map<SimulatedNode, { step: number; what: string }>();
  let cuts = 0;
  return {
    begun: (node, what) => {
      due.delete(node);
      if (!draw.chance(SHARE)) return;
      due.set(node, { step: timeline.steps + 1 + draw.below(draw.chance(0.6) ? 20 : 200), what });
    },
    look: () => {
      for (const [node, { step, what }] of due) {
        if (timeline.steps < step) continue;
        due.delete(node);
        if (node.process === undefined || node.isUp) continue;
        cuts += 1;
        if (!choices.has(`cut-${cuts}`)) continue;
        count(`crash during ${what}`);
        die(node, draw.chance(0.5) ? 'power cut' : 'kill');
      }
    },
  };
}
