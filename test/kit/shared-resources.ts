/**
 * Keeps resources of a test process for its next file, because starting them takes more CPU time than most tests. Only when
 * scripts/test-process.ts runs the files, which ends them after the last one.
 */

const ends = new Set<() => Promise<void>>();
let keeps = false;

/** Call before the first file. */
export function keepForNextFiles(): void {
  keeps = true;
}

/** Returns whether a resource may be kept; then `end` is called after the last file. */
export function keep(end: () => Promise<void>): boolean {
  if (keeps) ends.add(end);
  return keeps;
}

/** Call after the last file. */
export async function endKept(): Promise<void> {
  keeps = false;
  for (const end of ends) await end();
}
