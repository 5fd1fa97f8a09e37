/**
 * Which processes share the database, so that each keeps to its share of a limit that holds for all of them together:
 * connections to one destination, requests of one key. Every node writes its row every two seconds, forgets those that stay silent,
 * counts the others and takes an equal part; together they exceed a limit only for the few seconds in which a new one is not
 * known to the others yet. Times are the database's, so that nodes whose clocks differ agree. With its sign of life a node publishes
 * what it does, for the operator.
 *
 * A node that cannot reach the database goes on with the last count: it can neither claim nor accept then. The embedded
 * database has one process, which has everything to itself; what it publishes is written for the command line when it changes.
 */
import { type Clock, iso } from '../base/clock.ts';
import { randomText } from '../base/ids.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { operation, type Transaction } from '../storage/operation.ts';

const BEAT_MS = 2_000;
/** Five beats missed: a node that restarts its database connection is not given up for it. */
const SILENT_MS = 10_000;

export interface LastReply {
  /** Unix ms. */
  at: number;
  host: string | null;
  reply: string;
  /** It took a message. */
  accepted: boolean;
}

/** A destination of mail as one node has it. */
export interface PublishedDestination {
  key: string;
  /** Domains of recipients whose mail counts for it, some of them where they are many; absent behind a relay. */
  domains?: readonly string[];
  /** Messages in memory that wait for a slot. */
  waiting: number;
  /** Open sessions. */
  connections: number;
  /** Sessions that it may have now. */
  limit: number;
  /** Which rule sets that, in words. */
  limitReason: string;
  /** How long a message keeps a session, ms, as it was lately; null where none was measured. */
  messageMs: number | null;
  /** A rate that is not exceeded. */
  messagesPerMinute: number | null;
  /** Unix ms; null where it is not paused. */
  pausedUntil: number | null;
  /** Whether its server asked for that pause. */
  asked: boolean;
  /** Messages that are put off until the end of the pause, as they were counted last. */
  putOff: number;
  /** Unix ms since which it refuses our host; null where it does not. */
  blockedSince: number | null;
  /** Its mail goes by the fallback route. */
  fallback: boolean;
  /** Newest first. */
  replies: readonly LastReply[];
}

/** What a node publishes of itself. */
export interface NodeState {
  /** Rows of work in hand, by kind. */
  leases?: Readonly<Record<string, number>>;
  /** Those that are paused, and the busiest. */
  destinations?: readonly PublishedDestination[];
}

export interface LivingNode {
  id: string;
  host: string;
  version: string;
  roles: string[];
  /** Unix ms. */
  startedAt: number;
  seenAt: number;
  state: NodeState;
}

export interface Nodes extends Running {
  /** The part of a common limit that is this process's, above 0 and at most 1, among the nodes with this role. */
  share(role: string): number;
  /** Whether this is the first of the nodes with this role, to do what one is enough for. For some seconds two may be, or none. */
  isFirst(role: string): boolean;
  /** Nodes that live, this one included. */
  count(): number;
  /** Says how to ask for what this node publishes. */
  publish(state: () => NodeState): void;
  /** The nodes that live with what they published last. */
  list(): Promise<LivingNode[]>;
}

