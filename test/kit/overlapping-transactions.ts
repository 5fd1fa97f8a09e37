/**
 * Transactions on a real PostgreSQL that overlap deterministically: one pauses after a chosen statement, or before its COMMIT, while
 * another runs as far as it can.
 */
import type { Database } from '../../src/storage/database.ts';
import { eachCall, type Operation, runWithin, type Transaction } from '../../src/storage/operation.ts';
import { waitUntil } from './wait-until.ts';

/** A call of an operation. */
export interface Call<R> {
  run(tx: Transaction): Promise<R>;
}

export const callOf = <A, R>(op: Operation<A, R>, args: A): Call<R> => ({ run: (tx) => runWithin(tx, op, args) });

/** Runs it once; like every operation, again if PostgreSQL rolled it back because of another one. */
export const execute = <R>(database: Database, { run }: Call<R>): Promise<R> =>
  database.execute({ name: 'test.stepped', mode: 'write', run: eachCall((tx: Transaction) => run(tx)) }, null);

/** Runs a call that pauses after this many statements; `hasReached` returns false if it has fewer. */
function standingAt<R>(call: Call<R>, statements: number) {
  const reached = Promise.withResolvers<boolean>();
  const released = Promise.withResolvers<void>();
  let isFirst = true;
  const run = async (tx: Transaction): Promise<R> => {
    if (!isFirst) return call.run(tx);
    isFirst = false;
    let answered = 0;
    let last: Promise<unknown> = Promise.resolve();
    const stand = async (): Promise<void> => {
      if (answered !== statements) return;
      reached.resolve(true);
      await released.promise;
    };
    const stepped = <T>(send: () => Promise<T> | T): Promise<T> => {
      const next = last.then(async () => {
        await stand();
        const answer = await send();
        answered += 1;
        return answer;
      });
      last = next.catch(() => undefined);
      return next;
    };
    const value = await call.run({
      dialect: tx.dialect,
      all: (sql, ...params) => stepped(() => tx.all(sql, ...params)),
      get: (sql, ...params) => stepped(() => tx.get(sql, ...params)),
      run: (sql, ...params) => stepped(() => tx.run(sql, ...params)),
    } as Transaction);
    await last;
    await stand();
    reached.resolve(false);
    return value;
  };
  return { call: { run }, hasReached: reached.promise, release: released.resolve };
}

/** Counts the sessions of this database that wait for a lock. */
const waitingCall: Call<number> = {
  run: async (tx) => {
    const row = await tx.get<{ waiting: number }>(
      `SELECT count(*) AS waiting FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return row!.waiting;
  },
};

export interface Overlap<F, A, B> {
  /** Two nodes, and one that observes them. */
  nodes: readonly [Database, Database, Database];
  /** Creates the data for both; called for each pause position of the first one. */
  prepare(): Promise<F>;
  first(fixture: F): Call<A>;
  second(fixture: F): Call<B>;
  /** Throws if their results or the database are wrong. */
  check(answers: { fixture: F; first: A; second: B }): Promise<void>;
}

/**
 * Pauses the first call after each of its statements in turn, including none and all, while the second one runs to its end or until it
 * waits for the first. Returns the number of positions, and at how many of them the second one waited.
 */
export async function overlapEverywhere<F, A, B>(
  overlap: Overlap<F, A, B>,
): Promise<{ places: number; waits: number }> {
  const { nodes, prepare, first, second, check } = overlap;
  let waits = 0;
  for (let places = 0; ; places += 1) {
    const fixture = await prepare();
    const standing = standingAt(first(fixture), places);
    const ofFirst = execute(nodes[0], standing.call);
    if (!(await standing.hasReached)) {
      await ofFirst;
      return { places, waits };
    }
    let isOver = false;
    const ofSecond = execute(nodes[1], second(fixture)).finally(() => {
      isOver = true;
    });
    ofSecond.catch(() => undefined);
    const isWaiting = async (): Promise<boolean> => (await execute(nodes[2], waitingCall)) > 0;
    await waitUntil('the second transaction to end or to wait', async () => isOver || (await isWaiting()), 10_000);
    if (!isOver) waits += 1;
    standing.release();
    try {
      await check({ fixture, first: await ofFirst, second: await ofSecond });
    } catch (error) {
      throw new Error(`while the first one was after ${places} statements: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }
}
