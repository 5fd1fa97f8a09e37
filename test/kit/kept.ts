/**
 * What a process of tests keeps for its next file, because starting it takes more processor time than most tests. Only where
 * scripts/test-process.ts runs the files, which ends what is kept after the last one.
 */

const ends = new Set<() => Promise<void>>();
let keeps = false;

/** Before the first file. */
export function keepForNextFiles(): void {
  keeps = true;
}

/** Whether something may go on; then `end` is called after the last file. */
export function keep(end: () => Promise<void>): boolean {
  if (keeps) ends.add(end);
  return keeps;
}

/** After the last file. */
export async function endKept(): Promise<void> {
  keeps = false;
  for (const end of ends) await end();
}
