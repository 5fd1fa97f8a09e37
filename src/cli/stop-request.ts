/**
 * What asks a running service to stop: SIGTERM, SIGINT, or the end of the npm that started it.
 *
 * One request often comes as two signals: Ctrl-C reaches the whole group of a terminal, and npm passes its own on as well. So
 * what follows within a second is the same request, and only a later signal ends the process at once.
 */

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
const SAME_REQUEST_MS = 1_000;
const PARENT_LOOK_MS = 500;

/** npm passes SIGTERM and SIGINT on, and nothing when it is killed or hung up: its child has to see that it is alone. */
function watchNpm(environment: Record<string, string | undefined>, gone: () => void): void {
  // Of `npm start` alone: a script of somebody else's may leave the service running on purpose.
  if (environment.npm_lifecycle_event !== 'start') return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    gone();
  }, PARENT_LOOK_MS);
  timer.unref();
}

/** Resolves with the first request to stop. */
export function stopRequest(environment: Record<string, string | undefined>): Promise<'stop'> {
  const { promise, resolve } = Promise.withResolvers<'stop'>();
  let firstMs: number | undefined;
  const onSignal = (signal: NodeJS.Signals): void => {
    const nowMs = performance.now();
    firstMs ??= nowMs;
    resolve('stop');
    if (nowMs - firstMs < SAME_REQUEST_MS) return;
    for (const name of SIGNALS) process.off(name, onSignal);
    process.kill(process.pid, signal);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  watchNpm(environment, () => resolve('stop'));
  return promise;
}
