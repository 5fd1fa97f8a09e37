/**
 * Sandbox messages whose attempts come due while the account's clock is moved, or whose outcome is set manually: runs the simulated server
 * by that clock, and records the result as the worker does.
 *
 * A manual outcome gives a waiting message its attempt now; a delivered message can bounce late or get a complaint. If the state of the
 * message does not allow the outcome, the result is CONFLICT and nothing changes.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { SHORTEST_DELIVERY_WAITS_MS } from '../../base/backoff.ts';
import type { Clock } from '../../base/clock.ts';
import { failure, ok, type Result, refuse } from '../../base/failure.ts';
import { newId } from '../../base/ids.ts';
import type { Log } from '../../base/log.ts';
import { DELIVERY_WORK, type DeliveryJob, type MessageStatus, SIMULATED_SUPPRESSED } from '../../messages/messages.ts';
import type { SandboxKind, SimulatedOutcome } from '../../sandbox/sandbox.ts';
import type { Blobs } from '../../storage/blobs/blobs.ts';
import { createBlobRemover } from '../../storage/blobs/remove.ts';
import type { Database } from '../../storage/database.ts';
import { claimChosen, timeOf } from '../../work/work.ts';
import { classify } from '../outcome/outcome.ts';
import { claimOperation } from '../queue/claim.ts';
import { type DeliveryItem, deliveryItemOf } from '../queue/delivery-item.ts';
import { failureDetail, type ResultMetrics, Results, suppressedSettlementOf } from '../record/results.ts';
import type { Settlement } from '../record/settle.ts';
import { SANDBOX } from '../routing/route.ts';
import { COMPLAINT, HOST, SHOWN, simulatedReply, simulateSandbox } from './simulate.ts';
import { findSandboxMessageOperation, simulateLateOperation } from './store.ts';

const MOST = 200;

export interface SandboxDeliveryDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  metrics?: ResultMetrics;
  /** Uniform in [0, 1), for the jitter of retries. */
  random?: () => number;
}

export type SandboxDeliveries = SandboxKind<DeliveryItem, Settlement>;

export function createSandboxDeliveries(deps: SandboxDeliveryDeps): SandboxDeliveries {
  const { random = Math.random } = deps;
  const results = new Results({
    ...deps,
    random,
    remover: createBlobRemover(deps),
    registry: { pauseOf: () => undefined },
    relayLimits: { turnAfter: () => undefined },
  });
  return {
    kind: DELIVERY_WORK,
    shortestWaitsMs: SHORTEST_DELIVERY_WAITS_MS,
    most: MOST,
    claim: async (request) => {
      const { jobs, taken } = await deps.database.execute(claimOperation, request);
      const place = {
        hop: { destination: SANDBOX },
        domain: SANDBOX,
        claimedMs: request.nowMs,
        leaseUntilMs: request.nowMs + request.leaseMs,
      };
      return { items: jobs.map((job) => deliveryItemOf(job, place)), taken, overQuota: [] };
    },
    deadLetter: (item) => results.deadLetter(item),
    withoutAttempt: (item) => results.withoutAttempt(item),
    attempt: (item) => simulateSandbox(item.job, { nowMs: results.nowOf(item), random: random() }),
    record: (settlements) => results.record(settlements),
  };
}

export interface OutcomeSimulatorDeps {
  database: Database;
  clock: Clock;
  deliveries: SandboxDeliveries;
  random?: () => number;
}

/** NOT_FOUND if the account's sandbox does not have the message, CONFLICT if its state does not allow the outcome. */
export type OutcomeSimulator = (
  key: { accountId: string; messageId: string },
  simulated: SimulatedOutcome,
) => Promise<Result<undefined>>;

const LEASE_MS = 30_000;
/** A sandbox attempt takes only moments. */
const HELD_FOR_MS = 5_000;
const LOOK_EVERY_MS = 10;
const BEING_SENT = 'the message is being sent right now';

function conflict(reason: string) {
  return refuse(failure('CONFLICT', { message: `The outcome cannot be simulated: ${reason}.` }));
}

export function createOutcomeSimulator({
  database,
  clock,
  deliveries,
  random = Math.random,
}: OutcomeSimulatorDeps): OutcomeSimulator {
  /** Leases the message if it still waits and is not leased elsewhere. */
  const take = async (key: { accountId: string; messageId: string }) => {
    const latest = performance.now() + HELD_FOR_MS;
    for (;;) {
      const found = await database.execute(findSandboxMessageOperation, key);
      if (!found || found.seq === null) return { found };
      const lease = { nowMs: clock.now(), leaseMs: LEASE_MS };
      const [item] = await claimChosen(deliveries, [{ seq: found.seq, fence: found.fence }], lease);
      if (item || performance.now() > latest) return { found, item };
      await sleep(LOOK_EVERY_MS);
    }
  };

  return async (key, simulated) => {
    const { found, item } = await take(key);
    if (!found) return refuse(failure('NOT_FOUND', { message: 'No message in the inbox has this id.' }));
    if (item) {
      const settlement = settlementOf(item.job, { simulated, nowMs: timeOf(item, clock), random });
      const lost = await deliveries.record([settlement]);
      return lost.length === 0 ? ok(undefined) : conflict(BEING_SENT);
    }
    if (found.seq !== null) return conflict(BEING_SENT);
    const nowMs = clock.now() + found.clockOffsetMs;
    const late = lateOutcome(simulated, nowMs);
    const isSimulated = late && (await database.execute(simulateLateOperation, { ...key, ...late, atMs: nowMs }));
    return isSimulated ? ok(undefined) : conflict(notAllowed(found.status));
  };
}

function notAllowed(status: MessageStatus): string {
  const may = status === 'delivered' ? '; only bounced and complained are possible now' : '';
  return `the message is ${status}${may}`;
}

function settlementOf(
  job: DeliveryJob,
  { simulated, nowMs, random }: { simulated: SimulatedOutcome; nowMs: number; random: () => number },
): Settlement {
  if (simulated.kind === 'word' && simulated.word === 'suppressed')
    return suppressedSettlementOf(job, nowMs, SIMULATED_SUPPRESSED);
  // A delay that was requested is reported every time.
  return simulateSandbox({ ...job, status: 'queued' }, { simulated, nowMs, random: random() });
}

/** Returns what can still happen to a settled message. */
function lateOutcome(simulated: SimulatedOutcome, nowMs: number) {
  const id = newId('evt', nowMs);
  if (simulated.kind === 'word' && simulated.word === 'complained') {
    const event = { id, type: 'Complaint' as const, detail: COMPLAINT };
    return { to: 'complained' as const, event, sandboxOutcome: SHOWN.complained };
  }
  const reply = simulatedReply(simulated);
  const outcome = { ...classify({ stage: 'rcpt', reply, relay: false }), suppress: false };
  if (outcome.kind !== 'permanent' || (simulated.kind === 'word' && simulated.word !== 'bounced')) return undefined;
  const bounce = { ...failureDetail(outcome, { host: HOST }), late: true };
  const event = { id, type: 'Bounce' as const, detail: { bounce } };
  return { to: 'bounced' as const, event, sandboxOutcome: SHOWN.bounced };
}
