/**
 * SMTP submission (RFC 6409): the listener, the sessions on it, and what becomes of the mail that they bring.
 */
import { defaultLimits, type SmtpLimits, type SmtpServices } from './dialogue.ts';
import { createLoginGuard } from './login-guard.ts';
import { createSmtpServer, type SmtpServer } from './server.ts';

export type { RefusedCommand, SmtpLimits } from './dialogue.ts';
export type { SmtpServer } from './server.ts';
export { openTlsIdentity, type TlsFiles, type TlsIdentity } from './tls-identity.ts';

type Optional = 'guard' | 'closedToMail' | 'closedToContent' | 'takeRate';

export type SubmissionOptions = Omit<SmtpServices, Optional | 'limits'> &
  Partial<Pick<SmtpServices, Optional>> & { limits?: Partial<SmtpLimits> };

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
