/**
 * What the rest of the house knows of a database: run an operation, close. Whatever implements it keeps these promises: a
 * resolved write is on stable storage; a rejected one has changed nothing, unless it is rejected with OutcomeUnknown: the
 * storage was lost while it committed. The embedded database applies the operations of its process in the order in which they
 * were handed over; on a server only those that wait for each other have an order.
 *
 * Hints between the processes that share a database say that there is work of a kind. Polling finds the same, only later.
 */
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Operation } from './operation.ts';

export interface DatabaseState {
  ready: boolean;
  /** Why it is not ready, for /ready, which everybody may ask: without addresses, names and paths, which are in the log. */
  reason?: string;
  /** How long a server has been there without a break, in milliseconds; absent while it is away, and where there is none. */
  readyForMs?: number;
}

export interface Database {
  readonly dialect: 'sqlite' | 'postgres';
  /** Runs an operation; rejects with Unavailable when the storage cannot do its work right now (OutcomeUnknown is one). */
  execute<A, R>(op: Operation<A, R>, args: A): Promise<R>;
  state(): DatabaseState;
  /** The time that nodes sharing a server agree in; an embedded database has none of its own. */
  readonly clock?: Clock;
  /** Finishes what was handed over, then closes. */
  close(): Promise<void>;
}

export interface Hints extends Running {
  /** Notifies the other nodes that there is work of this kind. */
  notify(kind: string): void;
  /** Calls back when another node notified of this kind, or may have done so while nothing listened. */
  listen(kind: string, heard: () => void): void;
}

/** For a process that has its database to itself. */
export const noHints: Hints = { notify: () => undefined, listen: () => undefined, stop: async () => undefined };
