/** Every delivery of a webhook, newest event first, reloaded when one of the newest changes. */
import { Text, Title } from '@mantine/core';
import { lazy, Suspense, useEffect, useRef, useState } from 'react';
import { type Query, usePages } from '../../api.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { FilterChoice, Filters } from '../../parts/filters.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { duration, Time } from '../../parts/time.tsx';
import { useSearchState } from '../../search-state.ts';
import { EVENT_TYPES, eventTypeOf } from '../../texts/event-types.ts';
import { deliveries } from '../../texts/webhooks.ts';
import { eventIn } from './event-body.ts';
import type { WebhookDelivery } from './health-strip.tsx';
import type { Webhook } from './webhook-state.tsx';

const DeliveryDrawer = lazy(async () => ({ default: (await import('./delivery.tsx')).DeliveryDrawer }));

interface DeliveriesProps {
  webhook: Webhook;
  /** Their current state. */
  newest: readonly WebhookDelivery[] | undefined;
  /** The open delivery. */
  chosen: string | undefined;
  onOpen(deliveryId: string | undefined): void;
}

const { columns: names } = deliveries;
const NONE = '–';

const COLUMNS: readonly Column<WebhookDelivery>[] = [
  {
    name: names.event,
    phone: 'title',
    cell: ({ eventType }) => eventType,
    text: ({ eventType, eventId }) => `${eventType} ${eventId}`,
    width: '9rem',
  },
  {
    name: names.recipient,
    phone: 'detail',
    cell: (one) => (
      <Text inherit truncate title={recipientOf(one)} maw={'16rem'}>
        {recipientOf(one)}
      </Text>
    ),
    text: recipientOf,
  },
  {
    name: names.status,
    phone: 'badge',
    cell: ({ status }) => <StatusBadge status={status} />,
    text: ({ status }) => status,
    width: '7rem',
  },
  {
    name: names.attempts,
    cell: ({ attempts }) => attempts,
    text: ({ attempts }) => attempts,
    width: '5rem',
    atEnd: true,
  },
  { name: names.answer, cell: answerOf, text: answerOf, width: '8.5rem' },
  {
    name: names.took,
    cell: ({ latencyMs }) => (latencyMs === null ? NONE : duration(latencyMs / 1_000)),
    text: ({ latencyMs }) => latencyMs,
    width: '5rem',
    atEnd: true,
  },
  {
    name: names.next,
    cell: ({ nextAttemptAt }) => (nextAttemptAt === null ? NONE : <Time at={nextAttemptAt} />),
    text: ({ nextAttemptAt }) => nextAttemptAt,
    width: '7rem',
  },
  {
    name: names.at,
    phone: 'time',
    cell: ({ createdAt }) => <Time at={createdAt} exact />,
    text: ({ createdAt }) => createdAt,
    width: '8rem',
    atEnd: true,
  },
];

function recipientOf({ request }: WebhookDelivery): string {
  const recipient = eventIn(request?.body)?.recipient;
  return typeof recipient === 'string' ? recipient : NONE;
}

function answerOf({ responseStatus, error }: WebhookDelivery): string {
  if (responseStatus !== null) return String(responseStatus);
  return error === null ? NONE : deliveries.noAnswer;
}

const STATUSES = ['pending', 'succeeded', 'failed'] as const;

/** The filters of the list, stored in the page's URL. */
function useFilter(): Query<'listWebhookDeliveries'> {
  const [{ type, status }] = useSearchState();
  return {
    eventType: eventTypeOf(type),
    status: STATUSES.find((one) => one === status),
  };
}

/** Returns the open delivery as it was last found, if newer ones have pushed it out of the loaded ones since. */
function useKept(found: WebhookDelivery | undefined, chosen: string | undefined): WebhookDelivery | undefined {
  const [kept, setKept] = useState(found);
  useEffect(() => {
    if (found !== undefined) setKept(found);
  }, [found]);
  return found ?? (kept?.deliveryId === chosen ? kept : undefined);
}

export function Deliveries({ webhook, newest, chosen, onOpen }: DeliveriesProps) {
  const filter = useFilter();
  const list = usePages('listWebhookDeliveries', { path: { id: webhook.webhookId }, query: filter });
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  const known = useRef(newest);
  useEffect(() => {
    if (known.current !== undefined && known.current !== newest) void list.refetch();
    known.current = newest;
  }, [newest]);
  // Stays for the animation that closes it.
  const [hasDrawer, setDrawer] = useState(false);
  if (chosen !== undefined && !hasDrawer) setDrawer(true);
  const delivery = useKept(
    [...(newest ?? []), ...(list.items ?? [])].find(({ deliveryId }) => deliveryId === chosen),
    chosen,
  );
  return (
    <section aria-label={deliveries.title}>
      <Title order={2} size="h3">
        {deliveries.title}
      </Title>
      <Text c="dimmed" size="sm" mb="xs">
        {deliveries.lead}
      </Text>
      <Filters label={deliveries.filters} of={['type', 'status']}>
        <FilterChoice name="type" label={names.event} any={deliveries.allEvents} data={EVENT_TYPES} />
        <FilterChoice
          name="status"
          label={names.status}
          any={deliveries.allStatuses}
          data={STATUSES.map((value) => ({ value, label: deliveries.statuses[value] }))}
        />
      </Filters>
      <Rows
        label={deliveries.list}
        columns={COLUMNS}
        list={list}
        csvName="webhook-deliveries"
        keyOf={({ deliveryId }) => deliveryId}
        onOpen={({ deliveryId }) => onOpen(deliveryId)}
        empty={
          isFiltered
            ? { title: deliveries.noneFound, hint: deliveries.noneFoundHint }
            : { title: deliveries.empty, hint: deliveries.emptyHint }
        }
      />
      {hasDrawer && (
        <Suspense>
          <DeliveryDrawer
            webhook={webhook}
            isOpen={chosen !== undefined}
            delivery={delivery}
            isLoading={list.isPending}
            onClose={() => onOpen(undefined)}
          />
        </Suspense>
      )}
    </section>
  );
}
