/**
 * Chooses the hosts that an attempt dials at a destination, each with its addresses: the MX hosts of the domain that belong to the
 * destination (mx-sets.ts), in order of preference. Addresses that failed recently come after the others of their host. If all of
 * these hosts failed recently and others did not, nothing is dialed here: the attempt continues at the destination of the others.
 */
import { POLICY_UNMET } from '../../net/error-sentence.ts';
import { ANY, type PooledSession, peerOf, type SessionNeed } from '../attempt/pooled-session.ts';
import type { Registry } from '../destinations/registry.ts';
import type { Evidence } from '../outcome/outcome.ts';
import type { AttemptFacts } from '../record/settle.ts';
import { type HostMemory, type PeerAddress, peerKey } from './hosts.ts';
import type { MxSets } from './mx-sets.ts';
import { type Candidate, isRelay, type RouteResolution, type Routing, resolveRoute } from './route.ts';

export interface OpenFailure {
  ok: false;
  evidence: Evidence;
  facts: Omit<AttemptFacts, 'startedAtMs' | 'durationMs'>;
  /** A message with lower requirements may get a connection. */
  forNeed: boolean;
  /** All source addresses are currently unusable: nothing was dialed. */
  noSource?: boolean;
  /** The destination of the next MX host, if there is one, and the MX hosts that this attempt has not tried. */
  nextDestination?: { key: string; rest: readonly Candidate[] } | undefined;
  /** Nothing was dialed: the MX hosts of this destination failed recently, and the next one did not. */
  isPassedOver?: boolean;
}

export interface CandidateDeps {
  routing: Routing;
  hosts: HostMemory;
  sets: Pick<MxSets, 'destinationOf' | 'destinationAt'>;
  registry: Pick<Registry, 'pauseOf'>;
}

interface Chosen {
  ok: true;
  here: Candidate[];
  hostsAfter(candidate: Candidate): Candidate[];
  nextDestination: OpenFailure['nextDestination'];
}

interface Place {
  destination: string;
  need: SessionNeed;
  /** The session whose server deferred the message: only hosts after it that have not failed recently are tried. */
  after: PooledSession | undefined;
}

/** Cause: the domain belongs to another destination than the given one. */
export const ELSEWHERE = 'ELSEWHERE';

export const NO_FACTS = { host: null, address: null, tls: null, dialogue: [] };

const NO_SOURCE = {
  evidence: { stage: 'connect' as const, cause: 'EADDRNOTAVAIL', relay: false },
  facts: NO_FACTS,
  forNeed: false,
  noSource: true,
};

/** Looks up the domain, unless candidates are left from earlier in the attempt, and returns the hosts to dial. */
export async function chooseCandidates(deps: CandidateDeps, place: Place): Promise<Chosen | OpenFailure> {
  const { destination, need, after } = place;
  const resolved = await resolve(deps, place);
  if (!resolved.ok) return notResolved(resolved);
  const isHome = isRelay(destination) || need.detour || deps.sets.destinationOf(need.domain) === destination;
  if (!isHome) {
    return notDialled(ELSEWHERE, `the MX hosts of ${need.domain} changed during the lookup`);
  }
  const candidates = inTurn(deps, reachable(resolved.candidates, need, deps.routing), need);
  if (candidates.length === 0 && resolved.candidates.length > 0) return { ok: false, ...NO_SOURCE };
  const { here, rest, next } = split(deps, candidates, place);
  const isLate = (one: Candidate): boolean =>
    one.addresses.every((address) => isBackedOff(deps, { host: one.host, address }, need));
  if (here.length === 0 || (!after && next && !isLate(next.candidate) && here.every(isLate))) {
    const nextDestination = next && { key: next.key, rest: candidates };
    const message = `no MX host of ${need.domain} can be tried now`;
    return { ...notDialled('ENOADDRESS', message), nextDestination, isPassedOver: true };
  }
  const hostsAfter = ({ host }: Candidate): Candidate[] =>
    candidates.slice(candidates.findIndex((one) => one.host === host) + 1);
  return { ok: true, here, hostsAfter, nextDestination: next && { key: next.key, rest } };
}

