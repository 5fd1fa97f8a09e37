/** Finds the route for an address, for the SMTP listener, and checks whether a domain has routes, for delivery. */
import type { Clock } from '../base/clock.ts';
import { coveringDomains, SENDS_WHILE_FAILING_MS } from '../domains/domains.ts';
import type { FindRoute } from '../inbound/inbound.ts';
import { limitsOf, type SetLimits } from '../limits/limits.ts';
import { domainToAscii } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
import { hasRoutesOperation, matchRoutesOperation, type RequiredDomains } from './store.ts';

/** Returns the domains of which an account must have verified one to use a domain (A-labels) now. */
export function requiredDomainsOf(domain: string, nowMs: number): RequiredDomains {
  return { names: coveringDomains(domain), failingAfterMs: nowMs - SENDS_WHILE_FAILING_MS };
}

/** Creates a function that returns whether a domain (A-labels) has routes. */
export function createHasRoutes({ database, clock }: { database: Database; clock: Clock }) {
  return (domain: string): Promise<boolean> =>
    database.execute(hasRoutesOperation, { domain, requiredDomains: requiredDomainsOf(domain, clock.now()) });
}

export function createFindRoute({ database, clock }: { database: Database; clock: Clock }): FindRoute {
  return async ({ local, domain }) => {
    const ascii = domainToAscii(domain.normalize('NFC')) ?? '';
    const requiredDomains = requiredDomainsOf(ascii, clock.now());
    const found = await database.execute(matchRoutesOperation, {
      local,
      domain: ascii,
      requiredDomains,
    });
    if (!found) return undefined;
    const { accountId, routeId, maxBytes, limits, accountStatus } = found;
    const { inboundMailPerHour: mailPerHour } = limitsOf(JSON.parse(limits) as SetLimits);
    const use = { kind: 'route', accountId, mode: 'live', routeId } as const;
    return { use, maxBytes, mailPerHour, isSuspended: accountStatus !== 'active' };
  };
}
