/** The queue of the entire service by destination and account; refreshed while visible. */
import { Alert, Stack } from '@mantine/core';
import type { ReactNode } from 'react';
import { type Answer, useCall } from '../../api.ts';
import { Page, Panel } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { count, Time } from '../../parts/time.tsx';
import { operators, queue } from '../../texts/operator.ts';
import { Destinations } from './destinations.tsx';
import { forOperators } from './for-operators.tsx';
import classes from './operator.module.css';

const EVERY_MS = 5_000;

type Queue = Answer<'getQueue'>;
type OfAccount = Queue['accounts'][number];

export const QueuePage = forOperators(queue.title, QueueContent);

function QueueContent() {
  const { data, error, refetch } = useCall('getQueue', {}, { everyMs: EVERY_MS });
  return (
    <Page title={queue.title} lead={queue.lead}>
      {data === undefined ? (
        error === null ? (
          <Loading />
        ) : (
          <ErrorState error={error} onRetry={refetch} />
        )
      ) : (
        <Stack gap="md">
          {!data.isComplete && <Alert p="xs">{queue.partial(data.depth)}</Alert>}
          <Figures of={data} />
          <Panel title={queue.destinations}>
            <Destinations everyMs={EVERY_MS} />
          </Panel>
          <Panel title={queue.accounts}>
            <Rows
              label={queue.accounts}
              columns={COLUMNS}
              list={{ items: data.accounts }}
              keyOf={({ accountId }) => accountId}
              href={({ accountId, name }) => (name === null ? undefined : `/app/operator/accounts/${accountId}`)}
              hrefName={queue.openAccount}
              empty={{ title: queue.empty, hint: queue.emptyHint }}
              csvName="queue"
            />
          </Panel>
        </Stack>
      )}
    </Page>
  );
}

const FIGURES = ['due', 'leased', 'held', 'waiting'] as const;

const COLUMNS: readonly Column<OfAccount>[] = [
  {
    name: queue.account,
    phone: 'title',
    cell: ({ name }) => name ?? operators.service,
    text: ({ name }) => name ?? operators.service,
  },
  ...(['depth', ...FIGURES] as const).map((figure) => ({
    name: queue[figure],
    phone: figure === 'depth' ? ('badge' as const) : undefined,
    cell: (row: OfAccount) => count(row[figure]),
    text: (row: OfAccount) => row[figure],
    width: '7rem',
    atEnd: true,
  })),
  {
    name: queue.oldest,
    phone: 'time',
    cell: ({ oldestDueAt }) => (oldestDueAt === null ? queue.none : <Time at={oldestDueAt} />),
    text: ({ oldestDueAt }) => oldestDueAt,
    width: '9rem',
    atEnd: true,
  },
];

function Figures({ of }: { of: Queue }) {
  return (
    <dl className={classes.figures} aria-label={queue.figures}>
      {(['depth', ...FIGURES] as const).map((figure) => (
        <Figure key={figure} name={queue[figure]} value={count(of[figure])} hint={queue.hints[figure]} />
      ))}
      <Figure
        name={queue.oldest}
        value={of.oldestDueAt === null ? queue.none : <Time at={of.oldestDueAt} />}
        hint={queue.hints.oldest}
      />
    </dl>
  );
}

export function Figure({ name, value, hint }: { name: string; value: ReactNode; hint: string }) {
  return (
    <div className={classes.figure}>
      <dt>{name}</dt>
      <dd className={classes.value}>{value}</dd>
      <dd className={classes.hint}>{hint}</dd>
    </div>
  );
}
