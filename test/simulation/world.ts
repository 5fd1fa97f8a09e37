/**
 * One scenario from start to end: what the seed draws, what happens, and the verdict of the oracle. The same seed gives the same
 * scenario, step by step.
 */
import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { randomText } from '../../src/base/ids.ts';
import { EVENT_TYPES, type EventType } from '../../src/events/events.ts';
import { OWN_RECORD_MS, RECORD_MS } from './absences.ts';
import { Choices } from './choices.ts';
import { createCluster } from './cluster.ts';
import { whole } from './damaged-mail.ts';
import { Disk } from './disk.ts';
import { createDns } from './dns.ts';
import { AWAKE_MS, drawFlood, floodFaults } from './flood.ts';
import { enterWorld, timesFilled } from './globals.ts';
import { startMailServers, startPolicyHosts } from './mail-servers.ts';
import { Network } from './network.ts';
import { createNode, type NodeOptions, type Rows, type SimulatedNode } from './node.ts';
import { DEADLY, faultsOf } from './oracle.ts';
import type { Copy } from './peers.ts';
import { drawPolicies, NO_POLICIES } from './policies.ts';
import { ProcessLifetimes } from './process-lifetimes.ts';
import { type Random, seededRandom } from './random.ts';
import { drawFurther, drawManners, NO_FAULTS, startReceiver } from './receivers.ts';
import { Reporters } from './reporters.ts';
import { NO_STORE_FAULTS, ObjectStore } from './s3-store.ts';
import { DAY_MS, live, START_MS, type World } from './scenario-events.ts';
import { drawScenarioSize, type ScenarioSize } from './scenario-size.ts';
import type { Conditions } from './schedule-oracle.ts';
import { startSigning } from './signing.ts';
import { drawContentFaults, SAFE, type StoredEvidence, storedFaults } from './stored-content.ts';
import type { Template } from './template.ts';
import { SimulatedThreads } from './threads.ts';
import { Timeline } from './timeline.ts';

const LONGEST_MS = 8 * DAY_MS;
const MOST_STEPS = 150_000;
/** Each of several nodes polls as a single one does. */
const MOST_CLUSTER_STEPS = 500_000;
/** Shorter periods are not skipped. */
const LEAP_MS = 30;
/** Used while only open connections exist, or a due row is left unclaimed. */
const IDLE_LEAP_MS = 2_000;
/** Several nodes are expensive, since each tick queries their database: they wake up at this interval. */
const CLUSTER_REST_MS = 200;
/** A machine with leases does not sleep longer than they last. */
const LEASE_MARGIN_MS = 12_000;
/** Nor longer than this, whatever its clock says about its leases: an attempt waits for its own timers, a result to be recorded. */
const HELD_LEAP_MS = 20_000;
/** Log messages of a node while the database is unreachable, and after a pause. */
const DATABASE_AWAY =
  /database not ready|results cannot be recorded; attempts wait|commit outcome|delivery attempt timed out|unrecorded results|cannot be used: (?:timeout expired|the server did not respond in time|E[A-Z]+ )|the start failed: Error: E[A-Z]+ |"type":"(Unavailable|OutcomeUnknown)"/;
const NO_STORAGE_FAULTS = { refused: 0, lost: 0 };

export interface Report {
  seed: string;
  faults: string[];
  trace: string;
  steps: number;
  simulatedMs: number;
  /** What happened in the scenario, by kind. */
  counts: Record<string, number>;
  /** Changes of state that were seen. */
  transitions: Record<string, number>;
  /** Names of the removable parts. */
  parts: string[];
}

export interface RunOptions {
  /** Names of the parts to keep; all of them by default. */
  only?: readonly string[];
  template: Template;
  /** A folder in memory. */
  folder: string;
  /** Steps after which a scenario that did not end has failed. */
  mostSteps?: number;
  /** Called with each step. */
  onStep?: (line: string) => void;
}

