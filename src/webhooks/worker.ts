/**
 * Carries events to endpoints: claims due work in batches, sends each event signed, and writes down what came of it.
 * At least once, in no promised order, and no endpoint waits for another (lanes.ts). A window of the backlog is in
 * memory, whatever its size; the rest stays in the store, rows of full lanes set aside so that claims look past them.
 *
 *   claim ─▶ lane (waiting) ─▶ in flight ─▶ settle: finished | due again | failed
 *              └─ full: held, freed again when the lane drains
 *
 * A nudge makes the next claim come at once; polling alone is correct. Stop: no new attempts, those under way end within
 * the deadline of a request, the rest is given back.
 */
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { WEBHOOK_WORK } from '../events/events.ts';
import type { HttpClient, HttpOutcome } from '../net/http-client.ts';
import type { Database } from '../storage/database.ts';
import { DEAD_LETTER_AFTER_CRASHES, isFreeOnly, isQuarantined, parkedLanesOperation } from '../work/work.ts';
import { createAlarm } from './alarm.ts';
import { watchClock } from './clock-watch.ts';
import { createLanes, LANE_LIMITS, type Lane, type LaneLimits } from './lanes.ts';
import { createLeases, LEASE_MS } from './leases.ts';
import { createMarks } from './marks.ts';
import { giveNotices, type Notify } from './notices.ts';
import { createPace } from './pace.ts';
import { postEvent } from './request.ts';
import { settledOf, type Tellable, untriedOf } from './settled.ts';
import { createSettler } from './settler.ts';
import type { EndpointTarget } from './store.ts';
import { createTargets, type Target } from './targets.ts';
import { type ClaimedBatch, claimOperation, type SettleAnswer, type SettleRequest } from './work-store.ts';

const HOUSEKEEPING_MS = 1_000;
const SWEEP_LANES = 1_000;
const CLAIM_BATCH = 256;
/** Rows of one claim that a lane must have had no room for to be called crowding. */
const CROWDING_ROWS = CLAIM_BATCH / 4;
/** Rows of normal lanes in memory up to which claims follow each other. */
const LOW_ROWS = 1_000;
const MOST_ROWS = 4_000;
/** Beyond LOW_ROWS the store is still looked at so often, for endpoints behind a long row of somebody else's. */
const LOOK_PAST_MS = 100;
/** Between two claims that found little: lets events of one moment come in one batch. */
const CLAIM_GAP_MS = 4;
const NOTICES_EVERY_MS = 60_000;
const SLOW_AFTER_MS = 2_000;
const CRASH_DELAY_MS = 60_000;
const STOP_PATIENCE_MS = 5_000;
/** What was being sent when the process died is sent again when everything else has had this time to flow. */
const QUARANTINE_AFTER_MS = 15_000;
/** As the start of what has not started. */
const WAITS = Number.POSITIVE_INFINITY;

export interface WebhookDeps {
  database: Database;
  /** Its connections per origin bound what many endpoints of one host share: give it some hundred. */
  http: HttpClient;
  /** Decides schedules; signatures carry the real time. */
  clock: Clock;
  log: Log;
  /** The service's key that seals secrets. */
  secretKey: Uint8Array;
  metrics?: Pick<Metrics, 'webhookAttempts' | 'webhookLagSeconds'>;
  /** Tells an account what became of its endpoints; without it that is left to another process. */
  notify?: Notify;
  /** Uniform in [0, 1), for jitter; default Math.random. */
  random?: () => number;
  limits?: LaneLimits;
  pollMs?: number;
  quarantineAfterMs?: number;
}

export interface Webhooks extends Running {
  /** There may be new work; cheap, call it after every commit of events. */
  nudge(): void;
  /** This process accepts mail: for a moment each account starts its attempts a few at a time (pace.ts). */
  giveWay(): void;
}

interface Carried extends Tellable {
  target: Target;
  leaseUntilMs: number;
  startedMs: number;
  lost: boolean;
  /** Counts as the one row that is tried alone. */
  alone: boolean;
}

