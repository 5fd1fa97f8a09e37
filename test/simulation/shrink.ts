/**
 * Shrinks a failing scenario: removes halves, then quarters, and finally each single part, as long as the failure stays (Zeller and
 * Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002).
 */

/** Returns the parts of the scenario that took part with only these allowed; undefined if it no longer fails. */
export type Fails = (only: readonly string[]) => Promise<readonly string[] | undefined>;

/** Maximum number of scenarios to try; each takes 0.15 s, or some seconds if the failure is that it does not end. */
const MOST_TRIES = 120;

/** Returns the names of the parts that the failure needs, or those that were left when the scenario became small enough. */
export async function shrink(
  parts: readonly string[],
  fails: Fails,
  isSmallEnough = (): boolean => false,
): Promise<readonly string[]> {
  let left = parts;
  let tries = 0;
  for (let size = Math.ceil(left.length / 2); left.length > 0; size = Math.ceil(size / 2)) {
    let isSmaller = false;
    for (let at = 0; at < left.length && tries < MOST_TRIES && !isSmallEnough(); ) {
      tries += 1;
      const fewer = await fails([...left.slice(0, at), ...left.slice(at + size)]);
      if (fewer) left = fewer;
      else at += size;
      isSmaller ||= fewer !== undefined;
    }
    if (tries >= MOST_TRIES || isSmallEnough() || (size === 1 && !isSmaller)) break;
  }
  return left;
}

/** Returns the kind of a failure: the sentence without ids, addresses and numbers. */
export const kindOf = (fault: string): string =>
  fault
    .replace(/\b[a-z]{3,4}_\w+/g, 'ID')
    .replace(/[\w.]+@[\w.]+|\bmx\d+[\w.]*/g, 'NAME')
    .replace(/\d+/g, 'N')
    .slice(0, 60);
