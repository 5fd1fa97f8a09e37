/** What a page shows without content: loading, an error with what to do, an empty list, a missing page. */
import { Anchor, Button, Skeleton, Stack, Text, Title } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';
import { PostriderError } from '../api.ts';
import { basePath, serviceUrl } from '../base-path.ts';
import { IconAlertCircle, IconLock, IconSearch } from '../icons.ts';
import { states } from '../texts/shell.ts';
import classes from './parts.module.css';

export function Loading() {
  return (
    <Stack gap="sm" p="lg" aria-busy="true" role="status" aria-label={states.loading}>
      <Skeleton height={22} width="30%" />
      <Skeleton height={14} width="60%" />
      <Skeleton height={180} mt="md" />
    </Stack>
  );
}

interface StateProps {
  icon?: ReactNode;
  title: string;
  /** If this is the entire page, the title is its heading. */
  isPage?: boolean;
  children?: ReactNode;
  action?: ReactNode;
}

/** A placeholder for an empty list. */
export function EmptyState({ icon, title, isPage = false, children, action }: StateProps) {
  return (
    <div className={classes.state}>
      {icon}
      <Title order={isPage ? 1 : 2} size="h3" ta="center">
        {title}
      </Title>
      {children !== undefined && (
        <Text c="dimmed" maw="34rem" ta="center" component="div">
          {children}
        </Text>
      )}
      {action}
    </div>
  );
}

interface ErrorStateProps {
  error: unknown;
  onRetry?: () => unknown;
  isPage?: boolean;
}

export function ErrorState({ error, onRetry, isPage }: ErrorStateProps) {
  const known = error instanceof PostriderError ? error : undefined;
  if (known?.status === 403)
    return (
      <EmptyState icon={<IconLock size={28} aria-hidden />} title={states.forbidden} isPage={isPage}>
        {known.message}
      </EmptyState>
    );
  if (known?.status === 404) return <NotFound isPage={isPage} />;
  return (
    <div role="alert">
      <EmptyState
        icon={<IconAlertCircle size={28} aria-hidden />}
        title={known?.status === 0 ? states.offline : isPage ? states.failed : states.failedPart}
        isPage={isPage}
        action={onRetry && <Button onClick={() => void onRetry()}>{states.retry}</Button>}
      >
        {known?.message ?? states.unexpected}
        {known?.requestId !== undefined && (
          <>
            {' '}
            <span className="mono">{known.requestId}</span>
          </>
        )}
      </EmptyState>
    </div>
  );
}

function NotFound({ isPage }: { isPage?: boolean }) {
  return (
    <EmptyState icon={<IconSearch size={28} aria-hidden />} title={states.notFound} isPage={isPage}>
      {states.notFoundHint} <Anchor href={`${basePath}/`}>{states.home}</Anchor>
    </EmptyState>
  );
}

export function NoPage() {
  return (
    <main>
      <NotFound isPage />
    </main>
  );
}

/** The same within the shell, with its menu. */
export function NoContent() {
  return <NotFound isPage />;
}

interface RouteErrorProps {
  error: unknown;
  reset?: () => void;
}

export function PageError(props: RouteErrorProps) {
  return (
    <main>
      <ContentError {...props} />
    </main>
  );
}

/** The error of a page within the shell. */
export function ContentError({ error, reset }: RouteErrorProps) {
  if (isFileMissing(error)) return <FileMissing error={error} />;
  return <ErrorState error={error} onRetry={reset ?? (() => location.reload())} isPage />;
}

/** A file of the portal could not be loaded: in the words of Chromium, Firefox, and Safari, and for a missing stylesheet of Vite. */
function isFileMissing(error: unknown): boolean {
  return (
    error instanceof Error &&
    /dynamically imported module|Importing a module script failed|Unable to preload CSS/.test(error.message)
  );
}

const RELOADED_AT = 'postrider.reloadedAt';
const RELOADS_EVERY_MS = 30_000;
const ASKS_EVERY_MS = 2_000;

function reloadPage(): void {
  sessionStorage.setItem(RELOADED_AT, String(Date.now()));
  location.reload();
}

/**
 * Either the service cannot be reached, or it has a new version without this file. Loads the page again as soon as the service answers, but
 * not again and again if that does not help.
 */
function FileMissing({ error }: { error: unknown }) {
  const [hasReloaded] = useState(
    () => Date.now() - Number(sessionStorage.getItem(RELOADED_AT) ?? 0) < RELOADS_EVERY_MS,
  );
  const [isUnreachable, setUnreachable] = useState(false);
  const [asked, setAsked] = useState(0);
  const askAgain = (): void => setAsked((times) => times + 1);
  useEffect(() => {
    if (hasReloaded) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (): Promise<void> => {
      const response = await fetch(`${serviceUrl}/ready`, { cache: 'no-store' }).catch(() => undefined);
      if (response?.ok) return reloadPage();
      setUnreachable(true);
      timer = setTimeout(() => setAsked(asked + 1), ASKS_EVERY_MS);
    };
    void ask();
    return () => clearTimeout(timer);
  }, [hasReloaded, asked]);
  if (hasReloaded) return <ErrorState error={error} onRetry={reloadPage} isPage />;
  if (!isUnreachable) return <Loading />;
  return (
    <div role="alert">
      <EmptyState
        icon={<IconAlertCircle size={28} aria-hidden />}
        title={states.offline}
        isPage
        action={<Button onClick={askAgain}>{states.retry}</Button>}
      >
        {states.offlineHint}
      </EmptyState>
    </div>
  );
}
