/**
 * When and how the single node dies: by a kill, a power cut, or a planned stop. Some deaths come at a random step, so that any two steps
 * may have one between them; others follow a final dot, which is the most critical moment, or interrupt a start or a stop.
 */
import type { Choices } from './choices.ts';
import { createCuts, type Death } from './cuts.ts';
import type { Disk } from './disk.ts';
import type { SimulatedNode } from './node.ts';
import type { Random } from './random.ts';
import type { ScenarioSize } from './scenario-size.ts';
import type { Timeline } from './timeline.ts';

interface Mortal {
  choices: Choices;
  timeline: Timeline;
  random: Random;
  node: SimulatedNode;
  disk: Disk;
  /** Times of kills and power cuts. */
  deathsMs: number[];
  dots: { came: () => void };
  extent: ScenarioSize;
  count(what: string): void;
}

export function planDeaths(world: Mortal): void {
  const { timeline, random: draw, node, disk, deathsMs, dots, count, choices, extent } = world;
  const startAgain = (): void => {
    const afterMs = draw.chance(0.8) ? draw.between(200, 20_000) : draw.between(60_000, 3_600_000);
    const start = (): void => {
      cuts.begun(node, 'start');
      node.start();
    };
    timeline.after(afterMs, 'start', start, timeline.world);
  };
  const die = (how: Death): void => {
    deathsMs.push(timeline.nowMs);
    count(how);
    if (how === 'power cut') {
      node.cutPower();
      disk.cutPower();
    } else {
      node.kill();
    }
    startAgain();
  };
  const cuts = createCuts({ ...world, die: (_, how) => die(how) });
  const end = choices.each('death', () => {
    if (!node.isUp) return;
    const kind = draw.next();
    if (kind >= 0.35) {
      die(kind < 0.6 ? 'power cut' : 'kill');
      return;
    }
    count('graceful stop');
    cuts.begun(node, 'stop');
    // A node that died in the meantime starts after that death.
    void node.stop().then((isOver) => isOver && startAgain());
  });

  const deaths = draw.chance(0.35) ? 0 : Math.min(extent.deaths, 1 + draw.below(4));
  const drawn = Array.from(
    { length: deaths },
    () => 50 + draw.below(draw.chance(extent.isDay ? 0.5 : 0.7) ? 800 : 4_000),
  );
  const atSteps = drawn.sort((a, b) => a - b);
  if (deaths > 0) cuts.begun(node, 'start');
  timeline.beforeStep = () => {
    cuts.look();
    if (timeline.steps < (atSteps[0] ?? Number.POSITIVE_INFINITY) || !node.isUp) return;
    atSteps.shift();
    end();
  };
  if (deaths === 0 || draw.chance(0.5)) return;
  let dotsLeft = draw.below(8);
  dots.came = () => {
    dotsLeft -= 1;
    if (dotsLeft === 0) timeline.after(draw.between(0, 60), 'death', end, timeline.world);
  };
}
