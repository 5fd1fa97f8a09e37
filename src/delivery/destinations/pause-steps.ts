/**
 * The length of a destination's pauses, one after another until a probe succeeds: as long as its peer asks for, otherwise longer each time;
 * and when mail starts to use the fallback route. Pure.
 */

import type { PauseRequest } from '../outcome/pause.ts';
import type { Refusal } from '../outcome/signal.ts';

const MINUTE_MS = 60_000;
const LADDER_MS = [1, 2, 5, 10, 20].map((minutes) => minutes * MINUTE_MS);
const FIRST_BLOCKED_MS = 15 * MINUTE_MS;
const BLOCKED_MS = 60 * MINUTE_MS;
/** After a block of this length, mail uses the fallback route. */
export const FALLBACK_AFTER_MS = 15 * MINUTE_MS;
/** A refusal is recorded before the message is claimed again. */
const NEXT_CLAIM_MS = 1_000;

export interface Pause extends Refusal {
  beganMs: number;
  untilMs: number;
  level: number;
  /** Unix ms since this host is blocked there. */
  blockedMs: number | undefined;
  /** Unix ms at which deferred mail is due again: at the end, or when the fallback route takes over. */
  mailDueMs: number;
}

/** Messages of a pause are claimed again over this part of its length. */
const SPREAD = 1 / 10;
/** Mail that waits for a limit of a relay is claimed again over this time, about as fast as the limit allows. */
export const LIMIT_SPREAD_MS = 10 * MINUTE_MS;

/** Returns over which time after `mailDueMs` the mail deferred by a pause is due again. */
export function spreadOf({ beganMs, mailDueMs, outcome }: Pick<Pause, 'beganMs' | 'mailDueMs' | 'outcome'>): number {
  return outcome.category === 'relay-limit' ? LIMIT_SPREAD_MS : Math.round((mailDueMs - beganMs) * SPREAD);
}

/** A pause as all nodes know it. */
export type SharedPause = Omit<Pause, 'mailDueMs'>;

/** The length of a pause, or of a connection limit, if the peer names none. */
export function pauseStepMs(level: number): number {
  return LADDER_MS[Math.min(level, LADDER_MS.length - 1)]!;
}

/** Returns the pause after a refusal; it follows the last one if no probe ended that. */
export function nextPause(
  before: Pause | undefined,
  { ms, blocked }: PauseRequest,
  beganMs: number,
): Omit<Pause, keyof Refusal | 'mailDueMs'> {
  const level = before ? before.level + 1 : 0;
  const blockedMs = before?.blockedMs ?? (blocked ? beganMs : undefined);
  const blockMs = before?.blockedMs === undefined ? FIRST_BLOCKED_MS : BLOCKED_MS;
  const forMs = blocked ? Math.max(blockMs, ms ?? 0) : (ms ?? pauseStepMs(level));
  return { beganMs, untilMs: beganMs + forMs, level, blockedMs };
}

/** Unix ms at which mail deferred by the pause is due again. */
export function mailDueOf({ beganMs, untilMs, blockedMs }: SharedPause, hasFallback: boolean): number {
  if (!hasFallback || blockedMs === undefined) return untilMs;
  return Math.max(beganMs + NEXT_CLAIM_MS, Math.min(untilMs, blockedMs + FALLBACK_AFTER_MS));
}
