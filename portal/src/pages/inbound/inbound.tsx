/** Inbound mail, including messages that ended without an event; filtered by route and by outcome. */
import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import { type Answer, type Query, useCall, usePages } from '../../api.ts';
import { IconPlayerPlay, IconRoute } from '../../icons.ts';
import { useFresh } from '../../live.tsx';
import { AsCode } from '../../parts/as-code.tsx';
import { FilterChoice, Filters } from '../../parts/filters.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import type { Column } from '../../parts/rows.tsx';
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
    width: '22%',
    cell: ({ from, envelopeFrom }) => (
      <span className={classes.address}>{visible(from || envelopeFrom || '') || texts.nobody}</span>
    ),
    text: ({ from }) => from,
  },
  {
    name: names.to,
    width: '22%',
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
    atEnd: true,
    cell: ({ sizeBytes, attachments }) =>
      attachments === 0 ? size(sizeBytes) : `${size(sizeBytes)} · ${texts.files(attachments)}`,
    text: ({ sizeBytes }) => sizeBytes,
  },
  {
    name: names.received,
    phone: 'time',
    width: '7.5rem',
    atEnd: true,
    cell: ({ receivedAt }) => <Time at={receivedAt} />,
    text: ({ receivedAt }) => receivedAt,
  },
];

/** Messages stay when their route is deleted. */
function InboundFilters() {
  const routes = useCall('listInboundRoutes', ROUTES).data ?? [];
  return (
    <Filters of="inbound">
      <FilterChoice
        name="route"
        label={texts.route}
        width="17rem"
        any={texts.anyRoute}
        hasOthers
        data={routes.map(({ inboundRouteId, match }) => ({ value: inboundRouteId, label: match }))}
      />
      <FilterChoice
        name="outcome"
        label={texts.outcome}
        any={texts.anyOutcome}
        data={Object.entries(outcomes).map(([value, { name }]) => ({ value, label: name }))}
      />
    </Filters>
  );
}

export function InboundPage() {
  const { mode, mayWrite } = useScope();
  const [isSimulating, setSimulating] = useState(false);
  const [{ route, outcome: chosen }] = useSearchState();
  const outcome = chosen !== undefined && chosen in outcomes ? chosen : undefined;
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
  const isFiltered = Boolean(route || outcome);
  return (
    <ListPage
      title={texts.title}
      lead={texts.lead}
      primary={
        mayWrite &&
        mode === 'sandbox' && (
          <Button leftSection={<IconPlayerPlay size={14} aria-hidden />} onClick={() => setSimulating(true)}>
            {simulateInbound.open}
          </Button>
        )
      }
      actions={toRoutes}
      code={<AsCode operation="listInboundMail" input={{ query }} />}
      filters={<InboundFilters />}
      label={texts.list}
      columns={COLUMNS}
      list={list}
      keyOf={({ inboundId }) => inboundId}
      href={({ inboundId }) => `/app/${mode}/inbound/${inboundId}`}
      csvName="inbound"
      empty={
        isFiltered
          ? { title: texts.noneFiltered, hint: texts.noneFilteredHint }
          : { title: texts.none, hint: mode === 'sandbox' ? texts.noneSandbox : texts.noneHint, action: toRoutes }
      }
    >
      <Suspense>{isSimulating && <SimulateInbound to="" onClose={() => setSimulating(false)} />}</Suspense>
    </ListPage>
  );
}
