/**
 * Carries out erasures, one at a time in this process: each step finds rows by a read, and removes them in a small transaction. Between
 * steps it pauses, so that sending never waits. A step that meets a message in delivery is repeated until the result is recorded.
 */
import { setTimeout } from 'node:timers/promises';
import { changedBy, systemOrigin } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { idFloor } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import { type Rounds, startRounds } from '../base/rounds.ts';
import { open } from '../base/seal.ts';
import { sameAddressKey } from '../mail/address.ts';
import { catchUp } from '../statistics/statistics.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import { DEAD_LETTER_AFTER_CRASHES, isFreeOnly } from '../work/work.ts';
import {
  findInboundOperation,
  findMessagesOperation,
  findReceivingOperation,
  findTextsOperation,
  type Key,
  type Look,
} from './find-store.ts';
import {
  removeInboundOfOperation,
  removeMessagesOperation,
  removeReceivingOperation,
  removeTextsOperation,
  type Step,
  type StepResult,
} from './remove-store.ts';
import {
  advanceErasureOperation,
  type ClaimedErasure,
  claimErasureOperation,
  completeErasureOperation,
  PARTS,
  type Progress,
  postponeErasureOperation,
  sealContext,
} from './store.ts';

/** A new erasure wakes the worker; rounds find what a failure, a restart or another node left. */
const ROUND_MS = 15_000;
/** A step takes milliseconds, and extends the lease. */
const LEASE_MS = 20_000;
/** Rows read per step: some milliseconds of the reader thread. */
const SCAN = 1_000;
/** Rows found per read. */
const FOUND = 500;
/** Rows removed per transaction: each may be an email with 50 copies. */
const BATCH = 20;
const PAUSE_MS = 5;
/** When a step is repeated that met a message in delivery, and one that failed. */
const BUSY_MS = 2_000;
const FAILED_MS = 60_000;
/** After the last of several crashes without a completed step, so that an erasure cannot prevent the start. */
const CRASHED_MS = 3_600_000;
/** Mail that was being accepted when the erasure started has ids of at most this time before. */
const ACCEPTING_MS = 3_600_000;
const COUNT_MS = 2_000;

export interface ErasureDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  /** The service's secret key (32 bytes). */
  secretKey: Uint8Array;
  everyMs?: number;
}

export function startErasures(deps: ErasureDeps): Rounds {
  const rounds = startRounds({
    name: 'erasure',
    everyMs: deps.everyMs ?? ROUND_MS,
    log: deps.log,
    round: (isStopping) => eraseDue(deps, isStopping),
  });
  // The process before this one may have left an erasure.
  void rounds.run();
  return rounds;
}

async function eraseDue(deps: ErasureDeps, isStopping: () => boolean): Promise<void> {
  const { database, clock, log } = deps;
  while (!isStopping()) {
    const limits = { nowMs: clock.now(), leaseMs: LEASE_MS, freeOnly: isFreeOnly(database.state()) };
    const claimed = await database.execute(claimErasureOperation, limits);
    if (claimed === null) return;
    const { id, seq, fence, accountId } = claimed;
    let postponeMs = 0;
    try {
      if (claimed.crashes >= DEAD_LETTER_AFTER_CRASHES)
        throw new Error('the process crashed repeatedly during this erasure');
      const outcome = await erase(deps, claimed, isStopping);
      if (outcome === 'completed') log.info({ erasureId: id, accountId }, 'recipient erased');
      if (outcome === 'completed' || outcome === 'lost') continue;
      postponeMs = outcome === 'busy' ? BUSY_MS : 0;
    } catch (error) {
      log.error({ erasureId: id, accountId, error: (error as Error).message }, 'erasure failed; retrying');
      postponeMs = claimed.crashes >= DEAD_LETTER_AFTER_CRASHES ? CRASHED_MS : FAILED_MS;
    }
    const dueMs = clock.now() + postponeMs;
    await database.execute(postponeErasureOperation, { lease: { seq, fence }, dueMs });
  }
}

/** `stopping`: the process stops, and the erasure continues where it is. */
type Outcome = 'completed' | 'busy' | 'lost' | 'stopping';

