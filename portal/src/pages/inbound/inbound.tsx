/** Inbound mail, including messages that ended without an event; filtered by route and by outcome. */
import { Button, Group, Select } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import { type Answer, type Query, useCall, usePages } from '../../api.ts';
import { IconPlayerPlay, IconRoute } from '../../icons.ts';
import { useFresh } from '../../live.tsx';
import { AsCode } from '../../parts/as-code.tsx';
import { Page } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { SavedFilters } from '../../parts/saved-filters.tsx';
import { size, Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { outcomes, simulateInbound, inboundMail as texts } from '../../texts/inbound.ts';
import classes from '../messages/messages.module.css';
import { OutcomeBadge } from './outcome.tsx';

const SimulateInbound = lazy(async () => ({ default: (await import('./simulate.tsx')).SimulateInbound }));

type InboundMail = Answer<'listInboundMail'>[number];

/** Messages that end without an event do not appear in the stream. */
const EVERY_MS = 20_000;
const ROUTES = { query: { limit: 100 } };

const { columns: names } = texts;
const COLUMNS: readonly Column<InboundMail>[] = [
  {
    name: names.subject,
    phone: 'title',
    cell: ({ subject }) => <span className={classes.subject}>{visible(subject) || texts.noSubject}</span>,
    text: ({ subject }) => subject,
  },
  {
    name: names.from,
    phone: 'detail',
    width: '18%',
    cell: ({ from, envelopeFrom }) => (
      <span className={classes.address}>{visible(from || envelopeFrom || '') || texts.nobody}</span>
    ),
    text: ({ from }) => from,
  },
  {
    name: names.to,
    width: '18%',
    cell: ({ recipient }) => <span className={classes.address}>{recipient}</span>,
    text: ({ recipient }) => recipient,
  },
  {
    name: names.outcome,
    phone: 'badge',
    width: '9rem',
    cell: ({ outcome }) => <OutcomeBadge outcome={outcome} />,
    text: ({ outcome }) => outcome,
  },
  {
    name: names.size,
    width: '8rem',
    cell: ({ sizeBytes, attachments }) =>
      attachments === 0 ? size(sizeBytes) : `${size(sizeBytes)} · ${texts.files(attachments)}`,
    text: ({ sizeBytes }) => sizeBytes,
  },
  {
    name: names.received,
    phone: 'time',
    width: '7.5rem',
    cell: ({ receivedAt }) => <Time at={receivedAt} />,
    text: ({ receivedAt }) => receivedAt,
  },
];

function Filters() {
  const [{ route, outcome }, setSearch] = useSearchState();
  const routes = useCall('listInboundRoutes', ROUTES);
  // Messages stay when their route is deleted.
  const known = (routes.data ?? []).map(({ inboundRouteId, match }) => ({ value: inboundRouteId, label: match }));
  const isDeleted = route !== undefined && routes.data !== undefined && !known.some(({ value }) => value === route);
  const choices = isDeleted ? [...known, { value: route, label: route }] : known;
  const all = Object.entries(outcomes).map(([value, { name }]) => ({ value, label: name }));
  return (
    <Group gap="sm" align="end" mb="sm">
      <Select
        label={texts.route}
        w="17rem"
        value={route ?? ''}
        data={[{ value: '', label: texts.anyRoute }, ...choices]}
        onChange={(value) => setSearch({ route: value || undefined })}
      />
      <Select
        label={texts.outcome}
        w="11rem"
        value={outcome ?? ''}
        data={[{ value: '', label: texts.anyOutcome }, ...all]}
        onChange={(value) => setSearch({ outcome: value || undefined })}
      />
      <SavedFilters list="inbound" size="sm" />
      {(route || outcome) && (
        <Button variant="subtle" size="sm" onClick={() => setSearch({ route: undefined, outcome: undefined })}>
          {texts.clear}
        </Button>
      )}
    </Group>
  );
}

export function InboundPage() {
  const { mode, mayWrite } = useScope();
  const [isSimulating, setSimulating] = useState(false);
  const [{ route, outcome }] = useSearchState();
  const query = { inboundRouteId: route, outcome } as Query<'listInboundMail'>;
  const list = usePages('listInboundMail', { query }, { everyMs: EVERY_MS });
  useFresh(['listInboundMail'], ({ eventType }) => eventType === 'Inbound');
  const toRoutes = (
    <Button
      component={Link}
      to={`/app/${mode}/inbound-routes`}
      variant="default"
      leftSection={<IconRoute size={14} aria-hidden />}
    >
      {texts.toRoutes}
    </Button>
  );
  return (
    <Page
      title={texts.title}
      lead={texts.lead}
      actions={
        <>
          {mayWrite && mode === 'sandbox' && (
            <Button leftSection={<IconPlayerPlay size={14} aria-hidden />} onClick={() => setSimulating(true)}>
              {simulateInbound.open}
            </Button>
          )}
          {toRoutes}
          <AsCode operation="listInboundMail" input={{ query }} />
        </>
      }
    >
      <Filters />
      <Rows
        label={texts.list}
        columns={COLUMNS}
        rows={list.items}
        csvName={'inbound'}
        keyOf={({ inboundId }) => inboundId}
        href={({ inboundId }) => `/app/${mode}/inbound/${inboundId}`}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        empty={
          route || outcome
            ? { title: texts.noneFiltered, hint: texts.noneFilteredHint }
            : { title: texts.none, hint: mode === 'sandbox' ? texts.noneSandbox : texts.noneHint, action: toRoutes }
        }
      />
      <Suspense>{isSimulating && <SimulateInbound to="" onClose={() => setSimulating(false)} />}</Suspense>
    </Page>
  );
}
