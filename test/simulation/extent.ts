/**
 * How much happens in a world, and for how long. Two thirds are small: a few mails that live for an hour at most, so that a night of a
 * machine has room for a hundred thousand of them. The others last longer than a day and have twenty messages or more, some of which
 * are tried for days.
 */
import type { Random } from './random.ts';

export interface Extent {
  isSmall: boolean;
  /** The share of the mails that are drawn, and how many there are besides. */
  mails: number;
  moreMails: number;
  /** Of a mail at most, and the share of mail with one alone. */
  recipients: number;
  single: number;
  /** The share of mail servers without a fault. */
  goodServers: number;
  /** The share of worlds with further endpoints. */
  further: number;
  /** The share of worlds whose first endpoint asks for a few types of events. */
  fewTypes: number;
  /** The share of worlds with mails in a batch. */
  batches: number;
  /** What customers do after a mail was accepted, as a multiple of its usual share; how many worlds have a client that reads. */
  habits: number;
  readers: number;
  /** Within which customers send, ms, where they do not send all at once; `isDay`: longer than a day, half of the mail at its beginning. */
  longestSpanMs: number;
  isDay: boolean;
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
const LONG_SHARE = 0.34;

const SMALL: Extent = {
  isSmall: true,
  mails: 1 / 4,
  moreMails: 0,
  recipients: 2,
  single: 0.8,
  goodServers: 0,
  further: 0.5,
  fewTypes: 0,
  batches: 0.05,
  habits: 0.25,
  readers: 0.35,
  longestSpanMs: HOUR_MS / 6,
  isDay: false,
  longestWaitMs: HOUR_MS / 2,
  usualSeconds: HOUR_SECONDS / 3,
  longestSeconds: HOUR_SECONDS,
  badUntilMs: HOUR_MS / 10,
  deaths: 2,
};

const LARGE: Extent = {
  isSmall: false,
  mails: 1,
  moreMails: 0,
  recipients: 4,
  single: 0.8,
  goodServers: 0,
  further: 0.5,
  fewTypes: 0,
  batches: 0.12,
  habits: 1,
  readers: 0.6,
  longestSpanMs: HOUR_MS,
  isDay: false,
  longestWaitMs: 4 * HOUR_MS,
  usualSeconds: 2 * HOUR_SECONDS,
  longestSeconds: 4 * HOUR_SECONDS,
  badUntilMs: Number.POSITIVE_INFINITY,
  deaths: 4,
};

const LONG: Extent = {
  ...LARGE,
  mails: 0.5,
  moreMails: 8,
  batches: 0.2,
  single: 0.25,
  goodServers: 0.6,
  further: 0.3,
  fewTypes: 0.7,
  habits: 1,
  readers: 0.9,
  longestSpanMs: 29 * HOUR_MS,
  isDay: true,
  usualSeconds: HOUR_SECONDS,
  longestWaitMs: 20 * HOUR_MS,
  badUntilMs: 2 * HOUR_MS,
};

/** Worlds of several nodes are few and dear, whatever happens in them: each of those is large, with lifetimes of an hour. */
export function drawExtent(random: Random, { isShared }: { isShared: boolean }): Extent {
  if (isShared) return { ...LARGE, longestSeconds: HOUR_SECONDS };
  if (!random.stream('how large').chance(LONG_SHARE)) return SMALL;
  const lives = random.stream('lifetimes');
  const longestSeconds = (lives.chance(0.15) ? 72 : 4) * HOUR_SECONDS;
  return { ...LONG, longestSeconds, badUntilMs: lives.chance(0.12) ? Number.POSITIVE_INFINITY : LONG.badUntilMs };
}
