/**
 * How long the pauses of a destination are, one after the other until a probe is answered: as long as its peer asks for, else longer each
 * time; and from when on mail goes by the fallback route. Pure.
 */

import type { PauseRequest } from '../outcome/pause.ts';
import type { Refusal } from '../outcome/signal.ts';

const MINUTE_MS = 60_000;
const LADDER_MS = [1, 2, 5, 10, 20].map((minutes) => minutes * MINUTE_MS);
const FIRST_BLOCKED_MS = 15 * MINUTE_MS;
const BLOCKED_MS = 60 * MINUTE_MS;
/** After so long a block the fallback route takes the mail. */
export const FALLBACK_AFTER_MS = 15 * MINUTE_MS;
/** What was refused is recorded before it is claimed again. */
const NEXT_CLAIM_MS = 1_000;

export interface Pause extends Refusal {
  beganMs: number;
  untilMs: number;
  level: number;
  /** Unix ms since which our host is blocked there. */
  blockedMs: number | undefined;
  /** Unix ms at which mail that was put off is due again: at the end, or when the fallback route takes it. */
  mailDueMs: number;
}

/** As all nodes know it. */
export type SharedPause = Omit<Pause, 'mailDueMs'>;

/** The length of a pause, or of a limit on connections, where the peer names none. */
export function pauseStepMs(level: number): number {
  return LADDER_MS[Math.min(level, LADDER_MS.length - 1)]!;
}

/** The pause that a refusal makes, after the last one where that was not ended by a probe. */
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

/** When mail that is put off for the pause is due again, Unix ms. */
export function mailDueOf({ beganMs, untilMs, blockedMs }: SharedPause, hasFallback: boolean): number {
  if (!hasFallback || blockedMs === undefined) return untilMs;
  return Math.max(beganMs + NEXT_CLAIM_MS, Math.min(untilMs, blockedMs + FALLBACK_AFTER_MS));
}
