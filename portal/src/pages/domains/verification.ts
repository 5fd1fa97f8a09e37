/**
 * Looks at the DNS while the page is looked at and the domain is not verified: at once where nobody has lately, then every thirty seconds. Those
 * who may not verify see what others' checks have found.
 */
import { useEffect, useRef } from 'react';
import { type Answer, useCall, useChange } from '../../api.ts';
import { useScope } from '../../scope.ts';

const EVERY_MS = 30_000;

type Domain = Answer<'getDomain'>;

/** Unix ms of the next check. */
function dueAfter({ checkedAt }: Domain): number {
  const ageMs = checkedAt === null ? EVERY_MS : Date.now() - Date.parse(checkedAt);
  return Date.now() + Math.min(Math.max(0, EVERY_MS - ageMs), EVERY_MS);
}

export function useVerification(domain: Domain) {
  const { mode, mayWrite } = useScope();
  const path = { id: domain.domainId };
  const mayVerify = mayWrite && mode === 'live';
  const isWaiting = domain.status !== 'verified';
  const verify = useChange('verifyDomain', ['getDomain', 'getDomainDnsRecords', 'listDomains']);
  const records = useCall('getDomainDnsRecords', { path }, { everyMs: isWaiting && !mayVerify ? EVERY_MS : undefined });
  const due = useRef(dueAfter(domain));
  const check = (): void => {
    due.current = Date.now() + EVERY_MS;
    verify.mutate({ path });
  };
  const latest = useRef(check);
  latest.current = check;
  const isWatching = isWaiting && mayVerify;
  useEffect(() => {
    if (!isWatching) return undefined;
    const look = (): void => {
      if (document.visibilityState === 'visible' && Date.now() >= due.current) latest.current();
    };
    look();
    const timer = setInterval(look, 1_000);
    return () => clearInterval(timer);
  }, [isWatching]);
  return { records, check, mayVerify, isWaiting, isWatching, isChecking: verify.isPending, error: verify.error };
}
