/** Limits of destinations, as providers have them, and the part of this process in those that several processes share. */
import { isRelay } from '../routing/route.ts';
import { type PauseRule, PROVIDERS, type Provider, type Providers } from './providers.ts';

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
  initial: 20,
  floor: 2,
  ceiling: 50,
  patienceMs: 2_000,
  messagesPerMinute: null,
};
const MESSAGES_PER_RELAY_CONNECTION = 1_000;

/** Limits that hold for several processes together, as one of them may use them; never less than one connection. */
export function sharedLimits(limits: ConnectionLimits, share: number): ConnectionLimits {
  if (share === 1) return limits;
  const part = (whole: number): number => Math.max(1, Math.floor(whole * share));
  const { initial, floor, ceiling, messagesPerMinute, patienceMs } = limits;
  return {
    initial: part(initial),
    floor: part(floor),
    ceiling: part(ceiling),
    patienceMs,
    messagesPerMinute: messagesPerMinute === null ? null : part(messagesPerMinute),
  };
}

/** The limits of each destination, by the provider whose name its key is. */
export interface Limits {
  of(key: string): ConnectionLimits;
  /** Whose limits a destination has, as operators read it. */
  ownerOf(key: string): string;
  messagesPerConnection(key: string): number;
  /** The rules by which replies pause the destination. */
  pauseRules(key: string): readonly PauseRule[];
}

/** `share` is the part of a limit that this process may use now, above 0 and at most 1. */
export function openLimits(providers: Providers, share: () => number): Limits {
  const providerOf = (key: string): Provider => providers.byName(key) ?? providers.default;
  return {
    of: (key) => sharedLimits(isRelay(key) ? RELAY_CONNECTIONS : limitsOfProvider(providerOf(key)), share()),
    ownerOf: (key) => (isRelay(key) ? 'a relay' : `the provider ${providerOf(key).name}`),
    messagesPerConnection: (key) =>
      isRelay(key) ? MESSAGES_PER_RELAY_CONNECTION : providerOf(key).messagesPerConnection,
    pauseRules: (key) => (isRelay(key) ? [] : providerOf(key).pauses),
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

/** The messages that a rate allows now; the first one at once. */
export function allowanceAt(before: Allowance | undefined, messagesPerMinute: number, nowMs: number): Allowance {
  const perMs = messagesPerMinute / MINUTE_MS;
  const { messages, atMs } = before ?? { messages: 1, atMs: nowMs };
  const most = Math.max(1, perMs * ALLOWANCE_MS);
  return { messages: Math.min(most, messages + Math.max(0, nowMs - atMs) * perMs), atMs: nowMs };
}
