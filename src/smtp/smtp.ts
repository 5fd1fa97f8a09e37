/**
 * SMTP submission (RFC 6409): the listener, the sessions on it, and what becomes of the mail that they bring.
 */
import type { SmtpAuthenticator } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Submit } from '../send/send.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { defaultLimits, type SmtpLimits } from './limits.ts';
import { createLoginGuard, type LoginGuard } from './login-guard.ts';
import { createSmtpServer, type SmtpServer } from './server.ts';
import type { TlsIdentity } from './tls-identity.ts';

export type { SmtpLimits } from './limits.ts';
export type { SmtpServer } from './server.ts';
export { openTlsIdentity, type TlsFiles, type TlsIdentity } from './tls-identity.ts';

export interface SubmissionOptions {
  hostname: string;
  authenticator: SmtpAuthenticator;
  submit: Submit;
  blobs: Blobs;
  tls: TlsIdentity;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  limits?: Partial<SmtpLimits>;
  guard?: LoginGuard;
  closedToMail?(): string | undefined;
  closedToContent?(): string | undefined;
  takeRate?(keyId: string): boolean;
}

/** A listener that is not listening yet. */
export function createSubmissionServer(options: SubmissionOptions): SmtpServer {
  const { guard = createLoginGuard(), limits, ...services } = options;
  return createSmtpServer({
    closedToMail: () => undefined,
    closedToContent: () => undefined,
    takeRate: () => true,
    ...services,
    guard,
    limits: { ...defaultLimits, ...limits },
  });
}
