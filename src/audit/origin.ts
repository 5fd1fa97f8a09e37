/** The origin of a change: an API request, a command of the command line, or the service itself. */
import os from 'node:os';
import type { Actor } from '../base/actor.ts';
import type { Mode } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import { changedBy, type Origin } from './change.ts';

/** The parts of an API request that identify its origin. */
export interface Requester {
  readonly caller: {
    readonly actor: Actor;
    readonly account: { readonly id: string };
    readonly mode: Mode;
  };
  readonly remoteAddress: string;
  readonly requestId: string;
}

/** Returns the origin of an API request. */
export function requestOrigin({ caller, remoteAddress, requestId }: Requester, nowMs: number): Origin {
  return {
    atMs: nowMs,
    actor: caller.actor,
    accountId: caller.account.id,
    mode: caller.mode,
    address: remoteAddress,
    requestId,
  };
}

/** Returns the database for the changes of this request, which are recorded with its origin. */
export function requestedChanges(database: Database, request: Requester, nowMs: number): Database {
  return changedBy(database, requestOrigin(request, nowMs));
}

function localOrigin(actor: Actor, nowMs: number, accountId: string | null): Origin {
  return { atMs: nowMs, actor, accountId, mode: null, address: null, requestId: null };
}

/** Returns the origin of a command: the operating system's user. */
export function commandOrigin(nowMs: number, accountId: string | null = null): Origin {
  return localOrigin({ kind: 'command-line', id: '', name: userName() }, nowMs, accountId);
}

/** Returns the origin of a change by the service itself. */
export function systemOrigin(nowMs: number, accountId: string | null = null): Origin {
  return localOrigin({ kind: 'system', id: '', name: '' }, nowMs, accountId);
}

/** Returns an empty name if the system has none for the user, as in some containers. */
function userName(): string {
  try {
    return os.userInfo().username;
  } catch {
    return '';
  }
}
