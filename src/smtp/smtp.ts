/**
 * SMTP: the listeners, their sessions, and the mail that they receive: submission (RFC 6409) and inbound mail.
 */
import { defaultLimits, type SmtpLimits, type SmtpServices } from './dialogue.ts';
import { createInboundProfile, type InboundPort, inboundLimits } from './inbound.ts';
import { createLoginGuard } from './login-guard.ts';
import { createSmtpServer, type SmtpServer } from './server.ts';
import { createSubmissionProfile, type Submission } from './submission.ts';

export type { RefusedCommand, SmtpLimits } from './dialogue.ts';
export type { SmtpServer } from './server.ts';
export { openTlsIdentity, type TlsFiles, type TlsIdentity } from './tls-identity.ts';

type Closed = 'closedToMail' | 'closedToContent';
type Shared = Omit<SmtpServices, Closed | 'limits' | 'profile'> &
  Partial<Pick<SmtpServices, Closed>> & { limits?: Partial<SmtpLimits> };

export type SubmissionOptions = Shared &
  Omit<Submission, 'guard' | 'takeRate'> &
  Partial<Pick<Submission, 'guard' | 'takeRate'>>;

const OPEN = { closedToMail: () => undefined, closedToContent: () => undefined };

/** Creates a listener that is not listening yet. */
export function createSubmissionServer(options: SubmissionOptions): SmtpServer {
  const {
    guard = createLoginGuard(),
    takeRate = () => true,
    authenticator,
    submit,
    onUsed,
    onRefused,
    limits,
    ...rest
  } = options;
  return createSmtpServer({
    ...OPEN,
    ...rest,
    profile: createSubmissionProfile({
      authenticator,
      guard,
      submit,
      takeRate,
      ...(onUsed && { onUsed }),
      ...(onRefused && { onRefused }),
    }),
    limits: { ...defaultLimits, ...limits },
  });
}

/** The same for inbound mail. */
export function createInboundServer({
  limits,
  recipients,
  isScarce,
  hourly,
  store,
  ...rest
}: Shared & InboundPort): SmtpServer {
  return createSmtpServer({
    ...OPEN,
    ...rest,
    profile: createInboundProfile({ recipients, isScarce, hourly, store }),
    limits: { ...inboundLimits, ...limits },
  });
}
