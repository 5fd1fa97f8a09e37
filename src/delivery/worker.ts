/**
 * The delivery: a kind of work of the engine (src/work/engine.ts). An attempt hands one email to a next server, or to the
 * sandbox; what came of it is recorded.
 *
 *   claimed | handed over ─▶ window ─▶ schedule ─▶ slot (one session, message after message) ─▶ settled
 *
 * A planned stop begins no transaction, cuts those that do not reach their final dot soon, before it, waits for the answers
 * to the dots that were sent, records every result, and releases the rest untried: nothing is lost, and nothing is sent
 * twice unless a peer takes longer to answer a dot than a stop may take.
 */
import { blockedDelayMs, deliveryDelayMs } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import { type Running, within } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Notify, OperatorNotice } from '../base/notice.ts';
import { DELIVERY_WORK, type DeliveryJob, type DirectDispatch } from '../messages/messages.ts';
import type { OpenSmtpOptions } from '../net/smtp-client.ts';
import type { PublishedDestination } from '../nodes/nodes.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { type BlobRemover, createBlobRemover } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import { type Claimed, type ClaimRequest, Engine, type EngineOptions, type WorkKind } from '../work/work.ts';
import { type Held, heldOf, type KeysFor } from './attempt.ts';
import { AttemptRunner } from './attempt-runner.ts';
import { createBlockedNotices } from './blocked-notice.ts';
import { claimOperation, clampDueOperation } from './claim.ts';
import { type Connections, openConnections } from './connections.ts';
import { type Destination, type Destinations, openDestinations, SANDBOX, SHARED_DESTINATIONS } from './destinations.ts';
import { type ExchangerSets, oneWay, openExchangerSets } from './exchanger-sets.ts';
import { openHostMemory } from './hosts.ts';
import { type ConnectionLimits, limitsOfProvider, RELAY_CONNECTIONS, sharedLimits } from './limits.ts';
import { openMissingDomains } from './missing-domain.ts';
import { PROVIDERS, type Provider, type Providers } from './providers.ts';
import { publishedOf } from './published.ts';
import { openPutOffCounts, type PutOffCounts } from './put-off.ts';
import { type ResultMetrics, Results } from './results.ts';
import { openResumes, type Resumes } from './resume.ts';
import { type ReturnPaths, SENDER_ITSELF } from './return-path.ts';
import { FALLBACK, isRelay, type Routing, routedDomainOf } from './route.ts';
import { type DestinationLoad, Schedule } from './schedule.ts';
import type { Settlement } from './settle.ts';
import { openSharedPauses, type SharedPauses } from './shared-pauses.ts';
import { Slots } from './slots.ts';
import { openWarmUp, type WarmUp, type WarmUpSettings } from './warm-up.ts';
import { WINDOW_LIMITS, Window, type WindowLimits } from './window.ts';

const SLOTS = 500;
const MESSAGES_PER_RELAY_CONNECTION = 1_000;
/** A metric with a label for each of a hundred thousand domains would help nobody. */
const SHOWN_DESTINATIONS = 20;
/** Beyond every deadline of a session: connecting to five exchangers, the envelope, 40 MB at 32 kB/s, and the final dot. */
const ATTEMPT_DEADLINE_MS = 2_700_000;
/**
 * SIGTERM must end in 30 s. Transactions under way have 2 of them to reach their final dot, and are cut before it, so that
 * nobody has the mail. Peers have the rest to answer the dots; then what is known is recorded.
 */
const STOP_DOTS_MS = 2_000;
const STOP_GRACE_MS = 26_000;
const STOP_RECORDING_MS = 2_500;
/** For content that settled mail left; what is not removed then is swept a day later. */
const STOP_REMOVING_MS = 2_000;
/** After the eighth attempt the step of the schedule no longer grows. */
const STEPS = 8;
/** A step with its jitter, and as much again as a slow tick may take. */
const SLACK = 1.15;
/** How long a result waits that our own code could not record: the longest pause after a crash. */
const LONGEST_CRASH_PAUSE_MS = 30_000;

