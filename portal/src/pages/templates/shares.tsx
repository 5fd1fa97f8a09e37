/** Lists the valid links to previews of the account's templates in the mode of the page, with a button that revokes each. */
import { usePages } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import type { Column } from '../../parts/rows.tsx';
import { creatorOf } from '../../parts/share-links.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { shareList } from '../../texts/share.ts';
import { list as templates, shares as texts } from '../../texts/templates.ts';
import { RevokeShare, type TemplateShare, versionOf } from './share-links.tsx';

const COLUMNS: readonly Column<TemplateShare>[] = [
  { name: texts.template, phone: 'title', cell: ({ name }) => name, text: ({ name }) => name },
  { name: texts.version, width: '11rem', phone: 'detail', cell: versionOf, text: versionOf },
  { name: shareList.creator, cell: creatorOf, text: creatorOf },
  {
    name: shareList.created,
    width: '8rem',
    cell: ({ createdAt }) => <Time at={createdAt} />,
    text: ({ createdAt }) => createdAt,
  },
  {
    name: shareList.expires,
    phone: 'time',
    width: '9rem',
    cell: ({ expiresAt }) => <Time at={expiresAt} exact />,
    text: ({ expiresAt }) => expiresAt,
  },
];

export function TemplateSharesPage() {
  const { mode, mayWrite } = useScope();
  const list = usePages('listAllTemplateShares');
  return (
    <ListPage
      title={texts.title}
      lead={texts.lead}
      parent={{ href: `/app/${mode}/templates`, name: templates.title }}
      code={<AsCode operation="listAllTemplateShares" />}
      label={shareList.label}
      columns={COLUMNS}
      rowActions={mayWrite ? (share) => <RevokeShare share={share} isInRow /> : undefined}
      list={list}
      keyOf={({ shareId }) => shareId}
      href={({ templateId }) => `/app/${mode}/templates/${templateId}`}
      hrefName={texts.openTemplate}
      csvName="shared-previews"
      empty={{ title: shareList.none, hint: texts.noneHint }}
    />
  );
}
