/**
 * Destinations as all nodes together have them: each publishes those that are paused, and its busiest, and here they become one list,
 * the paused first, then those for which the most mail waits.
 */
import { Type } from 'typebox';
import { iso } from '../base/clock.ts';
import { closed, named } from '../http/validate.ts';
import { explainDestination, type LastReply, type LivingNode, type PublishedDestination } from '../nodes/nodes.ts';
import type { Database } from '../storage/database.ts';
import { queueByDomainOperation } from './store.ts';

const REPLIES_SHOWN = 4;
/** Of the queue, in one look: what docs/explanation/performance.md says it costs. */
export const ROWS_AT_MOST = 50_000;

interface OnNode extends PublishedDestination {
  nodeId: string;
}

export interface DestinationView {
  key: string;
  domains: string[];
  depth: number;
  nodes: OnNode[];
}

/** The relay, behind which all live mail waits for one destination. */
const RELAY = 'relay';

/** All of them, in the order of the list. */
export async function readDestinations(database: Database, nodes: readonly LivingNode[]): Promise<DestinationView[]> {
  return destinationsOf(nodes, await database.execute(queueByDomainOperation, { rows: ROWS_AT_MOST }));
}

/**
 * In the order of the list; `waiting` has the messages in the queue by domain. A node names 100 domains of a destination at most, and mail
 * that is put off may stand behind all that was looked at of the queue: what nodes hold, and count as put off, may be more.
 */
export function destinationsOf(
  nodes: readonly LivingNode[],
  waiting: readonly { domain: string; depth: number }[],
): DestinationView[] {
  const all = nodes.flatMap(({ id: nodeId, state }) => (state.destinations ?? []).map((one) => ({ ...one, nodeId })));
  const depths = new Map(waiting.map(({ domain, depth }) => [domain, depth]));
  depths.set(
    RELAY,
    waiting.reduce((sum, { depth }) => sum + depth, 0),
  );
  return [...Map.groupBy(all, ({ key }) => key)]
    .map(([key, on]) => {
      const domains = [...new Set(on.flatMap((one) => one.domains ?? []))].sort();
      const counted = key === RELAY || domains.length === 0 ? [key] : domains;
      const inQueue = counted.reduce((sum, one) => sum + (depths.get(one) ?? 0), 0);
      const held = on.reduce((sum, one) => sum + one.waiting, 0);
      // All nodes count the same mail.
      const putOff = Math.max(...on.map((one) => one.putOff ?? 0));
      return { key, domains, depth: Math.max(inQueue, held + putOff), nodes: on };
    })
    .sort(compare);
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
  description: 'Nothing is begun before; null where it is not paused.',
});
const connections = Type.Integer({ description: 'Open now.' });
const limit = Type.Integer({ description: 'Connections that it may have now.' });

export const destinationSchema = named('Destination', {
  destinationId: Type.String({
    description:
      'The exchangers of the best preference behind the domains, sorted, such as `mx1.example.net,mx2.example.net`; a provider such as `google` in place of its hosts; a domain without MX records, or while the DNS does not answer; `relay`.',
  }),
  domains: Type.Array(Type.String(), {
    description: 'Recipients in these domains count for it; up to 100 of each node.',
  }),
  depth: Type.Integer({
    description:
      'Messages for it: those for these domains among the first 50,000 of the queue, or what the nodes hold and the pause puts off, where that is more.',
  }),
  connections,
  limit,
  pausedUntil,
  blockedSince: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    format: 'date-time',
    description: 'Since when it refuses our host; null where it does not.',
  }),
  fallback: Type.Boolean({
    description: 'Its mail goes by POSTRIDER_FALLBACK_ROUTE; one message an hour still tries it.',
  }),
  lastReplies: Type.Array(
    closed({
      time: Type.String({ format: 'date-time' }),
      host: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
      reply: Type.String(),
    }),
    { description: 'What it said last, newest first: each refusal once, and the last of those that took a message.' },
  ),
  messagesPerSecond: Type.Unsafe<number | null>({
    type: ['number', 'null'],
    description: 'What the limits let through now at most; null before the first message was measured.',
  }),
  explanation: Type.String({
    description:
      'Why it is as fast or slow as it is: until when it is paused, what waits, and which rule sets the limit.',
  }),
  nodes: Type.Array(closed({ nodeId: Type.String(), connections, limit, pausedUntil })),
});

export function destinationBody({ key, domains, depth, nodes }: DestinationView) {
  const sum = (of: (one: OnNode) => number): number => nodes.reduce((all, one) => all + of(one), 0);
  const blocked = nodes.flatMap((one) => one.blockedSince ?? []);
  const { messagesPerSecond, text: explanation } = explainDestination(nodes, depth);
  const until = Math.max(0, ...nodes.map((one) => one.pausedUntil ?? 0));
  return {
    destinationId: key,
    domains,
    depth,
    connections: sum((one) => one.connections),
    limit: sum((one) => one.limit),
    pausedUntil: until === 0 ? null : iso(until),
    blockedSince: blocked.length === 0 ? null : iso(Math.min(...blocked)),
    fallback: nodes.some((one) => one.fallback),
    lastReplies: repliesOf(nodes).map(({ at, host, reply }) => ({ time: iso(at), host, reply })),
    messagesPerSecond,
    explanation,
    nodes: nodes.map((one) => ({
      ...{ nodeId: one.nodeId, connections: one.connections, limit: one.limit },
      pausedUntil: one.pausedUntil === null ? null : iso(one.pausedUntil),
    })),
  };
}

/** The newest of all nodes, none twice. */
function repliesOf(nodes: readonly OnNode[]): LastReply[] {
  const newest = nodes.flatMap(({ replies }) => replies).sort((a, b) => b.at - a.at);
  const kindOf = ({ accepted, reply }: LastReply): string => (accepted ? '' : reply);
  return newest
    .filter((one, index) => newest.findIndex((other) => kindOf(other) === kindOf(one)) === index)
    .slice(0, REPLIES_SHOWN);
}
