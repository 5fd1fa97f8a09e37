/**
 * What log-ins of one kind (from one address, at one user name) have to pass. Until so many have failed they are checked at once,
 * those under way counted as if they had failed already; from then on one after the other, with a delay between them that doubles
 * with each failure; those that would wait too long are turned away. Time forgets.
 */

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 8_000;
const LONGEST_WAIT_MS = 16_000;
export const FORGET_MS = 600_000;

export interface Gate {
  failures: number;
  lastFailureMs: number;
  /** When the next log-in may be checked. */
  freeAtMs: number;
  /** Log-ins that may be checked and are not decided. */
  underWay: number;
  /** Wakes those who wait until one of these is decided. */
  waiting: (() => void)[];
}

export function newGate(): Gate {
  return { failures: 0, lastFailureMs: 0, freeAtMs: 0, underWay: 0, waiting: [] };
}

export function isIdle(gate: Gate): boolean {
  return gate.failures === 0 && gate.underWay === 0 && gate.waiting.length === 0;
}

/** How long a log-in has to wait, undefined when it is turned away; it is under way from here on, until `decided`. */
function delayOf(gate: Gate, freeFailures: number, now: number): number | undefined {
  if (gate.failures < freeFailures) return 0;
  const doublings = gate.failures + gate.underWay - freeFailures;
  const startMs = Math.max(now, gate.freeAtMs) + Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** doublings);
  if (startMs - now > LONGEST_WAIT_MS) return undefined;
  gate.freeAtMs = startMs;
  return startMs - now;
}

/** The gate that was passed, when the log-in may be checked; undefined turns it away. `find` looks the gate up. */
export async function pass<G extends Gate>(
  find: () => G,
  options: { freeFailures: number; nowMs(): number; pause(ms: number): Promise<void> },
): Promise<G | undefined> {
  const { freeFailures, nowMs, pause } = options;
  let gate = find();
  while (gate.failures < freeFailures && gate.failures + gate.underWay >= freeFailures) {
    const { waiting } = gate;
    await new Promise<void>((resolve) => waiting.push(resolve));
    gate = find();
  }
  const waitMs = delayOf(gate, freeFailures, nowMs());
  if (waitMs === undefined) return undefined;
  gate.underWay += 1;
  if (waitMs > 0) await pause(waitMs);
  return gate;
}

/** A log-in that passed is decided: the next may come. */
export function decided(gate: Gate): void {
  gate.underWay -= 1;
  for (const wake of gate.waiting.splice(0)) wake();
}

/** Puts the entry behind all others; the one that was touched longest ago makes way. */
export function keep<V>(map: Map<string, V>, key: string, value: V, most: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > most) map.delete(map.keys().next().value as string);
}
