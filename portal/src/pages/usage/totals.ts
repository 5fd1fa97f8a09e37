/** Sums the hours or days of statistics by group. */
import type { Answer, Query } from '../../api.ts';

type Bucket = Answer<'getStatistics'>['buckets'][number];
export type GroupBy = Exclude<NonNullable<Query<'getStatistics'>['groupBy']>, 'none'>;

export const isGroupBy = (name: string | undefined): name is GroupBy =>
  name === 'tag' || name === 'template' || name === 'recipientDomain';

const COUNTED = ['accepted', 'delivered', 'complained', 'opened', 'clicked'] as const;

export type GroupTotal = Record<(typeof COUNTED)[number] | 'bounced', number> & {
  /** Null for all groups that are not listed, empty for messages without one. */
  group: string | null;
};

/** Sorts by accepted messages, largest first; groups without a name come last. */
export function totalsOf(buckets: readonly Bucket[]): GroupTotal[] {
  const totals = new Map<string | null, GroupTotal>();
  for (const bucket of buckets) {
    const { group = null } = bucket;
    const zeros = { accepted: 0, delivered: 0, bounced: 0, complained: 0, opened: 0, clicked: 0 };
    const total = totals.get(group) ?? { group, ...zeros };
    for (const name of COUNTED) total[name] += bucket[name];
    total.bounced += bucket.bounced.hard + bucket.bounced.soft + bucket.bounced.block;
    totals.set(group, total);
  }
  return [...totals.values()].sort(
    (one, other) => Number(one.group === null) - Number(other.group === null) || other.accepted - one.accepted,
  );
}
