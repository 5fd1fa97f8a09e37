/** The period of statistics, stored in the page's URL. */
import { Group, SegmentedControl } from '@mantine/core';
import { useMemo } from 'react';
import { type Query, useCall } from '../../api.ts';
import { useNow } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { ranges } from '../../texts/overview.ts';

type RangeName = keyof typeof ranges.names;

const DAYS: Record<RangeName, number> = { '24h': 1, '7d': 7, '30d': 30, '90d': 90 };
const LENGTHS_MS = { hour: 3_600_000, day: 86_400_000 };

export interface Range {
  name: RangeName;
  unit: 'hour' | 'day';
  /** Hours or days that are shown; the response has more while the sandbox clock is unknown. */
  buckets: number;
  query: Pick<Query<'getStatistics'>, 'since' | 'interval'>;
  /** Covers the period before as well. */
  queryWithPrevious: Pick<Query<'getStatistics'>, 'since' | 'interval'>;
}

/** Returns the current hour or day, counted from 1970. The sandbox has its own clock: statistics without a time end with it. */
function useCurrent(unit: Range['unit']): number | undefined {
  const { mode } = useScope();
  const real = useNow();
  const statistics = useCall('getStatistics', { query: { interval: unit } }, { enabled: mode === 'sandbox' });
  const last = statistics.data?.buckets.at(-1)?.start;
  if (mode === 'live') return Math.floor(real / LENGTHS_MS[unit]);
  return last === undefined ? undefined : Date.parse(last) / LENGTHS_MS[unit];
}

/** `isWhole` selects days for periods of several days. */
export function useRange(isWhole = false): Range {
  const [{ range = '7d', by }] = useSearchState();
  const name = range in DAYS ? (range as RangeName) : '7d';
  const unit = name === '24h' || (name === '7d' && by === 'hour' && !isWhole) ? 'hour' : 'day';
  const lengthMs = LENGTHS_MS[unit];
  const buckets = (DAYS[name] * LENGTHS_MS.day) / lengthMs;
  const current = useCurrent(unit);
  return useMemo(() => {
    const queryOf = (length: number): Range['query'] => ({
      since: current === undefined ? current : new Date((current - length + 1) * lengthMs).toISOString(),
      interval: unit,
    });
    return { name, unit, buckets, query: queryOf(buckets), queryWithPrevious: queryOf(2 * buckets) };
  }, [name, unit, buckets, current]);
}

export function RangeControl({ range, hasUnit = false }: { range: Range; hasUnit?: boolean }) {
  const [, setSearch] = useSearchState();
  return (
    <Group gap="xs">
      {hasUnit && range.name === '7d' && (
        <SegmentedControl
          aria-label={ranges.by}
          value={range.unit}
          onChange={(by) => setSearch({ by: by === 'hour' ? by : undefined })}
          data={[
            { value: 'hour', label: ranges.hour },
            { value: 'day', label: ranges.day },
          ]}
        />
      )}
      <SegmentedControl
        aria-label={ranges.label}
        value={range.name}
        onChange={(name) => setSearch({ range: name === '7d' ? undefined : name })}
        data={Object.entries(ranges.short).map(([value, label]) => ({ value, label }))}
      />
    </Group>
  );
}
