/**
 * The smtp role: the submission listener with what it stands on. Listens on the port that was asked for; where none was, on
 * 587, and on 2587 where that may not be bound or somebody has it.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { SmtpAuthenticator } from '../accounts/accounts.ts';
import type { Running } from '../base/lifecycle.ts';
import { type Config, ConfigError, settings } from '../config.ts';
import { createSenderCheck } from '../domains/domains.ts';
import { createRateLimiter } from '../http/rate-limit.ts';
import type { Handover } from '../messages/messages.ts';
import { createClaims, createSubmit, createTrackingLinks } from '../send/send.ts';
import { createSubmissionServer, openTlsIdentity, type SmtpServer, type TlsFiles } from '../smtp/smtp.ts';
import { type Nudges, noteAccepted } from './accepted.ts';
import { smtpListenFault } from './listen-fault.ts';
import type { Parts } from './parts.ts';

const STANDARD_PORT = 587;
const PORT_WITHOUT_RIGHTS = 2587;
const DRAIN_MS = 20_000;
const CLOSE_MS = 2_000;

export interface SmtpRoleOptions extends Nudges {
  handover: Handover;
  logins: SmtpAuthenticator;
  /** Public address of the service, without a slash at its end: where tracked links lead. */
  baseUrl: string;
  /** The part of a limit that is this process's among the nodes with the smtp role. */
  rateShare(): number;
}

export interface SmtpRole extends Running {
  port: number;
  /** Nothing new begins; resolves once the mails under way are answered. The listener stays open. */
  drain(): Promise<void>;
}

/** Rejects with a sentence for the operator when the port or the certificate cannot be had. */
export async function startSmtpRole(parts: Parts, options: SmtpRoleOptions): Promise<SmtpRole> {
  const { config, database, blobs, clock, log, metrics, overload } = parts;
  const tls = openTlsIdentity({
    files: tlsFiles(config),
    folder: parts.directory.path,
    hostname: config.smtpHostname,
    clock,
    log,
  });
  const { rateLimit } = config;
  const limiter = rateLimit === undefined ? undefined : createRateLimiter(rateLimit, { share: options.rateShare });
  const server = createSubmissionServer({
    hostname: config.smtpHostname,
    authenticator: options.logins,
    submit: createSubmit({
      ...{ database, blobs, clock },
      handover: options.handover,
      claims: createClaims(),
      trackingLinks: createTrackingLinks({ secretKey: parts.secretKey, baseUrl: options.baseUrl }),
      isVerified: createSenderCheck({ database, clock }).isVerified,
      onAccepted: (accepted) => noteAccepted(metrics, options, accepted),
    }),
    ...{ blobs, tls, clock, log, metrics },
    limits: { maxConnectionsPerAddress: config.smtpMaxConnectionsPerAddress },
    closedToMail: () => overload.reasons()[0]?.message,
    closedToContent: () => overload.reasons().find((reason) => reason.part !== 'service')?.message,
    takeRate: (keyId) => limiter?.take(keyId, performance.now()).failure === undefined,
  });
  const drain = (): Promise<void> => server.drain({ deadlineMs: DRAIN_MS });
  const stop = async (): Promise<void> => {
    await drain();
    await server.stop({ deadlineMs: CLOSE_MS });
    await tls.stop();
  };
  try {
    return { port: await listen(server, parts), drain, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The files of the configuration; throws the line for the operator when they cannot be used. */
function tlsFiles({ smtpTlsCert: certFile, smtpTlsKey: keyFile }: Config): TlsFiles | undefined {
  if (certFile === undefined || keyFile === undefined) return undefined;
  const judge = <T>(setting: { name: string }, file: string, read: (pem: Buffer) => T): T => {
    try {
      return read(readFileSync(file));
    } catch (error) {
      const { message } = error as Error;
      throw new ConfigError(`${setting.name}="${file}" is not valid (${message}); allowed: a readable PEM file`);
    }
  };
  const certificate = judge(settings.smtpTlsCert, certFile, (pem) => new X509Certificate(pem));
  const key = judge(settings.smtpTlsKey, keyFile, (pem) => createPrivateKey(pem));
  if (certificate.checkPrivateKey(key)) return { certFile, keyFile };
  throw new ConfigError(
    `${settings.smtpTlsKey.name}="${keyFile}" is not the key of the certificate in ${certFile}; allowed: the key it was made for`,
  );
}

async function listen(server: SmtpServer, { config, log }: Parts): Promise<number> {
  const asked = config.smtpPort;
  const bind = async (port: number): Promise<number> =>
    server.listen(port).then(
      (bound) => bound.port,
      (error: unknown) => {
        throw smtpListenFault(error, port) ?? error;
      },
    );
  if (asked !== undefined) return bind(asked);
  try {
    return await bind(STANDARD_PORT);
  } catch (error) {
    log.warn({ port: PORT_WITHOUT_RIGHTS, reason: (error as Error).message }, 'SMTP listens on another port than 587');
    return bind(PORT_WITHOUT_RIGHTS);
  }
}
