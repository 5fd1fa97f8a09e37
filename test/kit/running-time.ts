/**
 * A clock that stops while this process does not run: on a shared machine a process may be paused for seconds, and the wall clock then
 * measures the machine instead of the code. Time advances with turns of the event loop; of a longer gap between two turns, only the CPU
 * time of the process counts, so that code which blocks the loop is fully measured.
 */

const TURN_MS = 5;
/** A gap up to this is normal work and counts fully. */
const LONGEST_TURN_MS = 25;
/** A run with fewer pauses was not disturbed. */
const PAUSE_MS = 40;
const MOST_RUNS = 10;
/** After this time no other run starts, so that a failing test fails before its file is killed. */
const RUNS_WITHIN_MS = 60_000;

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

let last = { atMs: performance.now(), cpuMs: cpuMs() };
let passedMs = 0;
let pausedMs = 0;

/** Pauses of the entire process, by the wall clock. */
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

/** Returns the milliseconds for which this process ran since it loaded this file. */
export function runningMs(): number {
  turn();
  return passedMs;
}

/** Returns how long this process was paused between two wall-clock times; this applies to all processes of a paused machine. */
export function pausedMsBetween(fromMs: number, untilMs: number): number {
  turn();
  return pauses
    .filter((one) => one.untilMs > fromMs && one.untilMs - one.ms < untilMs)
    .reduce((sum, { ms }) => sum + ms, 0);
}

/**
 * Measures up to five times, until the milliseconds are below the limit, and returns the fewest: other work on a shared machine slows some
 * of the runs, code that takes too long slows all of them.
 */
export async function fewestOf(limitMs: number, measure: () => Promise<number>): Promise<number> {
  let fewestMs = Number.POSITIVE_INFINITY;
  for (let runs = 0; fewestMs >= limitMs && runs < 5; runs += 1) fewestMs = Math.min(fewestMs, await measure());
  return fewestMs;
}

/** Runs work as often as {@link fewestOf} measures, and returns the last result and the fewest milliseconds. */
export async function fastestOf<T>(limitMs: number, work: () => T | Promise<T>): Promise<{ result: T; ms: number }> {
  let result: T | undefined;
  const ms = await fewestOf(limitMs, async () => {
    const began = runningMs();
    result = await work();
    return runningMs() - began;
  });
  return { result: result as T, ms };
}

/** Runs a test with limits far shorter than a pause: a failure during a pause proves nothing and is repeated, any other failure counts. */
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
