/**
 * The smtp role: the submission listener and its dependencies. Listens on the configured port, or by default on 587, and on 2587 if 587 is
 * not permitted or in use; and on one more port with implicit TLS if that is set.
 */

import type { CredentialUses, SmtpAuthenticator } from '../accounts/accounts.ts';
import type { Running } from '../base/lifecycle.ts';
import { createSenderCheck } from '../domains/domains.ts';
import { createTrackingLinks } from '../engagement/engagement.ts';
import { createRateLimiter } from '../http/rate-limit.ts';
import { createInFlightKeys } from '../idempotency/idempotency.ts';
import type { DirectDispatch } from '../messages/messages.ts';
import type { RequestLog } from '../request-log/request-log.ts';
import { createSubmit } from '../send/send.ts';
import { createSubmissionServer, type SmtpServer, type TlsIdentity } from '../smtp/smtp.ts';
import { type Nudges, noteAccepted, type Parts, ranges } from './parts.ts';
import { type ListenTarget, onFirst, portError, smtpsTarget, smtpTargets } from './ports.ts';
import { recordCommand } from './record-requests.ts';

export const DRAIN_MS = 20_000;
export const CLOSE_MS = 2_000;

interface SmtpRoleOptions extends Nudges {
  directDispatch: DirectDispatch | undefined;
  logins: SmtpAuthenticator;
  credentialUses: Pick<CredentialUses, 'note'>;
  requestLog: RequestLog;
  tls: TlsIdentity;
  /** Public URL of the service, without a trailing slash, for tracked links. */
  baseUrl: string;
  /** The same for mail from a domain with its own tracking host. */
  trackingUrlOf?(accountId: string, fromDomain: string): string | undefined;
  /** Returns this process's share of a limit among the nodes with the smtp role. */
  rateShare(): number;
}

export interface SmtpRole extends Running {
  port: number;
  /** Port with implicit TLS; undefined if not configured. */
  implicitTlsPort: number | undefined;
  /** Accepts no new mail; resolves once pending messages are answered. The listener stays open. */
  drain(): Promise<void>;
}

/** Rejects with an error for the operator if the port is unavailable. */
export async function startSmtpRole(parts: Parts, options: SmtpRoleOptions): Promise<SmtpRole> {
  const { config, database, blobs, clock, log, metrics, overload, addressHash } = parts;
  const { rateLimit } = config;
  const limiter = rateLimit === undefined ? undefined : createRateLimiter(rateLimit, { share: options.rateShare });
  const server = createSubmissionServer({
    hostname: config.smtpHostname,
    authenticator: options.logins,
    submit: createSubmit({
      database,
      blobs,
      clock,
      addressHash,
      directDispatch: options.directDispatch,
      inFlight: createInFlightKeys(),
      trackingLinks: createTrackingLinks({
        secretKey: parts.secretKey,
        baseUrl: options.baseUrl,
        urlOf: options.trackingUrlOf,
      }),
      isVerified: createSenderCheck({ database, clock }).isVerified,
      onAccepted: (accepted) => noteAccepted(parts, options, accepted),
    }),
    blobs,
    tls: options.tls,
    clock,
    log,
    metrics,
    tracer: parts.tracer,
    limits: { maxConnectionsPerAddress: config.smtpMaxConnectionsPerAddress },
    trustedProxies: ranges(config.trustedProxies),
    closedToMail: () => overload.reasons()[0]?.message,
    closedToContent: () => overload.reasons().find((reason) => reason.part !== 'service')?.message,
    onUsed: options.credentialUses.note,
    onRefused: (refused) => recordCommand(options.requestLog, clock, refused),
    takeRate: (keyId) => limiter?.take(keyId, performance.now()).failure === undefined,
  });
  const drain = (): Promise<void> => server.drain({ deadlineMs: DRAIN_MS });
  const stop = async (): Promise<void> => {
    await drain();
    await server.stop({ deadlineMs: CLOSE_MS });
  };
  try {
    const port = await listen(server, parts);
    const smtps = smtpsTarget(config);
    const implicitTlsPort = smtps && (await bind(server, smtps, true));
    return { port, implicitTlsPort, drain, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

export async function bind(server: SmtpServer, target: ListenTarget, isImplicitTls = false): Promise<number> {
  try {
    return (await server.listen(target.port, { host: target.host, isImplicitTls })).port;
  } catch (error) {
    throw portError(error, target);
  }
}

function listen(server: SmtpServer, { config, log }: Parts): Promise<number> {
  const targets = smtpTargets(config);
  return onFirst(
    targets,
    (target) => bind(server, target),
    ({ port }, { message }) =>
      log.info({ port, reason: message }, 'SMTP port 587 is unavailable; listening on another port'),
  );
}
