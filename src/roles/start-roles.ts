/**
 * Starts the roles that are configured for this process: first the workers (delivery with its housekeeping, webhooks), then the ports
 * through which work arrives (HTTP, SMTP). The ports wake the workers and pass accepted mail to delivery.
 */

import {
  type CredentialUses,
  createAuthenticator,
  createCredentialUses,
  createSmtpAuthenticator,
  createSuspensionCheck,
  startSuspensionNotices,
} from '../accounts/accounts.ts';
import { uploadedBlobsOperation } from '../attachments/attachments.ts';
import type { Running } from '../base/lifecycle.ts';
import type { LabeledValue } from '../base/metrics.ts';
import { publicUrl, ROLES, WEBHOOK_USER_AGENT } from '../config.ts';
import { type Delivery, type DeliveryDeps, type Providers, startDelivery } from '../delivery/delivery.ts';
import {
  createHostProbe,
  type DomainChecksOptions,
  openTrackingHosts,
  startDomainChecks,
  type TrackingHosts,
} from '../domains/domains.ts';
import { withForeignNames } from '../doors/doors.ts';
import { ERASURE_WORK, startErasures } from '../erasure/erasure.ts';
import { createFollowers, startLogLag, WEBHOOK_WORK } from '../events/events.ts';
import { startHousekeeping } from '../housekeeping/housekeeping.ts';
import type { HttpApp } from '../http/app.ts';
import { INBOUND_WORK, type InboundWorker, inboundBlobsOperation } from '../inbound/inbound.ts';
import { startRouteChecks } from '../inbound-routes/inbound-routes.ts';
import { startQuotaNotices } from '../limits/limits.ts';
import { DELIVERY_WORK } from '../messages/messages.ts';
import { createRelayTokens } from '../net/access-tokens.ts';
import { openDns } from '../net/dns.ts';
import { openHttpClient } from '../net/http-client.ts';
import { openSourceAddresses } from '../net/source-addresses.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { startSendingProtection } from '../reputation/reputation.ts';
import { createRequestLog, type RequestLog } from '../request-log/request-log.ts';
import { createSystemMail, type SystemMailer } from '../send/send.ts';
import type { TlsFiles } from '../smtp/smtp.ts';
import { acceptedMailOperation, startRollUp } from '../statistics/statistics.ts';
import { type ServerHealth, startHealthWatch } from '../storage/server-health.ts';
import { openTlsPolicies } from '../tls-policy/tls-policy.ts';
import { startWebhooks } from '../webhooks/webhooks.ts';
import { createApi, createServicePort } from './api.ts';
import { type Certificates, openCertificates } from './certificates.ts';
import { measureDelivery } from './delivery-metrics.ts';
import { startReports } from './delivery-reports.ts';
import { type InboundRole, mxOf, ownHostOf, returnPathsOf, startInboundRole, startInboundWork } from './inbound.ts';
import { type Parts, ranges } from './parts.ts';
import { httpsTarget, httpTarget, portError, STANDARD_SMTP_PORT } from './ports.ts';
import { type SmtpRole, startSmtpRole } from './smtp.ts';
import { createKeysFor, openTlsReports } from './tls-reports.ts';

/**
 * If a domain accepted mail of an account within this time, its messages do not bounce immediately when the DNS reports that the domain
 * does not exist.
 */
const RECENTLY_ACCEPTED_MS = 30 * 86_400_000;
/** How long pending requests may take after the stop signal. */
const DRAIN_HTTP_MS = 20_000;
/** Time from the stop signal until the ports are closed, even if deliveries are in progress. */
const CLOSE_AFTER_MS = 26_000;
/** How long connections may take to close after CLOSE_AFTER_MS. */
const CLOSE_MS = 2_000;

export interface Roles extends Running {
  httpPort: number | undefined;
  httpsPort: number | undefined;
  smtpPort: number | undefined;
  smtpsPort: number | undefined;
  inboundPort: number | undefined;
  /** The roles that run in this process. */
  started: string[];
  /** Rereads the certificate files. */
  reloadCertificates(): void;
}

interface RoleOptions {
  nodes: Nodes;
  tlsFiles: TlsFiles | undefined;
  providers: Providers;
  /** Whether this process carries out erasures; true by default. Simulations turn this off. */
  erases?: boolean;
  /** Whether only failed requests are recorded; false by default. Simulations turn this on. */
  logsOnlyFailed?: boolean;
}

