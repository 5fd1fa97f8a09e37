/**
 * What the rest of the house knows of a database: run an operation, close. Whatever implements it keeps these
 * promises: a resolved write is on stable storage; a rejected one has changed nothing, unless the way to a server was lost
 * while it committed. The embedded database applies the operations of its process in the order in which they were handed
 * over; on a server only those that wait for each other have an order.
 */
import type { Clock } from '../base/clock.ts';
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
  /** The time that nodes sharing a server agree in; an embedded database has none of its own. */
  readonly clock?: Clock;
  /** Finishes what was handed over, then closes. */
  close(): Promise<void>;
}
