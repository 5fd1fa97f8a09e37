/**
 * Sends events to endpoints, as a kind of work of the engine (src/work/engine.ts). An attempt sends one signed event, or several to an
 * endpoint that takes batches (batch.ts), and the result of each is recorded. Delivery is at least once, and no endpoint delays another
 * (lanes.ts). The order is not guaranteed, except for the events of a recipient at an ordered endpoint (turns.ts).
 *
 * A stop starts no attempt; running ones end within the deadline of a request.
 */

import { LATEST_WEBHOOK_WAITS_MS } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Notify } from '../base/notice.ts';
import type { HttpClient } from '../net/http-client.ts';
import type { Database } from '../storage/database.ts';
import {
  type ClaimRequest,
  type ClaimResult,
  Engine,
  type EngineOptions,
  type FairQueue,
  type LaneGrant,
  type State,
  type WorkKind,
} from '../work/work.ts';
import {
  AttemptRunner,
  type AttemptRunnerDeps,
  type EndpointRequest,
  NOT_STARTED,
  type WebhookItem,
} from './attempt.ts';
import { BATCH_UNITS, batchLimit } from './batch.ts';
import { clampDueOperation } from './claim.ts';
import { type EndpointLane, EndpointLanes, LANE_LIMITS, type LaneLimits } from './lanes.ts';
import { sendDueNotices } from './notices.ts';
import { createPace } from './pace.ts';
import type { WebhookSettlement } from './settle.ts';

const CLAIM_BATCH = 256;
/** Rows of normal lanes in memory up to which claims follow each other. */
const LOW_ROWS = 1_000;
const MOST_ROWS = 4_000;
const NOTICES_EVERY_MS = 60_000;
const SLOW_AFTER_MS = 2_000;
/** A request ends within 15 s; then its result is recorded. */
const STOP_WITHIN_MS = 21_000;

export interface WebhookDeps extends EngineOptions, AttemptRunnerDeps {
  database: Database;
  /** Its connections per origin limit what several endpoints of one host share: allow some hundred. */
  http: HttpClient;
  /** Decides schedules; signatures carry the real time. */
  clock: Clock;
  metrics?: Pick<Metrics, 'webhookAttempts' | 'webhookLagSeconds'>;
  /** Notifies an account about its endpoints; without it, another process does. */
  notify?: Notify;
  limits?: LaneLimits;
}

export interface Webhooks extends Running {
  /** Call after every commit of events: hints at new work, and is cheap. */
  nudge(): void;
  /** Call when this process accepts mail: for a moment each account starts only a few attempts at a time (pace.ts). */
  giveWay(): void;
  /** Deliveries held. */
  leases(): number;
}

/** The fair queue of the engine, made of the lanes. */
class EndpointQueue implements FairQueue<WebhookItem> {
  readonly lanes: EndpointLanes<WebhookItem>;

  constructor(limits: LaneLimits) {
    this.lanes = new EndpointLanes(limits);
  }

  admit(item: WebhookItem, { first }: { first: boolean }): boolean {
    return this.lanes.admit(item.job.lane, item, { first, maxBatch: item.target?.maxBatch ?? 1 });
  }

  changed(item: WebhookItem, from: State): void {
    const { request } = item;
    if (from !== 'running' || !request) return;
    item.request = undefined;
    request.running -= 1;
    if (request.running === 0) this.lanes.ended(request.lane, request.isSlow, request.items.length);
  }

  capacity(): number {
    return this.lanes.normalRows < MOST_ROWS ? CLAIM_BATCH : 0;
  }

  isFed(): boolean {
    return this.lanes.normalRows > LOW_ROWS;
  }

  resumable(names: readonly string[]): LaneGrant[] {
    return names.map((lane) => ({ lane, limit: this.lanes.resumable(lane) })).filter(({ limit }) => limit > 0);
  }
}

/** Whether an event was in progress when a process crashed: it is sent alone, so that another crash shows whether it is the cause. */
function isAlone({ quarantined, job }: WebhookItem): boolean {
  return quarantined || job.crashes > 0;
}

