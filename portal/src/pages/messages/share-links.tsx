/** Lists the valid links to a message, with a button that revokes each. */
import { type Answer, useChange, usePages } from '../../api.ts';
import { RevokeButton, ValidLinks } from '../../parts/share-links.tsx';
import { shareList as texts } from '../../texts/messages.ts';

export type Share = Answer<'listShares'>[number];

export const SHARE_LISTS = ['listMessageShares', 'listShares'] as const;

export function hiddenIn({ hideSubject, hideContent }: Share): string {
  if (hideSubject) return texts.subjectHidden;
  return hideContent ? texts.contentHidden : texts.nothingHidden;
}

export function RevokeShare({ share, isInRow }: { share: Share; isInRow?: boolean }) {
  const revoke = useChange('revokeShare', SHARE_LISTS);
  return (
    <RevokeButton
      isBusy={revoke.isPending}
      isInRow={isInRow}
      revoke={() => revoke.mutateAsync({ path: { id: share.shareId } })}
    />
  );
}

export function ShareLinks({ messageId }: { messageId: string }) {
  const list = usePages('listMessageShares', { path: { id: messageId } });
  return <ValidLinks list={list} detail={hiddenIn} revoke={(share) => <RevokeShare share={share} />} />;
}
