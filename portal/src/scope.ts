/**
 * What a page is about: the person, one of their accounts, and live mail or the sandbox. The mode is in the path, so that a link
 * keeps it; the account is the tab's, or the one that `?account=` of a link names.
 */
import { createContext, useContext } from 'react';
import type { Answer } from '../../clients/typescript/src/call.ts';
import type { Caller, Mode } from './api.ts';

export type Person = Answer<'getSession'>;
export type AccountOfPerson = Person['accounts'][number];

export interface Scope {
  person: Person;
  /** Absent for an operator who is in no account. */
  account: AccountOfPerson | undefined;
  mode: Mode;
  caller: Caller;
  /** Names account and mode, for what is cached of them. */
  name: string;
  /** Whether the role may send and change what is no setting. */
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
