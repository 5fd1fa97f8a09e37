/**
 * One attempt: a group of messages of one email, to one destination. Whatever happens, a message leaves here settled or untried; an
 * attempt that outlives its deadline is cut and is a temporary failure; an exception in our own code is thrown, and counts
 * as a crash. Mail of an account that was suspended meanwhile goes back untried, and rests where the next claim finds it.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { Blobs } from '../../storage/blobs/blobs.ts';
import type { Engine } from '../../work/work.ts';
import { noteReply } from '../destinations/last-replies.ts';
import type { PauseRule } from '../destinations/providers.ts';
import type { Destination, Destinations, Signal } from '../destinations/registry.ts';
import type { DayShares } from '../destinations/warm-up.ts';
import { classify, expiredWhileSuspended } from '../outcome/outcome.ts';
import { pauseByRule } from '../outcome/pause.ts';
import type { Schedule } from '../queue/schedule.ts';
import type { Results } from '../record/results.ts';
import type { Settlement } from '../record/settle.ts';
import type { HostMemory } from '../routing/hosts.ts';
import type { MissingDomains } from '../routing/missing-domain.ts';
import type { ReturnPaths } from '../routing/return-path.ts';
import { isRelay } from '../routing/route.ts';
import { playSandbox } from '../sandbox/play.ts';
import type { Connections } from './connections.ts';
import type { BodyHashes } from './large.ts';
import { type Classified, conclude } from './pass.ts';
import type { PooledSession } from './pooled-session.ts';
import { type Held, isStillVerified, type KeysFor, type Prepared, prepare } from './prepare.ts';
import { nothingSent, type Transmission, transmit } from './transmit.ts';

/** For how many waiting messages one failed dial speaks. */
const MAX_SIBLINGS = 2_000;

export interface AttemptRunnerDeps {
  engine: Engine<Held, Settlement>;
  schedule: Schedule;
  destinations: Destinations;
  connections: Connections;
  hosts: HostMemory;
  missingDomains: MissingDomains;
  results: Results;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  /** Our name in EHLO and Received. */
  hostname: string;
  keysFor: KeysFor;
  returnPaths: ReturnPaths;
  isSuspended(accountId: string): boolean | Promise<boolean>;
  random(): number;
  /** The rules by which replies pause a destination. */
  pauseRules(key: string): readonly PauseRule[];
  /** Whether mail for two domains goes to the same exchangers. */
  areAlike(one: string, other: string): boolean;
  /** Lets mail whose destination is paused go to a worse exchanger; answers whether there is one. */
  goAround(held: Held): boolean;
  /** More slots may be opened. */
  onCapacity(): void;
  /** What is left of the shares of today for this destination, while our addresses warm up. */
  sharesOf(key: string): DayShares | undefined;
  /** For one whole attempt. */
  deadlineMs: number;
}

export interface AttemptOptions {
  /** The session to go on with. */
  session: PooledSession | undefined;
  /** The attempt has its session. */
  onSession(): void;
}

/** An attempt by SMTP that a deadline can cut. */
interface Cuttable {
  startedAtMs: number;
  pooled: PooledSession | undefined;
  isCut: boolean;
}

export class AttemptRunner {
  readonly #deps: AttemptRunnerDeps;
  readonly #bodyHashes: BodyHashes = new Map();

  constructor(deps: AttemptRunnerDeps) {
    this.#deps = deps;
  }

  /** Settles each message of the group or leaves it running, which puts it back; answers the session to go on with. */
  async attempt(
    destination: Destination,
    group: Held[],
    { session, onSession }: AttemptOptions,
  ): Promise<PooledSession | undefined> {
    if (group[0]!.job.mode === 'sandbox') {
      this.#play(group);
      return session;
    }
    if (await this.#isSuspended(group[0]!.job.accountId)) {
      this.#releaseSuspended(group);
      return session;
    }
    const attempt: Cuttable = { startedAtMs: this.#deps.clock.now(), pooled: session, isCut: false };
    const began = performance.now();
    try {
      const sending = this.#send(destination, group, attempt, onSession);
      const transmission = await this.#withinDeadline(sending);
      if (transmission) {
        if (transmission.signal.kind === 'answered') measure(destination, (performance.now() - began) / group.length);
        this.#apply(destination, transmission, attempt.startedAtMs);
        return transmission.pooled;
      }
      attempt.isCut = true;
      sending.catch(() => undefined);
      this.#cutOff(destination, group, attempt);
    } catch (error) {
      abandon(group, attempt);
      throw error;
    }
    abandon(group, attempt);
    return undefined;
  }

  /** Settles what waits for a paused destination as put off, but for what may go around it. */
  putOffWaiting(destination: Destination): void {
    const { engine, schedule, results, goAround } = this.#deps;
    for (const held of schedule.waitingAt(destination)) {
      if (goAround(held)) continue;
      const settlement = results.putOff(held);
      if (settlement) engine.settle(held, settlement);
    }
  }

  /** Of the sandbox: a simulated server. */
  #play(group: Held[]): void {
    const { engine, results, random } = this.#deps;
    for (const held of group) {
      engine.settle(held, playSandbox(held.job, { nowMs: results.nowOf(held), random: random() }));
    }
  }

