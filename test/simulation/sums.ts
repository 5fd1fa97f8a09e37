/** What was seen in some scenarios, for the processes that run them and for those that read their output. */

/** A failing scenario, as small as possible. */
export interface Failed {
  seed: string;
  /** The removable parts that are left. */
  parts: readonly string[];
  /** Whether no part was removed. */
  isComplete: boolean;
  faults: readonly string[];
  trace: string;
}

export interface Sums {
  seeds: number;
  failed: number;
  twice: number;
  steps: number;
  simulatedMs: number;
  /** CPU time. */
  cpuMs: number;
  /** What happened to them, by kind. */
  counts: Record<string, number>;
  /** Changes of state, as before>after. */
  transitions: Record<string, number>;
}

export const noSums = (): Sums => ({
  seeds: 0,
  failed: 0,
  twice: 0,
  steps: 0,
  simulatedMs: 0,
  cpuMs: 0,
  counts: {},
  transitions: {},
});

const NUMBERS = ['seeds', 'failed', 'twice', 'steps', 'simulatedMs', 'cpuMs'] as const;

export function addTo(into: Sums, from: Sums): void {
  for (const name of NUMBERS) into[name] += from[name];
  for (const kind of ['counts', 'transitions'] as const) {
    for (const [name, count] of Object.entries(from[kind])) into[kind][name] = (into[kind][name] ?? 0) + count;
  }
}

export function add(all: readonly Sums[]): Sums {
  const sums = noSums();
  for (const one of all) addTo(sums, one);
  return sums;
}
