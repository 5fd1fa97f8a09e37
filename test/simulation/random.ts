/**
 * Random numbers from a seed: the same seed always gives the same numbers, on every machine. Each part of the scenario draws from its own
 * stream, so that one more draw here does not change what happens there.
 */

export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
  /** An integer in [0, below). */
  below(below: number): number;
  /** Uniform between two numbers. */
  between(low: number, high: number): number;
  chance(probability: number): boolean;
  pick<T>(values: readonly T[]): T;
  fill(bytes: Uint8Array): void;
  /** A separate stream; the same name gives the same stream. */
  stream(name: string): Random;
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

/** sfc32 by Chris Doty-Humphrey, public domain: 128 bits of state, fast, and passes statistical tests. */
export function seededRandom(seed: string): Random {
  let a = hashOf(seed);
  let b = hashOf(`${seed}/b`);
  let c = hashOf(`${seed}/c`);
  let counter = 1;
  const word = (): number => {
    const result = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + result;
    return result >>> 0;
  };
  for (let round = 0; round < 12; round += 1) word();
  const next = (): number => word() / 0x1_0000_0000;
  const below = (limit: number): number => Math.floor(next() * limit);
  return {
    next,
    below,
    between: (low, high) => low + (high - low) * next(),
    chance: (probability) => next() < probability,
    pick: (values) => values[below(values.length)]!,
    fill: (bytes) => {
      for (let at = 0; at < bytes.length; at += 1) bytes[at] = word() >>> 24;
    },
    stream: (name) => seededRandom(`${seed}/${name}`),
  };
}
