/** The page behind a link that works without a login: reads what the link shows, or says that the link is not valid. */
import { Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useState } from 'react';
import { PostriderError } from '../api.ts';
import { basePath } from '../base-path.ts';
import { sharing as texts } from '../texts/share.ts';
import classes from './share.module.css';
import { ErrorState, Loading } from './states.tsx';

const tokenOf = (): string => new URLSearchParams(location.hash.slice(1)).get('token') ?? '';

/** Reads the token after the # of the URL; the user may open another link in the same tab. */
function useToken(): string {
  const [token, setToken] = useState(tokenOf);
  useEffect(() => {
    const changed = (): void => setToken(tokenOf());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return token;
}

export type TokenHeaders = Record<'X-Share-Token', string>;

interface SharedPageProps<T> {
  /** Title while the page is loading. */
  title: string;
  /** Identifies what is read. */
  name: string;
  read(headers: TokenHeaders, signal: AbortSignal): Promise<T>;
  /** Time until the data is read again; false for never. */
  againMs?(data: T): number | false;
  children(data: T, headers: TokenHeaders): ReactNode;
}

export function SharedPage<T>({ title, name, read, againMs, children }: SharedPageProps<T>) {
  const token = useToken();
  const headers = { 'X-Share-Token': token };
  const query = useQuery({
    queryKey: [name, token],
    queryFn: ({ signal }) => read(headers, signal),
    enabled: token !== '',
    refetchInterval: ({ state: { data } }) => (data === undefined || !againMs ? false : againMs(data as T)),
  });
  const isInvalid = token === '' || (query.error instanceof PostriderError && query.error.status === 404);
  if (query.data !== undefined && !isInvalid) return children(query.data, headers);
  if (isInvalid)
    return (
      <SharedFrame title={texts.invalid}>
        <Text>{texts.invalidHint}</Text>
      </SharedFrame>
    );
  return (
    <SharedFrame title={title}>
      {query.isError ? <ErrorState error={query.error} onRetry={query.refetch} /> : <Loading />}
    </SharedFrame>
  );
}

export function SharedFrame({ title, badge, children }: { title: string; badge?: ReactNode; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Postrider`;
  }, [title]);
  return (
    <main className={classes.page}>
      <div className={classes.brand}>
        <img src={`${basePath}/icon.svg`} alt="" width={20} height={20} />
        Postrider
      </div>
      <div className={classes.head}>
        <Title order={1}>{title}</Title>
        {badge}
      </div>
      {children}
    </main>
  );
}
