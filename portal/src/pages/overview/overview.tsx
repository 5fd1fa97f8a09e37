/** The overview: current incidents, message outcomes over time, delivery times, and reputation. */
import { Button, Skeleton, Stack } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useCall } from '../../api.ts';
import { IconSend } from '../../icons.ts';
import { useFresh } from '../../live.tsx';
import { AsCode } from '../../parts/as-code.tsx';
import { Page, Panel } from '../../parts/page.tsx';
import { EmptyState, ErrorState } from '../../parts/states.tsx';
import { useScope } from '../../scope.ts';
import { newAccount, overview } from '../../texts/overview.ts';
import { bouncesOf, type Counts, periodsOf } from './comparison.ts';
import { Failing, LISTED } from './failing.tsx';
import { Health } from './health.tsx';
import { DeliveryTimeChart, MailChart } from './mail-charts.tsx';
import classes from './overview.module.css';
import { RangeControl, useRange } from './range.tsx';
import { Summary } from './summary.tsx';
import { Tiles } from './tiles.tsx';

/** Statistics are reloaded this long after an event: busy accounts have many events per second. */
const REFRESH_MS = 2_000;

const isQuiet = (buckets: readonly Counts[]): boolean =>
  buckets.every((one) => one.accepted + one.delivered + bouncesOf(one) + one.complained === 0);

export function OverviewPage() {
  const range = useRange();
  const account = useCall('getAccount', {}, { everyMs: 60_000 });
  const statistics = useCall('getStatistics', { query: range.queryWithPrevious }, { keepsLast: true });
  useFresh(['getStatistics', 'getAccount', 'getAccountHealth', 'listIncidents'], undefined, REFRESH_MS);
  const periods = statistics.data && periodsOf(statistics.data.buckets, range.buckets);
  const buckets = periods?.shown;
  const incidents = useCall('listIncidents', LISTED);
  // Until all of it is known, only placeholders are shown: what arrives later would move what is there.
  const isLoading = [account, statistics, incidents].some(({ isPending }) => isPending);
  const isNew = buckets !== undefined && isQuiet(buckets) && account.data?.usage.messagesLast30Days === 0;
  return (
    <Page
      title={overview.title}
      actions={<RangeControl range={range} hasUnit />}
      code={<AsCode operation="getStatistics" input={{ query: range.query }} />}
    >
      <Stack gap="md">
        {!isLoading && <Failing />}
        {isLoading && <Skeleton height="28rem" aria-busy />}
        {!isLoading && isNew && <NewAccount />}
        {!isLoading && !isNew && (
          <>
            {periods !== undefined && <Summary {...periods} range={range} />}
            <Tiles account={account.data} />
            <Panel title={overview.mail}>
              {buckets === undefined ? (
                <Waiting error={statistics.error} onRetry={statistics.refetch} />
              ) : (
                <MailChart buckets={buckets} range={range} />
              )}
            </Panel>
            <div className={classes.columns}>
              <Panel title={overview.speed}>
                {buckets === undefined ? (
                  <Waiting error={statistics.error} onRetry={statistics.refetch} />
                ) : (
                  <DeliveryTimeChart buckets={buckets} range={range} />
                )}
              </Panel>
              <Health />
            </div>
          </>
        )}
      </Stack>
    </Page>
  );
}

function Waiting({ error, onRetry }: { error: unknown; onRetry(): unknown }) {
  return error ? <ErrorState error={error} onRetry={onRetry} /> : <Skeleton height="19rem" aria-busy />;
}

function NewAccount() {
  const { mode, mayWrite } = useScope();
  return (
    <EmptyState
      icon={<IconSend size={28} aria-hidden />}
      title={newAccount.title}
      action={
        mayWrite && (
          <Button component={Link} to={`/app/${mode}/start`}>
            {newAccount.action}
          </Button>
        )
      }
    >
      {mayWrite ? newAccount.hint : newAccount.readerHint}
    </EmptyState>
  );
}
