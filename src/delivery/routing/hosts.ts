/**
 * What this process remembers of the addresses of mail servers, each for a while and bounded in number:
 *
 * - An address that could not be reached, refused us, hung up or stalled is tried last for a minute, after further failures
 *   for 2, 5, then 10 minutes each time. Failures during that time do not count, since connections fail by the handful. A host goes
 *   last when all of its addresses do.
 * - An address where TLS failed, and an unencrypted connection worked, is spoken to without TLS: for an hour, after a second failure
 *   for half a day, then for 3 days each time. In between TLS is tried again, so that one bad moment does not cost days of encryption.
 * - An address that offers PIPELINING and loses commands is spoken to without it for 3 days; one whose connection was lost among
 *   commands that were sent together for an hour.
 * - An address that refuses a second message on one connection gets one message per connection for an hour.
 * - A message that failed after its final dot begins its next attempt at another address (RFC 5321 §6.1: the first may have it).
 *
 * A restart forgets all of it, which costs a few connections and nothing else.
 *
 * And how one is dialled, with the TLS that the message and the recipient's domain ask for. The ladder, of which the strictest counts:
 *
 *   requireTls "verified"  TLS, and a certificate that is valid for the exchanger's name, or by DANE; nothing else
 *   requireTls true        TLS with any certificate; nothing else
 *   DANE                   TLS with a certificate that fits the TLSA records (any one, where none of them can be used); nothing else
 *   MTA-STS, enforced      TLS with a certificate that is valid for the exchanger's name; nothing else
 *   none of these          STARTTLS where it is offered; refused: on in the clear, in the same session; broken: once more, in the
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
} from '../../net/smtp-client.ts';
import { allowsClear } from '../../net/tls.ts';
import { type HostPolicy, underPolicy } from '../../tls-policy/tls-policy.ts';
import { errorSentence } from '../outcome/error-words.ts';
import { replyText } from '../outcome/outcome.ts';
import type { Candidate } from './route.ts';

const LAST_MS = [60_000, 120_000, 300_000, 600_000] as const;
const CLEAR_MS = [3_600_000, 43_200_000, 259_200_000] as const;
const NO_PIPELINING_MS = 259_200_000;
const SUSPECT_MS = 3_600_000;
const NO_REUSE_MS = 3_600_000;
const MAX_ENTRIES = 10_000;

/** One address of a host. */
export interface PeerAddress {
  host: string;
  address: string;
}

/** Names an address of a host in sets and maps. */
export function peerKey({ host, address }: PeerAddress): string {
  return `${host} ${address}`;
}

export interface HostMemory {
  /** These addresses of the host failed, out of all that it has. */
  failed(host: string, addresses: readonly string[], all: readonly string[]): void;
  worked(peer: PeerAddress): void;
  /** Whether the host is tried after all others: each of its addresses failed lately. */
  isBackedOff(host: string): boolean;
  /** Whether the address is tried after the others of its host. */
  isFailing(peer: PeerAddress): boolean;
  /** TLS failed at this address of the host, for the reason given, and the clear worked. */
  tlsFailed(host: string, address: string, words: string): void;
  tlsWorked(host: string, address: string): void;
  /** Why this address is spoken to in the clear. */
  tlsFallback(host: string, address: string): string | undefined;
  /** The server offers PIPELINING and loses commands; without `isSure` the connection was lost among them. */
  pipeliningFailed(peer: PeerAddress, options: { isSure: boolean }): void;
  mayPipeline(peer: PeerAddress): boolean;
  /** The server refused a further message on a connection that had carried one. */
  reuseFailed(peer: PeerAddress): void;
  mayReuse(peer: PeerAddress): boolean;
  /** This message failed after its final dot at this address. */
  dotFailed(messageId: string, peer: PeerAddress): void;
  /** The address that the next attempt of this message tries last. */
  dotFailedAt(messageId: string): PeerAddress | undefined;
}

interface Failure {
  untilMs: number;
  times: number;
}

interface TlsFailure extends Failure {
  words: string;
}

/** The step for so many failures. */
function stepFor(steps: readonly number[], times: number): number {
  return steps[Math.min(times, steps.length) - 1]!;
}

/** Adds an entry as the youngest; the oldest makes room. */
function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > MAX_ENTRIES) map.delete(map.keys().next().value!);
}

