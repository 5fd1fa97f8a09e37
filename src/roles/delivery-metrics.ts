/** Metrics of destinations, read at each scrape. */
import type { GaugeOptions } from '../base/metrics.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { Parts } from './parts.ts';

export function measureDelivery({ metrics, clock }: Parts, delivery: Delivery): void {
  const paused = { name: 'postrider_destination_paused_seconds', help: 'Time until the pause of a destination ends.' };
  metrics.readGaugeFrom(paused, () =>
    delivery.state().pausedDestinations.map(({ key, untilMs }) => ({
      labels: { destination: key },
      value: Math.max(0, (untilMs - clock.now()) / 1000),
    })),
  );
  const blocked = {
    name: 'postrider_destination_blocked_seconds',
    help: 'Time since a destination started to block the sending host.',
  };
  metrics.readGaugeFrom(blocked, () =>
    delivery.state().blockedDestinations.map(({ key, sinceMs }) => ({
      labels: { destination: key },
      value: Math.max(0, (clock.now() - sinceMs) / 1000),
    })),
  );
  const waiting: GaugeOptions = {
    name: 'postrider_destination_queued_messages',
    help: 'Messages queued in memory, for the 20 busiest destinations.',
    combined: 'sum',
  };
  const loadOf = (what: 'waiting' | 'active') => () =>
    delivery.state().destinations.map((one) => ({ labels: { destination: one.key }, value: one[what] }));
  metrics.readGaugeFrom(waiting, loadOf('waiting'));
  const running: GaugeOptions = {
    name: 'postrider_destination_connections',
    help: 'Connections in use, for the 20 busiest destinations.',
    combined: 'sum',
  };
  metrics.readGaugeFrom(running, loadOf('active'));
}
