/** Delivery, bounce, complaint, open, and click rates of a period, in total and by group, compared with the period before. */
import { Skeleton, Stack } from '@mantine/core';
import { useCall } from '../../api.ts';
import { useFresh } from '../../live.tsx';
import { AsCode } from '../../parts/as-code.tsx';
import { Page } from '../../parts/page.tsx';
import { statistics as texts } from '../../texts/statistics.ts';
import { periodsOf } from '../overview/comparison.ts';
import { RangeControl, useRange } from '../overview/range.tsx';
import { Summary } from '../overview/summary.tsx';
import { Groups } from './groups.tsx';

/** Busy accounts have many events per second. */
const REFRESH_MS = 10_000;

export function StatisticsPage() {
  const range = useRange(true);
  const totals = useCall('getStatistics', { query: range.queryWithPrevious }, { keepsLast: true });
  useFresh(['getStatistics'], undefined, REFRESH_MS);
  return (
    <Page
      title={texts.title}
      lead={texts.lead}
      actions={<RangeControl range={range} />}
      code={<AsCode operation="getStatistics" input={{ query: { ...range.query, groupBy: 'tag' } }} />}
    >
      <Stack gap="md">
        {totals.data === undefined ? (
          totals.error === null && <Skeleton height="4.75rem" aria-busy />
        ) : (
          <Summary {...periodsOf(totals.data.buckets, range.buckets)} range={range} />
        )}
        <Groups range={range} />
      </Stack>
    </Page>
  );
}
