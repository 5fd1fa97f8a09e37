/**
 * Checks the MX records of live routes, so that a route becomes active soon after its record is published, and pending if the record points
 * elsewhere: pending routes within minutes of their creation and then less often, all routes every hour. A failed DNS lookup changes
 * nothing. If several processes share a database, one of them does this; work it cannot finish continues in its next round.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { type Rounds, startRounds } from '../base/rounds.ts';
import type { Dns } from '../net/dns.ts';
import type { Database } from '../storage/database.ts';
import { dueMxChecksOperation, recordMxCheckOperation } from './check-store.ts';
import { lookUpMx, type MxSettings } from './mx.ts';

const ROUND_MS = 60_000;
const LEAST_MS = 60_000;
const MOST_MS = 3_600_000;
/** Number of routes; those of one domain need one lookup. */
const BATCH = 500;
/** Maximum number of domains that are checked at the same time. */
const AT_ONCE = 10;

interface RouteChecksOptions {
  database: Database;
  clock: Clock;
  log: Log;
  mx: MxSettings;
  /** Returns a resolver with an empty cache. Closed after use. */
  freshDns(): Dns;
  /** Whether this process is responsible for the checks. */
  isChosen?: () => boolean;
  roundMs?: number;
}

export function startRouteChecks(options: RouteChecksOptions): Rounds {
  const { database, clock, log, isChosen = () => true, roundMs = ROUND_MS } = options;
  return startRounds({
    name: 'checks of inbound routes',
    everyMs: roundMs,
    log,
    round: async (isStopping) => {
      if (!isChosen()) return;
      for (;;) {
        const due = { nowMs: clock.now(), leastMs: LEAST_MS, mostMs: MOST_MS, limit: BATCH };
        const domains = await database.execute(dueMxChecksOperation, due);
        await lookAt(options, [...new Set(domains)], isStopping);
        if (domains.length < BATCH || isStopping()) return;
      }
    },
  });
}

async function lookAt(
  { database, clock, mx, freshDns }: RouteChecksOptions,
  domains: readonly string[],
  isStopping: () => boolean,
): Promise<void> {
  if (domains.length === 0) return;
  const dns = freshDns();
  const look = async (domain: string): Promise<void> => {
    const found = await lookUpMx(dns, domain, mx);
    await database.execute(recordMxCheckOperation, { domain, ...found, nowMs: clock.now() });
  };
  try {
    for (let at = 0; at < domains.length && !isStopping(); at += AT_ONCE)
      await Promise.all(domains.slice(at, at + AT_ONCE).map(look));
  } finally {
    dns.close();
  }
}
