/**
 * Destinations across all nodes: each node publishes its paused and its busiest ones, and the queue adds mail that waits for its next
 * attempt, which no node has in memory. Paused destinations come first, then those with the most mail.
 */
import { iso, isoOrNull } from '../base/clock.ts';
import { Type } from '../http/schema-type.ts';
import { closed, named } from '../http/validate.ts';
import { explainDestination, type LastReply, type LiveNode, type PublishedDestination } from '../nodes/nodes.ts';
import type { Database } from '../storage/database.ts';
import { type DomainQueue, lastAttemptsOperation, queueByDomainOperation } from './store.ts';

const REPLIES_SHOWN = 4;
/** Maximum number of queue rows to read; docs/explanation/performance.md has the cost. */
export const ROWS_AT_MOST = 50_000;

interface OnNode extends PublishedDestination {
  nodeId: string;
}

export interface DestinationView {
  key: string;
  domains: string[];
  depth: number;
  /** Unix ms; null if no message waits for its next attempt. */
  nextAttemptMs: number | null;
  /** The newest queued message that failed before; its last attempt has the destination's reply. */
  failedSeq: number | null;
  nodes: OnNode[];
}

/** The relay, which receives all live mail if POSTRIDER_ROUTE is set. */
const RELAY = 'relay';

/** Returns all destinations, in the order of the list. */
export async function readDestinations(
  database: Database,
  nodes: readonly LiveNode[],
  options: { isRelayed: boolean },
): Promise<DestinationView[]> {
  return destinationsOf(nodes, await database.execute(queueByDomainOperation, { rows: ROWS_AT_MOST }), options);
}

/**
 * Returns destinations in the order of the list; `queue` has the queued messages by domain. Mail for domains that no node names is listed
 * by its domain: a node names at most 100 domains of a destination, and none for which it has no mail in memory. Mail that a pause defers
 * may be outside the part of the queue that was read, so the count of the nodes may be higher.
 */
export function destinationsOf(
  nodes: readonly LiveNode[],
  queue: readonly DomainQueue[],
  { isRelayed }: { isRelayed: boolean },
): DestinationView[] {
  const all = nodes.flatMap(({ id: nodeId, state }) => (state.destinations ?? []).map((one) => ({ ...one, nodeId })));
  const published = Map.groupBy(all, ({ key }) => key);
  if (isRelayed && queue.length > 0 && !published.has(RELAY)) published.set(RELAY, []);
  const unnamed = new Map(queue.map((one) => [one.domain, one]));
  const views = [...published].map(([key, on]) => {
    const domains = [...new Set(on.flatMap((one) => one.domains ?? []))].sort();
    const own =
      key === RELAY ? queue : (domains.length === 0 ? [key] : domains).flatMap((one) => unnamed.get(one) ?? []);
    for (const { domain } of own) unnamed.delete(domain);
    const held = on.reduce((sum, one) => sum + one.waiting, 0);
    // All nodes count the same mail.
    const deferred = Math.max(0, ...on.map((one) => one.deferred ?? 0));
    const view = viewOf(key, domains, own);
    return { ...view, depth: Math.max(view.depth, held + deferred), nodes: on };
  });
  for (const one of unnamed.values()) views.push({ ...viewOf(one.domain, [one.domain], [one]), nodes: [] });
  return views.sort(compare);
}

function viewOf(key: string, domains: string[], queue: readonly DomainQueue[]): Omit<DestinationView, 'nodes'> {
  const due = queue.flatMap(({ nextDueMs }) => nextDueMs ?? []);
  const failed = queue.flatMap(({ failedSeq }) => failedSeq ?? []);
  return {
    key,
    domains,
    depth: queue.reduce((sum, { depth }) => sum + depth, 0),
    nextAttemptMs: due.length === 0 ? null : due.reduce((a, b) => Math.min(a, b)),
    failedSeq: failed.length === 0 ? null : failed.reduce((a, b) => Math.max(a, b)),
  };
}

/** Returns what a destination replied to its last attempt, if no node remembers a reply. */
export async function lastRepliesOf(
  database: Database,
  views: readonly DestinationView[],
): Promise<ReadonlyMap<string, LastReply>> {
  const silent = views.filter(
    ({ nodes, failedSeq }) => failedSeq !== null && nodes.every((one) => one.replies.length === 0),
  );
  const attempts = await database.execute(
    lastAttemptsOperation,
    silent.map(({ failedSeq }) => failedSeq!),
  );
  const bySeq = new Map(attempts.map((one) => [one.seq, one]));
  return new Map(
    silent.flatMap(({ key, failedSeq }): [string, LastReply][] => {
      const attempt = bySeq.get(failedSeq!);
      if (!attempt) return [];
      const { host, reply } = JSON.parse(attempt.record) as { host: string | null; reply: string | null };
      return reply === null ? [] : [[key, { at: attempt.at, host, reply, accepted: false }]];
    }),
  );
}

