/** Its children read and send in this mode, with a stream of its events, whatever mode the page is in. */
import { type ReactNode, useMemo } from 'react';
import { callerOf, type Mode } from '../../api.ts';
import { LiveProvider } from '../../live.tsx';
import { ScopeContext, useScope } from '../../scope.ts';

export function InMode({ mode, children }: { mode: Mode; children: ReactNode }) {
  const scope = useScope();
  const own = useMemo(() => {
    const accountId = scope.account?.accountId;
    return { ...scope, mode, caller: callerOf(accountId, mode), name: `${accountId} ${mode}` };
  }, [scope, mode]);
  return (
    <ScopeContext value={own}>
      <LiveProvider>{children}</LiveProvider>
    </ScopeContext>
  );
}