async function erase(deps: ErasureDeps, claimed: ClaimedErasure, isStopping: () => boolean): Promise<Outcome> {
  const { database, clock, blobs } = deps;
  const { id, seq, fence, accountId, mode } = claimed;
  const lease = { seq, fence };
  const owner = { accountId, mode };
  const address = open(deps.secretKey, claimed.addressSealed, sealContext(id)).toString();
  const held = () => ({ id, lease, nowMs: clock.now(), leaseMs: LEASE_MS });
  let progress = JSON.parse(claimed.progress) as Progress;
  /** No row names them since the last step; the erasure does, until they are removed. */
  const removeBlobs = async (): Promise<void> => {
    for (const key of progress.blobKeys) await blobs.remove(key);
    progress = { ...progress, blobKeys: [] };
  };
  await removeBlobs();
  for (;;) {
    if (isStopping()) return 'stopping';
    const look = { ...owner, address, after: startOf(progress, claimed), rows: SCAN, limit: FOUND };
    const found = await find(database, look, progress);
    const next = following(progress, found.after);
    if (next === undefined && found.keys.length === 0) {
      const email = sameAddressKey(address);
      const changes = changedBy(database, { ...systemOrigin(clock.now(), accountId), mode });
      const completion = { ...owner, id, lease, email, progress, nowMs: clock.now() };
      return (await changes.execute(completeErasureOperation, completion)) ? 'completed' : 'lost';
    }
    // The end of the last part is examined again, until it has nothing left to remove.
    const end = next ?? progress;
    if (found.keys.length === 0) {
      if (!(await database.execute(advanceErasureOperation, { ...held(), progress: end }))) return 'lost';
      progress = end;
    }
    for (let from = 0; from < found.keys.length; from += BATCH) {
      if (isStopping()) return 'stopping';
      const to = Math.min(from + BATCH, found.keys.length);
      const position = to === found.keys.length ? end : { ...progress, after: found.keys[to - 1]! };
      const { blobKeys, removed } = progress;
      const step = { ...held(), ...owner, address, progress: { ...position, blobKeys, removed } };
      const result = await found.remove(from, to, step);
      if (result.outcome !== 'done') return result.outcome;
      ({ progress } = result);
      await removeBlobs();
      await setTimeout(PAUSE_MS);
    }
  }
}

interface FoundRows {
  /** Keys of the rows that were found, in order. */
  keys: readonly Key[];
  /** The key to continue after; null at the end of the part. */
  after: Key | null;
  /** Removes the rows from one index to another, exclusive. */
  remove(from: number, to: number, step: Step): Promise<StepResult>;
}

function startOf({ part, after }: Progress, { createdAt }: ClaimedErasure): Key | null {
  return after ?? (part === 'newMessages' ? [idFloor('msg', Math.max(0, createdAt - ACCEPTING_MS))] : null);
}

/** Returns the position after the rows that were examined; undefined at the end of the last part. */
function following(progress: Progress, after: Key | null): Progress | undefined {
  if (after !== null) return { ...progress, after };
  const part = PARTS[PARTS.indexOf(progress.part) + 1];
  return part && { ...progress, part, after: null };
}

async function find(database: Database, look: Look, { part }: Progress): Promise<FoundRows> {
  switch (part) {
    case 'messages':
    case 'newMessages': {
      const { found, after } = await database.execute(findMessagesOperation, look);
      // Statistics keep what they have counted, so events are counted before they are removed.
      if (found.length > 0) await catchUp(database, look, performance.now() + COUNT_MS);
      return {
        keys: found.map(({ id }) => [id]),
        after,
        remove: (from, to, step) =>
          database.execute(removeMessagesOperation, { ...step, found: found.slice(from, to) }),
      };
    }
    case 'receiving':
    case 'inbound': {
      const isRead = part === 'inbound';
      const { found, after } = await database.execute(isRead ? findInboundOperation : findReceivingOperation, look);
      const ids = found.map(({ id }) => id);
      const removal = isRead ? removeInboundOfOperation : removeReceivingOperation;
      return {
        keys: ids.map((id) => [id]),
        after,
        remove: (from, to, step) => database.execute(removal, { ...step, ids: ids.slice(from, to) }),
      };
    }
    default: {
      const { found: keys, after } = await database.execute(findTextsOperation, { ...look, part });
      return {
        keys,
        after,
        remove: (from, to, step) =>
          database.execute(removeTextsOperation, { ...step, part, keys: keys.slice(from, to) }),
      };
    }
  }
}