export async function startRoles(parts: Parts, options: RoleOptions): Promise<Roles> {
  const { database, clock, log, config } = parts;
  const trackingHosts = openTrackingHosts({ database, clock, log, baseUrl: config.baseUrl });
  await trackingHosts.read();
  const certificates = await openCertificates(parts, { files: options.tlsFiles, trackingHosts });
  const ports: Ports = { app: undefined, smtp: undefined, inbound: undefined };
  const workers = startWorkers(parts, { ...options, inboundPort: () => ports.inbound?.ownPort });
  const requestLog = createRequestLog({
    ...parts,
    omitted: parts.metrics.requestsNotRecorded,
    isOverloaded: () => parts.overload.reasons().length > 0,
    failedOnly: options.logsOnlyFailed === true,
  });
  const credentialUses = createCredentialUses(parts);
  const stop = async (): Promise<void> => {
    // All of these stop at the same time, so that each has its full grace period within the 30 s after SIGTERM. Events that the last
    // deliveries record stay in the database until the next start.
    const drained = Promise.all([
      ports.app?.drain({ deadlineMs: DRAIN_HTTP_MS }),
      ports.smtp?.drain(),
      ports.inbound?.drain(),
      workers.drain(),
    ]);
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, CLOSE_AFTER_MS);
    await Promise.race([drained, late.promise]).finally(() => clearTimeout(timer));
    await Promise.all([ports.app?.stop({ deadlineMs: CLOSE_MS }), ports.smtp?.stop(), ports.inbound?.stop(), drained]);
    await Promise.all([
      workers.http.close(),
      requestLog.stop(),
      credentialUses.stop(),
      certificates.stop(),
      trackingHosts.stop(),
    ]);
  };
  try {
    const { httpPort, httpsPort } = await openPorts(parts, ports, {
      nodes: options.nodes,
      workers,
      requestLog,
      credentialUses,
      certificates,
      trackingHosts,
    });
    certificates.start();
    const { port: smtpPort, implicitTlsPort: smtpsPort } = ports.smtp ?? {};
    const started = ROLES.filter((role) => parts.config.roles.includes(role));
    return {
      httpPort,
      httpsPort,
      smtpPort,
      smtpsPort,
      inboundPort: ports.inbound?.port,
      started,
      reloadCertificates: certificates.reload,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

type Workers = ReturnType<typeof startWorkers>;

interface WorkerOptions extends Pick<RoleOptions, 'nodes' | 'providers' | 'erases'> {
  /** Returns the inbound port of this process once it listens. */
  inboundPort(): number | undefined;
}

/** Starts delivery and webhooks, with their wake-ups. */
function startWorkers(parts: Parts, { nodes, providers, erases = true, inboundPort }: WorkerOptions) {
  const { config, database, blobs, clock, log, secretKey, metrics, addressHash } = parts;
  const http = openHttpClient({
    lookup: parts.dns.lookupHost,
    allow: ranges(config.webhookAllow),
    connectionsPerOrigin: 500,
    userAgent: WEBHOOK_USER_AGENT,
  });
  const wakeUps: WakeUps = createWakeUps(parts);
  const followers = createFollowers({ database });
  const nudgeDelivery = (): void => wakeUps.wake(DELIVERY_WORK);
  const nudgeWebhooks = (): void => {
    wakeUps.wake(WEBHOOK_WORK);
    followers.nudge();
  };
  const hostnames = [config.smtpHostname, ...(config.baseUrl === undefined ? [] : [new URL(config.baseUrl).hostname])];
  const mail = createSystemMail({
    database,
    blobs,
    clock,
    log,
    addressHash,
    hostnames,
    baseUrl: config.baseUrl,
    onAccepted: nudgeDelivery,
  });
  const webhooks = config.roles.includes('webhooks')
    ? startWebhooks({ database, http, clock, log, secretKey, metrics, notify: mail.notify, tracer: parts.tracer })
    : undefined;
  if (webhooks) wakeUps.onWake(WEBHOOK_WORK, () => webhooks.nudge());
  const delivery = config.roles.includes('delivery')
    ? startDeliveryRole(parts, {
        providers,
        inboundPort,
        notifyOperators: mail.notifyOperators,
        onSettled: nudgeWebhooks,
        connectionShare: () => nodes.share('delivery'),
        isServed: createHostProbe(http),
        isFirstNode: () => nodes.isFirst('delivery'),
        notify: mail.notify,
        sendReport: mail.sendReport,
        mail,
      })
    : undefined;
  nodes.publish(() => ({
    leases: {
      ...(delivery && { delivery: delivery.delivery.state().window }),
      ...(webhooks && { webhooks: webhooks.leases() }),
    },
    destinations: delivery?.delivery.published() ?? [],
  }));
  if (delivery) wakeUps.onWake(DELIVERY_WORK, () => delivery.delivery.nudge());
  const erasures = delivery && erases ? startErasures({ database, blobs, clock, log, secretKey }) : undefined;
  if (erasures) wakeUps.onWake(ERASURE_WORK, () => void erasures.run());
  let inbound: InboundWorker | undefined;
  return {
    http,
    followers,
    mail,
    nudgeDelivery,
    nudgeInbound: (): void => wakeUps.wake(INBOUND_WORK),
    nudgeErasures: (): void => wakeUps.wake(ERASURE_WORK),
    /** Starts processing received mail if this process delivers. It needs the base URL of links in events. */
    startInbound: (baseUrl: string): void => {
      if (!config.roles.includes('delivery')) return;
      const work = startInboundWork(parts, {
        baseUrl,
        onRecorded: nudgeWebhooks,
        forward: mail.forward,
        share: () => nodes.share('delivery'),
      });
      wakeUps.onWake(INBOUND_WORK, () => work.nudge());
      inbound = work;
    },
    /** Wakes webhooks and event followers after events were written. */
    nudgeReaders: nudgeWebhooks,
    /** Wakes webhooks and event followers after mail was accepted; webhooks yield to delivery. */
    nudgeWebhooks: (): void => {
      webhooks?.giveWay();
      nudgeWebhooks();
    },
    directDispatch: delivery?.delivery,
    drain: () =>
      Promise.all([delivery?.running.stop(), inbound?.stop(), webhooks?.stop(), followers.stop(), erasures?.stop()]),
  };
}

interface Ports {
  app: HttpApp | undefined;
  smtp: SmtpRole | undefined;
  inbound: InboundRole | undefined;
}

interface PortOptions {
  nodes: Nodes;
  workers: Workers;
  requestLog: RequestLog;
  credentialUses: CredentialUses;
  certificates: Certificates;
  trackingHosts: TrackingHosts;
}

/** Opens the ports and records each in `ports`; returns the HTTP ports. */
async function openPorts(
  parts: Parts,
  ports: Ports,
  { nodes, workers, requestLog, credentialUses, certificates, trackingHosts }: PortOptions,
): Promise<Pick<Roles, 'httpPort' | 'httpsPort'>> {
  const { config } = parts;
  const hasApi = config.roles.includes('api');
  // The API and SMTP share these caches, so SMTP immediately refuses credentials that the API revoked.
  const callers = createAuthenticator(parts);
  const logins = createSmtpAuthenticator(parts);
  const shared = { ...workers, logins, requestLog, credentialUses, trackingUrlOf: trackingHosts.urlOf };
  ports.app = hasApi
    ? createApi(parts, {
        ...shared,
        callers,
        nodes,
        rateShare: () => nodes.share('api'),
        tls: certificates.https,
        submissionPorts: () => ({
          port: ports.smtp?.port ?? config.smtpPort ?? STANDARD_SMTP_PORT,
          tlsPort: ports.smtp?.implicitTlsPort ?? config.smtpsPort ?? null,
        }),
      })
    : createServicePort(parts);
  const httpPort = await listenHttp(ports.app, parts);
  const httpsPort = await listenHttps(ports.app, parts);
  const baseUrl = publicUrl({ ...config, ...(hasApi && httpPort !== undefined && { httpPort }) });
  workers.startInbound(baseUrl);
  if (certificates.smtp && config.roles.includes('smtp')) {
    const rateShare = (): number => nodes.share('smtp');
    ports.smtp = await startSmtpRole(parts, {
      ...shared,
      tls: certificates.smtp,
      baseUrl,
      rateShare,
      logins: config.doors.includes('resend') ? withForeignNames(logins, callers) : logins,
    });
  }
  if (certificates.smtp && config.roles.includes('inbound')) {
    ports.inbound = await startInboundRole(parts, {
      tls: certificates.smtp,
      onStored: workers.nudgeInbound,
      onRecorded: workers.nudgeReaders,
      share: () => nodes.share('inbound'),
    });
  }
  return { httpPort, httpsPort };
}

/** Opens the HTTPS port. Returns undefined if none is configured; rejects with an error for the operator. */
async function listenHttps(app: HttpApp, { config }: Parts): Promise<number | undefined> {
  try {
    return (await app.listenTls())?.port;
  } catch (error) {
    const target = httpsTarget(config);
    throw target ? portError(error, target) : error;
  }
}

/**
 * Opens the HTTP port; rejects with an error for the operator. Without the api role, a port that is in use does not prevent the start: this
 * process then serves no health and metrics requests.
 */
async function listenHttp(app: HttpApp, { config, log }: Parts): Promise<number | undefined> {
  try {
    return (await app.listen()).port;
  } catch (error) {
    const failure = portError(error, httpTarget(config)) as Error;
    const isInUse = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
    if (config.roles.includes('api') || !isInUse) throw failure;
    log.warn({ error: failure.message }, 'HTTP port is unavailable; /health, /ready, and /metrics are not served');
    return undefined;
  }
}

/**
 * Wakes the workers of a kind of work: this process if it runs them, else the nodes that share its database. A wake-up is only a hint:
 * polling finds the same work later. Wakers and workers may start in any order.
 */
interface WakeUps {
  wake(kind: string): void;
  /** Registers how this process is woken, by itself and by other nodes. */
  onWake(kind: string, wake: () => void): void;
}

function createWakeUps({ hints }: Pick<Parts, 'hints'>): WakeUps {
  const wakersHere: Record<string, () => void> = {};
  return {
    wake: (kind) => {
      const wakeHere = wakersHere[kind];
      if (wakeHere) wakeHere();
      else hints.notify(kind);
    },
    onWake: (kind, wake) => {
      wakersHere[kind] = wake;
      hints.listen(kind, wake);
    },
  };
}

interface DeliveryRoleOptions {
  providers: Providers;
  inboundPort: WorkerOptions['inboundPort'];
  notifyOperators: NonNullable<DeliveryDeps['notifyOperators']>;
  onSettled(): void;
  /** Returns this process's share of a connection limit among the nodes that deliver. */
  connectionShare(): number;
  /**
   * Returns whether this is the first of the nodes that deliver. That node rolls up statistics, checks domains and inbound routes, and runs
   * sending protection.
   */
  isFirstNode(): boolean;
  /** Sends the service's own mail to the owners of an account. */
  notify: DomainChecksOptions['notify'];
  /** Sends a TLS report by mail. */
  sendReport: SystemMailer['sendReport'];
  /** Sends delivery reports. */
  mail: Pick<SystemMailer, 'sender' | 'sendDeliveryReport'>;
  /** Whether this service responds at an address that a domain resolves to. */
  isServed: NonNullable<DomainChecksOptions['isServed']>;
}

function startDeliveryRole(parts: Parts, options: DeliveryRoleOptions): { delivery: Delivery; running: Running } {
  const { config, database, blobs, clock, log, dns } = parts;
  // A relay, which belongs to the operator, is itself responsible for the TLS policies of recipients' domains.
  const isDirect = config.route.kind === 'mx';
  const reports = isDirect ? openTlsReports(parts, options) : undefined;
  const allow = ranges(config.mxAllow);
  const counting = { isChosen: options.isFirstNode, count: reports?.count };
  const policies = isDirect ? openTlsPolicies({ database, dns, clock, log, allow, ...counting }) : undefined;
  const delivery = startDelivery({
    database,
    blobs,
    clock,
    log,
    routing: {
      route: config.route,
      fallback: config.fallbackRoute,
      tokensOf: createRelayTokens(),
      dns,
      mxPort: config.mxPort,
      mxAllow: allow,
      own: ownHostOf(parts, options.inboundPort),
      sources: openSourceAddresses(config.sourceAddresses),
      policies,
    },
    hostname: config.smtpHostname,
    keysFor: createKeysFor(parts),
    ...(config.bounceDomain !== undefined && { returnPaths: returnPathsOf(parts, config.bounceDomain) }),
    isSuspended: createSuspensionCheck({ database, clock }),
    acceptedMailRecently: (accountId, domain) => {
      const untilMs = clock.now();
      return database.execute(acceptedMailOperation, {
        accountId,
        domain,
        fromMs: untilMs - RECENTLY_ACCEPTED_MS,
        untilMs,
      });
    },
    metrics: parts.metrics,
    tracer: parts.tracer,
    notifyOperators: options.notifyOperators,
    onSettled: options.onSettled,
    connectionShare: options.connectionShare,
    providers: options.providers,
    warmUp: { starts: config.warmUp, sources: config.sourceAddresses },
  });
  measureDelivery(parts, delivery);
  const housekeeping = startHousekeeping({
    database,
    blobs,
    clock,
    log,
    alsoReferenced: async (keys) => [
      ...(await database.execute(uploadedBlobsOperation, keys)),
      ...(await database.execute(inboundBlobsOperation, keys)),
    ],
    contentDays: config.contentDays,
    eventDays: config.eventDays,
  });
  const deliveryReports = startReports(parts, options.mail);
  const rollUp = startStatistics(parts, options);
  const serverHealth = startServerHealth(parts, options);
  const checks = startChecks(parts, options);
  return {
    delivery,
    running: {
      stop: async () => {
        await Promise.all([
          delivery.stop(),
          housekeeping.stop(),
          rollUp.stop(),
          serverHealth.stop(),
          checks.stop(),
          deliveryReports.stop(),
        ]);
        await policies?.stop();
        await reports?.stop();
      },
    },
  };
}

/** Starts the checks that one node runs for all: domains, inbound routes, reputation, quotas, suspensions. */
function startChecks(parts: Parts, { isFirstNode: isChosen, notify, isServed }: DeliveryRoleOptions): Running {
  const { config, database, clock, log, secretKey } = parts;
  const freshDns = () => openDns({ servers: config.dnsServers, dnssec: config.dnssec });
  const domainChecks = startDomainChecks({
    database,
    clock,
    log,
    secretKey,
    notify,
    isChosen,
    isServed,
    freshDns,
    sendingHost: config.smtpHostname,
    bounceDomain: config.bounceDomain,
    baseUrl: config.baseUrl,
  });
  const routeChecks = startRouteChecks({ database, clock, log, mx: mxOf(config), freshDns, isChosen });
  const protection = startSendingProtection({ database, clock, log, notify, isChosen });
  const quotaNotices = startQuotaNotices({ database, log, notify, isChosen });
  const suspensionNotices = startSuspensionNotices({ database, log, notify, isChosen });
  return {
    stop: async () => {
      const checks = [domainChecks, routeChecks, protection, quotaNotices, suspensionNotices];
      await Promise.all(checks.map((check) => check.stop()));
    },
  };
}

/** Starts the roll-up of statistics, and the gauges for their lag behind the event log. */
function startStatistics({ database, clock, log, metrics }: Parts, { isFirstNode }: DeliveryRoleOptions): Running {
  const rollUp = startRollUp({ database, clock, log, isChosen: isFirstNode });
  const gauge = (name: string, help: string, value: () => number): void =>
    metrics.readGaugeFrom({ name, help }, () => [{ labels: {}, value: value() }]);
  const missing = 'that statistics do not include yet; 0 if another node counts them.';
  gauge('postrider_statistics_lag_events', `Events ${missing}`, () => rollUp.lag().events);
  gauge(
    'postrider_statistics_lag_seconds',
    `Age of the oldest event of live mail ${missing}`,
    () => rollUp.lag().seconds,
  );
  const logLag = startLogLag({ database, log });
  gauge(
    'postrider_event_log_lag_seconds',
    'Time for which a database transaction has blocked the event log.',
    logLag.seconds,
  );
  return {
    stop: async () => {
      await Promise.all([rollUp.stop(), logLag.stop()]);
    },
  };
}

/** Reports the health of a PostgreSQL server in metrics. */
function startServerHealth({ database, metrics }: Parts, { isFirstNode }: DeliveryRoleOptions): Running {
  const watch = startHealthWatch({ database, isChosen: isFirstNode });
  const healthGauge = (name: string, help: string, read: (health: ServerHealth) => LabeledValue[]): void =>
    metrics.readGaugeFrom({ name, help: `${help} One node reports it, once a minute.` }, () => {
      const health = watch.health();
      return health ? read(health) : [];
    });
  healthGauge('postrider_database_dead_rows', 'Dead rows in PostgreSQL that VACUUM has not removed.', ({ tables }) =>
    tables.map(({ table, dead }) => ({ labels: { table }, value: dead })),
  );
  healthGauge(
    'postrider_database_snapshot_age_transactions',
    'Transactions since the oldest snapshot that prevents VACUUM from removing rows.',
    ({ holder }) => [{ labels: {}, value: holder?.transactions ?? 0 }],
  );
  healthGauge(
    'postrider_database_slot_retained_bytes',
    'Write-ahead log that PostgreSQL retains for a replication slot.',
    ({ slots }) => slots.map(({ slot, retainedBytes }) => ({ labels: { slot }, value: retainedBytes })),
  );
  return watch;
}