class WebhookWorker implements WorkKind<WebhookItem, WebhookSettlement> {
  readonly crashDelayMs = 60_000;
  /** Every group of recorded results nudges webhooks; the gap keeps these checks cheap if no endpoint subscribes to them. */
  readonly claimGapMs = 20;
  readonly queue: EndpointQueue;
  readonly engine: Engine<WebhookItem, WebhookSettlement>;
  readonly pace = createPace(() => this.start());
  readonly #deps: WebhookDeps;
  readonly #runner: AttemptRunner;
  readonly #inFlight = new Set<EndpointRequest>();
  #noticesDueAt = 0;

  constructor(deps: WebhookDeps) {
    this.#deps = deps;
    this.#runner = new AttemptRunner(deps);
    this.queue = new EndpointQueue(deps.limits ?? LANE_LIMITS);
    this.engine = new Engine(deps, this);
  }

  get kind(): string {
    return this.#runner.kind;
  }

  async claim(request: ClaimRequest): Promise<ClaimResult<WebhookItem>> {
    const { freed, ...claimed } = await this.#runner.claim(request);
    if (freed > 0) this.engine.nudge();
    return claimed;
  }

  deadLetter(item: WebhookItem): WebhookSettlement {
    return this.#runner.deadLetter(item);
  }

  withoutAttempt(item: WebhookItem): WebhookSettlement | undefined {
    return this.#runner.withoutAttempt(item);
  }

  start(): void {
    const { lanes } = this.queue;
    const mayStart = ({ job, state }: WebhookItem): boolean => state !== 'waiting' || this.pace.allows(job.accountId);
    while (this.engine.isOpen) {
      const next = lanes.next(mayStart);
      if (!next) return;
      const { job: item, lane } = next;
      if (item.state !== 'waiting' || !this.engine.holds(item)) {
        lanes.ended(lane, lane.slow);
        // A process that was stopped may hold rows that others have taken over: the process that claims them sends them.
        if (item.state === 'waiting') this.engine.release(item);
        continue;
      }
      const items = [item, ...this.#companions(item, lane)];
      const request = { lane, items, running: items.length, startedMs: NOT_STARTED, isSlow: lane.slow };
      for (const one of items) one.request = request;
      this.pace.started(item.job.accountId);
      void this.#run(request);
    }
  }

  /** Takes the waiting events of the lane that are sent in the same request as its first one. */
  #companions(first: WebhookItem, lane: EndpointLane): WebhookItem[] {
    // The size of an event that is read at its attempt is not known: it is sent alone.
    const unitsOf = ({ job }: WebhookItem): number => job.event.body?.length ?? BATCH_UNITS;
    const companions: WebhookItem[] = [];
    // The lane may already have another limit, of rows that were claimed after a change of the endpoint.
    const limitOf = (item: WebhookItem): number =>
      isAlone(item) ? 1 : batchLimit(item.target!.maxBatch, item.job.attempts);
    let limit = limitOf(first);
    if (limit === 1) return companions;
    let units = unitsOf(first);
    const fits = (item: WebhookItem): boolean =>
      item.state === 'waiting' &&
      item.target === first.target &&
      this.engine.holds(item) &&
      units + unitsOf(item) <= BATCH_UNITS &&
      companions.length + 2 <= Math.min(limit, limitOf(item));
    for (let next = this.queue.lanes.join(lane, fits); next; next = this.queue.lanes.join(lane, fits)) {
      companions.push(next);
      units += unitsOf(next);
      limit = Math.min(limit, limitOf(next));
    }
    return companions;
  }

  async #run(request: EndpointRequest): Promise<void> {
    this.#inFlight.add(request);
    await this.engine.run(request.items, () => this.#attempt(request));
    this.#inFlight.delete(request);
    this.start();
  }

