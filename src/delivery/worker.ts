/**
 * Delivers email. Delivery is a kind of work that the engine runs (src/work/engine.ts). An attempt sends one email to the next server, or
 * to the sandbox, and records the result.
 *
 * claimed | dispatched directly ─▶ window ─▶ schedule ─▶ slot (one session, message after message) ─▶ settled
 *
 * A planned stop starts no new transactions. It cuts each running transaction that does not reach its final dot within 2 s, before the dot.
 * Then it waits for the replies to final dots that were sent, records every result, and releases the remaining messages without an attempt.
 * Nothing is lost. A message is sent twice only if a peer takes longer to reply to its final dot than the stop may take.
 */
import { LATEST_BLOCKED_WAITS_MS, LATEST_DELIVERY_WAITS_MS } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import { type Running, within } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Notify, OperatorNotice } from '../base/notice.ts';
import type { Tracer } from '../base/trace.ts';
import { DELIVERY_WORK, type DeliveryJob, type DirectDispatch } from '../messages/messages.ts';
import type { OpenSmtpOptions } from '../net/smtp-client.ts';
import type { PublishedDestination } from '../nodes/nodes.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { type BlobRemover, createBlobRemover } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import { type ClaimRequest, type ClaimResult, Engine, type EngineOptions, type WorkKind } from '../work/work.ts';
import { Apply } from './apply.ts';
import { Attempts } from './attempt/attempt.ts';
import { type Connections, openConnections } from './attempt/connections.ts';
import type { KeysFor } from './attempt/prepare.ts';
import { type BlockedNotices, createBlockedNotices } from './destinations/blocked-notice.ts';
import { type DeferredCounts, openDeferredCounts } from './destinations/deferred-counts.ts';
import { type Limits, openLimits } from './destinations/limits.ts';
import { openProbePermits } from './destinations/probe-permits.ts';
import { PROVIDERS, type Providers } from './destinations/providers.ts';
import { publishedOf } from './destinations/published.ts';
import { Registry } from './destinations/registry.ts';
import { openRelayLimits } from './destinations/relay-limits.ts';
import { openResumes, type Resumes } from './destinations/resume.ts';
import { openSharedPauses, type SharedPauses } from './destinations/shared-pauses.ts';
import { combine, type SendLimits } from './destinations/shares.ts';
import { openWarmUp, type WarmUpSettings } from './destinations/warm-up.ts';
import { Admissions } from './queue/admission.ts';
import { claimOperation, clampDueOperation } from './queue/claim.ts';
import { type DeliveryItem, deliveryItemOf } from './queue/delivery-item.ts';
import { type DestinationLoad, Schedule } from './queue/schedule.ts';
import { Slots } from './queue/slots.ts';
import { WINDOW_LIMITS, Window, type WindowLimits } from './queue/window.ts';
import { type ResultMetrics, Results } from './record/results.ts';
import type { Settlement } from './record/settle.ts';
import { openHostMemory } from './routing/hosts.ts';
import { openMissingDomains } from './routing/missing-domain.ts';
import { type MxSets, openMxSets, singleRoute } from './routing/mx-sets.ts';
import { type ReturnPaths, SENDER_ITSELF } from './routing/return-path.ts';
import { type Routing, SANDBOX } from './routing/route.ts';

const SLOTS = 500;
/** Metrics have labels only for the busiest destinations: 100,000 labels, one for each domain, would be useless. */
const SHOWN_DESTINATIONS = 20;
/** This exceeds the sum of all session deadlines: connecting to five MX hosts, the envelope, 40 MB at 32 kB/s, and the final dot. */
const ATTEMPT_DEADLINE_MS = 2_700_000;
/**
 * After SIGTERM the process must exit within 30 s. Running transactions have 2 s to reach their final dot. Otherwise they are cut before
 * the dot, so the peer has not accepted the message. Peers have the remaining time to reply to final dots; then the known results are
 * recorded.
 */
const STOP_DOTS_MS = 2_000;
const STOP_GRACE_MS = 26_000;
const STOP_RECORDING_MS = 2_500;
/** How long a stop waits for the content of settled messages to be removed. The sweep removes any remaining content a day later. */
const STOP_REMOVING_MS = 2_000;
/** The longest pause after a crash, which is how long a result waits at most if a bug prevents recording it. */
const LONGEST_CRASH_PAUSE_MS = 30_000;

