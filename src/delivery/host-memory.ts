/**
 * What this process remembers of the hosts it spoke to, each for a while and bounded in number:
 *
 * - a host that could not be reached, refused us, hung up or stalled is tried after all others for 5 minutes;
 * - an address where TLS failed, and the clear worked, is spoken to in the clear: for an hour, after a second failure for half a day,
 *   then for 3 days each time. In between TLS is tried again, so that one bad moment does not cost days of encryption;
 * - a message that failed after its final dot begins its next attempt with another host (RFC 5321 §6.1: the first may have it).
 *
 * A restart forgets all of it, which costs a few connections and nothing else.
 */
const LAST_MS = 300_000;
const CLEAR_MS = [3_600_000, 43_200_000, 259_200_000] as const;
const MAX_ENTRIES = 10_000;

export interface HostMemory {
  failed(host: string): void;
  worked(host: string): void;
  /** Whether the host is to be tried after all others. */
  goesLast(host: string): boolean;
  /** TLS failed at this address of the host, for the reason given, and the clear worked. */
  tlsFailed(host: string, address: string, words: string): void;
  tlsWorked(host: string, address: string): void;
  /** Why this address is spoken to in the clear. */
  tlsFallback(host: string, address: string): string | undefined;
  /** This message failed after its final dot at this host. */
  dotFailed(messageId: string, host: string): void;
  /** The host that the next attempt of this message tries after the others. */
  dotFailedAt(messageId: string): string | undefined;
}

interface TlsFailure {
  untilMs: number;
  words: string;
  times: number;
}

/** Adds an entry as the youngest; the oldest makes room. */
function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > MAX_ENTRIES) map.delete(map.keys().next().value!);
}

export function openHostMemory(now: () => number): HostMemory {
  const lastUntil = new Map<string, number>();
  const tlsFailures = new Map<string, TlsFailure>();
  const dotFailures = new Map<string, string>();
  return {
    failed: (host) => remember(lastUntil, host, now() + LAST_MS),
    worked: (host) => {
      if (lastUntil.size > 0) lastUntil.delete(host);
    },
    goesLast: (host) => (lastUntil.get(host) ?? 0) > now(),
    tlsFailed: (host, address, words) => {
      const key = `${host} ${address}`;
      const times = (tlsFailures.get(key)?.times ?? 0) + 1;
      const forMs = CLEAR_MS[Math.min(times, CLEAR_MS.length) - 1]!;
      remember(tlsFailures, key, { untilMs: now() + forMs, words, times });
    },
    tlsWorked: (host, address) => {
      if (tlsFailures.size > 0) tlsFailures.delete(`${host} ${address}`);
    },
    tlsFallback: (host, address) => {
      const failure = tlsFailures.get(`${host} ${address}`);
      return failure && failure.untilMs > now() ? failure.words : undefined;
    },
    dotFailed: (messageId, host) => remember(dotFailures, messageId, host),
    dotFailedAt: (messageId) => dotFailures.get(messageId),
  };
}
