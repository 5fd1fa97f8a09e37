/**
 * Records when and from where API keys and SMTP credentials were last used. A use costs the database nothing: it replaces the previous use
 * of its key in memory, and all uses are written together once a minute and when the process stops. A process that is killed
 * loses the uses of the last minute. While the database is unavailable, the uses stay in memory: one for each key.
 */
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import type { Caller } from './account.ts';
import { type CredentialUse, recordUsesOperation } from './use-store.ts';

const FLUSH_MS = 60_000;
/** Uses per transaction. */
const BATCH = 1_000;

export interface CredentialUses extends Running {
  /** Notes that a client with this address used the caller's key or credential; does nothing for a logged-in user. */
  note(caller: Pick<Caller, 'actor' | 'keyId'>, address: string): void;
  /** Resolves once the uses noted before are in the database; rejects while it is unavailable. */
  flush(): Promise<void>;
}

export function createCredentialUses(deps: { database: Database; clock: Clock; log: Log }): CredentialUses {
  const { database, clock, log } = deps;
  let uses = new Map<string, CredentialUse>();
  let flushing: Promise<void> = Promise.resolve();

  /** Notes uses again that could not be written, unless their key was used since. */
  const keep = (unwritten: readonly CredentialUse[]): void => {
    for (const use of unwritten) if (!uses.has(use.credentialId)) uses.set(use.credentialId, use);
  };

  const flushNow = async (): Promise<void> => {
    const taken = [...uses.values()];
    uses = new Map();
    for (let done = 0; done < taken.length; done += BATCH) {
      const batch = taken.slice(done, done + BATCH);
      try {
        await database.execute(recordUsesOperation, batch);
      } catch (error) {
        if (error instanceof Unavailable) {
          keep(taken.slice(done));
          throw error;
        }
        log.error({ err: error, count: batch.length }, 'last uses of keys not recorded');
      }
    }
  };

  const flush = (): Promise<void> => {
    const flushed = flushing.then(flushNow);
    flushing = flushed.catch(() => undefined);
    return flushed;
  };

  const timer = setInterval(() => {
    if (uses.size > 0) void flush().catch(() => undefined);
  }, FLUSH_MS).unref();

  return {
    note: ({ actor, keyId }, address) => {
      if (actor.kind !== 'key' && actor.kind !== 'credential') return;
      uses.set(keyId, { credentialId: keyId, usedAt: clock.now(), address });
    },
    flush,
    stop: async () => {
      clearInterval(timer);
      await flush().catch((error: Error) =>
        log.warn({ err: error, count: uses.size }, 'last uses of keys not recorded'),
      );
    },
  };
}
