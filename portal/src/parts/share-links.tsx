/** Lists valid links, with a button that revokes each. The URL of a link is displayed only when it is created. */
import { Button, Group, Stack, Text, Title } from '@mantine/core';
import { type ReactNode, useContext } from 'react';
import type { Answer, usePages } from '../api.ts';
import { IconX } from '../icons.ts';
import { audit } from '../texts/audit.ts';
import { shareList as texts } from '../texts/share.ts';
import { Confirmed } from './confirmed.tsx';
import { InDetails } from './row-action.tsx';
import classes from './share.module.css';
import { ErrorState } from './states.tsx';
import { Time } from './time.tsx';
import { done, failed } from './undo.tsx';

type Share = Pick<Answer<'listShares'>[number], 'shareId' | 'createdAt' | 'expiresAt' | 'createdBy'>;

export const creatorOf = ({ createdBy: { kind, id, name } }: Share): string => {
  const known = name ?? id;
  return kind === 'user' && known !== null ? known : [audit.kinds[kind], known].filter(Boolean).join(' ');
};

interface RevokeProps {
  isBusy: boolean;
  /** Whether it is shown in the row of a list. */
  isInRow?: boolean;
  revoke(): Promise<unknown>;
}

/** Revokes a link after a confirmation. */
export function RevokeButton({ isBusy, isInRow = false, revoke }: RevokeProps) {
  const close = useContext(InDetails);
  const run = (): Promise<void> =>
    revoke().then(() => {
      done(texts.revoked);
      close?.();
    }, failed);
  return (
    <Confirmed
      label={texts.revoke}
      effect={texts.revokeEffect}
      confirm={texts.revokeConfirm}
      run={run}
      icon={<IconX size={14} aria-hidden />}
      isBusy={isBusy}
      isIcon={isInRow && close === undefined}
    />
  );
}

type Pages = ReturnType<typeof usePages>;

interface ValidLinksProps<T> {
  list: Pick<Pages, 'isError' | 'error' | 'hasNextPage' | 'isFetchingNextPage'> & {
    items: readonly T[] | undefined;
    refetch(): unknown;
    fetchNextPage(): unknown;
  };
  /** The text that says what the link shows. */
  detail(share: T): string;
  revoke(share: T): ReactNode;
}

export function ValidLinks<T extends Share>({ list, detail, revoke }: ValidLinksProps<T>) {
  if (list.items === undefined)
    return list.isError ? <ErrorState error={list.error} onRetry={list.refetch} /> : undefined;
  if (list.items.length === 0) return;
  return (
    <Stack gap="xs" component="section" aria-label={texts.valid}>
      <Title order={3} size="h3">
        {texts.valid}
      </Title>
      <ul className={classes.links}>
        {list.items.map((share) => (
          <li key={share.shareId} className={classes.link}>
            <div>
              <Text>
                {texts.expires} <Time at={share.expiresAt} exact />
              </Text>
              <Text c="dimmed" size="sm" style={{ overflowWrap: 'anywhere' }}>
                {texts.createdBy(creatorOf(share))} <Time at={share.createdAt} /> · {detail(share)}
              </Text>
            </div>
            {revoke(share)}
          </li>
        ))}
      </ul>
      {list.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            {texts.more}
          </Button>
        </Group>
      )}
    </Stack>
  );
}
