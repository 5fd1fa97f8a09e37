/**
 * How much happens in a world, and for how long. Most worlds are small: a few mails that live for an hour at most, so that a night of a
 * machine has room for a hundred thousand of them. Each eighth is large, with mail that is tried for days in some.
 */
import type { Random } from './random.ts';

export interface Extent {
  isSmall: boolean;
  /** The share of the mails that are drawn. */
  mails: number;
  /** Of a mail at most. */
  recipients: number;
  /** The share of worlds with mails in a batch. */
  batches: number;
  /** Within which customers send, ms, where they do not send all at once. */
  longestSpanMs: number;
  /** Within which scheduled mail is due, ms. */
  longestWaitMs: number;
  /** Lifetimes of most mail are so much longer than ten minutes at most. */
  usualSeconds: number;
  /** The lifetime of the rest. */
  longestSeconds: number;
  /** The endpoint takes every event from then on, virtual ms: those that it never takes are tried for three days. */
  badUntilMs: number;
  /** Of our node at a step that is drawn, at most. */
  deaths: number;
}

const HOUR_SECONDS = 3_600;
const HOUR_MS = 3_600_000;
const LARGE_SHARE = 1 / 8;

const SMALL: Extent = {
  ...{
    isSmall: true,
    mails: 1 / 4,
    recipients: 2,
    batches: 0.05,
    longestSpanMs: HOUR_MS / 6,
    longestWaitMs: HOUR_MS / 2,
  },
  ...{ usualSeconds: HOUR_SECONDS / 3, longestSeconds: HOUR_SECONDS },
  ...{ badUntilMs: HOUR_MS / 10, deaths: 2 },
};

const LARGE: Extent = {
  ...{ isSmall: false, mails: 1, recipients: 4, batches: 0.12, longestSpanMs: HOUR_MS, longestWaitMs: 4 * HOUR_MS },
  ...{ usualSeconds: 2 * HOUR_SECONDS, longestSeconds: 4 * HOUR_SECONDS },
  ...{ badUntilMs: Number.POSITIVE_INFINITY, deaths: 4 },
};

/** Worlds of several nodes are few and dear, whatever happens in them: each of those is large, with lifetimes of an hour. */
export function drawExtent(random: Random, { isShared }: { isShared: boolean }): Extent {
  if (isShared) return { ...LARGE, longestSeconds: HOUR_SECONDS };
  if (!random.stream('how large').chance(LARGE_SHARE)) return SMALL;
  return random.stream('lifetimes').chance(0.25) ? { ...LARGE, longestSeconds: 72 * HOUR_SECONDS } : LARGE;
}
