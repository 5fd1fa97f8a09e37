/** Lists the valid links to the messages of the account in the mode of the page, with a button that revokes each. */
import { usePages } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import type { Column } from '../../parts/rows.tsx';
import { creatorOf } from '../../parts/share-links.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { messagePage, shareList as texts } from '../../texts/messages.ts';
import { shareList as common } from '../../texts/share.ts';
import { hiddenIn, RevokeShare, type Share } from './share-links.tsx';

const COLUMNS: readonly Column<Share>[] = [
  {
    name: texts.message,
    phone: 'title',
    cell: ({ messageId }) => <span className="mono">{messageId}</span>,
    text: ({ messageId }) => messageId,
  },
  { name: common.creator, phone: 'detail', cell: creatorOf, text: creatorOf },
  { name: texts.hidden, width: '11rem', cell: hiddenIn, text: hiddenIn },
  {
    name: common.created,
    width: '8rem',
    cell: ({ createdAt }) => <Time at={createdAt} />,
    text: ({ createdAt }) => createdAt,
  },
  {
    name: common.expires,
    phone: 'time',
    width: '9rem',
    cell: ({ expiresAt }) => <Time at={expiresAt} exact />,
    text: ({ expiresAt }) => expiresAt,
  },
];

export function SharesPage() {
  const { mode, mayWrite } = useScope();
  const list = usePages('listShares');
  return (
    <ListPage
      title={texts.title}
      lead={texts.lead}
      parent={{ href: `/app/${mode}/messages`, name: messagePage.messages }}
      code={<AsCode operation="listShares" />}
      label={common.label}
      columns={COLUMNS}
      rowActions={mayWrite ? (share) => <RevokeShare share={share} isInRow /> : undefined}
      list={list}
      keyOf={({ shareId }) => shareId}
      href={({ messageId }) => `/app/${mode}/messages/${messageId}`}
      hrefName={texts.openMessage}
      csvName="shared-links"
      empty={{ title: common.none, hint: texts.noneHint }}
    />
  );
}
