/**
 * The scope of a page: the user, one of their accounts, and live or sandbox. The mode is in the path, so links keep it; the account is
 * stored in the tab, or set by `?account=` of a link.
 */
import { createContext, useContext } from 'react';
import type { Answer, Caller } from '../../clients/typescript/src/call.ts';

export type Mode = 'live' | 'sandbox';
export type Person = Answer<'getSession'>;
export type AccountOfPerson = Person['accounts'][number];

export interface Scope {
  person: Person;
  /** Absent for an operator without an account. */
  account: AccountOfPerson | undefined;
  mode: Mode;
  caller: Caller;
  /** Identifies account and mode in the cache. */
  name: string;
  /** Whether the role may send and change things other than settings. */
  mayWrite: boolean;
  /** Whether the role may change keys, credentials, users, approvals and settings. */
  mayOwn: boolean;
  chooseAccount(accountId: string): void;
}

export const ScopeContext = createContext<Scope | undefined>(undefined);

export function useScope(): Scope {
  const scope = useContext(ScopeContext);
  if (scope === undefined) throw new Error('this page is shown to somebody who is signed in');
  return scope;
}