export interface DeliveryDeps extends EngineOptions {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  routing: Routing;
  /** Our name in EHLO and Received. */
  hostname: string;
  keysFor: KeysFor;
  /** The sender itself unless this says otherwise. */
  returnPaths?: ReturnPaths;
  /** Whether an account is suspended: none is unless this says so. */
  isSuspended?: (accountId: string) => boolean | Promise<boolean>;
  metrics?: ResultMetrics;
  /** Results were recorded, and with them events. */
  onSettled?: () => void;
  /** Whether a domain took mail of an account in the last 30 days: none did unless this says so. */
  tookMailLately?: (accountId: string, domain: string) => Promise<boolean>;
  /** Tells the operators something by mail; resolves when it is on its way, or there is nobody to get it. */
  notifyOperators?: Notify<OperatorNotice>;
  /** The part of a limit on connections that is this process's, above 0 and at most 1. */
  connectionShare?: () => number;
  /** Narrower bounds, for machines and tests that want them. */
  limits?: Partial<WindowLimits>;
  /** Limits of the large providers; those built in unless this says others. */
  providers?: Providers;
  /** Since when addresses that mail leaves from are in use, where they are new; all of them are old unless this says otherwise. */
  warmUp?: WarmUpSettings;
  timeouts?: OpenSmtpOptions['timeouts'];
  attemptDeadlineMs?: number;
  stopGraceMs?: number;
  /** Uniform in [0, 1); the jitter of retries. */
  random?: () => number;
}

export interface DeliveryState {
  /** Jobs in memory. */
  window: number;
  /** Attempts that run. */
  trying: number;
  /** Results not yet recorded. */
  unrecorded: number;
  connections: number;
  /** Deliveries are held because results cannot be recorded. */
  paused: boolean;
  /** The busiest ones. */
  destinations: DestinationLoad[];
  /** Destinations that asked for time. */
  pausedDestinations: { key: string; untilMs: number }[];
  /** Destinations that refuse our host. */
  blockedDestinations: { key: string; sinceMs: number }[];
}

export interface Delivery extends Running, DirectDispatch {
  /** Something may be due: a hint. */
  nudge(): void;
  state(): DeliveryState;
  /** The destinations that are paused, and the busiest, for the operator. */
  published(): PublishedDestination[];
}

class DeliveryWorker implements WorkKind<Held, Settlement> {
  readonly kind = DELIVERY_WORK;
  readonly crashDelayMs = 10_000;
  readonly queue: Window;
  readonly engine: Engine<Held, Settlement>;
  readonly destinations: Destinations;
  readonly schedule: Schedule;
  readonly connections: Connections;
  readonly remover: BlobRemover;
  readonly #deps: DeliveryDeps;
  readonly #results: Results;
  readonly #slots: Slots;
  readonly sets: ExchangerSets;
  readonly limitsOf: (key: string) => ConnectionLimits;
  /** Whose limits a destination has. */
  readonly ownerOf: (key: string) => string;
  readonly putOff: PutOffCounts;
  readonly #resumes: Resumes;
  readonly #pauses: SharedPauses;
  readonly #notices: ReturnType<typeof createBlockedNotices>;
  readonly warmUp: WarmUp;

