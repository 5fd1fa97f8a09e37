/** Sums the hours or days of statistics by group, for a period and the period before. */

/** The counts of a group in an hour or day, as in GET /statistics. */
interface Bucket {
  start: string;
  group?: string | null;
  accepted: number;
  delivered: number;
  bounced: { hard: number; soft: number; block: number };
  complained: number;
  opened: number;
  clicked: number;
}

const GROUPINGS = ['tag', 'template', 'recipientDomain', 'mailboxProvider'] as const;
export type GroupBy = (typeof GROUPINGS)[number];

export const isGroupBy = (name: string | undefined): name is GroupBy => GROUPINGS.some((one) => one === name);

const COUNTED = ['accepted', 'delivered', 'complained', 'opened', 'clicked'] as const;

type Totals = Record<(typeof COUNTED)[number] | 'bounced', number>;

export interface GroupTotal extends Totals {
  /** Null for all groups that are not listed, empty for messages without one. */
  group: string | null;
  /** Absent if nothing was sent in the period before. */
  before?: Totals;
}

export type Rate = 'deliveryRate' | 'bounceRate' | 'complaintRate' | 'openRate' | 'clickRate';

/** Returns a rate as a share; undefined if there are no messages that it could be a share of. */
export function rateOf({ delivered, bounced, complained, opened, clicked }: Totals, rate: Rate): number | undefined {
  const [part, whole] = {
    deliveryRate: [delivered, delivered + bounced],
    bounceRate: [bounced, delivered + bounced],
    complaintRate: [complained, delivered],
    openRate: [opened, delivered],
    clickRate: [clicked, delivered],
  }[rate] as [number, number];
  return whole === 0 ? undefined : part / whole;
}

function sumByGroup(buckets: readonly Bucket[]): Map<string | null, Totals> {
  const sums = new Map<string | null, Totals>();
  for (const bucket of buckets) {
    const { group = null } = bucket;
    const sum = sums.get(group) ?? { accepted: 0, delivered: 0, bounced: 0, complained: 0, opened: 0, clicked: 0 };
    for (const name of COUNTED) sum[name] += bucket[name];
    sum.bounced += bucket.bounced.hard + bucket.bounced.soft + bucket.bounced.block;
    sums.set(group, sum);
  }
  return sums;
}

/**
 * Sums the buckets since `since` (ISO 8601), with those before it to compare with; without `since`, all buckets are of the period. Sorts by
 * accepted messages, largest first; groups without a name come last.
 */
export function comparedTotals(buckets: readonly Bucket[], since: string | undefined): GroupTotal[] {
  const sinceMs = since === undefined ? 0 : Date.parse(since);
  const now = sumByGroup(buckets.filter(({ start }) => Date.parse(start) >= sinceMs));
  const before = sumByGroup(buckets.filter(({ start }) => Date.parse(start) < sinceMs));
  const totals = [...now].map(([group, sum]): GroupTotal => {
    const earlier = before.get(group);
    return { group, ...sum, ...(earlier !== undefined && { before: earlier }) };
  });
  return totals.sort(
    (one, other) => Number(one.group === null) - Number(other.group === null) || other.accepted - one.accepted,
  );
}
