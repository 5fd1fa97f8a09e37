/**
 * Whose mail is read next: lanes take turns, one mail each. A lane holds a bounded number of mails in memory; what is beyond waits in
 * the database, parked, and does not stand in the way of other lanes.
 */
import type { FairQueue, Item, LaneGrant } from '../work/work.ts';
import type { InboundJob } from './store.ts';

const CLAIM_BATCH = 64;
const OF_A_LANE = 256;
const MOST = 1_000;

export type InboundItem = Item<InboundJob>;

export interface InboundQueue extends FairQueue<InboundItem> {
  /** Takes the next mail that may start; undefined when the one whose turn it is may not. */
  next(mayStart: (item: InboundItem) => boolean): InboundItem | undefined;
}

export function createInboundQueue(): InboundQueue {
  /** In the order of their turns; no list is empty. */
  const lanes = new Map<string, InboundItem[]>();
  const room = (lane: string): number => OF_A_LANE - (lanes.get(lane)?.length ?? 0);
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
    },
    capacity: (size) => (size < MOST ? CLAIM_BATCH : 0),
    isFed: (size) => size >= MOST / 2,
    resumable: (names) =>
      names.map((lane): LaneGrant => ({ lane, limit: room(lane) })).filter(({ limit }) => limit > 0),
    next: (mayStart) => {
      const turn = lanes.entries().next().value;
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
