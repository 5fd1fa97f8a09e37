/** Limits of destinations, as providers have them, and what a process gets of those that several share. */
import { PROVIDERS, type Provider } from './providers.ts';

export interface ConnectionLimits {
  initial: number;
  floor: number;
  ceiling: number;
  /** How long a silent first slot holds up the next one. */
  patienceMs: number;
  messagesPerMinute: number | null;
}

export function limitsOfProvider(provider: Provider): ConnectionLimits {
  const { initialConnections: initial, connections: ceiling, messagesPerMinute } = provider;
  return { initial, floor: Math.min(2, ceiling), ceiling, patienceMs: 30_000, messagesPerMinute };
}

export const MX_CONNECTIONS = limitsOfProvider(PROVIDERS.default);
export const RELAY_CONNECTIONS: ConnectionLimits = {
  ...{ initial: 20, floor: 2, ceiling: 50, patienceMs: 2_000 },
  messagesPerMinute: null,
};

/** What is left of limits that hold for several processes together; never less than one connection. */
export function sharedLimits(limits: ConnectionLimits, share: number): ConnectionLimits {
  if (share === 1) return limits;
  const part = (whole: number): number => Math.max(1, Math.floor(whole * share));
  const { initial, floor, ceiling, messagesPerMinute } = limits;
  return {
    ...{ initial: part(initial), floor: part(floor), ceiling: part(ceiling), patienceMs: limits.patienceMs },
    messagesPerMinute: messagesPerMinute === null ? null : part(messagesPerMinute),
  };
}

export interface Allowance {
  /** Below 0 after several messages in one transaction. */
  messages: number;
  atMs: number;
}

/** A rate that was not used is kept for so long: destinations are asked each second whether they may go on. */
const ALLOWANCE_MS = 2_000;
const MINUTE_MS = 60_000;

/** What a rate allows now; the first message at once. */
export function allowanceAt(before: Allowance | undefined, messagesPerMinute: number, nowMs: number): Allowance {
  const perMs = messagesPerMinute / MINUTE_MS;
  const { messages, atMs } = before ?? { messages: 1, atMs: nowMs };
  const most = Math.max(1, perMs * ALLOWANCE_MS);
  return { messages: Math.min(most, messages + Math.max(0, nowMs - atMs) * perMs), atMs: nowMs };
}
