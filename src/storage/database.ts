/**
 * The interface of a database: run an operation, close. Every implementation guarantees that a resolved write is on stable storage and that
 * a rejected one changed nothing, unless it rejects with OutcomeUnknown because storage was lost during the commit. SQLite applies the
 * operations of its process in the order of submission; PostgreSQL only orders those that wait for each other.
 *
 * Hints between the processes that share a database announce new work of a kind. Polling finds the same work later.
 */
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Operation } from './operation.ts';

export interface DatabaseState {
  ready: boolean;
  /** Why it is not ready, for /ready, which is public: without addresses, names, and paths, which are only logged. */
  reason?: string;
  /** How long a server has been available without interruption, in ms; absent while it is unavailable, and for SQLite. */
  readyForMs?: number;
}

/** Connections of this process to a database server. */
export interface PoolState {
  /** The most connections that it opens. */
  max: number;
  /** Connections that run an operation, or are opening. */
  inUse: number;
  idle: number;
  /** Operations that wait for a connection. */
  waiting: number;
}

export interface Database {
  readonly dialect: 'sqlite' | 'postgres';
  /** Runs an operation; rejects with Unavailable if storage currently cannot (OutcomeUnknown is a subclass). */
  execute<A, R>(op: Operation<A, R>, args: A): Promise<R>;
  state(): DatabaseState;
  /** The connections to the server; SQLite has none. */
  pool?(): PoolState;
  /** The clock that nodes sharing a server agree on; SQLite has none. */
  readonly clock?: Clock;
  /** Finishes submitted operations, then closes. */
  close(): Promise<void>;
}

export interface Hints extends Running {
  /** Notifies the other nodes of new work of this kind. */
  notify(kind: string): void;
  /** Calls back when another node notified of this kind, or may have done so while the connection was down. */
  listen(kind: string, onHint: () => void): void;
}

/** For a process that has its database to itself. */
export const noHints: Hints = { notify: () => undefined, listen: () => undefined, stop: async () => undefined };