export function openHostMemory(now: () => number): HostMemory {
  const failures = new Map<string, Failure>();
  /** All addresses of hosts with a failure. */
  const addressesOf = new Map<string, readonly string[]>();
  const tlsFailures = new Map<string, TlsFailure>();
  const unpipelined = new Map<string, number>();
  const unreused = new Map<string, number>();
  const dotFailures = new Map<string, PeerAddress>();
  const isFailing = (peer: PeerAddress): boolean => (failures.get(peerKey(peer))?.untilMs ?? 0) > now();
  const isPast = (untilMs: number | undefined): boolean => untilMs === undefined || untilMs <= now();
  return {
    failed: (host, addresses, all) => {
      remember(addressesOf, host, all);
      for (const address of addresses) {
        const key = peerKey({ host, address });
        const before = failures.get(key);
        if (before && before.untilMs > now()) continue;
        const times = (before?.times ?? 0) + 1;
        remember(failures, key, { untilMs: now() + stepFor(LAST_MS, times), times });
      }
    },
    worked: (peer) => {
      if (failures.size > 0) failures.delete(peerKey(peer));
    },
    isBackedOff: (host) => {
      const addresses = addressesOf.get(host);
      return addresses?.every((address) => isFailing({ host, address })) ?? false;
    },
    isFailing,
    tlsFailed: (host, address, words) => {
      const key = `${host} ${address}`;
      const times = (tlsFailures.get(key)?.times ?? 0) + 1;
      remember(tlsFailures, key, { untilMs: now() + stepFor(CLEAR_MS, times), words, times });
    },
    tlsWorked: (host, address) => {
      if (tlsFailures.size > 0) tlsFailures.delete(`${host} ${address}`);
    },
    tlsFallback: (host, address) => {
      const failure = tlsFailures.get(`${host} ${address}`);
      return failure && failure.untilMs > now() ? failure.words : undefined;
    },
    pipeliningFailed: (peer, { isSure }) => {
      if (!isSure && !isPast(unpipelined.get(peerKey(peer)))) return;
      remember(unpipelined, peerKey(peer), now() + (isSure ? NO_PIPELINING_MS : SUSPECT_MS));
    },
    mayPipeline: (peer) => unpipelined.size === 0 || isPast(unpipelined.get(peerKey(peer))),
    reuseFailed: (peer) => remember(unreused, peerKey(peer), now() + NO_REUSE_MS),
    mayReuse: (peer) => unreused.size === 0 || isPast(unreused.get(peerKey(peer))),
    dotFailed: (messageId, peer) => remember(dotFailures, messageId, peer),
    dotFailedAt: (messageId) => dotFailures.get(messageId),
  };
}

export type TlsPolicyName = HostPolicy['name'] | 'requireTls';

export interface Dialling extends Pick<OpenSmtpOptions, 'helo' | 'timeouts' | 'signal' | 'sourceFor'> {
  hosts: HostMemory;
  need: TlsNeed;
}

/** Whether a session offers what a message asks of its connection. */
export function satisfies(session: SmtpSession, need: TlsNeed): boolean {
  if (need === 'verified') return session.verified;
  return !need || session.tls !== undefined;
}

/** Whether TLS itself failed: at the reply to STARTTLS, where that is neither a yes nor a refusal, at the handshake, or at the first words inside it. */
function isBrokenTls({ stage, cause, reply, tlsVersion }: SmtpError): boolean {
  if (cause === 'EINJECTED' || cause === 'ECANCELLED') return false;
  if (reply) return stage === 'starttls' && reply.code < 400;
  if (stage === 'ehlo') return tlsVersion !== undefined && cause !== 'ETIMEDOUT';
  return stage === 'tls' || stage === 'starttls';
}

/** As attempts record it: the domain's policy, what the mail asks for, or that nothing was asked for. */
export function tlsPolicyName(asked: HostPolicy | undefined, need: TlsNeed): TlsPolicyName {
  if (asked?.mandatory) return asked.name;
  return need ? 'requireTls' : (asked?.name ?? 'opportunistic');
}

/** Opens a session; an error is that of the last connection. */
export async function dial(candidate: Candidate, dialling: Dialling): Promise<OpenSmtpResult> {
  const { hosts, need, ...rest } = dialling;
  const { host, policy: asked, allAddresses: _, ...peer } = candidate;
  const options: OpenSmtpOptions = { ...peer, host, ...rest };
  const policy = asked && underPolicy(asked, errorSentence);
  if ((need || asked?.mandatory) && candidate.tls === 'opportunistic') options.tls = 'required';
  if (need === 'verified' && !(asked?.mandatory && asked.check)) options.verifyCertificate = true;
  if (policy?.inspect) options.inspect = policy.inspect;
  if (asked?.serverName !== undefined) options.serverName = asked.serverName;
  options.clearBecause = (address) => hosts.tlsFallback(host, address);
  options.mayPipeline = (address) => hosts.mayPipeline({ host, address });
  const first = await openSmtpSession(options);
  const opened = policy ? policy.conclude(first) : first;
  if (opened.ok) {
    if (opened.session.tls !== undefined) hosts.tlsWorked(host, opened.session.remoteAddress);
    return opened;
  }
  const { error } = opened;
  if (!allowsClear(options) || !isBrokenTls(error) || error.remoteAddress === undefined) return opened;
  const { reply } = error;
  const words = reply ? `the server answered STARTTLS with ${replyText(reply)}` : errorSentence(error);
  const addresses = [error.remoteAddress];
  const clear = await openSmtpSession({ ...options, addresses, earlier: error.dialogue, clearBecause: () => words });
  if (clear.ok) hosts.tlsFailed(host, clear.session.remoteAddress, words);
  return clear;
}