  async #isSuspended(accountId: string): Promise<boolean> {
    try {
      return await this.#deps.isSuspended(accountId);
    } catch (error) {
      this.#deps.log.warn({ error: (error as Error).message }, 'whether an account is suspended could not be read');
      return true;
    }
  }

  /** What has expired meanwhile bounces. */
  #releaseSuspended(group: Held[]): void {
    const { engine, results } = this.#deps;
    for (const held of group) {
      if (results.nowOf(held) < held.job.expiresAt) engine.release(held);
      else engine.settle(held, results.of(held, { outcome: expiredWhileSuspended(), facts: null }));
    }
  }

  /** Undefined when the deadline passed before. */
  async #withinDeadline(sending: Promise<Transmission>): Promise<Transmission | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const overdue = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), this.#deps.deadlineMs);
    });
    try {
      return await Promise.race([sending, overdue]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #send(
    destination: Destination,
    group: Held[],
    attempt: Cuttable,
    onSession: () => void,
  ): Promise<Transmission> {
    const { engine, schedule, destinations, connections, hosts, missingDomains, hostname, returnPaths, clock } =
      this.#deps;
    const prepared = await this.#prepare(group[0]!);
    const { accountId, recipient } = group[0]!.job;
    const { key } = destination;
    // A pause, a stop, or a storage that refuses may have come meanwhile: nothing is begun then.
    if (!engine.isOpen || destinations.pauseOf(key)) return nothingSent({ group }, attempt.pooled);
    const startedMs = clock.now();
    const holds = (): boolean => group.every((held) => held.state !== 'running' || engine.holds(held));
    return transmit({
      ...{ group, destination: key, prepared, connections, hosts, hostname, returnPaths, holds },
      pooled: attempt.pooled,
      shares: this.#deps.sharesOf(key),
      now: () => clock.now(),
      onDone: (done) => {
        for (const one of done) if (one.kind === 'classified') this.#settle(destination, one);
      },
      weighMissing: (evidence) => missingDomains.weigh(evidence, { accountId, recipient }),
      mayBegin: () => holds() && !destinations.pauseOf(key),
      onEnvelope: () => {
        // After a pause only a whole transaction shows that it is over.
        if (destination.pause || destinations.isProven(key)) return;
        destinations.hear(destination, { kind: 'answered', took: false }, startedMs);
        schedule.changed(destination);
        this.#deps.onCapacity();
      },
      onSession: (used) => {
        attempt.pooled = used;
        missingDomains.exists(recipient);
        if (!attempt.isCut) return onSession();
        // What hung has come back to life: it was settled as a failure and must not send any more.
        used.session.destroy();
        throw new Error('the attempt was cut off before it sent anything');
      },
    });
  }

  /** The content as it is sent, made once for all recipients of the email that wait here. */
  async #prepare({ email, job }: Held): Promise<Prepared> {
    const { blobs, keysFor, log } = this.#deps;
    if (email.prepared && !(await isStillVerified(job, keysFor).catch(() => false))) email.prepared = undefined;
    email.prepared ??= prepare(job, email.inline, { blobs, keysFor, log, bodyHashes: this.#bodyHashes });
    const prepared = await email.prepared;
    if (!prepared.ok) email.prepared = undefined;
    return prepared;
  }

  #cutOff(destination: Destination, group: Held[], { startedAtMs, pooled }: Cuttable): void {
    const { engine, results, log, deadlineMs } = this.#deps;
    log.error({ messageId: group[0]!.job.messageId, deadlineMs }, 'an attempt hung and was cut off');
    const message = `the attempt did not end within ${Math.round(deadlineMs / 1000)} s and was cut off`;
    const outcome = classify({ stage: 'connect', cause: 'EDEADLINE', message, relay: isRelay(destination.key) });
    const session = pooled?.session;
    const facts = {
      ...{ startedAtMs, durationMs: deadlineMs, dialogue: [] },
      host: session?.remoteHost ?? null,
      address: session?.remoteAddress ?? null,
      sourceAddress: session?.sourceAddress,
      tls: session?.tls ?? null,
      tlsFallback: session?.tlsFallback ?? null,
    };
    for (const held of group) if (held.state === 'running') engine.settle(held, results.of(held, { outcome, facts }));
  }

  #settle(destination: Destination, result: Classified): void {
    const { engine, results, clock } = this.#deps;
    noteReply(destination, { outcome: result.outcome, host: result.facts.host }, clock.now());
    engine.settle(result.held, results.of(result.held, conclude(result)));
  }

  /** What becomes of the messages of a transmission, and of those that wait for the same destination. */
  #apply(destination: Destination, transmission: Transmission, startedMs: number): void {
    const { engine, schedule, destinations } = this.#deps;
    const signal = this.#signalOf(destination, transmission);
    const pauseBegan = !isOfDomainAlone(destination, transmission) && destinations.hear(destination, signal, startedMs);
    for (const result of transmission.results) {
      const { held } = result;
      if (held.state !== 'running') continue;
      if (result.kind === 'classified') this.#settle(destination, result);
      else {
        if (result.kind === 'onward') Object.assign(held, { destination: result.to, onward: result.onward });
        else held.returns += 1;
        engine.putBack(held);
      }
    }
    if (pauseBegan) this.putOffWaiting(destination);
    if (signal.kind === 'unreachable') this.#failFastSiblings(destination, transmission);
    if (signal.kind !== 'nothing') schedule.changed(destination);
  }

  /** A rule of the provider makes a pause of what would be none, or sets its length. */
  #signalOf({ key }: Destination, { results, signal }: Transmission): Signal {
    if (signal.kind === 'connection-limit' || (signal.kind === 'wait' && signal.request.blocked)) return signal;
    const rules = this.#deps.pauseRules(key);
    for (const one of results) {
      const request = one.kind === 'classified' ? pauseByRule(rules, one.outcome) : undefined;
      if (request && one.kind === 'classified') {
        return { kind: 'wait', request, refusal: { outcome: one.outcome, host: one.facts.host } };
      }
    }
    return signal;
  }

  /** One failed dial speaks for everybody who waits for the same exchangers: they would have gone over the same connection. */
  #failFastSiblings(destination: Destination, transmission: Transmission): void {
    const { engine, schedule, results, connections, areAlike } = this.#deps;
    const [first] = transmission.results;
    if (first?.kind !== 'classified') return;
    const { domain, job } = first.held;
    if (connections.count(destination.key, domain) > 0) return;
    // Whether a domain that is missing is given up at once differs from account to account.
    const isForAll = first.outcome.kind !== 'permanent';
    // What the DNS says of one domain says nothing of others.
    const isSame = (held: Held): boolean =>
      (held.domain === domain || (first.facts.host !== null && areAlike(held.domain, domain))) &&
      (isForAll || held.job.accountId === job.accountId);
    for (const held of schedule.waitingAt(destination, MAX_SIBLINGS, isSame)) {
      if (!held.quarantined && engine.holds(held)) engine.settle(held, results.of(held, conclude({ ...first, held })));
    }
  }
}

/** A sixteenth of the new, the rest of what was before. */
function measure(destination: Destination, messageMs: number): void {
  const before = destination.messageMs ?? messageMs;
  destination.messageMs = before + (messageMs - before) / 16;
}

/** Its session is no good any more, and its content may be what went wrong. */
function abandon(group: readonly Held[], { pooled }: Cuttable): void {
  group[0]!.email.prepared = undefined;
  pooled?.session.destroy();
}

/** The DNS did not say where one of several domains is served. */
function isOfDomainAlone({ key }: Destination, { signal, results }: Transmission): boolean {
  const [first] = results;
  return (
    signal.kind === 'unreachable' &&
    first?.kind === 'classified' &&
    first.facts.host === null &&
    first.held.domain !== key
  );
}
