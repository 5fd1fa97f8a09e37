/**
 * Schedules inbound messages in round-robin order over lanes. A lane holds a bounded number of messages in memory; others stay parked in
 * the database and do not delay other lanes.
 *
 * Processing mail for routes may be large and may wait up to 20 s for DNS servers that its sender controls. A lane may therefore use only a
 * few slots and half of the bytes, and such mail cannot use all slots. Mail to postmaster and abuse may be large too. Reports are small and
 * never wait for the bytes of others. A lane that may not start yet keeps its turn, and the next lane proceeds.
 */
import { type FairQueue, type Item, type LaneGrant, Lanes } from '../work/work.ts';
import { type InboundJob, ROUTE_LANE } from './store.ts';

const CLAIM_BATCH = 64;
const OF_A_LANE = 256;
const MOST = 1_000;
/** Maximum messages processed at once: in total, of all routes, of one lane. */
const RUNNING = 64;
const RUNNING_OF_ROUTES = 48;
const RUNNING_OF_A_LANE = 4;
/** Maximum bytes of route mail processed at once: in total, of one lane. A single message may exceed it. */
const BYTES = 64_000_000;
const BYTES_OF_A_LANE = 32_000_000;
/** Maximum bytes of mail to postmaster and abuse: two of the largest messages. */
const BYTES_OF_LETTERS = 20_000_000;

export type InboundItem = Item<InboundJob>;

export interface InboundQueue extends FairQueue<InboundItem> {
  /** Removes and returns the next message that may start, from the first lane in turn that is below its limits. */
  next(): InboundItem | undefined;
}

interface Load {
  count: number;
  bytes: number;
}
const NONE: Load = { count: 0, bytes: 0 };

/** Tracks the messages being processed. */
function createRunning() {
  const lanes = new Map<string, Load>();
  const routes = { ...NONE };
  const letters = { ...NONE };
  let all = 0;
  const isRoute = (lane: string): boolean => lane.startsWith(ROUTE_LANE);
  const isLetter = (lane: string): boolean => /^(?:abuse|postmaster) /.test(lane);
  const add = (load: Load, { count, bytes }: Load): void => {
    load.count += count;
    load.bytes += bytes;
  };
  const count = ({ job }: InboundItem, by: 1 | -1): void => {
    const change = { count: by, bytes: by * job.mail.sizeBytes };
    const load = lanes.get(job.lane) ?? { ...NONE };
    add(load, change);
    if (load.count > 0) lanes.set(job.lane, load);
    else lanes.delete(job.lane);
    if (isRoute(job.lane)) add(routes, change);
    else if (isLetter(job.lane)) add(letters, change);
    all += by;
  };
  const fits = (load: Load, sizeBytes: number, most: number): boolean =>
    load.count === 0 || load.bytes + sizeBytes <= most;

  return {
    count,
    hasRoom: ({ job: { lane, mail } }: InboundItem): boolean => {
      const own = lanes.get(lane) ?? NONE;
      if (all >= RUNNING || own.count >= RUNNING_OF_A_LANE) return false;
      const { sizeBytes } = mail;
      if (isLetter(lane)) return fits(letters, sizeBytes, BYTES_OF_LETTERS);
      if (!isRoute(lane)) return true;
      return (
        routes.count < RUNNING_OF_ROUTES && fits(routes, sizeBytes, BYTES) && fits(own, sizeBytes, BYTES_OF_A_LANE)
      );
    },
  };
}

export function createInboundQueue(): InboundQueue {
  const lanes = new Lanes<InboundItem>();
  const room = (lane: string): number => OF_A_LANE - lanes.sizeOf(lane);
  const running = createRunning();

  return {
    admit: (item, { first }) => {
      const { lane } = item.job;
      if (room(lane) <= 0 && !first) return false;
      lanes.add(lane, item, { first });
      return true;
    },
    changed: (item, from) => {
      if (from === 'waiting' && item.state !== 'running') lanes.remove(item.job.lane, item);
      if (item.state === 'running') running.count(item, 1);
      if (from === 'running') running.count(item, -1);
    },
    capacity: (size) => (size < MOST ? CLAIM_BATCH : 0),
    isFed: (size) => size >= MOST / 2,
    resumable: (names) =>
      names.map((lane): LaneGrant => ({ lane, limit: room(lane) })).filter(({ limit }) => limit > 0),
    next: () => lanes.next((item) => running.hasRoom(item)),
  };
}
