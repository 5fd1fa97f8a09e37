/**
 * Whose mail is read next: lanes take turns, one mail each. A lane holds a bounded number of mails in memory; what is beyond waits in
 * the database, parked, and does not stand in the way of other lanes.
 *
 * Mail of routes waits for the DNS of strangers, up to 20 s, where its sender wants it to: so few of one account, and not all that are
 * read at once, may be such mail. A lane that may not start yet keeps its turn, and the next one has its own.
 */
import type { FairQueue, Item, LaneGrant } from '../work/work.ts';
import { type InboundJob, ROUTE_LANE } from './store.ts';

const CLAIM_BATCH = 64;
const OF_A_LANE = 256;
const MOST = 1_000;
/** Of those that are read at once (16): of one account, and of all. */
const RUNNING_OF_A_ROUTE_LANE = 4;
const RUNNING_OF_ROUTES = 12;

export type InboundItem = Item<InboundJob>;

export interface InboundQueue extends FairQueue<InboundItem> {
  /** Takes the next mail that may start; undefined when the one whose turn it is may not. Lanes with enough running are passed over. */
  next(mayStart: (item: InboundItem) => boolean): InboundItem | undefined;
}

export function createInboundQueue(): InboundQueue {
  /** In the order of their turns; no list is empty. */
  const lanes = new Map<string, InboundItem[]>();
  const room = (lane: string): number => OF_A_LANE - (lanes.get(lane)?.length ?? 0);
  /** Mails of routes that are being read, by lane. */
  const running = new Map<string, number>();
  let runningOfRoutes = 0;
  const isRoute = (lane: string): boolean => lane.startsWith(ROUTE_LANE);
  const mayRun = (lane: string): boolean =>
    !isRoute(lane) || (runningOfRoutes < RUNNING_OF_ROUTES && (running.get(lane) ?? 0) < RUNNING_OF_A_ROUTE_LANE);
  const countRunning = (lane: string, change: 1 | -1): void => {
    if (!isRoute(lane)) return;
    runningOfRoutes += change;
    const count = (running.get(lane) ?? 0) + change;
    if (count > 0) running.set(lane, count);
    else running.delete(lane);
  };
  const drop = (item: InboundItem): void => {
    const waiting = lanes.get(item.job.lane);
    const at = waiting?.indexOf(item) ?? -1;
    if (!waiting || at === -1) return;
    waiting.splice(at, 1);
    if (waiting.length === 0) lanes.delete(item.job.lane);
  };

  return {
    admit: (item, { first }) => {
      const { lane } = item.job;
      if (room(lane) <= 0 && !first) return false;
      const waiting = lanes.get(lane) ?? [];
      lanes.set(lane, waiting);
      if (first) waiting.unshift(item);
      else waiting.push(item);
      return true;
    },
    changed: (item, from) => {
      if (from === 'waiting') drop(item);
      if (item.state === 'running') countRunning(item.job.lane, 1);
      if (from === 'running') countRunning(item.job.lane, -1);
    },
    capacity: (size) => (size < MOST ? CLAIM_BATCH : 0),
    isFed: (size) => size >= MOST / 2,
    resumable: (names) =>
      names.map((lane): LaneGrant => ({ lane, limit: room(lane) })).filter(({ limit }) => limit > 0),
    next: (mayStart) => {
      const turn = lanes.entries().find(([lane]) => mayRun(lane));
      if (!turn) return undefined;
      const [lane, waiting] = turn;
      if (!mayStart(waiting[0]!)) return undefined;
      const item = waiting.shift();
      lanes.delete(lane);
      if (waiting.length > 0) lanes.set(lane, waiting);
      return item;
    },
  };
}
