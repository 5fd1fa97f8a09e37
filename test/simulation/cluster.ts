/**
 * One to three nodes behind one address, with a shared database server. The balancer selects a node for each connection without health
 * checks: customers that reach a dead or paused one retry.
 */

import type { Choices } from './choices.ts';
import { DATABASE_ADDRESS, type DatabaseServer, databaseLink, type ServerOptions } from './database-server.ts';
import { here } from './globals.ts';
import type { Rows, SimulatedNode } from './node.ts';
import { OverlappingEngine } from './overlapping-engine.ts';
import { OverlappingServer } from './overlapping-server.ts';
import type { PostgresEngine } from './postgres-engine.ts';
import { PostgresServer } from './postgres-server.ts';
import type { Random } from './random.ts';
import type { Process } from './timeline.ts';

/** PostgreSQL in this process, which runs one transaction at a time, or a real server. */
export type SharedEngine = PostgresEngine | OverlappingEngine;

export const serverOf = (engine: SharedEngine, options: ServerOptions): PostgresServer | OverlappingServer =>
  engine instanceof OverlappingEngine ? new OverlappingServer(engine, options) : new PostgresServer(engine, options);

export interface Cluster extends SimulatedNode {
  readonly nodes: readonly SimulatedNode[];
  readonly server: DatabaseServer;
  /** Nothing from the node reaches the database for this time, or nothing from the database reaches the node. */
  cutOff(node: SimulatedNode, forMs: number): void;
  /** Whether a connection of the process to the database is silent. */
  isUnheard(process: Process): boolean;
}

const NODES = [1, 2, 2, 2, 3, 3];
/** Maximum clock error of the simulated machines. */
const SKEW_MS = 600_000;

export interface ClusterOptions {
  engine: SharedEngine;
  random: Random;
  isCalm: boolean;
  choices: Choices;
  count(what: string): void;
  onFault(what: string): void;
  makeNode(shared: { name: string; skewMs: number }): SimulatedNode;
}

export function createCluster({ engine, random, isCalm, choices, count, onFault, makeNode }: ClusterOptions): Cluster {
  const { network, timeline } = here();
  engine.restore();
  const share = (most: number): number => (isCalm || random.chance(0.5) ? 0 : random.between(0, most));
  const server = serverOf(engine, {
    network,
    count,
    onFault,
    random: random.stream('server'),
    faults: { stalls: share(0.02) },
  });
  const cut = new Set<Process>();
  const none = { resets: 0, silences: 0, blackHoles: 0 };
  const drawn = { resets: share(0.2), silences: share(0.05), blackHoles: share(0.03) };
  const faults = choices.faults('database', drawn, none);
  network.links.set(
    DATABASE_ADDRESS,
    databaseLink(random.stream('link'), { faults, isCutOff: (process) => cut.has(process) }),
  );
  const names = Array.from({ length: random.pick(NODES) }, (_, at) => `node${at + 1}`);
  const nodes = names.map((name) =>
    makeNode({ name, skewMs: random.chance(0.5) ? Math.round(random.between(-SKEW_MS, SKEW_MS)) : 0 }),
  );
  count(names.length === 1 ? 'world with one node' : `world with ${names.length} nodes`);
  const rows: Rows = {
    all: (sql, ...params) => engine.rows(sql, ...(params as string[])),
    get: <T>(sql: string, ...params: unknown[]) => engine.rows<T>(sql, ...(params as string[]))[0],
  };

  const cutOff = (node: SimulatedNode, forMs: number): void => {
    const { process } = node;
    if (process === undefined) return;
    cut.add(process);
    const isOneWay = random.chance(0.3);
    const isOfServer = random.chance(0.5);
    for (const socket of network.sockets) {
      const isOwn = socket.process === process && socket.link !== undefined;
      const isPeer = socket.remoteProcess === process && socket.link !== undefined && socket.process !== process;
      if ((isOwn && !(isOneWay && isOfServer)) || (isPeer && !(isOneWay && !isOfServer))) socket.silence();
    }
    timeline.after(forMs, 'link up', () => cut.delete(process), timeline.world);
  };

  const isUnheard = (process: Process): boolean =>
    [...network.sockets].some((socket) => socket.link !== undefined && socket.process === process && socket.isCut);

  const each = (run: (node: SimulatedNode) => void): void => {
    for (const node of nodes) run(node);
  };
  return {
    nodes,
    server,
    cutOff,
    isUnheard,
    get rows() {
      return server.isFree ? rows : undefined;
    },
    file: '',
    process: undefined,
    get isUp() {
      return nodes.some((node) => node.isUp);
    },
    start: () => each((node) => node.start()),
    kill: () => each((node) => node.kill()),
    cutPower: () => each((node) => node.cutPower()),
    stop: async () => {
      await Promise.all(nodes.filter((node) => node.isUp).map((node) => node.stop()));
      each((node) => node.kill());
      return true;
    },
  };
}
