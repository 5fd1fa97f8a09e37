/** Merges test data that two users have changed at the same time. */
import type { Values } from './values.ts';

export interface SampleSet {
  name: string;
  values: Values;
}

const LONGEST_NAME = 60;

const isSame = (one: SampleSet | undefined, other: SampleSet | undefined): boolean =>
  JSON.stringify(one?.values) === JSON.stringify(other?.values);

/** Returns `name (2)`, or with the first number that no set has. */
function freeName(name: string, isTaken: (name: string) => boolean): string {
  for (let number = 2; ; number += 1) {
    const end = ` (${number})`;
    const free = name.slice(0, LONGEST_NAME - end.length) + end;
    if (!isTaken(free)) return free;
  }
}

/**
 * Returns the sets with the changes that were made from `base` to `ours` and from `base` to `theirs`. If both have changed a set, theirs keeps
 * its name, and ours becomes a copy with a number. A set that one has changed and the other has deleted is kept.
 */
export function mergedSamples(
  base: readonly SampleSet[],
  ours: readonly SampleSet[],
  theirs: readonly SampleSet[],
): SampleSet[] {
  const [before, mine, other] = [base, ours, theirs].map((sets) => new Map(sets.map((set) => [set.name, set])));
  const names = new Set([...theirs, ...ours].map(({ name }) => name));
  const merged: SampleSet[] = [];
  for (const name of names) {
    const [old, our, their] = [before!.get(name), mine!.get(name), other!.get(name)];
    if (isSame(our, their) || isSame(our, old)) {
      if (their !== undefined) merged.push(their);
    } else if (isSame(their, old)) {
      if (our !== undefined) merged.push(our);
    } else {
      if (their !== undefined) merged.push(their);
      if (our !== undefined)
        merged.push({
          ...our,
          name:
            their === undefined
              ? name
              : freeName(name, (one) => names.has(one) || merged.some((set) => set.name === one)),
        });
    }
  }
  return merged;
}
