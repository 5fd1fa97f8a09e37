/** Delivery reports within delivery; the settings tell which hosts are relays. */
import type { Running } from '../base/lifecycle.ts';
import { type SystemMailer, startDeliveryReports } from '../send/send.ts';
import type { Parts } from './parts.ts';

export function startReports(
  { config, database, blobs, clock, log }: Parts,
  mail: Pick<SystemMailer, 'sender' | 'sendDeliveryReport'>,
): Running {
  const { route, fallbackRoute, smtpHostname: hostname } = config;
  const relays = [route.kind === 'relay' ? route.relay.host : undefined, fallbackRoute?.host];
  return startDeliveryReports({
    database,
    blobs,
    clock,
    log,
    mail,
    hostname,
    relays: relays.filter((host) => host !== undefined),
  });
}