  async #attempt(request: EndpointRequest): Promise<void> {
    const { metrics } = this.#deps;
    const isUnchanged = await this.#runner.isUnchanged(request.items);
    // The read can take long, for example during a failover.
    const mayStart = this.engine.isOpen && request.items.every((item) => this.engine.holds(item));
    if (!isUnchanged || !mayStart) {
      for (const item of request.items) this.engine.release(item);
      if (!isUnchanged) this.#releaseWaiting(request.items[0]!.job.lane);
      return;
    }
    request.startedMs = performance.now();
    const results = await this.#runner.attemptTogether(request.items);
    request.isSlow = results.some(({ latencyMs }) => (latencyMs ?? 0) >= SLOW_AFTER_MS);
    for (const [index, settled] of results.entries()) {
      const item = request.items[index]!;
      this.engine.settle(item, settled);
      const succeeded = settled.result === 'succeeded';
      metrics?.webhookAttempts[succeeded ? 'succeeded' : 'failed'].inc();
      if (succeeded) metrics?.webhookLagSeconds.observe((settled.atMs - item.job.event.at) / 1000);
    }
  }

  async record(settled: WebhookSettlement[]): Promise<number[]> {
    const { lost, disabled, freed } = await this.#runner.settle(settled);
    if (freed > 0) this.engine.nudge();
    for (const webhookId of disabled) {
      this.#noticesDueAt = 0;
      this.#releaseWaiting(webhookId);
    }
    return lost;
  }

  /** Returns the waiting rows of a changed endpoint to the database: the next claim reads the endpoint, and ends them if it is disabled. */
  #releaseWaiting(webhookId: string): void {
    for (const item of this.queue.lanes.evict(webhookId)) if (item.state === 'waiting') this.engine.release(item);
  }

  isFinal({ result }: WebhookSettlement): boolean {
    return result !== 'retry';
  }

  repairSchedule({ isSetBack }: { isSetBack: boolean }): Promise<number> {
    const { database, clock } = this.#deps;
    const latestMs = latestWaits({ isSetBack });
    const clamp = { nowMs: clock.now(), latestMs, crashPauseMs: this.crashDelayMs };
    return database.execute(clampDueOperation, clamp);
  }

  /** Marks lanes with hanging attempts as slow, and sends due notices. */
  async tick(): Promise<void> {
    const before = performance.now() - SLOW_AFTER_MS;
    const hanging = new Set<EndpointLane>();
    for (const { startedMs, lane } of this.#inFlight) {
      if (startedMs !== NOT_STARTED && startedMs <= before && lane) hanging.add(lane);
    }
    for (const lane of hanging) {
      for (const item of this.queue.lanes.slowed(lane)) if (item.state === 'waiting') this.engine.park(item);
    }
    await this.#notify();
  }

  /** Immediately when an endpoint was disabled here, and periodically for notices left by other processes. */
  async #notify(): Promise<void> {
    const { database, clock, log, notify } = this.#deps;
    if (!notify || performance.now() < this.#noticesDueAt) return;
    this.#noticesDueAt = performance.now() + NOTICES_EVERY_MS;
    await sendDueNotices({ database, clock, log, notify });
  }
}

export function startWebhooks(deps: WebhookDeps): Webhooks {
  const { engine, pace } = new WebhookWorker(deps);
  engine.begin();
  return {
    nudge: () => engine.nudge(),
    giveWay: pace.giveWay,
    leases: () => engine.size,
    stop: async () => {
      pace.stop();
      await engine.stop(STOP_WITHIN_MS);
    },
  };
}

/** The longest wait that Retry-After can request; the requested wait is unknown at a start. */
const LATEST_RETRY_MS = 24 * 3_600_000;

/** The longest wait after attempt n (index n - 1); if the clock was set back, Retry-After is not considered. */
function latestWaits({ isSetBack }: { isSetBack: boolean }): number[] {
  return LATEST_WEBHOOK_WAITS_MS.map((waitMs) => Math.max(waitMs, isSetBack ? 0 : LATEST_RETRY_MS));
}
