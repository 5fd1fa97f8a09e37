/**
 * How many rows may be marked as running at once (rows.ts tells why they are). Whatever is marked when the process
 * dies a second time is tried alone afterwards, one row after the other, so that few may be: at most 16, and fewer in a
 * young process, since one that was killed a moment ago may be killed again. Without this a service that was killed six times in a
 * row with 600 mails in hand had 250 events to tell one by one, and those of slow endpoints would have waited for many minutes.
 * Rows that were in no crash are not counted and do not wait.
 */

const MOST = 16;
/** After each of these spans of its life a process may try one row more. */
const STEP_MS = 1_000;

export interface RunningLimit {
  /** Resolves when so many more may be tried; false when `isOpen` says no before that. */
  enter(rows: number, isOpen: () => boolean): Promise<boolean>;
  /** So many are not marked any more. */
  leave(rows: number): void;
}

/** `ageMs` is that of the process. */
export function openRunningLimit(ageMs: () => number = ageOfThis()): RunningLimit {
  let entered = 0;
  /** Resolved, and made new, when somebody leaves or the process is older. */
  let changed = Promise.withResolvers<void>();
  /** One after the other: a large group is not passed by smaller ones for ever. */
  let line: Promise<unknown> = Promise.resolve();

  const limit = (): number => Math.min(MOST, 1 + Math.floor(ageMs() / STEP_MS));

  const waitFor = async (rows: number, isOpen: () => boolean): Promise<boolean> => {
    while (isOpen()) {
      // A group that is larger than the limit goes alone.
      if (entered === 0 || entered + rows <= limit()) {
        entered += rows;
        return true;
      }
      const next = changed;
      const older = setTimeout(next.resolve, STEP_MS);
      await next.promise;
      clearTimeout(older);
      if (changed === next) changed = Promise.withResolvers();
    }
    return false;
  };

  return {
    enter: (rows, isOpen) => {
      const entering = line.then(() => waitFor(rows, isOpen));
      line = entering;
      return entering;
    },
    leave: (rows) => {
      entered -= rows;
      changed.resolve();
      changed = Promise.withResolvers();
    },
  };
}

function ageOfThis(): () => number {
  const startedAt = performance.now();
  return () => performance.now() - startedAt;
}
