/**
 * The status of a domain, and when Postrider stops sending from a failing one. A domain that only an operator marked as verified is not shown
 * as good: its signatures fail at receivers.
 */
import type { Answer } from '../../api.ts';
import { Badge, StatusBadge } from '../../parts/badge.tsx';
import { Time, useNow } from '../../parts/time.tsx';
import { domains } from '../../texts/domains.ts';

type Domain = Answer<'getDomain'>;

const isUnsigned = ({ verifiedBy }: Domain): boolean => verifiedBy === 'operator';

export function DomainStatus({ domain }: { domain: Domain }) {
  return isUnsigned(domain) ? <Badge tone="wait">{domains.unsigned}</Badge> : <StatusBadge status={domain.status} />;
}

/** The status for the CSV file. */
export const statusText = (domain: Domain): string => (isUnsigned(domain) ? domains.unsigned : domain.status);

export const nextStepOf = (domain: Domain): string => domains.nextOf[isUnsigned(domain) ? 'unsigned' : domain.status];

/** For a failing domain: when Postrider starts, or started, to reject its email. */
export function SendingStops({ at }: { at: string }) {
  return (
    <>
      {Date.parse(at) <= useNow() ? domains.stopped : domains.stops} <Time at={at} exact />
    </>
  );
}
