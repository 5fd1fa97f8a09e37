/** Mail to postmaster and abuse of the bounce domain: senders, and whether it was forwarded. */
import { Text } from '@mantine/core';
import { type Answer, usePages } from '../../api.ts';
import { Page } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { postmaster } from '../../texts/operator.ts';
import { forOperators } from './for-operators.tsx';

type Mail = Answer<'listPostmasterMail'>[number];

export const PostmasterPage = forOperators(postmaster.title, PostmasterContent);

function PostmasterContent() {
  const list = usePages('listPostmasterMail', {}, { everyMs: 30_000 });
  return (
    <Page title={postmaster.title} lead={postmaster.lead}>
      <Rows
        label={postmaster.title}
        columns={COLUMNS}
        rows={list.items}
        keyOf={({ inboundId }) => inboundId}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        empty={{ title: postmaster.none, hint: postmaster.noneHint }}
        csvName="postmaster-mail"
      />
    </Page>
  );
}

const COLUMNS: readonly Column<Mail>[] = [
  {
    name: postmaster.mail,
    cell: ({ subject, from, envelopeFrom }) => (
      <>
        {visible(subject) || postmaster.noSubject}
        <Text size="xs" c="dimmed">
          {from || envelopeFrom}
        </Text>
      </>
    ),
    text: ({ subject, from }) => `${subject} ${from}`,
    width: '20rem',
  },
  { name: postmaster.recipient, cell: ({ recipient }) => recipient, text: ({ recipient }) => recipient },
  {
    name: postmaster.forwarding,
    cell: ({ forwarding }) => postmaster.forwardings[forwarding],
    text: ({ forwarding }) => forwarding,
    width: '12rem',
  },
  {
    name: postmaster.received,
    cell: ({ receivedAt }) => <Time at={receivedAt} />,
    text: ({ receivedAt }) => receivedAt,
    width: '8rem',
    atEnd: true,
  },
];
