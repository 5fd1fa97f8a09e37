/** Charts of message outcomes and delivery times, by hour or day. */
import { Text } from '@mantine/core';
import { useMemo } from 'react';
import type { Answer } from '../../api.ts';
import { Chart, type Series } from '../../parts/chart.tsx';
import { count, duration } from '../../parts/time.tsx';
import { overview, ranges } from '../../texts/overview.ts';
import { bouncesOf } from './comparison.ts';
import type { Range } from './range.tsx';

type Bucket = Answer<'getStatistics'>['buckets'][number];

interface ChartOf {
  buckets: readonly Bucket[];
  range: Range;
}

type Line = Pick<Series, 'name' | 'color' | 'stroke' | 'isFilled'> & { of(bucket: Bucket): number };

const LINES: readonly Line[] = [
  { name: overview.accepted, color: '--calm', isFilled: true, of: ({ accepted }) => accepted },
  { name: overview.delivered, color: '--good', of: ({ delivered }) => delivered },
  { name: overview.delayed, color: '--wait', stroke: 'dashed', of: ({ delayed }) => delayed },
  { name: overview.bounced, color: '--bad', of: bouncesOf },
  { name: overview.complained, color: '--note', stroke: 'dotted', of: ({ complained }) => complained },
];

export function MailChart({ buckets, range }: ChartOf) {
  const [times, series] = useMemo(() => {
    const lines = LINES.map(({ of, ...line }) => {
      const values = buckets.map(of);
      return { ...line, values, summary: count(values.reduce((sum, one) => sum + one, 0)) };
    });
    return [timesOf(buckets), lines] as const;
  }, [buckets]);
  if (series.every(({ summary }) => summary === '0'))
    return (
      <Text c="dimmed" size="sm">
        {overview.quiet}
      </Text>
    );
  return (
    <Chart
      times={times}
      series={series}
      label={overview.mailLabel}
      unit={range.unit}
      format={count}
      isCount
      span={overview.span(ranges.names[range.name])}
    />
  );
}

const PERCENTILES = [
  { name: overview.half, color: '--note', of: ({ deliverySeconds }: Bucket) => deliverySeconds.p50 },
  { name: overview.most, color: '--wait', stroke: 'dashed', of: ({ deliverySeconds }: Bucket) => deliverySeconds.p95 },
] as const;

/** Percentiles of hours cannot be combined to those of a day: the legend shows the newest. */
export function DeliveryTimeChart({ buckets, range }: ChartOf) {
  const [times, series] = useMemo(() => {
    const lines = PERCENTILES.map(({ of, ...line }) => {
      const values = buckets.map(of);
      const newest = values.findLast((value) => value !== null);
      return { ...line, values, summary: newest === undefined || newest === null ? '' : duration(newest) };
    });
    return [timesOf(buckets), lines] as const;
  }, [buckets]);
  if (series.every(({ summary }) => summary === ''))
    return (
      <Text c="dimmed" size="sm">
        {overview.speedNone}
      </Text>
    );
  return (
    <Chart
      times={times}
      series={series}
      label={overview.speedLabel}
      unit={range.unit}
      format={duration}
      span={overview.speedSpan[range.unit]}
    />
  );
}

const timesOf = (buckets: readonly Bucket[]): number[] => buckets.map(({ start }) => Date.parse(start));
