/** The banner above an account that an operator views by support access: when the access expires, and a button that ends it. */
import { Button } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { useChange } from '../api.ts';
import { formatOf } from '../parts/time.tsx';
import { failed } from '../parts/undo.tsx';
import { useScope } from '../scope.ts';
import { supportAccess } from '../texts/operator.ts';
import classes from './shell.module.css';

const clock = formatOf({ hour: '2-digit', minute: '2-digit' });

export function SupportAccess() {
  const { account } = useScope();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const end = useChange('endSupportAccess', ['getSession']);
  const until = account?.supportAccessUntil;
  useEffect(() => {
    if (until === undefined) return undefined;
    const renew = (): void => void queries.invalidateQueries({ queryKey: ['getSession'] });
    const timer = setTimeout(renew, Math.max(0, Date.parse(until) - Date.now()));
    return () => clearTimeout(timer);
  }, [until, queries]);
  if (account === undefined || until === undefined) return null;
  const { accountId, name } = account;
  const stop = (): void =>
    end.mutate(
      { path: { id: accountId } },
      { onSuccess: () => void navigate({ to: `/app/operator/accounts/${accountId}` }), onError: failed },
    );
  return (
    <div className={classes.supportAccess} role="status">
      {supportAccess.strip(name, clock.format(Date.parse(until)))}
      <Button variant="default" size="compact-xs" loading={end.isPending} onClick={stop}>
        {supportAccess.stop}
      </Button>
    </div>
  );
}
