/** The delivery role: the last hop of accepted mail, live and sandbox, with the housekeeping that goes with it. */
import { uploadedBlobsOperation } from '../attachments/attachments.ts';
import type { Running } from '../base/lifecycle.ts';
import { type Delivery, startDelivery } from '../delivery/delivery.ts';
import { createDkimKeyring } from '../domains/domains.ts';
import { startHousekeeping } from './housekeeping.ts';
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
    keysFor: (accountId, domain) => keyring.keysFor(accountId, domain),
    metrics: parts.metrics,
    onSettled: options.onSettled,
    connectionShare: options.connectionShare,
  });
  const housekeeping = startHousekeeping({
    database,
    blobs,
    clock,
    log,
    alsoNamed: (keys) => database.execute(uploadedBlobsOperation, keys),
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
