/**
 * The state of one SMTP session and what its commands may do with it.
 *
 *   greeting ─EHLO─▶ plain ─STARTTLS─▶ (all forgotten) ─EHLO─▶ secure ─AUTH─▶ logged in
 *   logged in ─MAIL─▶ envelope ─RCPT…─▶ ─DATA─▶ content ─dot─▶ logged in
 *
 * RSET and EHLO lead back to "logged in". Commands are answered one after the other, in their order; a command that
 * has to wait for something holds up those behind it and no other session.
 */
import type { Log } from '../base/log.ts';
import type { MailTransfer } from './mail-transfer.ts';
import type { Envelope, Login, SmtpServices } from './services.ts';

/** Undefined when everything is done; else a promise of when. */
export type Pending = Promise<void> | undefined;

/** One line in the log for a mail, or a recipient of it, that is refused to somebody who is logged in. */
export function noteRefused({ log, login, address }: Pick<Dialogue, 'log' | 'login' | 'address'>, reply: string): void {
  if (login === undefined) return;
  const { account, keyId, mode } = login.caller;
  log.info({ accountId: account.id, credentialId: keyId, mode, address, reply }, 'mail refused');
}

/** What a command may see and change; the session behind it owns the connection. */
export interface Dialogue {
  readonly services: SmtpServices;
  readonly log: Log;
  /** Of the client, as headers show it. */
  readonly address: string;
  /** What is counted together with that address. */
  readonly countedAddress: string;
  /** Undefined before EHLO or HELO. */
  helo: string | undefined;
  /** EHLO and not HELO was said. */
  isExtended: boolean;
  isSecure: boolean;
  login: Login | undefined;
  envelope: Envelope | undefined;
  /** Takes the next line in place of the command parser (AUTH); undefined: its text is not to be had. */
  takeLine: ((line: string | undefined) => Pending) | undefined;
  /** Takes what comes after DATA up to its dot. */
  transfer: MailTransfer | undefined;
  /** Commands since the last accepted mail that brought none nearer. */
  fruitless: number;
  /** Sends one line, with those of other commands that came together. */
  reply(line: string): undefined;
  /** The same for what no honest client says; after too many the session ends. */
  clientError(line: string): undefined;
  /** Sends a last line and closes. */
  hangUp(line: string): undefined;
  /** Continues in TLS, as if the client had just connected. */
  startTls(): undefined;
}