export interface DeliveryDeps extends EngineOptions {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  routing: Routing;
  /** The host name that EHLO and Received contain. */
  hostname: string;
  keysFor: KeysFor;
  /** Reports attempts; none are reported if absent. */
  tracer?: Tracer | undefined;
  /** Chooses MAIL FROM; by default it is the sender itself. */
  returnPaths?: ReturnPaths;
  /** Returns whether an account is suspended; by default none is. */
  isSuspended?: (accountId: string) => boolean | Promise<boolean>;
  metrics?: ResultMetrics;
  /** Called after results and their events were recorded. */
  onSettled?: () => void;
  /** Returns whether a domain accepted mail of an account in the last 30 days; by default none did. */
  acceptedMailRecently?: (accountId: string, domain: string) => Promise<boolean>;
  /** Sends operators an email; resolves when it is queued, or immediately if there is no recipient. */
  notifyOperators?: Notify<OperatorNotice>;
  /** Returns this process's share of a connection limit, above 0 and at most 1. */
  connectionShare?: () => number;
  /** Overrides of the default limits, for small machines and tests. */
  limits?: Partial<WindowLimits>;
  /** The limits of the large providers; by default the built-in ones. */
  providers?: Providers;
  /** The start dates of source addresses that are warming up; by default all addresses are established. */
  warmUp?: WarmUpSettings;
  timeouts?: OpenSmtpOptions['timeouts'];
  attemptDeadlineMs?: number;
  stopGraceMs?: number;
  /** Returns a uniform random number in [0, 1), for the jitter of retries. */
  random?: () => number;
}

export interface DeliveryState {
  /** The number of jobs in memory. */
  window: number;
  /** The number of running attempts. */
  trying: number;
  /** The number of results that are not recorded yet. */
  unrecorded: number;
  connections: number;
  /** Whether no attempt starts because results cannot be recorded. */
  paused: boolean;
  destinations: DestinationLoad[];
  pausedDestinations: { key: string; untilMs: number }[];
  blockedDestinations: { key: string; sinceMs: number }[];
}

export interface Delivery extends Running, DirectDispatch {
  /** Makes the engine claim soon, because work may be due. */
  nudge(): void;
  state(): DeliveryState;
  /** Returns the paused and the busiest destinations, for operators. */
  published(): PublishedDestination[];
}

class DeliveryWorker implements WorkKind<DeliveryItem, Settlement> {
  readonly kind = DELIVERY_WORK;
  readonly crashDelayMs = 10_000;
  readonly queue: Window;
  readonly engine: Engine<DeliveryItem, Settlement>;
  readonly limits: Limits;
  readonly registry: Registry;
  readonly sets: MxSets;
  readonly schedule: Schedule;
  readonly connections: Connections;
  readonly sendLimits: SendLimits;
  readonly deferred: DeferredCounts;
  readonly remover: BlobRemover;
  readonly #deps: DeliveryDeps;
  readonly #pauses: SharedPauses;
  readonly #resumes: Resumes;
  readonly #notifyBlocked: BlockedNotices;
  readonly #admissions: Admissions;
  readonly #results: Results;
  readonly #apply: Apply;
  readonly #slots: Slots;

