/**
 * What befalls nodes that share a database: each dies, is stopped, stands still or loses the database by itself, at a step that was drawn
 * or just after a final dot; and the database server crashes.
 */
import type { Choices } from './choices.ts';
import type { Cluster } from './cluster.ts';
import type { SimulatedNode } from './node.ts';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

interface Mortal {
  timeline: Timeline;
  random: Random;
  cluster: Cluster;
  choices: Choices;
  /** Moments at which what a node knew may be lost to the others. */
  deathsMs: number[];
  dots: { came: () => void };
  count(what: string): void;
}

/** Half of what the oracle allows between an answer and its record. */
const APART_MS = 15_000;
/** Of a lease, with what it takes to win it back. */
const AFTER_MS = 60_000;

export function planClusterDeaths(world: Mortal): void {
  const { timeline, random: draw, cluster, deathsMs, dots, count, choices } = world;
  const again = (node: SimulatedNode): void => {
    const afterMs = draw.chance(0.8) ? draw.between(200, 20_000) : draw.between(60_000, 3_600_000);
    timeline.after(afterMs, 'start', () => node.start(), timeline.world);
  };
  /** What it held in this time may be with others by the end of it. */
  const isAway = (forMs: number): void => {
    const { nowMs } = timeline;
    for (let at = nowMs; at < nowMs + forMs + AFTER_MS; at += APART_MS) deathsMs.push(at);
  };
  /** What it held during an outage of the database it could not write down. */
  const died = (): void => {
    const { nowMs } = timeline;
    const { isBehind, downSinceMs } = cluster.server;
    for (let at = isBehind ? downSinceMs : nowMs; at < nowMs; at += APART_MS) deathsMs.push(at);
    deathsMs.push(nowMs);
  };
  /** Shorter than a lease, or longer. */
  const span = (): number => (draw.chance(0.5) ? draw.between(1_000, 50_000) : draw.between(60_000, 400_000));

  const befall = (node: SimulatedNode): void => {
    const kind = draw.next();
    if (kind < 0.2) {
      count('a planned stop');
      if (cluster.server.isBehind) died();
      void node.stop().then(() => again(node));
    } else if (kind < 0.35) {
      count('a power cut');
      died();
      node.cutPower();
      again(node);
    } else if (kind < 0.5) {
      count('a kill');
      died();
      node.kill();
      again(node);
    } else if (kind < 0.7) {
      const forMs = span();
      count('a node frozen');
      isAway(forMs);
      node.process!.frozenUntilMs = timeline.nowMs + forMs;
      timeline.after(forMs, 'thaw', () => undefined, timeline.world);
    } else if (kind < 0.85) {
      const forMs = span();
      count('a node cut off from the database');
      isAway(forMs);
      cluster.cutOff(node, forMs);
    } else {
      count('a crash of the database');
      cluster.server.crash(draw.chance(0.7) ? draw.between(100, 20_000) : draw.between(20_000, 200_000));
    }
  };
  const befallOne = choices.each('death', () => {
    const up = cluster.nodes.filter((one) => one.isUp);
    if (up.length > 0) befall(draw.pick(up));
  });

  const deaths = draw.chance(0.25) ? 0 : 1 + draw.below(4);
  const drawn = Array.from({ length: deaths }, () => 400 + draw.below(draw.chance(0.7) ? 6_000 : 20_000));
  const atSteps = drawn.sort((a, b) => a - b);
  timeline.beforeStep = () => {
    if (timeline.steps < (atSteps[0] ?? Number.POSITIVE_INFINITY) || !cluster.isUp) return;
    atSteps.shift();
    befallOne();
  };
  if (deaths === 0 || draw.chance(0.4)) return;
  let dotsLeft = draw.below(8);
  dots.came = () => {
    dotsLeft -= 1;
    if (dotsLeft === 0) timeline.after(draw.between(0, 60), 'death', befallOne, timeline.world);
  };
}