export function startWebhooks(deps: WebhookDeps): Webhooks {
  const { database, clock, log } = deps;
  const random = deps.random ?? Math.random;
  const limits = deps.limits ?? LANE_LIMITS;
  const pollMs = deps.pollMs ?? 1_000;
  const lanes = createLanes<Carried>(limits);
  const targets = createTargets(deps.secretKey);
  /** In order of their start. */
  const flying = new Map<Carried, Lane<Carried>>();
  const settler = createSettler({ database, clock, log, onSettled });
  const alarm = createAlarm();
  const leases = createLeases<Carried>(database, settler.pending);
  const mark = createMarks<Carried>({ write: leases.mark, open: () => !stopping, onCleared: clear });
  const heedClock = watchClock({ clock, database, log, crashPauseMs: CRASH_DELAY_MS });
  const pace = createPace(pump);
  const mayStart = (job: Carried): boolean => pace.allows(job.accountId);
  const startedAt = performance.now();
  let stopping = false;
  let quarantined = 0;
  let crowding: string[] = [];
  let landed: (() => void) | undefined;

  function pump(): void {
    while (!stopping && !settler.blocked()) {
      const next = lanes.next(mayStart);
      if (!next) return;
      // A process that stood still may hold rows that others have taken over meanwhile: whoever claims them sends them.
      if (!next.job.lost && clock.now() < next.job.leaseUntilMs) void attempt(next.lane, next.job);
      else {
        lanes.ended(next.lane, next.lane.slow);
        leave(next.job);
      }
    }
  }

  /** The job is in our hand no more. */
  function leave(job: Carried): void {
    leases.drop(job);
    clear(job);
  }

  function clear(job: Carried): void {
    if (!job.alone) return;
    job.alone = false;
    quarantined -= 1;
    // The next one may come; after many crashes there are many.
    alarm.nudge();
  }

  async function attempt(lane: Lane<Carried>, job: Carried): Promise<void> {
    job.startedMs = WAITS;
    flying.set(job, lane);
    pace.started(job.accountId);
    let slow = lane.slow;
    let unmark: (() => void) | undefined;
    try {
      unmark = await mark(job);
      if (unmark === undefined) throw new Unavailable('the process stops');
      job.startedMs = performance.now();
      const outcome = await postEvent({ http: deps.http, target: job.target, event: job.event, nowMs: clock.now() });
      slow = outcome.latencyMs >= SLOW_AFTER_MS;
      settleOutcome(job, outcome);
    } catch (error) {
      failed(job, error as Error);
    }
    unmark?.();
    flying.delete(job);
    leave(job);
    lanes.ended(lane, slow);
    freeHeld(lane);
    pump();
    if (lanes.normalRows() <= LOW_ROWS) alarm.roomMade();
    if (flying.size === 0) landed?.();
  }

  function failed(job: Carried, error: Error): void {
    if (error instanceof Unavailable) {
      settler.release(job);
      return;
    }
    log.error({ webhook: job.webhookId, event: job.event.id, cause: error.stack }, 'webhook attempt failed');
    settler.crashed(job, clock.now() + CRASH_DELAY_MS);
  }

  function settleOutcome(job: Carried, outcome: HttpOutcome): void {
    const { clockOffsetMs } = job;
    const nowMs = clock.now() + clockOffsetMs;
    const settled = settledOf(job, { outcome, url: job.target.url, nowMs, clockOffsetMs, random: random() });
    settler.settle(settled);
    if (settled.result === 'succeeded') {
      deps.metrics?.webhookAttempts.succeeded.inc();
      deps.metrics?.webhookLagSeconds.observe((nowMs - job.event.at) / 1000);
    } else {
      deps.metrics?.webhookAttempts.failed.inc();
    }
  }

  function settleUntried(job: Tellable, error: string): void {
    settler.settle(untriedOf(job, { nowMs: clock.now() + job.clockOffsetMs, error }));
  }

  /** undefined when its secret does not open, so that one bad row spoils no other's delivery. */
  function targetOf(row: EndpointTarget): Target | undefined {
    try {
      return targets(row);
    } catch (error) {
      log.error({ webhook: row.id, cause: (error as Error).message }, 'webhook secret does not open');
      return undefined;
    }
  }

  function setAside(job: Carried): void {
    settler.park(job);
    lanes.markHeld(job.webhookId);
    leave(job);
  }

  /** Asks for the lane's held rows once half of its window is free. */
  function freeHeld(lane: Lane<Carried>): void {
    const window = lane.slow ? limits.slowWindow : limits.window;
    const room = lanes.room(lane.id);
    if (!lane.held || stopping || room * 2 < window) return;
    // Marked again by onSettled when there are more, or by the next row that is set aside.
    lane.held = false;
    settler.resume(lane.id, room);
  }

  function onSettled(request: SettleRequest, answer: SettleAnswer): void {
    for (const webhookId of answer.disabled) {
      log.warn({ webhook: webhookId }, 'webhook endpoint disabled');
      lookForNoticesAt = 0;
      // The next claim ends them as failed.
      for (const job of lanes.evict(webhookId)) giveBack(job);
    }
    for (const [index, { lane, limit }] of request.resume.entries()) {
      if (answer.resumed[index]! >= limit) lanes.markHeld(lane);
    }
    if (answer.resumed.some((count) => count > 0)) alarm.nudge();
    pump();
  }

  function giveBack(job: Carried): void {
    settler.release(job);
    leave(job);
  }

  /** Takes a batch into the lanes; answers those that had no room for many of its rows. */
  function admit(batch: ClaimedBatch, leaseUntilMs: number): string[] {
    const setAsideOf = new Map<string, number>();
    const events = new Map(batch.events.map((event) => [event.seq, event]));
    const rows = new Map(batch.targets.map((row) => [row.id, row]));
    for (const row of batch.jobs) {
      if (leases.adopt(row, leaseUntilMs)) continue;
      const event = events.get(row.eventSeq)!;
      if (row.crashes >= DEAD_LETTER_AFTER_CRASHES) {
        settleUntried({ ...row, event }, 'our side failed over this delivery three times; retry it by hand');
        continue;
      }
      const target = targetOf(rows.get(row.webhookId)!);
      if (!target) {
        settleUntried({ ...row, event }, 'the secret of this endpoint cannot be read any more; rotate it and retry');
        continue;
      }
      const job: Carried = {
        ...row,
        event,
        target,
        leaseUntilMs,
        startedMs: 0,
        lost: false,
        alone: isQuarantined(row),
      };
      if (job.alone) quarantined += 1;
      leases.take(job);
      if (stopping) giveBack(job);
      else if (!lanes.admit(job.webhookId, job, { first: isQuarantined(job) })) {
        setAside(job);
        setAsideOf.set(job.webhookId, (setAsideOf.get(job.webhookId) ?? 0) + 1);
      }
    }
    pump();
    return [...setAsideOf].filter(([, count]) => count >= CROWDING_ROWS).map(([laneId]) => laneId);
  }

  async function claimOnce(): Promise<number> {
    const nowMs = clock.now();
    await leases.beforeClaim(nowMs);
    const leaseUntilMs = nowMs + LEASE_MS;
    crowding = crowding.filter((laneId) => lanes.room(laneId) === 0);
    const batch = await database.execute(claimOperation, {
      nowMs,
      leaseMs: LEASE_MS,
      limit: CLAIM_BATCH,
      quarantined:
        quarantined === 0 && performance.now() - startedAt >= (deps.quarantineAfterMs ?? QUARANTINE_AFTER_MS),
      freeOnly: isFreeOnly(database.state()),
      crowding,
    });
    for (const laneId of crowding) lanes.markHeld(laneId);
    crowding = [...batch.crowding, ...admit(batch, leaseUntilMs)];
    return batch.taken;
  }

  async function claimLoop(): Promise<void> {
    while (!stopping) {
      if (settler.blocked() || lanes.normalRows() >= MOST_ROWS) {
        await alarm.sleep(LOOK_PAST_MS, 'room');
        continue;
      }
      let taken = 0;
      try {
        taken = await claimOnce();
      } catch (error) {
        log.warn({ cause: (error as Error).message }, 'webhook work cannot be claimed');
        await alarm.sleep(pollMs, 'stop');
        continue;
      }
      if (taken < CLAIM_BATCH) {
        await alarm.sleep(CLAIM_GAP_MS, 'stop');
        await alarm.sleep(pollMs, 'nudge');
      } else if (lanes.normalRows() > LOW_ROWS && crowding.length === 0) {
        await alarm.sleep(LOOK_PAST_MS, 'room');
      }
    }
  }

  /** Marks lanes whose attempts hang, keeps leases, and finds rows that others set aside: a replay, or a process before this one. */
  async function housekeep(): Promise<void> {
    while (!stopping) {
      markSlow();
      try {
        await leases.keep(clock.now());
        await heedClock();
        await lookForNotices();
        await sweepHeld();
      } catch (error) {
        log.warn({ cause: (error as Error).message }, 'webhook leases cannot be kept');
      }
      await alarm.sleep(HOUSEKEEPING_MS, 'stop');
    }
  }

  function markSlow(): void {
    const before = performance.now() - SLOW_AFTER_MS;
    const hanging = new Set<Lane<Carried>>();
    for (const [job, lane] of flying) {
      if (job.startedMs === WAITS) continue;
      if (job.startedMs > before) break;
      hanging.add(lane);
    }
    for (const lane of hanging) for (const job of lanes.slowed(lane)) setAside(job);
    if (hanging.size > 0) pump();
  }

  let lookForNoticesAt = 0;
  /** At once when an endpoint was disabled here, and now and then for what other processes have left. */
  async function lookForNotices(): Promise<void> {
    const { notify } = deps;
    if (!notify || performance.now() < lookForNoticesAt) return;
    lookForNoticesAt = performance.now() + NOTICES_EVERY_MS;
    await giveNotices({ database, clock, log, notify });
  }

  let sweptLane = '';
  async function sweepHeld(): Promise<void> {
    // Each sweep goes on where the last one ended, so that every lane has its turn however many there are.
    const page = await database.execute(parkedLanesOperation, {
      kind: WEBHOOK_WORK,
      after: sweptLane,
      limit: SWEEP_LANES,
    });
    sweptLane = page.length < SWEEP_LANES ? '' : page.at(-1)!;
    for (const laneId of page) {
      const lane = lanes.find(laneId);
      const window = lane?.slow ? limits.slowWindow : limits.window;
      const room = lanes.room(laneId);
      if (room * 2 >= window) settler.resume(laneId, room);
    }
  }

  const loops = [claimLoop(), housekeep()];
  let stopped: Promise<void> | undefined;

  async function stop(): Promise<void> {
    stopping = true;
    pace.stop();
    alarm.stop();
    await Promise.all(loops);
    for (const job of lanes.evictAll()) giveBack(job);
    if (flying.size > 0) {
      await new Promise<void>((resolve) => {
        landed = resolve;
      });
    }
    await settler.drained(STOP_PATIENCE_MS);
  }

  return {
    nudge: alarm.nudge,
    giveWay: pace.giveWay,
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}
