/** Lists the valid links to a message, with a button that revokes each. The URL of a link is shown only when it is created. */
import { Button, Group, Stack, Text, Title } from '@mantine/core';
import { useContext } from 'react';
import { type Answer, useChange, usePages } from '../../api.ts';
import { IconX } from '../../icons.ts';
import { Confirmed } from '../../parts/confirmed.tsx';
import { InDetails } from '../../parts/row-action.tsx';
import { ErrorState } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { audit } from '../../texts/audit.ts';
import { shareList as texts } from '../../texts/messages.ts';
import classes from './messages.module.css';

export type Share = Answer<'listShares'>[number];

export const SHARE_LISTS = ['listMessageShares', 'listShares'] as const;

export const creatorOf = ({ createdBy: { kind, id, name } }: Share): string => {
  const known = name ?? id;
  return kind === 'user' && known !== null ? known : [audit.kinds[kind], known].filter(Boolean).join(' ');
};

export function hiddenIn({ hideSubject, hideContent }: Share): string {
  if (hideSubject) return texts.subjectHidden;
  return hideContent ? texts.contentHidden : texts.nothingHidden;
}

export function RevokeShare({ share }: { share: Share }) {
  const revoke = useChange('revokeShare', SHARE_LISTS);
  const close = useContext(InDetails);
  const run = (): Promise<void> =>
    revoke.mutateAsync({ path: { id: share.shareId } }).then(() => {
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
      isBusy={revoke.isPending}
    />
  );
}

export function ShareLinks({ messageId }: { messageId: string }) {
  const list = usePages('listMessageShares', { path: { id: messageId } });
  if (list.items === undefined)
    return list.isError ? <ErrorState error={list.error} onRetry={list.refetch} /> : undefined;
  if (list.items.length === 0) return;
  return (
    <Stack gap="xs" component="section" aria-label={texts.valid}>
      <Title order={3} size="h4">
        {texts.valid}
      </Title>
      <ul className={classes.shares}>
        {list.items.map((share) => (
          <li key={share.shareId} className={classes.share}>
            <div>
              <Text>
                {texts.expires} <Time at={share.expiresAt} exact />
              </Text>
              <Text c="dimmed" size="sm" style={{ overflowWrap: 'anywhere' }}>
                {texts.createdBy(creatorOf(share))} <Time at={share.createdAt} /> · {hiddenIn(share)}
              </Text>
            </div>
            <RevokeShare share={share} />
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
