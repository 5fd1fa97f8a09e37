/**
 * Verifies records while the page is visible and something is unverified: immediately if there was no recent check, then every 30 s. Users
 * who may not verify see the results of others' checks.
 */
import { useEffect, useRef } from 'react';
import { type Answer, useCall, useChange } from '../../api.ts';
import { useScope } from '../../scope.ts';

export const EVERY_MS = 30_000;

type Domain = Answer<'getDomain'>;

/** Unix ms of the next check. */
function dueAfter(checkedAt: string | null): number {
  const ageMs = checkedAt === null ? EVERY_MS : Date.now() - Date.parse(checkedAt);
  return Date.now() + Math.min(Math.max(0, EVERY_MS - ageMs), EVERY_MS);
}

interface Watched {
  checkedAt: string | null;
  isWatching: boolean;
  verify(): void;
}

/** Verifies periodically while watching; returns a function that verifies immediately. */
export function useWatch({ checkedAt, isWatching, verify }: Watched): () => void {
  const due = useRef(dueAfter(checkedAt));
  const check = (): void => {
    due.current = Date.now() + EVERY_MS;
    verify();
  };
  const latest = useRef(check);
  latest.current = check;
  useEffect(() => {
    if (!isWatching) return undefined;
    const look = (): void => {
      if (document.visibilityState === 'visible' && Date.now() >= due.current) latest.current();
    };
    look();
    const timer = setInterval(look, 1_000);
    return () => clearInterval(timer);
  }, [isWatching]);
  return check;
}

export function useVerification(domain: Domain) {
  const { mode, mayWrite } = useScope();
  const path = { id: domain.domainId };
  const mayVerify = mayWrite && mode === 'live';
  const isWaiting = domain.status !== 'verified';
  const verify = useChange('verifyDomain', ['getDomain', 'getDomainDnsRecords', 'listDomains']);
  const records = useCall('getDomainDnsRecords', { path }, { everyMs: isWaiting && !mayVerify ? EVERY_MS : undefined });
  const isWatching = isWaiting && mayVerify;
  const check = useWatch({ checkedAt: domain.checkedAt, isWatching, verify: () => verify.mutate({ path }) });
  return { records, check, mayVerify, isWaiting, isWatching, isChecking: verify.isPending, error: verify.error };
}