export async function runSeed(seed: string, options: RunOptions): Promise<Report> {
  const folder = path.join(options.folder, `seed-${seed}`);
  mkdirSync(folder, { recursive: true });
  const world = makeWorld(seed, { ...options, folder });
  const onThrown = (error: Error): void => void world.faults.push(`thrown: ${error.stack ?? error}`);
  // Also for an unhandled rejection.
  process.on('uncaughtException', onThrown);
  let transitions: Report['transitions'] = {};
  try {
    transitions = await lived(world, options);
  } catch (error) {
    onThrown(error as Error);
  } finally {
    process.off('uncaughtException', onThrown);
    world.threads.closeAll();
    rmSync(folder, { recursive: true, force: true });
  }
  const { faults, timeline, counts, choices } = world;
  const trace = timeline.trace.toString(16).padStart(8, '0');
  const { steps, nowMs: simulatedMs } = timeline;
  return { seed, faults, trace, steps, simulatedMs, counts, transitions, parts: [...choices.parts] };
}

/** Returns the changes of state that were seen. */
async function lived(world: World, { template, mostSteps, onStep }: RunOptions): Promise<Report['transitions']> {
  const { timeline, faults } = world;
  if (onStep) timeline.onStep = ({ label, process }, ms) => onStep(`${ms.toFixed(2)} ${process.name} ${label}`);
  live(world, template);
  const isOver = await run(world, mostSteps ?? (world.cluster ? MOST_CLUSTER_STEPS : MOST_STEPS));
  // Rolls back what is in progress.
  world.cluster?.server.crash(0);
  const database = world.node.rows!;
  if (!isOver) {
    const left = database.all('SELECT * FROM work');
    faults.push(`left at ${timeline.nowMs}: ${JSON.stringify(left)}, ${world.network.ours} connections`);
  }
  const { ledger, peers, receiver, deathsMs, isDeadly } = world;
  faults.push(
    ...world.lives.faults,
    ...world.deeds.faults,
    ...faultsOf({
      ledger,
      peers,
      receiver,
      deathsMs,
      isDeadly,
      database,
      isOver,
      startMs: START_MS,
      manually: world.deeds.suppressed,
      movedWebhooks: world.deeds.movedWebhooks,
      signing: world.signing,
      isDnsSteady: world.lookups.lost + world.lookups.failed === 0,
      isContentShort: world.isContentShort,
      nowMs: Date.now(),
      isShort: world.extent.isSmall,
      policies: world.policies,
      policyHosts: world.policyHosts,
      isRefused: isRefused(world),
      isShared: world.cluster !== undefined,
      outages: world.cluster?.server.outages ?? [],
      reports: whole(world.reporters?.reports ?? [], database),
      subscriber: template.tenants.shop.accountId,
      clockSetAtMs: world.clockSetAtMs,
      conditions: conditionsOf(world),
      downs: world.lives.downs,
      deathsOf: (id) => world.lives.deathsOf(id),
      recordMs: world.cluster || world.isFailing ? RECORD_MS : OWN_RECORD_MS,
    }),
    ...(world.flood ? floodFaults(world.flood, ledger, peers) : []),
    ...storedFaults(storedEvidence(world, database)),
    ...(world.reader?.faultsOf(database, world.cluster !== undefined) ?? []),
  );
  const [removed] = database.all<{ n: number }>(
    'SELECT count(*) AS n FROM email WHERE content IS NULL AND blob_key IS NULL',
  );
  if (removed!.n > 0) world.counts['content past its time'] = Number(removed!.n);
  const changes = database.all<{ name: string; n: number }>(
    "SELECT coalesce(before, '') || '>' || after AS name, count(*) AS n FROM simulated_change GROUP BY 1",
  );
  return Object.fromEntries(changes.map(({ name, n }) => [name, n]));
}

/** Whether the storage failed to record something. */
const isRefused = ({ counts }: World): boolean =>
  ['rejected transaction', 'commit with unknown outcome'].some((one) => counts[one]);

const IO_ERROR = 'disk I/O error';

