/**
 * What the rest of the house knows of a database: run an operation, close. Whatever implements it keeps these
 * promises: a resolved write is on stable storage; a rejected one has changed nothing; operations of one process are
 * applied in the order in which they were handed over, unless they fail.
 */
import type { Operation } from './operation.ts';

export interface DatabaseState {
  ready: boolean;
  /** Why it is not ready, for /ready and for operators. */
  reason?: string;
}

export interface Database {
  readonly dialect: 'sqlite' | 'postgres';
  /** Runs an operation; rejects with Unavailable when the storage cannot do its work right now. */
  execute<A, R>(op: Operation<A, R>, args: A): Promise<R>;
  state(): DatabaseState;
  /** Finishes what was handed over, then closes. */
  close(): Promise<void>;
}
