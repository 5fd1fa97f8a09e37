/**
 * Counts TLS sessions for the reports (RFC 8460 §4) in memory, and adds the counts to the database every few seconds: a crash loses at most
 * that much. A session counts on the day on which its TLS was decided. It belongs to the report of the recipient's domain, and if a policy
 * is another's (DANE: the MX host's), to that one's too (§1.1, "Policy Domain").
 *
 * At most 10,000 different counters are kept between two writes; sessions over that are not counted, which is logged.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { OutcomeUnknown } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import { type Rounds, startRounds } from '../base/rounds.ts';
import type { Database } from '../storage/database.ts';
import type { TlsSession } from '../tls-policy/tls-policy.ts';
import { addCountsOperation, type CountRow } from './store.ts';

const FLUSH_MS = 5_000;
const MAX_COUNTERS = 10_000;
const ROWS_AT_ONCE = 500;
const MAX_REASON = 300;
export const DAY_MS = 86_400_000;

/** Returns the start of a day in UTC. */
export function dayOf(ms: number): number {
  return ms - (ms % DAY_MS);
}

export interface TlsCounters extends Rounds {
  count(session: TlsSession): void;
}

interface CounterOptions {
  database: Database;
  clock: Clock;
  log: Log;
  flushMs?: number;
}

export function openTlsCounters({ database, clock, log, flushMs = FLUSH_MS }: CounterOptions): TlsCounters {
  let counters = new Map<string, Omit<CountRow, 'id'>>();
  let missed = 0;

  const add = (key: string, row: Omit<CountRow, 'id'>): void => {
    const known = counters.get(key);
    if (known) {
      counters.set(key, { ...known, sessions: known.sessions + row.sessions, reason: row.reason ?? known.reason });
    } else if (counters.size < MAX_COUNTERS) counters.set(key, row);
    else missed += row.sessions;
  };

  const write = async (): Promise<void> => {
    const taken = counters;
    counters = new Map();
    const rows = [...taken].map(([key, row]) => ({ key, row: { id: digest(key), ...row } }));
    rows.sort((a, b) => (a.row.id < b.row.id ? -1 : 1));
    for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) {
      const some = rows.slice(at, at + ROWS_AT_ONCE).map(({ row }) => row);
      try {
        await database.execute(addCountsOperation, some);
      } catch (error) {
        // Counts that may have been written are not written again: a report should rather have too little than too much.
        const from = at + (error instanceof OutcomeUnknown ? ROWS_AT_ONCE : 0);
        for (const { key, row } of rows.slice(from)) add(key, row);
        throw error;
      }
    }
  };

  const rounds = startRounds({
    name: 'counters of TLS sessions',
    everyMs: flushMs,
    log,
    round: async () => {
      if (missed > 0) log.warn({ sessions: missed }, 'TLS sessions omitted from reports: too many different results');
      missed = 0;
      if (counters.size > 0) await write();
    },
  });

  return {
    count: (session) => {
      const day = dayOf(clock.now());
      const policy = JSON.stringify(session.policy);
      for (const domain of new Set([session.domain, ...ownerOf(session)])) {
        const row = rowOf({ day, domain, policy }, session);
        add([day, domain, policy, row.failure, row.localAddress, row.host, row.address].join('\n'), row);
      }
    },
    run: rounds.run,
    stop: async () => {
      await rounds.stop();
      await rounds.run();
    },
  };
}

/** Returns the owner of the policy if it is not the recipient's domain. */
function ownerOf({ policy }: TlsSession): string[] {
  return policy.type === 'tlsa' ? [policy.domain] : [];
}

function rowOf(of: Pick<CountRow, 'day' | 'domain' | 'policy'>, session: TlsSession): Omit<CountRow, 'id'> {
  const { failure, localAddress, host, address } = session;
  if (!failure) return { ...of, sessions: 1 };
  return {
    ...of,
    failure: failure.type,
    localAddress,
    host,
    address,
    reason: failure.message.slice(0, MAX_REASON).toWellFormed(),
    sessions: 1,
  };
}

function digest(key: string): string {
  return createHash('sha256').update(key).digest('base64url').slice(0, 22);
}