/** Returns the conditions of the scenario that delay messages. */
function conditionsOf(world: World): Conditions {
  const { network, lookups, counts, lives, store, flood, clockSetAtMs } = world;
  const { resets, silences, blackHoles } = network.faults;
  const isUndisturbed = clockSetAtMs.length === 0 && !isRefused(world) && !store && !flood && !counts[IO_ERROR];
  const isSteady = isUndisturbed && world.cluster === undefined && silences + blackHoles === 0;
  const isPrompt = isSteady && lives.starts === 1;
  return {
    isRefused: isRefused(world),
    isSteady,
    isPrompt,
    isPerfect: isPrompt && resets + lookups.lost + lookups.failed === 0 && !hasFlipped(counts),
  };
}

const hasFlipped = (counts: World['counts']): boolean =>
  ['bit flip in content', 'bit flip in inbound mail'].some((one) => counts[one]);

function storedEvidence(world: World, database: Rows): StoredEvidence {
  const { disk, store, cluster, deathsMs, counts } = world;
  return {
    database,
    stored: (store ?? disk).blobs(),
    left: disk.left,
    // A lost response of a store leaves objects without a reference.
    isUndisturbed: !store && !cluster && deathsMs.length === 0 && !isRefused(world) && !counts[IO_ERROR],
    isFlipped: hasFlipped(counts),
  };
}

