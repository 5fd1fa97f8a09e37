/** Its children read and send in this mode, with its event stream, whatever the mode of the page. */
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
