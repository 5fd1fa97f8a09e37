/**
 * `postrider serve`: opens what the roles share, starts the roles asked for, announces itself, and stops them all on a
 * signal within 30 seconds. First everything drains at once: what was begun is answered, deliveries and webhooks under way
 * are finished and recorded, the rest is given back, and whoever asks anew is refused on ports that are still open. Then the
 * ports are closed, then the storage.
 */
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createSmtpAuthenticator, type FirstRun, firstRun } from '../accounts/accounts.ts';
import { collectGarbage } from '../base/collector.ts';
import { createLog, type Log } from '../base/log.ts';
import { type Config, ROLES, VERSION } from '../config.ts';
import type { Delivery } from '../delivery/delivery.ts';
import { isHttps } from '../engagement/engagement.ts';
import { createFollowers } from '../events/events.ts';
import type { HttpApp } from '../http/app.ts';
import type { Handover } from '../messages/messages.ts';
import { openHttpClient } from '../net/http-client.ts';
import { joinNodes, type Nodes } from '../nodes/nodes.ts';
import type { TlsFiles } from '../smtp/smtp.ts';
import { hasEverServed } from '../storage/data-directory.ts';
import { createApi, createServicePort } from './api.ts';
import { startDeliveryRole } from './delivery.ts';

import { judgePorts } from './judge-ports.ts';
import { listenFault } from './listen-fault.ts';
import { openParts, type Parts, ranges } from './parts.ts';
import { type SmtpRole, startSmtpRole } from './smtp.ts';
import { createNotify } from './system-mail.ts';
import { judgeTlsFiles } from './tls-files.ts';
import { startWebhooksRole } from './webhooks.ts';

export interface Serving {
  /** Of the API, or without that role of /health, /ready and /metrics alone; undefined when another process has the port. */
  httpPort: number | undefined;
  /** Undefined when the smtp role does not run here. */
  smtpPort: number | undefined;
  /** Resolves when the storage broke and the process should end with an error. */
  broken: Promise<string>;
  stop(): Promise<void>;
}

/** Where other programs find out that and where this process serves. */
const ANNOUNCEMENT = 'serving.json';
/** From the signal: how long requests under way may take. */
const DRAIN_HTTP_MS = 20_000;
/** From the signal: when the ports are closed, whatever a delivery still waits for. */
const CLOSE_AFTER_MS = 26_000;
/** How long connections may take to end then. */
const CLOSE_MS = 2_000;
const COLLECT_AFTER_MS = 1_000;

const noHandover: Handover = { hasRoom: () => false, offer: () => undefined };

/**
 * Starts the roles of the configuration; rejects with a sentence for the operator when something is in the way. What is wrong
 * with the settings shows before anything is made, as far as it can be known by then. A first run is told as soon as it is
 * committed: its credentials count whatever happens afterwards.
 */
export async function serve(
  config: Config,
  onFirstRun: (first: FirstRun) => void = () => undefined,
  log: Log = createLog(config.logLevel),
): Promise<Serving> {
  let breakDown: (reason: string) => void = () => undefined;
  const broken = new Promise<string>((resolve) => {
    breakDown = resolve;
  });
  const tlsFiles = config.roles.includes('smtp') ? judgeTlsFiles(config) : undefined;
  if (!hasEverServed(config.dataDir)) await judgePorts(config);
  const onBroken = (reason: string): void => {
    log.fatal(`${reason}; the process ends`);
    breakDown(reason);
  };
  const parts = await openParts({ config, log, onBroken });
  try {
    const first = await firstRun({ database: parts.database, clock: parts.clock, directory: parts.directory });
    if (first) onFirstRun(first);
    const nodes = await joinNodes({
      database: parts.database,
      clock: parts.clock,
      log,
      host: config.smtpHostname,
      version: VERSION,
      roles: config.roles,
    });
    const roles = await startRoles(parts, { nodes, tlsFiles }).catch(async (error: unknown) => {
      await nodes.stop();
      throw error;
    });
    const announcement = path.join(parts.directory.path, ANNOUNCEMENT);
    const { httpPort, smtpPort, smtpsPort } = roles;
    const said = { pid: process.pid, httpPort, httpHost: config.httpHost, smtpPort, smtpsPort };
    writeFileSync(announcement, JSON.stringify(said), { mode: 0o600 });
    log.info(
      { roles: roles.started, httpPort, smtpPort, smtpsPort, dataDir: parts.directory.path },
      'postrider serves',
    );
    if (config.roles.includes('api') && !isHttps(config.baseUrl ?? '')) {
      // On a laptop, where it is not set, that is as it should be.
      log[config.baseUrl === undefined ? 'info' : 'warn'](
        { baseUrl: config.baseUrl ?? `http://localhost:${httpPort}` },
        'POSTRIDER_BASE_URL is no https address: mail goes out without List-Unsubscribe headers',
      );
    }
    setTimeout(collectGarbage, COLLECT_AFTER_MS).unref();
    let stopping: Promise<void> | undefined;
    const stop = async (): Promise<void> => {
      log.info('stopping');
      rmSync(announcement, { force: true });
      parts.overload.startDraining();
      await roles.stop();
      await nodes.stop();
      await parts.stop();
      log.info('stopped');
    };
    return {
      httpPort,
      smtpPort,
      broken,
      stop: () => {
        stopping ??= stop();
        return stopping;
      },
    };
  } catch (error) {
    await parts.stop();
    throw error;
  }
}

