/**
 * Tracks the nodes (processes that share the database), so each keeps to its share of a common limit, such as connections to one
 * destination or requests of one API key. Every 2 s, each node writes its row (a heartbeat), removes silent nodes, counts the others, and
 * takes an equal share of each limit. Together, nodes exceed a limit only for the few seconds until all of them know a new node. Times are
 * read from the database's clock, so nodes with different clocks agree. Each heartbeat also publishes the node's state for the operator.
 *
 * A node that cannot reach the database keeps the last count; without the database it can neither claim nor accept mail. On SQLite, a
 * single process has all limits to itself; it writes its state for the command line whenever the state changes.
 */
import { type Clock, iso } from '../base/clock.ts';
import { randomText } from '../base/ids.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { operation, skipLocked, type Transaction } from '../storage/operation.ts';

const BEAT_MS = 2_000;
/** A node is removed after five missed heartbeats; reconnecting to the database takes less time. */
const SILENT_MS = 10_000;

export interface LastReply {
  /** Unix ms. */
  at: number;
  host: string | null;
  reply: string;
  /** Whether the reply accepted a message. */
  accepted: boolean;
}

/** One node's view of a destination. */
export interface PublishedDestination {
  key: string;
  /** Recipient domains that use the destination, or some of them if there are many; absent for a relay. */
  domains?: readonly string[];
  /** Messages in memory that wait for a session. */
  waiting: number;
  /** Open sessions. */
  connections: number;
  /** Maximum number of sessions right now. */
  limit: number;
  /** Describes the rule that sets this limit. */
  limitReason: string;
  /** Recent time per message in a session, ms; null if not measured. */
  messageMs: number | null;
  /** Rate limit; null if there is none. */
  messagesPerMinute: number | null;
  /** Unix ms; null if not paused. */
  pausedUntil: number | null;
  /** Whether the destination's server requested the pause. */
  requested: boolean;
  /** Messages deferred to the end of the pause, as last counted. */
  deferred: number;
  /** Unix ms at which the destination started to block Postrider's host; null if it does not. */
  blockedSince: number | null;
  /** Whether its mail is sent by the fallback route. */
  fallback: boolean;
  /** Newest first. */
  replies: readonly LastReply[];
}

/** The state that a node publishes. */
export interface NodeState {
  /** Number of work rows that the node has leased, by kind. */
  leases?: Readonly<Record<string, number>>;
  /** Paused destinations, and the busiest ones. */
  destinations?: readonly PublishedDestination[];
}

export interface LiveNode {
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
  /** Returns this process's share of a common limit, above 0 and at most 1, among the nodes with this role. */
  share(role: string): number;
  /**
   * Returns whether this is the first node with this role, for tasks of a single node. For a few seconds, two nodes or none may be first.
   */
  isFirst(role: string): boolean;
  /** Returns the number of live nodes, including this one. */
  count(): number;
  /** Sets the function that returns the state to publish. */
  publish(state: () => NodeState): void;
  /** Returns the live nodes with their last published state. */
  list(): Promise<LiveNode[]>;
}

/** Adds this process to the nodes of the database. Resolves after its first heartbeat; rejects if the database does not respond. */
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
  const newBeat = (state: string): Beat => ({
    id,
    host,
    version,
    roles: roles.join(','),
    state,
    nowMs: clock.now(),
    silentMs: SILENT_MS,
  });
  const failed = (error: unknown): void => log.warn({ error: (error as Error).message }, 'node heartbeat failed');
  if (database.dialect === 'sqlite') {
    const self = { id, host, version, roles: [...roles], startedAt: clock.now() };
    const list = async (): Promise<LiveNode[]> => [{ ...self, seenAt: clock.now(), state: stateOf() }];
    // The command line reads the state; it is written only when it changes.
    let written = '';
    const beats = startBeats(async () => {
      const state = JSON.stringify(stateOf());
      if (state !== written) await database.execute(beatOperation, newBeat(state));
      written = state;
    }, failed);
    const stop = async (): Promise<void> => {
      await beats.stop();
      if (written !== '') await database.execute(leaveOperation, id).catch(() => 0);
    };
    return { share: () => 1, isFirst: () => true, count: () => 1, publish, list, stop };
  }
  let liveNodes: NodeRow[] = [];
  let counts = new Map<string, number>();

  const beat = async (): Promise<void> => {
    const before = liveNodes.length;
    liveNodes = await database.execute(beatOperation, newBeat(JSON.stringify(stateOf())));
    counts = new Map();
    for (const role of liveNodes.flatMap((node) => node.roles.split(',')))
      counts.set(role, (counts.get(role) ?? 0) + 1);
    if (liveNodes.length !== before) log.info({ nodes: liveNodes.map((node) => node.id) }, 'nodes changed');
  };

  await beat();
  const beats = startBeats(beat, failed);
  return {
    share: (role) => 1 / Math.max(1, counts.get(role) ?? 1),
    isFirst: (role) => liveNodes.find((node) => node.roles.split(',').includes(role))?.id === id,
    count: () => liveNodes.length,
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
  /** Unix ms of this process; only used if the database has no clock. */
  nowMs: number;
  /** Time without a heartbeat after which a node is removed. */
  silentMs: number;
}

