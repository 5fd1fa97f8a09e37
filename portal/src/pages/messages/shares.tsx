/** Lists the valid links to the messages of the account in the mode of the page, with a button that revokes each. */
import { usePages } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { Page } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { messagePage, shareList as texts } from '../../texts/messages.ts';
import { creatorOf, hiddenIn, RevokeShare, type Share } from './share-links.tsx';

const COLUMNS: readonly Column<Share>[] = [
  {
    name: texts.message,
    cell: ({ messageId }) => <span className="mono">{messageId}</span>,
    text: ({ messageId }) => messageId,
  },
  { name: texts.creator, cell: creatorOf, text: creatorOf },
  { name: texts.hidden, width: '11rem', cell: hiddenIn, text: hiddenIn },
  {
    name: texts.created,
    width: '8rem',
    cell: ({ createdAt }) => <Time at={createdAt} />,
    text: ({ createdAt }) => createdAt,
  },
  {
    name: texts.expires,
    width: '9rem',
    cell: ({ expiresAt }) => <Time at={expiresAt} exact />,
    text: ({ expiresAt }) => expiresAt,
  },
];

const REVOKE: Column<Share> = {
  name: texts.actions,
  width: '7rem',
  atEnd: true,
  cell: (share) => <RevokeShare share={share} />,
};

export function SharesPage() {
  const { mode, mayWrite } = useScope();
  const list = usePages('listShares');
  return (
    <Page
      title={texts.title}
      lead={texts.lead}
      parent={{ href: `/app/${mode}/messages`, name: messagePage.messages }}
      actions={<AsCode operation="listShares" />}
    >
      <Rows
        label={texts.label}
        columns={mayWrite ? [...COLUMNS, REVOKE] : COLUMNS}
        rows={list.items}
        keyOf={({ shareId }) => shareId}
        href={({ messageId }) => `/app/${mode}/messages/${messageId}`}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        empty={{ title: texts.none, hint: texts.noneHint }}
      />
    </Page>
  );
}