/** Joins the nodes of a shared database and resolves when this one is counted; rejects when the database does not answer. */
export async function joinNodes(options: {
  database: Database;
  clock: Clock;
  log: Log;
  host: string;
  version: string;
  roles: readonly string[];
}): Promise<Nodes> {
  const { database, clock, log, host, version, roles } = options;
  const id = `${host}/${process.pid}/${randomText(10)}`;
  let stateOf = (): NodeState => ({});
  const publish = (state: () => NodeState): void => {
    stateOf = state;
  };
  const sign = (state: string): Beat => ({
    ...{ id, host, version, roles: roles.join(','), state, nowMs: clock.now(), silentMs: SILENT_MS },
  });
  const failed = (error: unknown): void => log.warn({ error: (error as Error).message }, 'node heartbeat failed');
  if (database.dialect === 'sqlite') {
    const self = { id, host, version, roles: [...roles], startedAt: clock.now() };
    const list = async (): Promise<LivingNode[]> => [{ ...self, seenAt: clock.now(), state: stateOf() }];
    // For the command line; nothing is written while nothing changes.
    let written = '';
    const beats = startBeats(async () => {
      const state = JSON.stringify(stateOf());
      if (state !== written) await database.execute(beatOperation, sign(state));
      written = state;
    }, failed);
    const stop = async (): Promise<void> => {
      await beats.stop();
      if (written !== '') await database.execute(leaveOperation, id).catch(() => 0);
    };
    return { share: () => 1, isFirst: () => true, count: () => 1, publish, list, stop };
  }
  let living: NodeRow[] = [];
  let counts = new Map<string, number>();

  const beat = async (): Promise<void> => {
    const before = living.length;
    living = await database.execute(beatOperation, sign(JSON.stringify(stateOf())));
    counts = new Map();
    for (const role of living.flatMap((node) => node.roles.split(','))) counts.set(role, (counts.get(role) ?? 0) + 1);
    if (living.length !== before) log.info({ nodes: living.map((node) => node.id) }, 'nodes changed');
  };

  await beat();
  const beats = startBeats(beat, failed);
  return {
    share: (role) => 1 / Math.max(1, counts.get(role) ?? 1),
    isFirst: (role) => living.find((node) => node.roles.split(',').includes(role))?.id === id,
    count: () => living.length,
    publish,
    list: async () => {
      const rows = await database.execute(nodesOperation, null);
      return rows.map((row) => ({
        ...row,
        roles: row.roles.split(','),
        state: row.id === id ? stateOf() : (JSON.parse(row.state) as NodeState),
      }));
    },
    stop: async () => {
      await beats.stop();
      await database.execute(leaveOperation, id).catch(() => 0);
    },
  };
}

function startBeats(beat: () => Promise<void>, failed: (error: unknown) => void): Running {
  let beating: Promise<void> | undefined;
  const timer = setInterval(() => {
    beating ??= beat()
      .catch(failed)
      .finally(() => {
        beating = undefined;
      });
  }, BEAT_MS);
  timer.unref();
  return {
    stop: async () => {
      clearInterval(timer);
      await beating;
    },
  };
}

interface NodeRow {
  id: string;
  host: string;
  version: string;
  /** Names of its roles, separated by commas. */
  roles: string;
}

interface Beat extends NodeRow {
  /** JSON of NodeState. */
  state: string;
  /** Unix ms of this process; only used where the database has no clock. */
  nowMs: number;
  /** Silence after which a node no longer counts. */
  silentMs: number;
}

async function clockOf(tx: Transaction, nowMs: number): Promise<number> {
  if (tx.dialect === 'sqlite') return nowMs;
  const row = await tx.get<{ now: number }>(
    'SELECT CAST(floor(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT) AS now',
  );
  return row!.now;
}

/** Writes the sign of life; answers every node that lives, this one among them. */
export const beatOperation = operation('nodes.beat', 'write', async (tx, beat: Beat): Promise<NodeRow[]> => {
  const nowMs = await clockOf(tx, beat.nowMs);
  await tx.run(
    `INSERT INTO node (id, host, version, roles, state, started_at, seen_at) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, state = excluded.state`,
    beat.id,
    beat.host,
    beat.version,
    beat.roles,
    beat.state,
    nowMs,
    nowMs,
  );
  await tx.run('DELETE FROM node WHERE seen_at <= ?', nowMs - beat.silentMs);
  return tx.all<NodeRow>('SELECT id, host, version, roles FROM node ORDER BY id');
});

export interface Explanation {
  /** Messages that the limits let through; null where none was measured. */
  messagesPerSecond: number | null;
  text: string;
}

/**
 * Why mail for a destination goes as fast or slow as it does: whether it is paused, what its limits imply on all nodes together, and which
 * rule set them.
 */