function makeWorld(seed: string, { template, folder, only }: RunOptions): World {
  const choices = new Choices(only);
  const random = seededRandom(seed);
  const timeline = new Timeline(random.stream('timeline'));
  const draw = random.stream('faults');
  const floods = random.stream('flood');
  const isShared = template.engine !== undefined;
  const extent = drawScenarioSize(random, { isShared });
  // Expensive if one node does everything: a hundred messages each.
  const flood = floods.chance(isShared ? 0.06 : 0.02) ? drawFlood(floods, { isShared }) : undefined;
  const isCalm = draw.chance(0.2) || flood !== undefined;
  const isPerfect = isCalm && flood === undefined && random.stream('without a fault').chance(0.4);
  const share = (most: number): number => (isCalm || draw.chance(0.4) ? 0 : draw.between(0, most));
  const network = new Network(timeline, {
    random: random.stream('network'),
    faults: choices.faults(
      'network',
      { resets: share(0.1), silences: share(0.04), blackHoles: share(0.05) },
      { resets: 0, silences: 0, blackHoles: 0 },
    ),
  });
  const { counts } = network;
  const count = (what: string): void => network.count(what);
  const disk = new Disk(timeline, random.stream('disk'), count);
  const failing = draw.chance(0.15) && flood === undefined;
  const threads = new SimulatedThreads(timeline, {
    random: random.stream('threads'),
    count,
    faults: choices.faults(
      'storage',
      failing ? { refused: draw.between(0, 0.02), lost: draw.between(0, 0.003) } : NO_STORAGE_FAULTS,
      NO_STORAGE_FAULTS,
    ),
  });
  const lookups = choices.faults('dns', { lost: share(0.1), failed: share(0.1) }, { lost: 0, failed: 0 });
  const dns = createDns(timeline, { random: random.stream('dns'), faults: lookups, count });
  enterWorld({ timeline, startMs: START_MS, setMs: 0, random: random.stream('product'), network, dns, disk, threads });
  // Discards the remaining random bytes of the previous scenario.
  for (const before = timesFilled(); timesFilled() === before; ) randomText(1);
  const dots: World['dots'] = { begun: () => undefined, came: () => undefined };
  const contentFaults = flood ? SAFE : drawContentFaults(random);
  const { largeReportShare: largeShare } = contentFaults;
  const storing = { random: random.stream('store answers'), count };
  const store =
    contentFaults.store &&
    new ObjectStore(network, { ...storing, faults: choices.faults('store', contentFaults.store, NO_STORE_FAULTS) });
  const reporting = random.stream('reports');
  const reporters =
    reporting.chance(0.3) && choices.has('reports')
      ? new Reporters({
          secretKey: template.secretKey,
          random: reporting,
          share: flood ? 0.1 : 0.7,
          largeShare,
          count,
          onDot: () => dots.came(),
          busy: (by) => {
            world.busy += by;
          },
        })
      : undefined;
  const onTaken = (copy: Copy): void => reporters?.taken(copy);
  const policies = flood ? NO_POLICIES : drawPolicies(random, { choices, isShared });
  const peers = startMailServers({
    goodServers: extent.goodServers,
    policies,
    flood,
    isPerfect,
    network,
    dns,
    choices,
    count,
    onTaken,
    random: random.stream('peers'),
    onBegun: (remoteProcess) => dots.begun(remoteProcess),
    onDot: () => dots.came(),
  });
  const signing = startSigning({ dns, template, random: random.stream('signing') });
  const hosting = { policies, network, dns, choices, count, random: random.stream('policy host answers') };
  const policyHosts = startPolicyHosts(hosting);
  const hooks = random.stream('receiver');
  const further = flood ? [] : drawFurther(random.stream('further endpoints'), extent.further);
  const receiver = startReceiver(network, {
    plans: [
      {
        types: drawTypes(random.stream('first endpoint'), extent),
        manners: choices.faults('endpoint', drawManners(hooks), NO_FAULTS),
      },
      ...further.filter((_, at) => choices.has(`endpoint-${at + 1}`)),
    ],
    random: hooks,
    count,
    badUntilMs: extent.badUntilMs,
  });
  const faults: string[] = [];
  const deathsMs: number[] = [];
  const clockSetAtMs: number[] = [];
  const lives = new ProcessLifetimes(timeline, { clocks: () => clockSetAtMs.length, isRefused: () => failing });
  // Several nodes take over from each other without a start.
  const isDeadly = (messageId: string): boolean =>
    (template.engine ? deathsMs.length : lives.deathsOf(messageId)) >= DEADLY;
  const onLog = (level: string, line: string): void => {
    // A failing storage is logged; the product must not fail because of it.
    const isExpected =
      (failing && !/internal error|TypeError|cannot become/.test(line)) ||
      (template.engine !== undefined && DATABASE_AWAY.test(line)) ||
      // A message that was in progress at three deaths is dead-lettered; a machine that sleeps verifies nothing in the meantime.
      (/dead-lettered/.test(line) && isDeadly(JSON.parse(line).messageId)) ||
      ((store || counts[IO_ERROR]) && /stored (content|file) of the message cannot be read/.test(line)) ||
      (/(stored content|stored file) of the message|inbound message/.test(line) && hasFlipped(counts)) ||
      /mail verifier thread/.test(line);
    if (level === 'error' && !isExpected) faults.push(`logged: ${line.trim().slice(0, 2_600)}`);
  };
  const isLong = extent.longestSeconds > DAY_MS / 1_000 && !contentFaults.inboundFlips;
  const contentDays = isLong && random.stream('terms').chance(0.7) ? 1 : undefined;
  if (contentDays !== undefined) count('content retention of one day');
  const makeNode = (shared?: NodeOptions['shared']): SimulatedNode => {
    const node: SimulatedNode = createNode({
      template,
      folder,
      takesMail: reporters !== undefined,
      resolver: policies.resolver,
      contentDays,
      usesStore: store !== undefined,
      onLog,
      ...(shared && { shared }),
      onBroken: () => {
        deathsMs.push(timeline.nowMs);
        node.kill();
        timeline.after(draw.between(500, 5_000), 'start', () => node.start(), timeline.world);
      },
    });
    return node;
  };
  const { engine } = template;
  const onFault = (what: string): void => void faults.push(what);
  const cluster =
    engine && createCluster({ engine, random: random.stream('cluster'), isCalm, choices, count, onFault, makeNode });
  const node = cluster ?? makeNode();
  if (!cluster) lives.watch(node);
  if (flood && cluster)
    for (const { clientBehavior } of peers) clientBehavior.isSharedBy(cluster.nodes.length, AWAKE_MS);
  const world: World = {
    choices,
    random,
    timeline,
    network,
    threads,
    disk,
    node,
    cluster,
    peers,
    receiver,
    reporters,
    faults,
    count,
    counts,
    ledger: [],
    deeds: { faults: [], suppressed: [], movedWebhooks: [] },
    reader: undefined,
    flood,
    store,
    policies,
    policyHosts,
    deathsMs,
    busy: 0,
    dots,
    clockSetAtMs,
    signing,
    contentFaults,
    extent,
    lives,
    isDeadly,
    lookups,
    isFailing: failing,
    isContentShort: contentDays !== undefined,
  };
  return world;
}

