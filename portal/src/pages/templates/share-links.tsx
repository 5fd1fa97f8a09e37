/** Lists the valid links to previews of a template, with a button that revokes each. */
import { type Answer, useChange, usePages } from '../../api.ts';
import { RevokeButton, ValidLinks } from '../../parts/share-links.tsx';
import { share as texts } from '../../texts/templates.ts';

export type TemplateShare = Answer<'listAllTemplateShares'>[number];

export const SHARE_LISTS = ['listTemplateShares', 'listAllTemplateShares'] as const;

export const versionOf = ({ version }: Pick<TemplateShare, 'version'>): string =>
  version === null ? texts.unsavedVersion : texts.version(version);

export function RevokeShare({ share, isInRow }: { share: TemplateShare; isInRow?: boolean }) {
  const revoke = useChange('revokeTemplateShare', SHARE_LISTS);
  return (
    <RevokeButton
      isBusy={revoke.isPending}
      isInRow={isInRow}
      revoke={() => revoke.mutateAsync({ path: { id: share.shareId } })}
    />
  );
}

export function ShareLinks({ templateId }: { templateId: string }) {
  const list = usePages('listTemplateShares', { path: { id: templateId } });
  return (
    <ValidLinks list={list} detail={(share) => versionOf(share)} revoke={(share) => <RevokeShare share={share} />} />
  );
}
