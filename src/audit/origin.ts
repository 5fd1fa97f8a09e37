/** Who asks for a change, and from where: a request to the API, a command of the command line, or the service itself. */
import os from 'node:os';
import type { Actor } from '../base/actor.ts';
import type { Mode } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import { changedBy, type Origin } from './change.ts';

/** What of an API request says who asks. */
export interface AskedBy {
  readonly caller: {
    readonly actor: Actor;
    readonly account: { readonly id: string };
    readonly mode: Mode;
  };
  readonly remoteAddress: string;
  readonly requestId: string;
}

/** Who sends an API request, and from where. */
export function requestOrigin({ caller, remoteAddress, requestId }: AskedBy, nowMs: number): Origin {
  return {
    ...{
      atMs: nowMs,
      actor: caller.actor,
      accountId: caller.account.id,
      mode: caller.mode,
    },
    ...{ address: remoteAddress, requestId },
  };
}

/** The database in the hands of who sends this request: what the request changes leaves rows that say so. */
export function requestedChanges(database: Database, request: AskedBy, nowMs: number): Database {
  return changedBy(database, requestOrigin(request, nowMs));
}

function localOrigin(actor: Actor, nowMs: number, accountId: string | null): Origin {
  return { atMs: nowMs, actor, accountId, mode: null, address: null, requestId: null };
}

/** One change by a command, in the name of the operating system's user. */
export function commandOrigin(nowMs: number, accountId: string | null = null): Origin {
  return localOrigin({ kind: 'command-line', id: '', name: userName() }, nowMs, accountId);
}

/** One change by the service itself. */
export function systemOrigin(nowMs: number, accountId: string | null = null): Origin {
  return localOrigin({ kind: 'system', id: '', name: '' }, nowMs, accountId);
}

/** Empty for a user that the system has no name for, as in some containers. */
function userName(): string {
  try {
    return os.userInfo().username;
  } catch {
    return '';
  }
}
