/**
 * Failures of nodes that share a database: each node dies, is stopped, is paused, loses the database or has its clock set, independently,
 * at a random step or just after a final dot; and the database server crashes, or another one becomes the primary.
 */
import { absent } from './absences.ts';
import type { Choices } from './choices.ts';
import type { Cluster } from './cluster.ts';
import { createCuts, type Death } from './cuts.ts';
import type { SimulatedNode } from './node.ts';
import { OverlappingServer } from './overlapping-server.ts';
import type { Random } from './random.ts';
import type { Process, Timeline } from './timeline.ts';

interface Mortal {
  timeline: Timeline;
  random: Random;
  cluster: Cluster;
  choices: Choices;
  /** Times of deaths, and of absences that outlast a lease. */
  deathsMs: number[];
  dots: { begun: (remoteProcess: Process | undefined) => void; came: () => void };
  count(what: string): void;
}

/** A lease that is extended in time has at least this left: a shorter absence causes no take-over. */
const LEASE_LEFT_MS = 40_000;
/** After this time a node detects that the database no longer hears it, and opens new connections. */
const UNHEARD_MS = 36_000;
/** Maximum error of a set clock. */
const CLOCK_MS = 3_600_000;

export function planClusterDeaths(world: Mortal): void {
  const { timeline, random: draw, cluster, deathsMs, dots, count, choices } = world;
  const again = (node: SimulatedNode): void => {
    const afterMs = draw.chance(0.8) ? draw.between(200, 20_000) : draw.between(60_000, 3_600_000);
    const start = (): void => {
      cuts.begun(node, 'start');
      node.start();
    };
    timeline.after(afterMs, 'start', start, timeline.world);
  };
  /** Results from an outage of the database may not be written. */
  const loses = (node: SimulatedNode): void => {
    deathsMs.push(timeline.nowMs);
    absent(node.process!, { fromMs: cluster.server.writtenToMs, untilMs: timeline.nowMs });
  };
  const die = (node: SimulatedNode, how: Death): void => {
    count(how);
    loses(node);
    if (how === 'kill') node.kill();
    else node.cutPower();
    again(node);
  };
  const cuts = createCuts({ ...world, die });
  /** The node is away for `forMs`, and is heard again after `backMs`. */
  const isAway = (node: SimulatedNode, { forMs, backMs }: { forMs: number; backMs: number }): void => {
    const { server } = cluster;
    const process = node.process!;
    const { nowMs: fromMs } = timeline;
    const wasWell = server.writtenToMs === fromMs && !cluster.isUnheard(process);
    timeline.after(
      forMs,
      'back',
      () => {
        const isShort = forMs + backMs < LEASE_LEFT_MS && wasWell && server.writtenToMs >= timeline.nowMs;
        if (!isShort) deathsMs.push(timeline.nowMs);
        absent(process, { fromMs, untilMs: timeline.nowMs + backMs, isShort });
      },
      timeline.world,
    );
  };
  /** Shorter than a lease, slightly longer, or much longer. */
  const span = (): number =>
    draw.chance(0.5) ? draw.between(1_000, 50_000) : draw.between(60_000, draw.pick([120_000, 400_000]));

  const freeze = (node: SimulatedNode): void => {
    const forMs = span();
    count('frozen node');
    isAway(node, { forMs, backMs: 0 });
    node.process!.frozenUntilMs = timeline.nowMs + forMs;
  };
  const befall = (node: SimulatedNode): void => {
    const kind = draw.next();
    if (kind < 0.2) {
      count('graceful stop');
      if (cluster.server.writtenToMs < timeline.nowMs) loses(node);
      cuts.begun(node, 'stop');
      // A node that died in the meantime starts after that death.
      void node.stop().then((isOver) => isOver && again(node));
    } else if (kind < 0.46) {
      die(node, kind < 0.33 ? 'power cut' : 'kill');
    } else if (kind < 0.66) {
      freeze(node);
    } else if (kind < 0.8) {
      const forMs = span();
      count('node cut off from the database');
      isAway(node, { forMs, backMs: UNHEARD_MS });
      cluster.cutOff(node, forMs);
    } else if (kind < 0.88) {
      count('clock change on a node');
      node.process!.skewMs = draw.between(-CLOCK_MS, CLOCK_MS);
    } else {
      count('database crash');
      cluster.server.crash(draw.chance(0.7) ? draw.between(100, 20_000) : draw.between(20_000, 200_000));
    }
  };
  const befallOne = choices.each('death', () => {
    const up = cluster.nodes.filter((one) => one.isUp);
    if (up.length > 0) befall(draw.pick(up));
  });
  const freezeSender = (remoteProcess: Process | undefined): void => {
    const node = cluster.nodes.find((one) => one.isUp && one.process === remoteProcess);
    if (node && choices.has('freeze')) freeze(node);
  };

  planFailovers(world);
  const deaths = draw.chance(0.25) ? 0 : 1 + draw.below(4);
  const drawn = Array.from({ length: deaths }, () => 400 + draw.below(draw.chance(0.7) ? 6_000 : 20_000));
  const atSteps = drawn.sort((a, b) => a - b);
  if (deaths > 0) for (const node of cluster.nodes) cuts.begun(node, 'start');
  timeline.beforeStep = () => {
    cuts.look();
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
  if (draw.chance(0.5)) return;
  // A transaction that was started must not end after another node has taken it over.
  let begunLeft = draw.below(8);
  dots.begun = (remoteProcess) => {
    begunLeft -= 1;
    if (begunLeft === 0)
      timeline.after(draw.between(0, 30), 'freeze', () => freezeSender(remoteProcess), timeline.world);
  };
}

/** How many commits a scenario has before its first failover, and between two of them. */
const COMMITS = 250;

/** Changes of the primary during a commit or just after one: its answer is lost in most of them. */
function planFailovers({ cluster: { server }, random, choices, timeline }: Mortal): void {
  if (!(server instanceof OverlappingServer)) return;
  const draw = random.stream('failovers');
  let failoversLeft = draw.chance(0.35) ? 0 : 1 + draw.below(3);
  let commitsLeft = 1 + draw.below(COMMITS);
  const failOver = choices.each('failover', () => {
    if (!server.isDown) server.failOver(draw.chance(0.7) ? draw.between(100, 5_000) : draw.between(5_000, 60_000));
  });
  server.onCommit = () => {
    if (failoversLeft === 0) return;
    commitsLeft -= 1;
    if (commitsLeft > 0) return;
    failoversLeft -= 1;
    commitsLeft = 1 + draw.below(COMMITS);
    if (draw.chance(0.3)) failOver();
    else timeline.after(draw.between(0, 1), 'failover', failOver, timeline.world);
  };
}