  constructor(deps: DeliveryDeps) {
    const { database, blobs, clock, log, metrics, routing, hostname, keysFor, random = Math.random } = deps;
    const { returnPaths = SENDER_ITSELF } = deps;
    const share = (): number => deps.connectionShare?.() ?? 1;
    const { providers = PROVIDERS } = deps;
    const providerOf = (key: string): Provider => providers.byName(key) ?? providers.default;
    const limitsOf = (key: string) =>
      sharedLimits(isRelay(key) ? RELAY_CONNECTIONS : limitsOfProvider(providerOf(key)), share());
    this.limitsOf = limitsOf;
    this.ownerOf = (key) => (isRelay(key) ? 'a relay' : `the provider ${providerOf(key).name}`);
    const hasFallback = routing.fallback !== undefined;
    const destinations = openDestinations({
      ...{ clock, log, limitsOf, hasFallback },
      onPauseChanged: (destination) => this.#pauseChanged(destination),
      mayProbe: (key) => this.#pauses.mayProbe(key),
    });
    const onChanged = (domain: string, before: string): void => this.#exchangersChanged(domain, before);
    const sets =
      routing.route.kind === 'relay'
        ? oneWay(routing.dns)
        : openExchangerSets({ dns: routing.dns, clock, providers, onChanged });
    const schedule = new Schedule({
      ...{ destinations, slots: SLOTS, isPending: sets.isPending, mayShare: returnPaths.mayShare },
    });
    this.queue = new Window({
      limits: { ...WINDOW_LIMITS, ...deps.limits },
      schedule,
      shared: SHARED_DESTINATIONS,
      // Mail of a paused destination only passes through the window.
      isProven: (key) => destinations.isProven(key) || destinations.pauseOf(key) !== undefined,
      lookUp: sets.lookUp,
      destinationOfLane: (lane) => sets.destinationOf(routedDomainOf(routing, `@${lane.slice(lane.indexOf('/') + 1)}`)),
    });
    const { starts, sources } = deps.warmUp ?? { starts: [], sources: [] };
    const warmUp = openWarmUp({ database, clock, log, starts, sources, providerOf: providers.byName });
    this.warmUp = warmUp;
    const hosts = openHostMemory(() => clock.now());
    const timeouts = deps.timeouts ? { timeouts: deps.timeouts } : {};
    const { isStalled } = destinations;
    const connections = openConnections({
      routing: { ...routing, dns: { ...routing.dns, resolveMx: sets.resolveMx } },
      ...{ hosts, helo: hostname, isStalled, ...timeouts },
      ...{ serves: sets.serves, destinationOf: sets.destinationOf, destinationAt: sets.destinationAt },
      isPaused: (key) => destinations.pauseOf(key) !== undefined,
      roomForIdle: (key) => destinations.limitOf(destinations.of(key)) - destinations.of(key).active,
      messagesPerConnection: (key) =>
        isRelay(key) ? MESSAGES_PER_RELAY_CONNECTION : providerOf(key).messagesPerConnection,
    });
    this.remover = createBlobRemover({ blobs, log });
    const { remover } = this;
    const results = new Results({ database, clock, log, metrics, remover, pauseOf: destinations.pauseOf, random });
    const engine = new Engine<Held, Settlement>(deps, this);
    const runner = new AttemptRunner({
      ...{ engine, schedule, destinations, connections, hosts, results, blobs, clock, log, hostname, keysFor, random },
      returnPaths,
      isSuspended: deps.isSuspended ?? (() => false),
      missingDomains: openMissingDomains({
        now: () => clock.now(),
        tookMailLately: deps.tookMailLately ?? (() => Promise.resolve(false)),
        log,
      }),
      deadlineMs: deps.attemptDeadlineMs ?? ATTEMPT_DEADLINE_MS,
      pauseRules: (key) => (isRelay(key) ? [] : providerOf(key).pauses),
      areAlike: sets.areAlike,
      goAround: (held) => this.#goAround(held),
      sharesOf: warmUp.of,
      onCapacity: () => this.#slots.fill(),
    });
    this.#deps = deps;
    this.destinations = destinations;
    this.schedule = schedule;
    this.connections = connections;
    this.engine = engine;
    this.#results = results;
    this.#slots = new Slots({ engine, schedule, connections, runner });
    this.sets = sets;
    const onResumed = (): void => engine.nudge();
    this.#resumes = openResumes({ database, clock, destinations, sets, onResumed });
    this.putOff = openPutOffCounts({ database, clock, destinations, sets });
    this.#pauses = this.#sharePauses(runner);
    const { notifyOperators = () => Promise.resolve() } = deps;
    this.#notices = createBlockedNotices({ database, clock, log, hasFallback, notifyOperators });
  }