  constructor(deps: DeliveryDeps) {
    const { database, blobs, clock, log, routing, random = Math.random } = deps;
    const { providers = PROVIDERS, returnPaths = SENDER_ITSELF, warmUp = { starts: [], sources: [] } } = deps;
    const hasFallback = routing.fallback !== undefined;
    const basics = { database, clock, log };
    this.#deps = deps;

    // The destinations know the limits of each receiving server, which apply to all nodes together.
    this.limits = openLimits(providers, () => deps.connectionShare?.() ?? 1);
    const permits = openProbePermits(basics);
    this.registry = new Registry({ clock, log, limits: this.limits, hasFallback, probes: permits });
    const warmUps = openWarmUp({ ...basics, ...warmUp, providerOf: providers.byName });
    this.#pauses = openSharedPauses({ ...basics, registry: this.registry, permits, maySend: warmUps.maySend });
    const relayLimits = openRelayLimits({
      ...basics,
      relay: routing.route.kind === 'relay' ? routing.route.relay.limits : undefined,
      fallback: routing.fallback?.limits,
      share: () => deps.connectionShare?.() ?? 1,
    });
    this.sendLimits = combine(warmUps, relayLimits);
    const { notifyOperators = () => Promise.resolve() } = deps;
    this.#notifyBlocked = createBlockedNotices({ ...basics, hasFallback, notifyOperators });

    // Routing finds the hosts to connect to for a domain.
    this.sets =
      routing.route.kind === 'relay'
        ? singleRoute(routing.dns)
        : openMxSets({
            dns: routing.dns,
            clock,
            providers,
            onChanged: (domain, before) => this.#hostsChanged(domain, before),
          });
    const hosts = openHostMemory(() => clock.now());
    this.#resumes = openResumes({ database, clock, registry: this.registry, sets: this.sets });
    this.deferred = openDeferredCounts({ database, clock, registry: this.registry, sets: this.sets });

    // The queue decides which message is sent next.
    const { registry, sets } = this;
    this.schedule = new Schedule({ registry, sets, slots: SLOTS, mayShare: returnPaths.mayShare });
    this.queue = new Window({
      limits: { ...WINDOW_LIMITS, ...deps.limits },
      schedule: this.schedule,
      registry,
      sets,
      routing,
    });
    this.#admissions = new Admissions({ registry, sets, routing });
    this.engine = new Engine<DeliveryItem, Settlement>(deps, this);

    // Attempts send messages, and Apply handles their reports.
    this.connections = openConnections({
      routing: { ...routing, dns: { ...routing.dns, resolveMx: sets.resolveMx } },
      hosts,
      sets,
      registry,
      limits: this.limits,
      helo: deps.hostname,
      ...(deps.timeouts && { timeouts: deps.timeouts }),
    });
    this.remover = createBlobRemover({ blobs, log });
    this.#results = new Results({
      ...basics,
      metrics: deps.metrics,
      providers,
      remover: this.remover,
      registry,
      relayLimits: relayLimits,
      random,
      tracer: deps.tracer,
    });
    const missingDomains = openMissingDomains({
      now: () => clock.now(),
      acceptedMailRecently: deps.acceptedMailRecently ?? (() => Promise.resolve(false)),
      log,
    });
    const attempts = new Attempts({
      engine: this.engine,
      registry,
      limits: this.limits,
      sendLimits: this.sendLimits,
      senders: { connections: this.connections, hosts, missingDomains, returnPaths, hostname: deps.hostname },
      results: this.#results,
      database,
      blobs,
      clock,
      log,
      random,
      keysFor: deps.keysFor,
      isSuspended: deps.isSuspended ?? (() => false),
      deadlineMs: deps.attemptDeadlineMs ?? ATTEMPT_DEADLINE_MS,
    });
    this.#apply = new Apply({
      engine: this.engine,
      registry,
      window: this.queue,
      schedule: this.schedule,
      admissions: this.#admissions,
      connections: this.connections,
      sets,
      pauses: this.#pauses,
      results: this.#results,
      notifyBlocked: this.#notifyBlocked,
    });
    this.#slots = new Slots({
      engine: this.engine,
      schedule: this.schedule,
      connections: this.connections,
      attempts,
      apply: this.#apply,
      clock,
    });
  }

  /**
   * Handles changed hosts of a domain. The DNS lookup that finds the change calls this, so that waiting mail uses the new hosts
   * immediately.
   */
  #hostsChanged(domain: string, before: string): void {
    this.#apply.hostsChanged(domain, before);
    this.#slots.fill();
  }

  /** Whether the pauses of all nodes are loaded. No attempt starts before they are. */
  get isReady(): boolean {
    return this.#pauses.isLoaded;
  }

  async claim(request: ClaimRequest): Promise<ClaimResult<DeliveryItem>> {
    await this.#pauses.loaded();
    const { jobs, taken } = await this.#deps.database.execute(claimOperation, request);
    const times = { claimedMs: request.nowMs, leaseUntilMs: request.nowMs + request.leaseMs };
    return { items: this.itemsOf(jobs, times), taken, overQuota: [] };
  }

  itemsOf(jobs: readonly DeliveryJob[], times: Pick<DeliveryItem, 'claimedMs' | 'leaseUntilMs'>): DeliveryItem[] {
    return jobs.map((job) => {
      if (job.mode === 'sandbox')
        return deliveryItemOf(job, { hop: { destination: SANDBOX }, domain: SANDBOX, ...times });
      return deliveryItemOf(job, { ...this.#admissions.firstHop(job.recipient), ...times });
    });
  }

  deadLetter(item: DeliveryItem): Settlement {
    return this.#results.deadLetter(item);
  }

  withoutAttempt(item: DeliveryItem): Settlement | undefined {
    return this.#apply.claimed(item);
  }

  start(): void {
    this.#slots.fill();
  }

  async record(settlements: Settlement[]): Promise<readonly number[]> {
    const lost = await this.#results.record(settlements);
    this.#deps.onSettled?.();
    return lost;
  }

  isFinal({ to }: Settlement): boolean {
    return to !== 'delayed';
  }

  /**
   * Limits how far in the future messages are due. At a normal start, the limit allows the longer intervals of destinations that block this
   * host. If the clock was set back, the limit is that of normal retries, and mail deferred by a pause is due, so all mail is brought
   * forward.
   */
  repairSchedule({ isSetBack }: { isSetBack: boolean }): Promise<number> {
    return this.#deps.database.execute(clampDueOperation, {
      nowMs: this.#deps.clock.now(),
      latestMs: isSetBack ? LATEST_DELIVERY_WAITS_MS : LATEST_BLOCKED_WAITS_MS,
      crashPauseMs: LONGEST_CRASH_PAUSE_MS,
      isSetBack,
    });
  }

  async tick(): Promise<void> {
    this.connections.sweep();
    // Wakes destinations whose pause has ended: no event reports that a time has passed.
    this.#slots.wake();
    await this.#pauses.sync();
    for (const { destination, pause } of this.#apply.sharedChanges()) this.#resumes.began(destination.key, pause);
    if (await this.#resumes.bringForward()) this.engine.nudge();
    await this.deferred.count();
    await this.sendLimits.releaseUnused();
    if (this.registry.blocked().length > 0) await this.#notifyBlocked({ immediately: false });
  }

  async stop(graceMs: number): Promise<void> {
    const { connections, engine, remover } = this;
    const { log } = this.#deps;
    connections.cancelOpening();
    const early = setTimeout(() => connections.cutBeforeDots(), Math.min(STOP_DOTS_MS, graceMs));
    const late = setTimeout(() => {
      log.warn({ trying: engine.running }, 'shutdown deadline reached; closing open SMTP sessions');
      connections.destroyAll();
    }, graceMs);
    const unrecorded = await engine.stop(graceMs + STOP_RECORDING_MS);
    clearTimeout(early);
    clearTimeout(late);
    if (unrecorded > 0) log.error({ unrecorded }, 'stopped with unrecorded results');
    const last = [connections.quitAll(), remover.idle(), this.sendLimits.releaseUnused({ all: true })];
    await within(Promise.all(last), performance.now() + STOP_REMOVING_MS);
    remover.abandon();
    log.info({}, 'delivery stopped');
  }
}

export function startDelivery(deps: DeliveryDeps): Delivery {
  const worker = new DeliveryWorker(deps);
  const { engine, queue, schedule, registry, connections } = worker;
  let stopping: Promise<void> | undefined;
  engine.begin();
  return {
    hasCapacity: (jobs, bytes) => engine.isOpen && worker.isReady && queue.room(engine.size, bytes) >= jobs,
    dispatch: (jobs, leaseUntilMs) =>
      engine.receive(worker.itemsOf(jobs, { claimedMs: deps.clock.now(), leaseUntilMs })),
    nudge: () => engine.nudge(),
    state: () => ({
      window: engine.size,
      trying: engine.running,
      unrecorded: engine.unrecorded,
      connections: connections.total,
      paused: engine.isPaused,
      destinations: schedule.busiest(SHOWN_DESTINATIONS),
      pausedDestinations: registry.paused().map(({ key, pause }) => ({ key, untilMs: pause!.untilMs })),
      blockedDestinations: registry.blocked().map(({ key, pause }) => ({ key, sinceMs: pause!.blockedMs! })),
    }),
    published: () => publishedOf(worker),
    stop: () => {
      stopping ??= worker.stop(deps.stopGraceMs ?? STOP_GRACE_MS);
      return stopping;
    },
  };
}
