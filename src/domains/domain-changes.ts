/**
 * Announces changes of domains within a process. Changes evict cached answers about domains of the same database immediately; caches of
 * other processes expire quickly enough.
 */
import type { Database } from '../storage/database.ts';

interface DomainChange {
  accountId: string;
  domainId: string;
}

type Listener = (change: DomainChange) => void;

/** By database, so that listeners are collected with it. */
const listeners = new WeakMap<Database, Listener[]>();

/** Registers a listener that is called for each change, as long as the database is in use. */
export function onDomainChange(database: Database, listener: Listener): void {
  const list = listeners.get(database);
  if (list) list.push(listener);
  else listeners.set(database, [listener]);
}

export function domainChanged(database: Database, change: DomainChange): void {
  for (const listener of listeners.get(database) ?? []) listener(change);
}
