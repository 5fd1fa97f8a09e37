/**
 * A clock that stands still while this process does: on a shared machine a process may be paused for seconds, and the wall
 * clock then measures the machine instead of the code. Time passes by turns of the event loop; of a longer gap between two of
 * them counts what the process spent on processors, so that code which holds up the loop is measured in full.
 */

const TURN_MS = 5;
/** A gap up to this is ordinary work and counts in full. */
const LONGEST_TURN_MS = 25;
/** A run with less of it was not disturbed. */
const PAUSE_MS = 40;
const MOST_RUNS = 10;
/** After this no other run is begun: one that fails by waiting in vain is to fail before its file is killed. */
const RUNS_WITHIN_MS = 60_000;

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

let last = { atMs: performance.now(), cpuMs: cpuMs() };
let passedMs = 0;
let pausedMs = 0;

/** Pauses of the whole process, by the wall clock. */
const pauses: { untilMs: number; ms: number }[] = [];

function turn(): void {
  const now = { atMs: performance.now(), cpuMs: cpuMs() };
  const gapMs = now.atMs - last.atMs;
  const ranMs = Math.min(gapMs, Math.max(LONGEST_TURN_MS, now.cpuMs - last.cpuMs));
  passedMs += ranMs;
  pausedMs += gapMs - ranMs;
  if (gapMs - ranMs >= PAUSE_MS) pauses.push({ untilMs: Date.now(), ms: gapMs - ranMs });
  last = now;
}
setInterval(turn, TURN_MS).unref();

/** Milliseconds in which this process ran, since it loaded this file. */
export function runningMs(): number {
  turn();
  return passedMs;
}

/** How long this process stood still between two moments of the wall clock, which is true of all of a paused machine. */
export function pausedMsBetween(fromMs: number, untilMs: number): number {
  turn();
  return pauses
    .filter((one) => one.untilMs > fromMs && one.untilMs - one.ms < untilMs)
    .reduce((sum, { ms }) => sum + ms, 0);
}

/**
 * Runs a test of limits that are far shorter than a pause: what fails while the process stood still proves nothing and is run
 * again, what fails otherwise fails.
 */
export async function againIfPaused(run: () => Promise<void>): Promise<void> {
  const began = performance.now();
  for (let left = MOST_RUNS - 1; ; left -= 1) {
    turn();
    const before = pausedMs;
    try {
      return await run();
    } catch (error) {
      turn();
      const isOver = left === 0 || performance.now() - began > RUNS_WITHIN_MS;
      if (isOver || pausedMs - before < PAUSE_MS) throw error;
    }
  }
}
