/**
 * Changes of domains, announced to what keeps answers about them in memory: who changes a domain in this process calls
 * domainChanged after the commit, and every cache over the same database forgets at once. What another process changes
 * is not heard of here; the caches age fast enough for that.
 */
import type { Database } from '../storage/database.ts';

export interface DomainChange {
  accountId: string;
  domainId: string;
}

type Listener = (change: DomainChange) => void;

/** By database, so that they go when it goes. */
const listeners = new WeakMap<Database, Listener[]>();

/** Calls back for each change from now on, for as long as the database is in use. */
export function onDomainChange(database: Database, listener: Listener): void {
  const list = listeners.get(database);
  if (list) list.push(listener);
  else listeners.set(database, [listener]);
}

export function domainChanged(database: Database, change: DomainChange): void {
  for (const listener of listeners.get(database) ?? []) listener(change);
}
