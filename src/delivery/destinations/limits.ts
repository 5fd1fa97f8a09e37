/** The configured limits of destinations, and this process's part of limits that several processes share. */
import { isRelay } from '../routing/route.ts';
import { type PauseRule, PROVIDERS, type Provider, type Providers } from './providers.ts';

export interface ConnectionLimits {
  initial: number;
  floor: number;
  ceiling: number;
  /** How long a stalled first slot delays the next one. */
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

/** This process's part of limits for several processes together; never less than one connection. */
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

/** The limits of each destination; a provider's destination has the provider's name as key. */
export interface Limits {
  of(key: string): ConnectionLimits;
  /** Whose limits a destination has, for operators. */
  ownerOf(key: string): string;
  messagesPerConnection(key: string): number;
  pauseRules(key: string): readonly PauseRule[];
}

/** `share` is this process's current part of a limit, above 0 and at most 1. */
export function openLimits(providers: Providers, share: () => number): Limits {
  const providerOf = (key: string): Provider => providers.byName(key) ?? providers.default;
  return {
    of: (key) => sharedLimits(isRelay(key) ? RELAY_CONNECTIONS : limitsOfProvider(providerOf(key)), share()),
    ownerOf: (key) => {
      if (isRelay(key)) return 'a relay';
      const provider = providerOf(key);
      return provider === providers.default ? 'a destination without its own limits' : `the provider ${provider.name}`;
    },
    messagesPerConnection: (key) =>
      isRelay(key) ? MESSAGES_PER_RELAY_CONNECTION : providerOf(key).messagesPerConnection,
    pauseRules: (key) => (isRelay(key) ? [] : providerOf(key).pauses),
  };
}

export interface Allowance {
  /** Negative after several messages in one transaction. */
  messages: number;
  atMs: number;
}

/** Unused allowance is kept this long: destinations are checked every second. */
const ALLOWANCE_MS = 2_000;
const MINUTE_MS = 60_000;

/** Returns the number of messages that a rate allows now; the first one immediately. */
export function allowanceAt(before: Allowance | undefined, messagesPerMinute: number, nowMs: number): Allowance {
  const perMs = messagesPerMinute / MINUTE_MS;
  const { messages, atMs } = before ?? { messages: 1, atMs: nowMs };
  const most = Math.max(1, perMs * ALLOWANCE_MS);
  return { messages: Math.min(most, messages + Math.max(0, nowMs - atMs) * perMs), atMs: nowMs };
}