export type DestinationKey = readonly [paused: number, depth: number, key: string];

export const keyOf = ({ key, depth, nodes }: DestinationView): DestinationKey => [
  nodes.some((one) => one.pausedUntil !== null) ? 1 : 0,
  depth,
  key,
];

function compare(a: DestinationView, b: DestinationView): number {
  return compareKeys(keyOf(a), keyOf(b));
}

export function compareKeys(a: DestinationKey, b: DestinationKey): number {
  if (a[0] !== b[0]) return b[0] - a[0];
  if (a[1] !== b[1]) return b[1] - a[1];
  return a[2] < b[2] ? -1 : a[2] > b[2] ? 1 : 0;
}

const pausedUntil = Type.Unsafe<string | null>({
  type: ['string', 'null'],
  format: 'date-time',
  description: 'No delivery starts before this time; null if not paused.',
});
const connections = Type.Integer({ description: 'Open now.' });
const limit = Type.Integer({ description: 'Maximum number of connections now.' });

export const destinationSchema = named('Destination', {
  destinationId: Type.String({
    description:
      'The most preferred MX hosts of the domains, sorted, such as `mx1.example.net,mx2.example.net`; or a provider such as `google` instead of its hosts; or a domain that has no MX records or that the DNS does not currently resolve; or `relay`.',
  }),
  domains: Type.Array(Type.String(), {
    description: 'Domains of its recipients; up to 100 per node.',
  }),
  depth: Type.Integer({
    description:
      'Queued messages: those for these domains among the first 50,000 of the queue, or those that the nodes hold and the pause defers, if that is more.',
  }),
  connections,
  limit,
  pausedUntil,
  nextAttemptAt: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    format: 'date-time',
    description:
      'When its next message is due; in the past if it is due now. Null if nodes are delivering all of them.',
  }),
  blockedSince: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    format: 'date-time',
    description: 'Since when it blocks the sending host; null if it does not.',
  }),
  fallback: Type.Boolean({
    description: 'Its mail is sent through POSTRIDER_FALLBACK_ROUTE; one message per hour still tries it directly.',
  }),
  lastReplies: Type.Array(
    closed({
      time: Type.String({ format: 'date-time' }),
      host: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
      reply: Type.String(),
    }),
    { description: 'Its last replies, newest first: each refusal once, and the last acceptance.' },
  ),
  messagesPerSecond: Type.Unsafe<number | null>({
    type: ['number', 'null'],
    description: 'The maximum that the limits allow now; null before the first message was measured.',
  }),
  explanation: Type.String({
    description: 'What determines its rate: the pause, the queued messages, and the rule that sets the limit.',
  }),
  nodes: Type.Array(closed({ nodeId: Type.String(), connections, limit, pausedUntil })),
});

export function destinationBody(
  { key, domains, depth, nextAttemptMs, nodes }: DestinationView,
  lastReplies: ReadonlyMap<string, LastReply>,
) {
  const sum = (of: (one: OnNode) => number): number => nodes.reduce((all, one) => all + of(one), 0);
  const blocked = nodes.flatMap((one) => one.blockedSince ?? []);
  const ofAttempt = lastReplies.get(key);
  const replies = ofAttempt ? [ofAttempt] : repliesOf(nodes);
  const { messagesPerSecond, text: explanation } = explainDestination(nodes, { depth, nextAttemptMs, replies });
  const until = Math.max(0, ...nodes.map((one) => one.pausedUntil ?? 0));
  return {
    destinationId: key,
    domains,
    depth,
    connections: sum((one) => one.connections),
    limit: sum((one) => one.limit),
    pausedUntil: until === 0 ? null : iso(until),
    nextAttemptAt: isoOrNull(nextAttemptMs),
    blockedSince: blocked.length === 0 ? null : iso(Math.min(...blocked)),
    fallback: nodes.some((one) => one.fallback),
    lastReplies: replies.map(({ at, host, reply }) => ({ time: iso(at), host, reply })),
    messagesPerSecond,
    explanation,
    nodes: nodes.map((one) => ({
      nodeId: one.nodeId,
      connections: one.connections,
      limit: one.limit,
      pausedUntil: isoOrNull(one.pausedUntil),
    })),
  };
}

/** Returns the newest replies of all nodes, without duplicates. */
function repliesOf(nodes: readonly OnNode[]): LastReply[] {
  const newest = nodes.flatMap(({ replies }) => replies).sort((a, b) => b.at - a.at);
  const kindOf = ({ accepted, reply }: LastReply): string => (accepted ? '' : reply);
  return newest
    .filter((one, index) => newest.findIndex((other) => kindOf(other) === kindOf(one)) === index)
    .slice(0, REPLIES_SHOWN);
}
