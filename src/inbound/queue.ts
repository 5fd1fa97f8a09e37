/**
 * Whose mail is read next: lanes take turns, one mail each. A lane holds a bounded number of mails in memory; what is beyond waits in
 * the database, parked, and does not stand in the way of other lanes.
 *
 * Mail of routes waits for the DNS of strangers, up to 20 s, where its sender wants it to, and may be large: so few mails and half of the bytes may
 * be of one lane, and not all that are read at once may be such mail. Mail to postmaster and abuse may be large too. Reports are small, and are never
 * kept waiting by the bytes of others. A lane that may not start yet keeps its turn, and the next one has its own.
 */
import { type FairQueue, type Item, type LaneGrant, Lanes } from '../work/work.ts';
import { type InboundJob, ROUTE_LANE } from './store.ts';

const CLAIM_BATCH = 64;
const OF_A_LANE = 256;
const MOST = 1_000;
/** Read at once: of all, of all routes, of one lane. */
const RUNNING = 64;
const RUNNING_OF_ROUTES = 48;
const RUNNING_OF_A_LANE = 4;
/** Of mail of routes that is read at once: of all, of one lane. A mail alone may have more. */
const BYTES = 64_000_000;
const BYTES_OF_A_LANE = 32_000_000;
/** Of all mail to postmaster and abuse: two of the largest. */
const BYTES_OF_LETTERS = 20_000_000;

export type InboundItem = Item<InboundJob>;

export interface InboundQueue extends FairQueue<InboundItem> {
  /** Takes the next mail that may start: of the first lane, in the order of turns, that has not enough running. */
  next(): InboundItem | undefined;
}

interface Load {
  count: number;
  bytes: number;
}
const NONE: Load = { count: 0, bytes: 0 };

/** What is being read now. */
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
