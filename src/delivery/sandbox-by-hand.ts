/**
 * Plays an outcome on a message of the sandbox because its account says so: what is still waiting has its attempt now, with
 * this outcome; what was delivered may bounce late or be complained about. What the states of a message do not allow is a
 * CONFLICT and changes nothing.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { failure } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { type DeliveryJob, type MessageStatus, SIMULATED_SUPPRESSED } from '../messages/messages.ts';
import type { SandboxPlay } from '../sandbox/sandbox.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import { classify } from './outcome.ts';
import { playLateOperation, type TakenOne, takeSandboxMessageOperation } from './sandbox-store.ts';
import { type Settlement, settleOperation } from './settle.ts';
import { failureDetail, suppressedSettlementOf } from './settlement.ts';
import { COMPLAINT, HOST, playSandbox, replyOfPlay, SHOWN } from './to-sandbox.ts';

export interface PlayByHandDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  random?: () => number;
}

/** NOT_FOUND for a message that the account's sandbox does not have, CONFLICT where its state does not allow the outcome. */
export type PlayByHand = (
  key: { accountId: string; messageId: string },
  play: SandboxPlay,
) => Promise<Result<undefined>>;

const LEASE_MS = 30_000;
/** An attempt of the sandbox is over within moments. */
const HELD_FOR_MS = 5_000;
const LOOK_EVERY_MS = 10;

function conflict(reason: string) {
  return refuse(failure('CONFLICT', { message: `The outcome cannot be played: ${reason}.` }));
}

export function createPlayByHand(deps: PlayByHandDeps): PlayByHand {
  const { database, clock } = deps;

  const takeOne = async (key: { accountId: string; messageId: string }): Promise<TakenOne> => {
    const latest = performance.now() + HELD_FOR_MS;
    for (;;) {
      const nowMs = clock.now();
      const taken = await database.execute(takeSandboxMessageOperation, { ...key, nowMs, leaseMs: LEASE_MS });
      if (taken.found !== 'held' || performance.now() > latest) return taken;
      await sleep(LOOK_EVERY_MS);
    }
  };

  const settle = async (settlement: Settlement): Promise<Result<undefined>> => {
    const { lost, blobKeys } = await database.execute(settleOperation, [settlement]);
    // A blob that stays is an orphan and is swept later.
    for (const key of blobKeys) await deps.blobs.remove(key).catch(() => undefined);
    return lost.length === 0 ? ok(undefined) : conflict('the message is being sent right now');
  };

  return async (key, play) => {
    const taken = await takeOne(key);
    if (taken.found === 'nothing') {
      return refuse(failure('NOT_FOUND', { message: 'The inbox holds no message with this id.' }));
    }
    if (taken.found === 'held') return conflict('the message is being sent right now');
    const nowMs = clock.now() + taken.clockOffsetMs;
    if (taken.found === 'job')
      return settle(settlementOf(taken.job, { play, nowMs, random: deps.random ?? Math.random }));
    const late = lateOutcome(play, nowMs);
    const played = late && (await database.execute(playLateOperation, { ...key, ...late, atMs: nowMs }));
    return played ? ok(undefined) : conflict(notAllowed(taken.status));
  };
}

function notAllowed(status: MessageStatus): string {
  const may = status === 'delivered' ? '; it may only bounce or be complained about now' : '';
  return `the message is ${status}${may}`;
}

function settlementOf(
  job: DeliveryJob,
  { play, nowMs, random }: { play: SandboxPlay; nowMs: number; random: () => number },
): Settlement {
  if (play.kind === 'word' && play.word === 'suppressed')
    return suppressedSettlementOf(job, nowMs, SIMULATED_SUPPRESSED);
  // A delay that is asked for is reported each time, the first one and any other.
  return playSandbox({ ...job, status: 'queued' }, { play, nowMs, random: random() });
}

/** What can still happen to a message that was settled. */
function lateOutcome(play: SandboxPlay, nowMs: number) {
  const id = newId('evt', nowMs);
  if (play.kind === 'word' && play.word === 'complained') {
    const event = { id, type: 'Complaint' as const, detail: COMPLAINT };
    return { to: 'complained' as const, event, sandboxOutcome: SHOWN.complained };
  }
  const reply = replyOfPlay(play);
  const outcome = { ...classify({ stage: 'rcpt', reply, relay: false }), suppress: false };
  if (outcome.kind !== 'permanent' || (play.kind === 'word' && play.word !== 'bounced')) return undefined;
  const event = { id, type: 'Bounce' as const, detail: { bounce: failureDetail(outcome, { host: HOST }) } };
  return { to: 'bounced' as const, event, sandboxOutcome: SHOWN.bounced };
}
