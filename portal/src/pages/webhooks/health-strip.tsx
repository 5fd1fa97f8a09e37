/** The results of a webhook's last deliveries, oldest first: a mark for each, and one sentence for screen readers. */
import { Skeleton, Text, Tooltip } from '@mantine/core';
import type { ReactNode } from 'react';
import { type Answer, useCall } from '../../api.ts';
import { Facts } from '../../parts/page.tsx';
import { sentence } from '../../parts/sentence.ts';
import { duration, Time } from '../../parts/time.tsx';
import { health } from '../../texts/webhooks.ts';
import classes from './webhooks.module.css';

export type WebhookDelivery = Answer<'listWebhookDeliveries'>[number];

const SHOWN = 20;

/** Polls the newest deliveries, since attempts cause no events. */
export function useLastDeliveries(webhookId: string, everyMs: number) {
  return useCall('listWebhookDeliveries', { path: { id: webhookId }, query: { limit: SHOWN } }, { everyMs });
}

function summaryOf(deliveries: readonly WebhookDelivery[]): string {
  const counted = { succeeded: 0, failed: 0, pending: 0 };
  for (const { status } of deliveries) counted[status] += 1;
  return health.summary(counted);
}

/** Returns the last success, the last failure, and the response time. */
function factsOf(deliveries: readonly WebhookDelivery[]): (readonly [string, ReactNode | undefined])[] {
  const well = deliveries.find(({ status }) => status === 'succeeded');
  const ill = deliveries.find(({ error }) => error !== null);
  const latencies = deliveries.flatMap(({ latencyMs }) => latencyMs ?? []).sort((a, b) => a - b);
  const usualMs = latencies[Math.floor(latencies.length / 2)];
  return [
    [health.lastSuccess, well && <Time key="well" at={well.createdAt} />],
    [health.lastProblem, ill?.error && sentence(ill.error)],
    [health.usually, usualMs === undefined ? undefined : duration(usualMs / 1_000)],
  ];
}

interface MarksProps {
  deliveries: readonly WebhookDelivery[];
  /** Makes each mark a button. */
  onOpen?(deliveryId: string): void;
}

export function HealthMarks({ deliveries, onOpen }: MarksProps) {
  const summary = summaryOf(deliveries);
  const marks = deliveries.toReversed();
  if (onOpen === undefined)
    return (
      <Tooltip label={summary}>
        <span className={classes.strip} role="img" aria-label={summary}>
          {marks.map(({ deliveryId, status }) => (
            <span key={deliveryId} className={classes.mark} data-status={status} />
          ))}
        </span>
      </Tooltip>
    );
  return (
    <>
      <div className={`${classes.strip} ${classes.big}`}>
        {marks.map(({ deliveryId, eventType, status }) => (
          <Tooltip key={deliveryId} label={health.mark(eventType, status)}>
            <button
              type="button"
              className={classes.mark}
              data-status={status}
              aria-label={health.mark(eventType, status)}
              onClick={() => onOpen(deliveryId)}
            />
          </Tooltip>
        ))}
      </div>
      <Text c="dimmed" size="sm" mt={6} mb="sm">
        {summary}
      </Text>
      <Facts of={factsOf(deliveries)} />
    </>
  );
}

export const LIST_EVERY_MS = 15_000;

export function HealthStrip({ webhookId }: { webhookId: string }) {
  const { data, isPending } = useLastDeliveries(webhookId, LIST_EVERY_MS);
  if (isPending) return <Skeleton height={14} width={138} aria-label={health.loading} />;
  if (data === undefined || data.length === 0)
    return (
      <Text c="dimmed" size="xs" span>
        {health.none}
      </Text>
    );
  return <HealthMarks deliveries={data} />;
}