async function clockOf(tx: Transaction, nowMs: number): Promise<number> {
  if (tx.dialect === 'sqlite') return nowMs;
  const row = await tx.get<{ now: number }>(
    'SELECT CAST(floor(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT) AS now',
  );
  return row!.now;
}

/** Writes the heartbeat; returns every live node, including this one. */
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
  // After a database outage every node is silent. Rows that another node is writing or deleting are skipped, to avoid a deadlock.
  await tx.run(
    `DELETE FROM node WHERE id IN (SELECT id FROM node WHERE seen_at <= ? ${skipLocked(tx)})`,
    nowMs - beat.silentMs,
  );
  return tx.all<NodeRow>('SELECT id, host, version, roles FROM node ORDER BY id');
});

export interface Explanation {
  /** Rate that the limits allow; null if not measured. */
  messagesPerSecond: number | null;
  text: string;
}

/**
 * Explains the delivery rate to a destination: whether it is paused, what its limits allow on all nodes together, and which rule set them.
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
  const maxPerSecond = rates.length === 0 ? perSecond : Math.min(perSecond, rates.reduce((a, b) => a + b, 0) / 60);
  const messagesPerSecond = Number.isFinite(maxPerSecond) ? Number(maxPerSecond.toPrecision(3)) : null;
  const reasons = [...new Set(nodes.flatMap(({ limitReason }) => limitReason ?? []))].join('; ');
  const connections = `${limit} connection${limit === 1 ? '' : 's'}`;
  const product =
    messageMs === null
      ? `${connections} allowed; the time per message has not been measured yet`
      : `${connections} at ${Number(messageMs.toPrecision(2))} ms per message allow${limit === 1 ? 's' : ''} ${Number(perSecond.toPrecision(3))} messages/s`;
  const ceiling = [
    `${product} (${reasons})`,
    ...(maxPerSecond < perSecond ? [`The rate limit is ${messagesPerSecond} messages/s`] : []),
  ];
  const waiting = depth === 1 ? '1 message queued' : `${depth} messages queued`;
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

/** Describes the pause or block; null if the destination is not paused and does not block Postrider's host. */
function pauseText(nodes: readonly PublishedDestination[]): string | null {
  const key = nodes[0]?.key ?? '';
  const blocked = nodes.flatMap(({ blockedSince }) => blockedSince ?? []);
  const paused = nodes.flatMap(({ pausedUntil }) => pausedUntil ?? []);
  const until = paused.length === 0 ? null : iso(Math.max(...paused));
  if (blocked.length > 0) {
    const block = `${key} has blocked this host since ${iso(Math.min(...blocked))}`;
    return until === null ? block : `${block}; next attempt at ${until}`;
  }
  if (until === null) return null;
  return nodes.some(({ requested }) => requested)
    ? `${key} requested a pause until ${until}`
    : `Postrider paused ${key} until ${until}`;
}

interface PublishedRow extends Omit<LiveNode, 'roles' | 'state'> {
  roles: string;
  state: string;
}

/** Returns every node that was live at the most recent heartbeat of any node. */
export const nodesOperation = operation('nodes.list', 'read', (tx, _: null): Promise<PublishedRow[]> | PublishedRow[] =>
  tx.all<PublishedRow>(
    `SELECT id, host, version, roles, state, started_at AS "startedAt", seen_at AS "seenAt" FROM node ORDER BY id`,
  ),
);

/** Removes a stopping node from the count immediately. */
export const leaveOperation = operation('nodes.leave', 'write', async (tx, id: string): Promise<number> => {
  return tx.run('DELETE FROM node WHERE id = ?', id);
});
