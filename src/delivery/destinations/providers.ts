/**
 * Default limits of a destination, and the limits for the large providers: providers.json, merged with the operator's own file. A provider
 * is recognized by the names of its MX hosts; all of them are one destination, named after the provider.
 *
 * `match` lists names of MX hosts; `*.` matches all names below. `connections` is the maximum, `initialConnections` the start value (5 if
 * allowed), `messagesPerMinute` a rate that is not exceeded. `pauses` sets for how many minutes a temporary refusal with this text
 * (case-insensitive) pauses the destination. Missing values come from `default`, which also applies to all other MX hosts.
 */
import { readFileSync } from 'node:fs';
import { SHARED_DESTINATIONS } from '../routing/route.ts';
import builtIn from './providers.json' with { type: 'json' };

export interface PauseRule {
  /** A part of the reply, case-insensitive. */
  reply: string;
  minutes: number;
}

export interface Provider {
  name: string;
  /** Lower case. */
  match: readonly string[];
  initialConnections: number;
  connections: number;
  messagesPerConnection: number;
  messagesPerMinute: number | null;
  pauses: readonly PauseRule[];
}

export interface Providers {
  readonly default: Provider;
  byHost(host: string): Provider | undefined;
  byName(name: string): Provider | undefined;
}

type ProviderConfig = Partial<Omit<Provider, 'name'>>;

const DEFAULT = 'default';
const INITIAL_CONNECTIONS = 5;

const wholeNumber =
  (most: number) =>
  (value: unknown): string | undefined =>
    Number.isInteger(value) && (value as number) >= 1 && (value as number) <= most
      ? undefined
      : `a whole number from 1 to ${most}`;

const HOST = /^(\*\.)?([a-z0-9_-]+\.)*[a-z0-9-]+$/i;

function matchFault(value: unknown): string | undefined {
  const isGood = Array.isArray(value) && value.length > 0 && value.every((one) => HOST.test(String(one)));
  return isGood ? undefined : 'a list of names such as mx.example.net or *.example.net';
}

function pausesFault(value: unknown): string | undefined {
  const isRule = (one: unknown): boolean => {
    const { reply, minutes, ...others } = (one ?? {}) as Record<string, unknown>;
    const isReply = typeof reply === 'string' && reply.length > 0;
    return isReply && wholeNumber(60)(minutes) === undefined && Object.keys(others).length === 0;
  };
  const isGood = Array.isArray(value) && value.every(isRule);
  return isGood ? undefined : 'a list of {"reply": text in the reply, "minutes": 1 to 60}';
}

/** Returns the accepted form if a value is invalid. */
const FAULTS: Record<keyof ProviderConfig, (value: unknown) => string | undefined> = {
  match: matchFault,
  initialConnections: wholeNumber(1_000),
  connections: wholeNumber(1_000),
  messagesPerConnection: wholeNumber(10_000),
  messagesPerMinute: (value) => (value === null ? undefined : wholeNumber(1_000_000)(value)),
  pauses: pausesFault,
};

/** Throws an error that names the invalid value in the operator's providers. */
function check(given: unknown, known: ReadonlySet<string>): asserts given is Record<string, ProviderConfig> {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new Error('must be an object of providers');
  }
  for (const [name, config] of Object.entries(given) as [string, unknown][]) {
    if (typeof config !== 'object' || config === null || Array.isArray(config))
      throw new Error(`${name} must be an object`);
    if (!known.has(name) && !Object.hasOwn(config, 'match')) {
      throw new Error(
        `unknown provider ${JSON.stringify(name)} (known: ${[...known].join(', ')}; others need "match")`,
      );
    }
    if (SHARED_DESTINATIONS.has(name))
      throw new Error(`the provider name ${JSON.stringify(name)} is reserved: use another one`);
    if (!/^[a-z][a-z0-9-]{0,39}$/.test(name)) {
      throw new Error(`${JSON.stringify(name)} is not a valid provider name: use letters a to z, digits and hyphens`);
    }
    if (name === DEFAULT && Object.hasOwn(config, 'match')) throw new Error('default must not have "match"');
    for (const [key, value] of Object.entries(config)) {
      if (!Object.hasOwn(FAULTS, key)) {
        throw new Error(`unknown key ${JSON.stringify(key)} of ${name} (known: ${Object.keys(FAULTS).join(', ')})`);
      }
      const allowed = FAULTS[key as keyof ProviderConfig](value);
      if (allowed) throw new Error(`${key} of ${name} must be ${allowed}`);
    }
  }
}

function providerOf(name: string, config: ProviderConfig, base: ProviderConfig): Provider {
  const all = { ...base, ...config } as ProviderConfig & Pick<Provider, 'connections' | 'messagesPerConnection'>;
  const initial = config.initialConnections ?? (config.connections === undefined ? base.initialConnections : undefined);
  return {
    name,
    match: (config.match ?? []).map((one) => one.toLowerCase()),
    initialConnections: Math.min(initial ?? INITIAL_CONNECTIONS, all.connections),
    connections: all.connections,
    messagesPerConnection: all.messagesPerConnection,
    messagesPerMinute: all.messagesPerMinute ?? null,
    pauses: all.pauses ?? [],
  };
}

/** Merges the operator's providers over the built-in ones, key by key; throws an error that names the invalid value. */
export function mergeProviders(given: unknown): Providers {
  const known: Record<string, ProviderConfig> = { ...(builtIn as Record<string, ProviderConfig>) };
  check(given, new Set(Object.keys(known)));
  for (const [name, config] of Object.entries(given)) known[name] = { ...known[name], ...config };
  const base = known[DEFAULT]!;
  const all = Object.entries(known).map(([name, config]) => providerOf(name, config, base));
  const byName = new Map(all.map((one) => [one.name, one]));
  // Keyed by matched name: exact names, and names that match everything below them.
  const byMatch = new Map(all.flatMap((one) => one.match.map((match) => [match, one] as const)));
  return {
    default: byName.get(DEFAULT)!,
    byName: (name) => byName.get(name),
    byHost: (host) => {
      const whole = byMatch.get(host);
      if (whole) return whole;
      for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
        const above = byMatch.get(`*${host.slice(dot)}`);
        if (above) return above;
      }
      return undefined;
    },
  };
}

export const PROVIDERS = mergeProviders({});

/** Reads the operator's file; throws an error that names the invalid value. */
export function readProviders(file: string): Providers {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch (error) {
    throw new Error(`is not JSON: ${(error as Error).message}`);
  }
  return mergeProviders(given);
}
