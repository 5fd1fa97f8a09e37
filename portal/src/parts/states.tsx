/** What a page shows without content: loading, an error with what to do, an empty list, a missing page. */
import { Anchor, Button, Skeleton, Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { PostriderError } from '../api.ts';
import { basePath } from '../base-path.ts';
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
        title={known?.status === 0 ? states.offline : states.failed}
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

export function PageError({ error, reset }: { error: unknown; reset?: () => void }) {
  return (
    <main>
      <ErrorState error={error} onRetry={reset ?? (() => location.reload())} isPage />
    </main>
  );
}