/** The subscriptions of the first endpoint: everything, in most scenarios. */
const drawTypes = (random: Random, { fewTypes }: ScenarioSize): readonly EventType[] =>
  random.chance(fewTypes) ? EVENT_TYPES.filter((type) => type === 'Bounce' || random.chance(0.2)) : EVENT_TYPES;

/** Returns whether the scenario ended. */
async function run(world: World, mostSteps: number): Promise<boolean> {
  const { timeline } = world;
  let lookedMs = 0;
  let isRead = world.reader === undefined;
  while (timeline.nowMs < LONGEST_MS && timeline.steps < mostSteps) {
    if (!(await timeline.step())) break;
    world.lives.look();
    if (!timeline.isQuiet || !world.node.isUp) continue;
    if (world.cluster && timeline.nowMs < lookedMs + CLUSTER_REST_MS) continue;
    lookedMs = timeline.nowMs;
    const next = nextDue(world);
    if (next === undefined && !isRead) {
      isRead = true;
      readAll(world);
      continue;
    }
    if (next === undefined) return stopNode(world);
    if (Number.isFinite(next) && next > timeline.nowMs + LEAP_MS) timeline.leap(next);
  }
  return false;
}

/** The reading client reads everything once nothing happens any more. */
function readAll(world: World): void {
  world.busy += 1;
  void world.reader!.readAll().then(() => {
    world.busy -= 1;
  });
}

/**
 * Returns the next moment at which more than ticks happen; undefined if nothing is left, and no node has a connection. Actions of mail
 * servers and customers are not skipped; due rows of the database may be found late.
 */
function nextDue({ timeline, node, cluster, network, random, busy }: World): number | undefined {
  const { rows } = node;
  if (rows === undefined) return timeline.nowMs;
  const ahead = timeline.nextOther();
  if (cluster?.server.isDown || (ahead !== undefined && ahead <= timeline.nowMs + LEAP_MS)) return ahead;
  const [row] = rows.all<{ free: number | null; held: number | null }>(
    'SELECT min(due) FILTER (WHERE leased = 0) AS free, min(due) FILTER (WHERE leased <> 0) AS held FROM work',
  );
  const { free, held } = row!;
  const { nowMs } = timeline;
  if (free === null && held === null && ahead === undefined && busy === 0) {
    return network.ours > 0 ? nowMs + IDLE_LEAP_MS : undefined;
  }
  // Rows are due by the wall clock.
  const wallMs = Date.now() - nowMs;
  const foundMs = random.chance(0.8) ? random.between(0, 100) : random.between(-500, 1_000);
  const idleMs = nowMs + random.between(0, 2 * IDLE_LEAP_MS);
  return Math.min(
    free === null ? Number.POSITIVE_INFINITY : Math.max(free - wallMs + foundMs, idleMs),
    held === null ? Number.POSITIVE_INFINITY : Math.min(held - LEASE_MARGIN_MS - wallMs, nowMs + HELD_LEAP_MS),
    ahead ?? Number.POSITIVE_INFINITY,
  );
}

/** Completes the last stop; a node that dies during it is stopped again when it is up. */
async function stopNode({ timeline, node }: World): Promise<boolean> {
  timeline.beforeStep = undefined;
  for (;;) {
    const { process } = node;
    let isStopped = false;
    void node.stop().then(() => {
      isStopped = true;
    });
    while (!isStopped && node.process === process && (await timeline.step()));
    if (isStopped || node.process === process) return isStopped;
    while (!node.isUp && (await timeline.step()));
    if (!node.isUp) return false;
  }
}
