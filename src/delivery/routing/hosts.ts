/**
 * What this process remembers about the addresses of mail servers, each for a limited time, and limited in number:
 *
 * - An address that could not be reached, refused the connection, hung up or stalled is tried last: for 1 minute, and after more
 *   failures for 2, 5, then 10 minutes. Failures during that time do not count, since connections often fail together. A host is tried
 *   last if all of its addresses are.
 * - An address where TLS failed and an unencrypted connection worked is used without TLS: for an hour, after a second failure for half
 *   a day, then for 3 days each time. Then TLS is tried again, so that one failure does not cost days of encryption.
 * - An address that offers PIPELINING and loses commands is used without it for 3 days; after a connection lost during pipelined
 *   commands, for an hour.
 * - An address that refuses a second message on one connection gets one message per connection for an hour.
 * - A message that failed after its final dot starts its next attempt at another address (RFC 5321 §6.1: the first may have it).
 *
 * A restart forgets all of it, which only costs a few connections.
 *
 * Also opens connections with the TLS that the message and the recipient's domain require. The strictest of these rows applies:
 *
 *   requireTls "verified"  TLS with a certificate that is valid for the MX host's name, or by DANE; nothing else
 *   requireTls true        TLS with any certificate; nothing else
 *   DANE                   TLS with a certificate that matches the TLSA records (any, if none of them is usable); nothing else
 *   MTA-STS, enforced      TLS with a certificate that is valid for the MX host's name; nothing else
 *   none of these          STARTTLS if offered. If refused, the session continues unencrypted. If broken, a second, unencrypted
 *                          connection, which is remembered if it works (RFC 7435: opportunistic security)
 *
 * A relay with a password or a certificate to verify never falls back. Neither does a session with bytes injected after the reply to
 * STARTTLS, which indicate an attack.
 */
import { errorSentence } from '../../net/error-sentence.ts';
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
import { replyText } from '../outcome/outcome.ts';
import type { Candidate } from './route.ts';

const LAST_MS = [60_000, 120_000, 300_000, 600_000] as const;
const CLEAR_MS = [3_600_000, 43_200_000, 259_200_000] as const;
const NO_PIPELINING_MS = 259_200_000;
const SUSPECT_MS = 3_600_000;
const NO_REUSE_MS = 3_600_000;
const MAX_ENTRIES = 10_000;

export interface PeerAddress {
  host: string;
  address: string;
}

/** Returns the key of a host's address for sets and maps. */
export function peerKey({ host, address }: PeerAddress): string {
  return `${host} ${address}`;
}

export interface HostMemory {
  /** Records that these addresses of the host failed; `all` are all of its addresses. */
  failed(host: string, addresses: readonly string[], all: readonly string[]): void;
  worked(peer: PeerAddress): void;
  /** Whether the host is tried last: each of its addresses failed recently. */
  isBackedOff(host: string): boolean;
  /** Whether the address is tried after the others of its host. */
  isFailing(peer: PeerAddress): boolean;
  /** TLS failed at this address of the host, for the given reason, and an unencrypted connection worked. */
  tlsFailed(host: string, address: string, words: string): void;
  tlsWorked(host: string, address: string): void;
  /** Why connections to this address are unencrypted. */
  tlsFallback(host: string, address: string): string | undefined;
  /** The server offers PIPELINING and loses commands. Without `isSure`, the connection was lost after commands that were sent together. */
  pipeliningFailed(peer: PeerAddress, options: { isSure: boolean }): void;
  mayPipeline(peer: PeerAddress): boolean;
  /** The server refused another message on a connection that had carried one. */
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

/** Returns the step for a number of failures. */
function stepFor(steps: readonly number[], times: number): number {
  return steps[Math.min(times, steps.length) - 1]!;
}

/** Adds an entry as the newest; evicts the oldest if the map is full. */
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

export interface Dialing extends Pick<OpenSmtpOptions, 'helo' | 'timeouts' | 'signal' | 'sourceFor'> {
  hosts: HostMemory;
  need: TlsNeed;
}

/** Whether a session meets what a message requires of its connection. */
export function satisfies(session: SmtpSession, need: TlsNeed): boolean {
  if (need === 'verified') return session.verified;
  return !need || session.tls !== undefined;
}

/**
 * Whether TLS itself failed: at the reply to STARTTLS, if that neither accepts nor refuses, at the handshake, or at the first reply after
 * it.
 */
function isBrokenTls({ stage, cause, reply, tlsVersion }: SmtpError): boolean {
  if (cause === 'EINJECTED' || cause === 'ECANCELLED') return false;
  if (reply) return stage === 'starttls' && reply.code < 400;
  if (stage === 'ehlo') return tlsVersion !== undefined && cause !== 'ETIMEDOUT';
  return stage === 'tls' || stage === 'starttls';
}

/** Returns the policy that attempts record: the domain's, the message's requirement, or that there was none. */
export function tlsPolicyName(requested: HostPolicy | undefined, need: TlsNeed): TlsPolicyName {
  if (requested?.mandatory) return requested.name;
  return need ? 'requireTls' : (requested?.name ?? 'opportunistic');
}

/** Opens a session; an error is that of the last connection. */
export async function dial(candidate: Candidate, dialing: Dialing): Promise<OpenSmtpResult> {
  const { hosts, need, ...rest } = dialing;
  const { host, policy: requested, allAddresses: _, ...peer } = candidate;
  const options: OpenSmtpOptions = { ...peer, host, ...rest };
  const policy = requested && underPolicy(requested, errorSentence);
  if ((need || requested?.mandatory) && candidate.tls === 'opportunistic') options.tls = 'required';
  if (need === 'verified' && !(requested?.mandatory && requested.check)) options.verifyCertificate = true;
  if (policy?.inspect) options.inspect = policy.inspect;
  if (requested?.serverName !== undefined) options.serverName = requested.serverName;
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
