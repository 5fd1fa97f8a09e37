/**
 * The size and duration of a scenario. Two thirds are small: a few messages with a lifetime of up to an hour, so that a machine can run a
 * hundred thousand per night. The others last longer than a day and have twenty or more messages, some of which are retried for days.
 */
import type { Random } from './random.ts';

export interface ScenarioSize {
  isSmall: boolean;
  /** The share of the drawn messages, and the number of additional ones. */
  mails: number;
  moreMails: number;
  /** Maximum recipients of a message, and the share of messages with only one. */
  recipients: number;
  single: number;
  /** The share of mail servers without a fault. */
  goodServers: number;
  /** The share of scenarios with more endpoints. */
  further: number;
  /** The share of scenarios whose first endpoint subscribes to a few types of events. */
  fewTypes: number;
  /** The share of scenarios with messages in a batch. */
  batches: number;
  /** A multiple of the usual share of customers' later actions; how many scenarios have a reading client. */
  habits: number;
  readers: number;
  /** The period in which customers send, ms, unless all send at once; `isDay`: longer than a day, half of the messages at its start. */
  longestSpanMs: number;
  isDay: boolean;
  /** The period in which scheduled messages are due, ms. */
  longestWaitMs: number;
  /** Maximum addition to the ten minutes of most lifetimes. */
  usualSeconds: number;
  /** The lifetime of the other messages. */
  longestSeconds: number;
  /** The endpoint accepts every event from then on, virtual ms: events that it never accepts are retried for three days. */
  badUntilMs: number;
  /** Maximum deaths of the single node at random steps. */
  deaths: number;
}

const HOUR_SECONDS = 3_600;
const HOUR_MS = 3_600_000;
const LONG_SHARE = 0.34;

const SMALL: ScenarioSize = {
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

const LARGE: ScenarioSize = {
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

const LONG: ScenarioSize = {
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

/** Scenarios of several nodes are few and expensive, whatever happens in them, so each of them is large, with lifetimes of an hour. */
export function drawScenarioSize(random: Random, { isShared }: { isShared: boolean }): ScenarioSize {
  if (isShared) return { ...LARGE, longestSeconds: HOUR_SECONDS };
  if (!random.stream('how large').chance(LONG_SHARE)) return SMALL;
  const lives = random.stream('lifetimes');
  const longestSeconds = (lives.chance(0.15) ? 72 : 4) * HOUR_SECONDS;
  return { ...LONG, longestSeconds, badUntilMs: lives.chance(0.12) ? Number.POSITIVE_INFINITY : LONG.badUntilMs };
}
