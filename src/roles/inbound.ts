/**
 * The inbound role: the port that receives bounces, reports, and mail for routes; and the processing of received mail, which runs where
 * deliveries do.
 */
import { type Running, stopAll } from '../base/lifecycle.ts';
import { createReturnPaths, type ReturnPaths, type Routing } from '../delivery/delivery.ts';
import { returnPathStateOperation } from '../domains/domains.ts';
import {
  createIntake,
  createRecipients,
  createReportHandlers,
  FORWARDED_IN_AN_HOUR,
  type InboundWorker,
  type OperatorMailOptions,
  startInboundWorker,
  storeInboundOperation,
} from '../inbound/inbound.ts';
import {
  createFindRoute,
  createHasRoutes,
  createInboundLinks,
  createMailVerifier,
  createRouteHandler,
  type MxSettings,
} from '../inbound-routes/inbound-routes.ts';
import { createHourlyCount } from '../limits/limits.ts';
import { createTokenAddresses } from '../mail/token-address.ts';
import { isTrustedProxy } from '../net/trusted-proxies.ts';
import { createInboundServer, type TlsIdentity } from '../smtp/smtp.ts';
import { type Parts, ranges } from './parts.ts';
import { inboundTarget, localAddressOf, ownMxAddresses } from './ports.ts';
import { bind, CLOSE_MS, DRAIN_MS } from './smtp.ts';

export interface InboundRole extends Running {
  port: number;
  /** Port for deliveries from this process to its own routes; differs if this machine is a trusted proxy. */
  ownPort: number;
  /** Accepts no new mail; resolves once pending messages are answered. The listener stays open. */
  drain(): Promise<void>;
}

interface InboundRoleOptions {
  tls: TlsIdentity;
  /** Called when mail was stored: its work is due. */
  onStored(): void;
  /** Called when events may have been written. */
  onRecorded(): void;
  /** Returns this process's share of a limit among the nodes with this role. */
  share(): number;
}

/** Handlers of reports, both at the port and where deliveries run. */
function reportHandlersOf({ database, clock, secretKey, log, metrics }: Parts, operators: OperatorMailOptions) {
  return createReportHandlers({ database, clock, tokens: createTokenAddresses(secretKey), log, metrics, operators });
}

/** At the port only bounces are handled. */
const NOT_FORWARDED: OperatorMailOptions = {
  postmaster: undefined,
  forward: () => Promise.resolve(false),
  mayForward: () => false,
};

/** Rejects with an error for the operator if the port is unavailable. */
export async function startInboundRole(
  parts: Parts,
  { tls, onStored, onRecorded, share }: InboundRoleOptions,
): Promise<InboundRole> {
  const { config, database, blobs, clock, log, metrics, overload } = parts;
  const intake = createIntake({
    reports: reportHandlersOf(parts, NOT_FORWARDED)['return-path'],
    store: async (mails) => {
      await database.execute(storeInboundOperation, mails);
      onStored();
    },
    onRecorded,
  });
  const server = createInboundServer({
    hostname: config.smtpHostname,
    blobs,
    tls,
    clock,
    log,
    metrics,
    limits: { maxConnectionsPerAddress: config.inboundMaxConnectionsPerAddress },
    trustedProxies: ranges(config.trustedProxies),
    closedToMail: () => overload.reasons()[0]?.message,
    closedToContent: () => overload.reasons().find((reason) => reason.part !== 'service')?.message,
    recipients: createRecipients({
      tokens: createTokenAddresses(parts.secretKey),
      clock,
      bounceDomain: config.bounceDomain,
      hostname: config.smtpHostname,
      returnPathState: (domain) => database.execute(returnPathStateOperation, domain),
      findRoute: createFindRoute({ database, clock }),
    }),
    isScarce: overload.isScarce,
    hourly: createHourlyCount({ clock, share }),
    store: (mails) => intake.take(mails),
  });
  const drain = (): Promise<void> => server.drain({ deadlineMs: DRAIN_MS });
  const stop = async (): Promise<void> => {
    await drain();
    await server.stop({ deadlineMs: CLOSE_MS });
  };
  try {
    const port = await bind(server, inboundTarget(config)!);
    const host = localAddressOf(config.smtpHost);
    const needsOwnPort = isTrustedProxy(host, ranges(config.trustedProxies));
    const ownPort = needsOwnPort ? (await server.listen(0, { host, isDirect: true })).port : port;
    return { port, ownPort, drain, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Addresses that bounces of outbound mail are sent to. */
export function returnPathsOf(
  { secretKey, clock }: Pick<Parts, 'secretKey' | 'clock'>,
  bounceDomain: string,
): ReturnPaths {
  return createReturnPaths({ tokens: createTokenAddresses(secretKey), clock, bounceDomain });
}

/** Targets of the routes' MX records. */
export function mxOf({ smtpHostname, bounceDomain }: Parts['config']): MxSettings {
  return { host: smtpHostname, alsoHosts: bounceDomain === undefined ? [] : [bounceDomain] };
}

/** Recognizes mail to this host and its destination. `inboundPort` is this process's port, once it listens. */
export function ownHostOf({ config, database, clock }: Parts, inboundPort: () => number | undefined): Routing['own'] {
  return {
    name: config.smtpHostname,
    addresses: ranges(ownMxAddresses(config)),
    hasRoutes: createHasRoutes({ database, clock }),
    inbound: () => {
      const port = inboundPort();
      return port === undefined ? undefined : { address: localAddressOf(config.smtpHost), port };
    },
  };
}

interface InboundWorkOptions {
  /** Public URL of the service, without a trailing slash, for links in events. */
  baseUrl: string;
  /** Called when events may have been written. */
  onRecorded(): void;
  /** Forwards a message to the operators. */
  forward: OperatorMailOptions['forward'];
  /** Returns this process's share of a limit among the nodes that deliver. */
  share(): number;
}

/** Mail for operators is counted like an account's. */
const OPERATORS = 'operators';

/** Processes received mail, whichever node received it. */
export function startInboundWork(
  parts: Parts,
  { baseUrl, onRecorded, forward, share }: InboundWorkOptions,
): InboundWorker {
  const { config, database, blobs, clock, log, metrics, secretKey, dns } = parts;
  const linkBase = { secretKey, baseUrl };
  const hourly = createHourlyCount({ clock, share });
  const mayForward = (): boolean => {
    if (hourly.isReached(OPERATORS, FORWARDED_IN_AN_HOUR)) return false;
    hourly.add(OPERATORS);
    return true;
  };
  const verifier = createMailVerifier({ dns, log });
  const worker = startInboundWorker({
    database,
    blobs,
    clock,
    log,
    onRecorded,
    random: Math.random,
    handlers: {
      ...reportHandlersOf(parts, { postmaster: config.postmaster, forward, mayForward }),
      route: createRouteHandler({ database, verifier, metrics, links: createInboundLinks(linkBase) }),
    },
  });
  return { nudge: worker.nudge, stop: () => stopAll([verifier, worker]) };
}
