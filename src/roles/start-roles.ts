/**
 * Starts the roles that the settings ask for, in one process or in several: what does work (delivery, webhooks), then the ports
 * through which work comes (HTTP, SMTP). They know each other by wake-ups and by the hand-over of fresh mail to delivery.
 */
import { createSmtpAuthenticator } from '../accounts/accounts.ts';
import type { Running } from '../base/lifecycle.ts';
import { ROLES } from '../config.ts';
import { createFollowers } from '../events/events.ts';
import type { HttpApp } from '../http/app.ts';
import { openHttpClient } from '../net/http-client.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { createSystemMail } from '../send/send.ts';
import type { TlsFiles } from '../smtp/smtp.ts';
import { createApi, createServicePort } from './api.ts';
import { startDeliveryRole } from './delivery.ts';
import { type Parts, ranges } from './parts.ts';
import { httpTarget, portError } from './ports.ts';
import { type SmtpRole, startSmtpRole } from './smtp.ts';
import { createWakeUps, type WakeUps } from './wake-ups.ts';
import { startWebhooksRole } from './webhooks.ts';

/** From the signal: how long requests under way may take. */
const DRAIN_HTTP_MS = 20_000;
/** From the signal: when the ports are closed, whatever a delivery still waits for. */
const CLOSE_AFTER_MS = 26_000;
/** How long connections may take to end then. */
const CLOSE_MS = 2_000;

export interface Roles extends Running {
  httpPort: number | undefined;
  smtpPort: number | undefined;
  smtpsPort: number | undefined;
  /** Names of the roles that run here. */
  started: string[];
}

interface RoleOptions {
  nodes: Nodes;
  tlsFiles: TlsFiles | undefined;
}

export async function startRoles(parts: Parts, options: RoleOptions): Promise<Roles> {
  const workers = startWorkers(parts, options.nodes);
  const ports: Ports = { app: undefined, smtp: undefined };
  const stop = async (): Promise<void> => {
    // All at once, so that each has its grace within the thirty seconds. Events of the last results stay in the store.
    const drained = Promise.all([
      ports.app?.drain({ deadlineMs: DRAIN_HTTP_MS }),
      ports.smtp?.drain(),
      workers.drain(),
    ]);
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, CLOSE_AFTER_MS);
    await Promise.race([drained, late.promise]).finally(() => clearTimeout(timer));
    await Promise.all([ports.app?.stop({ deadlineMs: CLOSE_MS }), ports.smtp?.stop(), drained]);
    await workers.http.close();
  };
  try {
    const httpPort = await openPorts(parts, ports, { ...options, workers });
    const { port: smtpPort, implicitTlsPort: smtpsPort } = ports.smtp ?? {};
    const started = ROLES.filter((role) => parts.config.roles.includes(role));
    return { httpPort, smtpPort, smtpsPort, started, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

type Workers = ReturnType<typeof startWorkers>;

/** Delivery and webhooks, and what wakes them. */
function startWorkers(parts: Parts, nodes: Nodes) {
  const { config, database, blobs, clock, log } = parts;
  const http = openHttpClient({
    lookup: parts.dns.lookupHost,
    allow: ranges(config.webhookAllow),
    connectionsPerOrigin: 500,
  });
  const wakeUps: WakeUps = createWakeUps(parts);
  const followers = createFollowers({ database });
  const nudgeDelivery = (): void => wakeUps.wake('delivery');
  const nudgeWebhooks = (): void => {
    wakeUps.wake('webhooks');
    followers.nudge();
  };
  const hostnames = [config.smtpHostname, ...(config.baseUrl === undefined ? [] : [new URL(config.baseUrl).hostname])];
  const notify = createSystemMail({ database, blobs, clock, log, hostnames, onAccepted: nudgeDelivery });
  const webhooks = config.roles.includes('webhooks') ? startWebhooksRole(parts, http, notify) : undefined;
  if (webhooks) wakeUps.onWake('webhooks', () => webhooks.nudge());
  const delivery = config.roles.includes('delivery')
    ? startDeliveryRole(parts, { onSettled: nudgeWebhooks, connectionShare: () => nodes.share('delivery') })
    : undefined;
  if (delivery) wakeUps.onWake('delivery', () => delivery.delivery.nudge());
  return {
    http,
    followers,
    nudgeDelivery,
    /** After mail was accepted, which comes before webhooks. */
    nudgeWebhooks: (): void => {
      webhooks?.giveWay();
      nudgeWebhooks();
    },
    directDispatch: delivery?.delivery,
    drain: () => Promise.all([delivery?.running.stop(), webhooks?.stop(), followers.stop()]),
  };
}

interface Ports {
  app: HttpApp | undefined;
  smtp: SmtpRole | undefined;
}

/** Notes each in `ports` as it opens; answers the port of HTTP. */
async function openPorts(
  parts: Parts,
  ports: Ports,
  { nodes, tlsFiles, workers }: RoleOptions & { workers: Workers },
): Promise<number | undefined> {
  const { config } = parts;
  const hasApi = config.roles.includes('api');
  // One for both: what the API revokes is refused over SMTP at once.
  const logins = createSmtpAuthenticator({ database: parts.database, clock: parts.clock });
  ports.app = hasApi
    ? createApi(parts, { ...workers, logins, rateShare: () => nodes.share('api') })
    : createServicePort(parts);
  const httpPort = await listenHttp(ports.app, parts);
  if (config.roles.includes('smtp')) {
    const baseUrl = config.baseUrl ?? `http://localhost:${hasApi ? httpPort : config.httpPort}`;
    const rateShare = (): number => nodes.share('smtp');
    ports.smtp = await startSmtpRole(parts, { ...workers, logins, tlsFiles, baseUrl, rateShare });
  }
  return httpPort;
}

/**
 * Rejects with the line for the operator. Without the api role a port that another process of the machine has is no reason not
 * to start: only the questions of machines about this process go unanswered then.
 */
async function listenHttp(app: HttpApp, { config, log }: Parts): Promise<number | undefined> {
  try {
    return (await app.listen()).port;
  } catch (error) {
    const shown = portError(error, httpTarget(config)) as Error;
    const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
    if (config.roles.includes('api') || !isTaken) throw shown;
    log.warn({ error: shown.message }, '/health, /ready and /metrics of this process are not served');
    return undefined;
  }
}