export function explainDestination(
  nodes: readonly PublishedDestination[],
  queue: { depth: number; nextAttemptMs: number | null; replies: readonly LastReply[] },
): Explanation {
  const { depth, nextAttemptMs, replies } = queue;
  const limit = nodes.reduce((sum, one) => sum + one.limit, 0);
  const measured = nodes.flatMap(({ messageMs }) => messageMs ?? []);
  const messageMs = measured.length === 0 ? null : measured.reduce((sum, ms) => sum + ms, 0) / measured.length;
  const rates = nodes.flatMap(({ messagesPerMinute }) => messagesPerMinute ?? []);
  const perSecond = messageMs === null ? Number.POSITIVE_INFINITY : (limit * 1_000) / Math.max(messageMs, 0.1);
  const mostPerSecond = rates.length === 0 ? perSecond : Math.min(perSecond, rates.reduce((a, b) => a + b, 0) / 60);
  const messagesPerSecond = Number.isFinite(mostPerSecond) ? Number(mostPerSecond.toPrecision(3)) : null;
  const reasons = [...new Set(nodes.flatMap(({ limitReason }) => limitReason ?? []))].join('; ');
  const connections = `${limit} connection${limit === 1 ? '' : 's'}`;
  const product =
    messageMs === null
      ? `${connections}, and no message was measured yet`
      : `${connections} × ${Number(messageMs.toPrecision(2))} ms a message = ${Number(perSecond.toPrecision(3))} messages/s`;
  const ceiling = [
    `${product} (${reasons})`,
    ...(mostPerSecond < perSecond ? [`A rate allows ${messagesPerSecond} messages/s`] : []),
  ];
  const waiting = depth === 1 ? '1 message is waiting' : `${depth} messages are waiting`;
  const [last] = replies;
  const reply = last === undefined ? [] : [`Last reply: ${last.reply.replace(/\.$/, '')}`];
  if (nodes.length === 0) {
    const next = nextAttemptMs === null ? [] : [`Next attempt at ${iso(nextAttemptMs)}`];
    return { messagesPerSecond: null, text: `${[waiting, ...next, ...reply].join('. ')}.` };
  }
  const pause = pauseText(nodes);
  const sentences = pause === null ? [...ceiling, waiting, ...reply] : [`${pause}; ${waiting}`, ...reply, ...ceiling];
  const isPaused = nodes.some(({ pausedUntil }) => pausedUntil !== null);
  return { messagesPerSecond: isPaused ? 0 : messagesPerSecond, text: `${sentences.join('. ')}.` };
}

/** Returns why a destination is paused; null if it is neither paused nor blocks this host. */
function pauseText(nodes: readonly PublishedDestination[]): string | null {
  const key = nodes[0]?.key ?? '';
  const blocked = nodes.flatMap(({ blockedSince }) => blockedSince ?? []);
  const paused = nodes.flatMap(({ pausedUntil }) => pausedUntil ?? []);
  const until = paused.length === 0 ? null : iso(Math.max(...paused));
  if (blocked.length > 0) {
    const refuses = `${key} has blocked this host since ${iso(Math.min(...blocked))}`;
    return until === null ? refuses : `${refuses}; next try at ${until}`;
  }
  if (until === null) return null;
  return nodes.some(({ asked }) => asked)
    ? `${key} asked Postrider to wait until ${until}`
    : `${key} is paused until ${until}`;
}

interface PublishedRow extends Omit<LivingNode, 'roles' | 'state'> {
  roles: string;
  state: string;
}

/** Every node that was alive at the last sign of life of any. */
export const nodesOperation = operation('nodes.list', 'read', (tx, _: null): Promise<PublishedRow[]> | PublishedRow[] =>
  tx.all<PublishedRow>(
    `SELECT id, host, version, roles, state, started_at AS "startedAt", seen_at AS "seenAt" FROM node ORDER BY id`,
  ),
);

/** Takes a node that stops out of the count at once. */
export const leaveOperation = operation('nodes.leave', 'write', async (tx, id: string): Promise<number> => {
  return tx.run('DELETE FROM node WHERE id = ?', id);
});
