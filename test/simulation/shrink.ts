/**
 * Makes a world with a fault smaller: leaves out halves, then quarters, and in the end each single part, as long as the fault stays
 * (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002).
 */

/** The parts of the world with these alone; undefined where its fault is gone. */
export type Fails = (only: readonly string[]) => Promise<readonly string[] | undefined>;

/** Worlds that are tried; each takes a seventh of a second, or some seconds where its fault is that it does not end. */
const MOST_TRIES = 120;

/** Answers the names of the parts that the fault needs. */
export async function shrink(parts: readonly string[], fails: Fails): Promise<readonly string[]> {
  let left = parts;
  let tries = 0;
  for (let size = Math.ceil(left.length / 2); left.length > 0; size = Math.ceil(size / 2)) {
    let isSmaller = false;
    for (let at = 0; at < left.length && tries < MOST_TRIES; ) {
      tries += 1;
      const fewer = await fails([...left.slice(0, at), ...left.slice(at + size)]);
      if (fewer) left = fewer;
      else at += size;
      isSmaller ||= fewer !== undefined;
    }
    if (tries >= MOST_TRIES || (size === 1 && !isSmaller)) break;
  }
  return left;
}

/** What two worlds have in common whose faults are of one kind: the sentence without ids, addresses and numbers. */
export const kindOf = (fault: string): string =>
  fault
    .replace(/\b[a-z]{3,4}_\w+/g, 'ID')
    .replace(/[\w.]+@[\w.]+|\bmx\d+[\w.]*/g, 'NAME')
    .replace(/\d+/g, 'N')
    .slice(0, 60);