  /** What waits for the domain goes on where its exchangers count, or is put off where that destination is paused. */
  #exchangersChanged(domain: string, before: string): void {
    const now = this.sets.destinationOf(domain);
    if (now !== before) {
      for (const held of this.queue.move(domain, { from: before, to: now })) {
        const putOff = this.#results.putOff(held);
        if (putOff) this.engine.settle(held, putOff);
      }
    }
    this.schedule.changed(this.destinations.of(now));
    this.#slots.fill();
  }

  #sharePauses(runner: AttemptRunner): SharedPauses {
    const { database, clock, log } = this.#deps;
    return openSharedPauses({
      ...{ database, clock, log, destinations: () => this.destinations },
      onBegan: (destination) => runner.putOffWaiting(destination),
      onResumed: ({ key }, pause) => this.#resumes.began(key, pause),
      onMayProbe: (key) => {
        this.schedule.changed(this.destinations.of(key));
        this.#slots.fill();
      },
    });
  }

  #pauseChanged(destination: Destination): void {
    const written = this.#pauses.changed(destination);
    if (destination.pause?.blockedMs !== undefined) void written.then(() => this.#notices({ hurry: true }));
  }

  /** Whether the pauses of all nodes are known: nothing is begun before. */
  get isReady(): boolean {
    return this.#pauses.isLoaded;
  }

  async claim(request: ClaimRequest): Promise<Claimed<Held>> {
    await this.#pauses.loaded();
    const { jobs, taken } = await this.#deps.database.execute(claimOperation, request);
    return { items: this.itemsOf(jobs, request.nowMs + request.leaseMs), taken, overQuota: [] };
  }

  itemsOf(jobs: readonly DeliveryJob[], leaseUntilMs: number): Held[] {
    return jobs.map((job) => {
      if (job.mode === 'sandbox') return heldOf(job, { destination: SANDBOX, domain: SANDBOX, leaseUntilMs });
      const domain = routedDomainOf(this.#deps.routing, job.recipient);
      const destination = this.destinations.divert(this.sets.destinationOf(domain));
      return heldOf(job, { destination, domain: destination === FALLBACK ? FALLBACK : domain, leaseUntilMs });
    });
  }

  withoutAttempt(held: Held): Settlement | undefined {
    // Its exchangers may be known by now, or may be others.
    if (!SHARED_DESTINATIONS.has(held.domain) && !held.onward) {
      held.destination = this.sets.destinationOf(held.domain);
      this.#goAround(held);
    }
    return this.#results.withoutAttempt(held);
  }

  /** While its own destination is paused, mail goes to a worse exchanger of its domain, where there is one that is not. */
  #goAround(held: Held): boolean {
    const { pauseOf } = this.destinations;
    const pause = pauseOf(held.destination);
    if (held.onward || !pause) return false;
    const to = this.sets.othersOf(held.domain).find((key) => !pauseOf(key));
    if (to === undefined) return false;
    if (held.state === 'waiting') this.queue.redirect(held, to);
    else held.destination = to;
    held.onward = { rest: undefined, hosts: 0, pause };
    return true;
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

  repairSchedule(): Promise<number> {
    // Which of the two schedules a row follows is not in it.
    const longestMs = (attempts: number): number => Math.max(deliveryDelayMs(attempts), blockedDelayMs(attempts));
    const latestMs = Array.from({ length: STEPS }, (_, step) => Math.round(longestMs(step + 1) * SLACK));
    const clamp = { nowMs: this.#deps.clock.now(), latestMs, crashPauseMs: LONGEST_CRASH_PAUSE_MS };
    return this.#deps.database.execute(clampDueOperation, clamp);
  }

  async tick(): Promise<void> {
    this.connections.sweep();
    // Destinations rest while their time is not come; that passes unseen.
    this.#slots.wake();
    await this.#pauses.sync();
    await this.#resumes.bringForward();
    await this.putOff.count();
    await this.warmUp.giveBack();
    if (this.destinations.blocked().length > 0) await this.#notices({ hurry: false });
  }

  async stop(graceMs: number): Promise<void> {
    const { connections, engine, remover } = this;
    const { log } = this.#deps;
    connections.cancelOpening();
    const early = setTimeout(() => connections.cutBeforeDots(), Math.min(STOP_DOTS_MS, graceMs));
    const late = setTimeout(() => {
      log.warn({ trying: engine.running }, 'peers are too slow for the stop: sessions are cut');
      connections.destroyAll();
    }, graceMs);
    const unrecorded = await engine.stop(graceMs + STOP_RECORDING_MS);
    clearTimeout(early);
    clearTimeout(late);
    if (unrecorded > 0) log.error({ unrecorded }, 'stopped with results that are not recorded');
    const last = [connections.quitAll(), remover.idle(), this.warmUp.giveBack({ all: true })];
    await within(Promise.all(last), performance.now() + STOP_REMOVING_MS);
    remover.abandon();
    log.info({}, 'delivery stopped');
  }
}

export function startDelivery(deps: DeliveryDeps): Delivery {
  const worker = new DeliveryWorker(deps);
  const { engine, queue, schedule, destinations, connections } = worker;
  let stopping: Promise<void> | undefined;
  engine.begin();
  return {
    hasCapacity: (jobs, bytes) => engine.isOpen && worker.isReady && queue.room(engine.size, bytes) >= jobs,
    dispatch: (jobs, leaseUntilMs) => engine.receive(worker.itemsOf(jobs, leaseUntilMs)),
    nudge: () => engine.nudge(),
    state: () => ({
      window: engine.size,
      trying: engine.running,
      unrecorded: engine.unrecorded,
      connections: connections.total,
      paused: engine.isPaused,
      destinations: schedule.busiest(SHOWN_DESTINATIONS),
      pausedDestinations: destinations.paused().map(({ key, pause }) => ({ key, untilMs: pause!.untilMs })),
      blockedDestinations: destinations.blocked().map(({ key, pause }) => ({ key, sinceMs: pause!.blockedMs! })),
    }),
    published: () => publishedOf(worker),
    stop: () => {
      stopping ??= worker.stop(deps.stopGraceMs ?? STOP_GRACE_MS);
      return stopping;
    },
  };
}
