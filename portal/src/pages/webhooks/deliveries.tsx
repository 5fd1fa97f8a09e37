/** Every delivery of a webhook, newest event first, reloaded when one of the newest changes. */
import { Text, Title } from '@mantine/core';
import { useEffect, useRef } from 'react';
import { usePages } from '../../api.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { duration, Time } from '../../parts/time.tsx';
import { deliveries } from '../../texts/webhooks.ts';
import { DeliveryDrawer } from './delivery.tsx';
import { eventIn } from './event-body.ts';
import type { WebhookDelivery } from './health-strip.tsx';
import type { Webhook } from './webhook-state.tsx';

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
    cell: ({ eventType }) => eventType,
    text: ({ eventType, eventId }) => `${eventType} ${eventId}`,
    width: '9rem',
  },
  { name: names.recipient, cell: recipientOf, text: recipientOf },
  {
    name: names.status,
    cell: ({ status }) => <StatusBadge status={status} />,
    text: ({ status }) => status,
    width: '7rem',
  },
  { name: names.attempts, cell: ({ attempts }) => attempts, text: ({ attempts }) => attempts, width: '5rem' },
  { name: names.answer, cell: answerOf, text: answerOf, width: '7rem' },
  {
    name: names.took,
    cell: ({ latencyMs }) => (latencyMs === null ? NONE : duration(latencyMs / 1_000)),
    text: ({ latencyMs }) => latencyMs,
    width: '5rem',
  },
  {
    name: names.next,
    cell: ({ nextAttemptAt }) => (nextAttemptAt === null ? NONE : <Time at={nextAttemptAt} />),
    text: ({ nextAttemptAt }) => nextAttemptAt,
    width: '7rem',
  },
  {
    name: names.at,
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

export function Deliveries({ webhook, newest, chosen, onOpen }: DeliveriesProps) {
  const list = usePages('listWebhookDeliveries', { path: { id: webhook.webhookId } });
  const known = useRef(newest);
  useEffect(() => {
    if (known.current !== undefined && known.current !== newest) void list.refetch();
    known.current = newest;
  }, [newest]);
  const all = [...(newest ?? []), ...(list.items ?? [])];
  return (
    <section aria-label={deliveries.title}>
      <Title order={2} size="h3">
        {deliveries.title}
      </Title>
      <Text c="dimmed" size="sm" mb="xs">
        {deliveries.lead}
      </Text>
      <Rows
        label={deliveries.list}
        columns={COLUMNS}
        rows={list.items}
        csvName={'webhook-deliveries'}
        keyOf={({ deliveryId }) => deliveryId}
        onOpen={({ deliveryId }) => onOpen(deliveryId)}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        empty={{ title: deliveries.empty, hint: deliveries.emptyHint }}
      />
      <DeliveryDrawer
        webhook={webhook}
        isOpen={chosen !== undefined}
        delivery={all.find(({ deliveryId }) => deliveryId === chosen)}
        isLoading={list.isPending}
        onClose={() => onOpen(undefined)}
      />
    </section>
  );
}
