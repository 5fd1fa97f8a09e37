/** The delivery role: the last hop of accepted mail, live and sandbox, with the housekeeping that goes with it. */
import { createSuspensionCheck } from '../accounts/accounts.ts';
import { uploadedBlobsOperation } from '../attachments/attachments.ts';
import type { Running } from '../base/lifecycle.ts';
import { type Delivery, startDelivery } from '../delivery/delivery.ts';
import { createDkimKeyring } from '../domains/domains.ts';
import { startHousekeeping } from '../housekeeping/housekeeping.ts';
import { SYSTEM_ACCOUNT } from '../send/send.ts';
import { type Parts, ranges } from './parts.ts';

export interface DeliveryRoleOptions {
  onSettled(): void;
  /** The part of a limit on connections that is this process's among the nodes that deliver. */
  connectionShare(): number;
}

export function startDeliveryRole(
  parts: Parts,
  options: DeliveryRoleOptions,
): { delivery: Delivery; running: Running } {
  const { config, database, blobs, clock, log, secretKey, dns } = parts;
  const keyring = createDkimKeyring({ database, clock, secretKey });
  const delivery = startDelivery({
    database,
    blobs,
    clock,
    log,
    routing: { route: config.route, dns, mxPort: config.mxPort, mxAllow: ranges(config.mxAllow) },
    hostname: config.smtpHostname,
    // Mail of the service itself has no domain to sign for; all other mail leaves signed or not at all.
    keysFor: async (accountId, domain) =>
      (await keyring.keysFor(accountId, domain)) ?? (accountId === SYSTEM_ACCOUNT ? undefined : 'unverified'),
    isSuspended: createSuspensionCheck({ database, clock }),
    metrics: parts.metrics,
    onSettled: options.onSettled,
    connectionShare: options.connectionShare,
  });
  const paused = { name: 'postrider_destination_paused_seconds', help: 'Time left of the pause of a destination.' };
  parts.metrics.readGaugeFrom(paused, () =>
    delivery.state().pausedDestinations.map(({ key, untilMs }) => ({
      labels: { destination: key },
      value: Math.max(0, (untilMs - clock.now()) / 1000),
    })),
  );
  const waiting = {
    name: 'postrider_destination_waiting_messages',
    help: 'Messages in memory that wait, at the 20 busiest destinations.',
  };
  const loadOf = (what: 'waiting' | 'active') => () =>
    delivery.state().destinations.map((one) => ({ labels: { destination: one.key }, value: one[what] }));
  parts.metrics.readGaugeFrom(waiting, loadOf('waiting'));
  const running = { name: 'postrider_destination_connections', help: 'Connections in use, at the same destinations.' };
  parts.metrics.readGaugeFrom(running, loadOf('active'));
  const housekeeping = startHousekeeping({
    database,
    blobs,
    clock,
    log,
    alsoNamed: (keys) => database.execute(uploadedBlobsOperation, keys),
    contentDays: config.contentDays,
    eventDays: config.eventDays,
  });
  return {
    delivery,
    running: {
      stop: async () => {
        await Promise.all([delivery.stop(), housekeeping.stop()]);
      },
    },
  };
}