function isBackedOff({ hosts }: CandidateDeps, peer: PeerAddress, { avoid }: SessionNeed): boolean {
  return avoid.has(peerKey(peer)) || hosts.isFailing(peer);
}

/** Orders the addresses of each host, and the hosts; those that failed recently come last. */
function inTurn(deps: CandidateDeps, candidates: readonly Candidate[], need: SessionNeed): Candidate[] {
  const isLate = ({ host }: Candidate, address: string): boolean => isBackedOff(deps, { host, address }, need);
  const [early, late]: [Candidate[], Candidate[]] = [[], []];
  for (const one of candidates) {
    const lateAddresses = one.addresses.filter((address) => isLate(one, address));
    if (lateAddresses.length === 0) early.push(one);
    else if (lateAddresses.length === one.addresses.length) late.push(one);
    else
      early.push({
        ...one,
        addresses: [...one.addresses.filter((address) => !isLate(one, address)), ...lateAddresses],
      });
  }
  return [...early, ...late];
}

/** Returns the host without these addresses; undefined if none is left. */
export function without(candidate: Candidate, isOut: (address: string) => boolean): Candidate | undefined {
  const addresses = candidate.addresses.filter((address) => !isOut(address));
  return addresses.length === 0 ? undefined : { ...candidate, addresses };
}

async function resolve(deps: CandidateDeps, { need, after }: Place): Promise<RouteResolution> {
  const { domain, asks, attempts, emailSeq, detour } = need;
  // A message that a server deferred does not continue at an address that has just refused it or is unreachable.
  const wellOf = (candidates: readonly Candidate[]): Candidate[] =>
    candidates.flatMap((one) => without(one, (address) => deps.hosts.isFailing({ host: one.host, address })) ?? []);
  const left = after?.domain === domain ? after.rest : detour?.rest;
  if (left) return { ok: true, candidates: after ? wellOf(left) : [...left] };
  const routing = asks === ANY ? { ...deps.routing, policies: undefined } : deps.routing;
  const turn = { isBackedOff: deps.hosts.isBackedOff, attempts, emailSeq };
  const resolved = await resolveRoute(routing, domain, turn);
  if (!resolved.ok || !after) return resolved;
  const tried = peerOf(after);
  const isTried = ({ host }: Candidate, address: string): boolean => host === tried.host && address === tried.address;
  const untried = resolved.candidates.flatMap((one) => without(one, (address) => isTried(one, address)) ?? []);
  return { ok: true, candidates: wellOf(untried) };
}

/** Splits the candidates by destination; returns also the first candidate elsewhere that may be dialed. */
function split(deps: CandidateDeps, candidates: readonly Candidate[], { destination, need }: Place) {
  const here: Candidate[] = [];
  const rest: Candidate[] = [];
  let next: { candidate: Candidate; key: string } | undefined;
  for (const candidate of candidates) {
    const { host } = candidate;
    const key = isRelay(destination) ? destination : deps.sets.destinationAt(need.domain, host);
    if (key === destination) here.push(candidate);
    else {
      rest.push(candidate);
      if (!deps.registry.pauseOf(key)) next ??= { candidate, key };
    }
  }
  return { here, rest, next };
}

/** Returns the candidates with the addresses that an available source address can reach. */
function reachable(candidates: Candidate[], { maySendFrom }: SessionNeed, { sources }: Routing): Candidate[] {
  if (!maySendFrom) return candidates;
  return candidates
    .map((one) => ({ ...one, addresses: one.addresses.filter((address) => sources.hasOneFor(address, maySendFrom)) }))
    .filter(({ addresses }) => addresses.length > 0);
}

/** Says nothing about other messages for the destination. */
function notDialled(cause: string, message: string): OpenFailure {
  return { ok: false, evidence: { stage: 'dns', cause, message, relay: false }, facts: NO_FACTS, forNeed: true };
}

function notResolved({ evidence, tlsPolicy }: RouteResolution & { ok: false }): OpenFailure {
  const facts = tlsPolicy ? { ...NO_FACTS, tlsPolicy } : NO_FACTS;
  return { ok: false, evidence, facts, forNeed: evidence.cause === POLICY_UNMET };
}
