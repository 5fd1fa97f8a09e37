/** The status of a domain. A domain that only an operator marked as verified is not shown as good: its signatures fail at receivers. */
import type { Answer } from '../../api.ts';
import { Badge, StatusBadge } from '../../parts/badge.tsx';
import { domains } from '../../texts/domains.ts';

export function DomainStatus({ domain: { status, verifiedBy } }: { domain: Answer<'getDomain'> }) {
  return verifiedBy === 'operator' ? <Badge tone="wait">{domains.unsigned}</Badge> : <StatusBadge status={status} />;
}
