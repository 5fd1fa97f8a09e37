/** The types that everything in a session shares: the services of the process, who is logged in, and the mail under way. */
import type { Caller, SmtpAuthenticator } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Address } from '../mail/address.ts';
import type { Submit } from '../send/send.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Hold } from './command.ts';
import type { SmtpLimits } from './limits.ts';
import type { LoginGuard } from './login-guard.ts';
import type { TlsIdentity } from './tls-identity.ts';

/** What all sessions share. */
export interface SmtpServices {
  /** Name in the greeting. */
  hostname: string;
  authenticator: SmtpAuthenticator;
  guard: LoginGuard;
  submit: Submit;
  blobs: Blobs;
  tls: TlsIdentity;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  limits: SmtpLimits;
  /** Why no mail may begin right now; undefined when it may. */
  closedToMail(): string | undefined;
  /** Why a mail that has come in whole may not be kept; undefined when it may. Draining is no reason. */
  closedToContent(): string | undefined;
  /** Takes one mail from this credential's share of the rate limit; false when there is none left. */
  takeRate(keyId: string): boolean;
}

export interface Login {
  username: string;
  caller: Caller;
}

/** A mail between MAIL and its end. */
export interface Envelope {
  from: Address;
  smtpUtf8: boolean;
  /** When the mail is to be released; undefined at once. */
  hold: Hold | undefined;
  /** By the form in which spellings are compared. */
  recipients: Map<string, Address>;
  /** RCPT commands that were refused. */
  refused: number;
  /** What the clock of the sender's mode is ahead of the real time. */
  clockOffsetMs: number;
}
