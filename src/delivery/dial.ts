/**
 * One session with one exchanger, with the TLS that the message asks for. The ladder:
 *
 *   requireTls "verified"  TLS, and a certificate that is valid for the exchanger's name; nothing else
 *   requireTls true        TLS with any certificate; nothing else
 *   neither                STARTTLS where it is offered; refused: on in the clear, in the same session; broken: once more, in the
 *                          clear, over a second connection, and remembered if that works (RFC 7435: some protection, never none of the mail)
 *
 * A relay with a password or with a certificate to check never steps down. Nor does anything after bytes that were injected
 * behind the reply to STARTTLS: then somebody is on the line.
 */
import {
  type OpenSmtpOptions,
  type OpenSmtpResult,
  openSmtpSession,
  type SmtpError,
  type SmtpSession,
  type TlsNeed,
} from '../net/smtp-client.ts';
import { allowsClear } from '../net/tls.ts';
import { errorSentence } from './error-words.ts';
import type { HostMemory } from './host-memory.ts';
import type { Candidate } from './route.ts';

export interface Dialling extends Pick<OpenSmtpOptions, 'helo' | 'timeouts' | 'signal'> {
  hosts: HostMemory;
  need: TlsNeed;
}

/** Whether a session offers what a message asks of its connection. */
export function satisfies(session: SmtpSession, need: TlsNeed): boolean {
  if (need === 'verified') return session.verified;
  return !need || session.tls !== undefined;
}

/** Whether TLS itself failed: at the handshake, or at the first words inside it. */
function isBrokenTls({ stage, cause, reply, tlsVersion }: SmtpError): boolean {
  if (reply || cause === 'EINJECTED' || cause === 'ECANCELLED') return false;
  if (stage === 'ehlo') return tlsVersion !== undefined && cause !== 'ETIMEDOUT';
  return stage === 'tls' || stage === 'starttls';
}

/** Opens a session; an error is that of the last connection. */
export async function dial(candidate: Candidate, dialling: Dialling): Promise<OpenSmtpResult> {
  const { hosts, need, ...rest } = dialling;
  const { host } = candidate;
  const options: OpenSmtpOptions = { ...candidate, ...rest };
  if (need && candidate.tls === 'opportunistic') options.tls = 'required';
  if (need === 'verified') options.verifyCertificate = true;
  options.clearBecause = (address) => hosts.tlsFallback(host, address);
  const opened = await openSmtpSession(options);
  if (opened.ok) {
    if (opened.session.tls !== undefined) hosts.tlsWorked(host, opened.session.remoteAddress);
    return opened;
  }
  const { error } = opened;
  if (!allowsClear(options) || !isBrokenTls(error) || error.remoteAddress === undefined) return opened;
  const words = errorSentence(error);
  const addresses = [error.remoteAddress];
  const clear = await openSmtpSession({ ...options, addresses, earlier: error.dialogue, clearBecause: () => words });
  if (clear.ok) hosts.tlsFailed(host, clear.session.remoteAddress, words);
  return clear;
}