interface Roles {
  httpPort: number | undefined;
  smtpPort: number | undefined;
  smtpsPort: number | undefined;
  /** Names of the roles that run here. */
  started: string[];
  stop(): Promise<void>;
}

async function startRoles(
  parts: Parts,
  { nodes, tlsFiles }: { nodes: Nodes; tlsFiles: TlsFiles | undefined },
): Promise<Roles> {
  const { config } = parts;
  const has = (role: Config['roles'][number]): boolean => config.roles.includes(role);
  const http = openHttpClient({
    lookup: parts.dns.lookupHost,
    allow: ranges(config.webhookAllow),
    connectionsPerOrigin: 500,
  });
  let delivery: Delivery | undefined;
  // Work that no role of this process does is told to the nodes that do it.
  const nudgeDelivery = (): void => (has('delivery') ? delivery?.nudge() : parts.hints.tell('delivery'));
  const webhooks = has('webhooks') ? startWebhooksRole(parts, http, createNotify(parts, nudgeDelivery)) : undefined;
  const followers = createFollowers({ database: parts.database });
  const nudgeWebhooks = (): void => {
    if (webhooks) webhooks.nudge();
    else parts.hints.tell('webhooks');
    followers.nudge();
  };
  const deliveryRole = has('delivery')
    ? startDeliveryRole(parts, {
        onSettled: nudgeWebhooks,
        connectionShare: () => nodes.share('delivery'),
      })
    : undefined;
  delivery = deliveryRole?.delivery;
  parts.hints.listen('delivery', () => delivery?.nudge());
  parts.hints.listen('webhooks', () => webhooks?.nudge());
  let app: HttpApp | undefined;
  let smtp: SmtpRole | undefined;
  // What the API and SMTP call after they have accepted mail, which comes before webhooks.
  const acceptedMail = (): void => {
    webhooks?.giveWay();
    nudgeWebhooks();
  };
  const nudges = { nudgeDelivery, nudgeWebhooks: acceptedMail };
  const handover = delivery ?? noHandover;
  // One for both: what the API revokes is refused over SMTP at once.
  const logins = createSmtpAuthenticator({ database: parts.database, clock: parts.clock });
  const stop = async (): Promise<void> => {
    // All at once, so that each has its grace within the thirty seconds. Events of the last results stay in the store.
    const drained = Promise.all([
      app?.drain({ deadlineMs: DRAIN_HTTP_MS }),
      smtp?.drain(),
      deliveryRole?.running.stop(),
      webhooks?.stop(),
      followers.stop(),
    ]);
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, CLOSE_AFTER_MS);
    await Promise.race([drained, late.promise]).finally(() => clearTimeout(timer));
    await Promise.all([app?.stop({ deadlineMs: CLOSE_MS }), smtp?.stop(), drained]);
    await http.close();
  };
  try {
    app = has('api')
      ? createApi(parts, { ...nudges, handover, http, followers, logins, rateShare: () => nodes.share('api') })
      : createServicePort(parts);
    const httpPort = await listenHttp(app, parts);
    if (has('smtp')) {
      const baseUrl = config.baseUrl ?? `http://localhost:${has('api') ? httpPort : config.httpPort}`;
      const rateShare = (): number => nodes.share('smtp');
      smtp = await startSmtpRole(parts, { ...nudges, handover, logins, tlsFiles, baseUrl, rateShare });
    }
    return { httpPort, smtpPort: smtp?.port, smtpsPort: smtp?.implicitTlsPort, started: ROLES.filter(has), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * Rejects with the line for the operator. Without the api role a port that another process of the machine has is no reason not
 * to start: only the questions of machines about this process go unanswered then.
 */
async function listenHttp(app: HttpApp, { config, log }: Parts): Promise<number | undefined> {
  try {
    return (await app.listen()).port;
  } catch (error) {
    const fault = listenFault(error, config);
    const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
    if (config.roles.includes('api') || !isTaken) throw fault ?? error;
    log.warn({ error: fault?.message }, '/health, /ready and /metrics of this process are not served');
    return undefined;
  }
}
