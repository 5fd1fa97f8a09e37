/**
 * The signed-in user. Pages of an account are shown once the user is known; without a session, the login page opens first and returns here.
 */
import { type QueryClient, queryOptions, useQuery } from '@tanstack/react-query';
import { Navigate, useLocation, useParams } from '@tanstack/react-router';
import { type ReactNode, useMemo, useState } from 'react';
import { callerOf, type Mode, PostriderError } from './api.ts';
import { serviceUrl } from './base-path.ts';
import { ErrorState, Loading } from './parts/states.tsx';
import { type AccountOfPerson, type Person, type Scope, ScopeContext } from './scope.ts';

export const sessionQuery = queryOptions({
  queryKey: ['getSession'],
  queryFn: async ({ signal }): Promise<Person | null> => {
    try {
      return await callerOf().call('getSession', {}, { signal });
    } catch (error) {
      if (error instanceof PostriderError && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

/** The other tabs of this browser. A message is the id of the user who is signed in now, or null. */
const tabs = new BroadcastChannel(`postrider.session ${serviceUrl}`);

/** After login or logout, nothing of the previous user is kept, in this tab and in the others. */
export function setPerson(queries: QueryClient, person: Person | null): void {
  changePerson(queries, person);
  tabs.postMessage(person?.userId ?? null);
}

function changePerson(queries: QueryClient, person: Person | null): void {
  if (person === null) sessionStorage.clear();
  queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'getSession' });
  queries.setQueryData(sessionQuery.queryKey, person);
}

/** Follows a logout in another tab, and a login there as another user. */
export function followTabs(queries: QueryClient): void {
  tabs.onmessage = ({ data: userId }: MessageEvent<string | null>) => {
    const known = queries.getQueryData(sessionQuery.queryKey);
    if (!known || known.userId === userId) return;
    if (userId === null) changePerson(queries, null);
    else location.reload();
  };
}

const STORED = 'postrider.account';

function storedAccount(): string | null {
  const asked = new URLSearchParams(location.search).get('account');
  // The tab keeps it when it goes to pages without it.
  if (asked !== null) sessionStorage.setItem(STORED, asked);
  return asked ?? sessionStorage.getItem(STORED) ?? localStorage.getItem(STORED);
}

function keepAccount(accountId: string): void {
  sessionStorage.setItem(STORED, accountId);
  localStorage.setItem(STORED, accountId);
}

function accountOf(person: Person, accountId: string | null): AccountOfPerson | undefined {
  return person.accounts.find((one) => one.accountId === accountId) ?? person.accounts[0];
}

export function SignedIn({ children }: { children: ReactNode }) {
  const session = useQuery(sessionQuery);
  const { href, pathname } = useLocation();
  if (session.isPending) return <Loading />;
  if (session.isError) return <ErrorState error={session.error} onRetry={session.refetch} isPage />;
  // The login page may already be loading, and this page stays visible until then.
  if (session.data === null)
    return pathname === '/sign-in' ? <Loading /> : <Navigate to="/sign-in" search={{ next: href }} replace />;
  return <Scoped person={session.data}>{children}</Scoped>;
}

function Scoped({ person, children }: { person: Person; children: ReactNode }) {
  const params: { mode?: string } = useParams({ strict: false });
  const [accountId, setAccountId] = useState(storedAccount);
  const mode: Mode = params.mode === 'sandbox' ? 'sandbox' : 'live';
  const scope = useMemo((): Scope => {
    const account = accountOf(person, accountId);
    const role = account?.role;
    return {
      person,
      account,
      mode,
      caller: callerOf(account?.accountId, mode),
      name: `${account?.accountId} ${mode}`,
      mayWrite: role === 'owner' || role === 'member',
      mayOwn: role === 'owner',
      chooseAccount(chosen) {
        keepAccount(chosen);
        setAccountId(chosen);
      },
    };
  }, [person, accountId, mode]);
  return <ScopeContext value={scope}>{children}</ScopeContext>;
}
