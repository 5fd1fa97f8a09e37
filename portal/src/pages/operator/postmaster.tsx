/** Mail to postmaster and abuse of the bounce domain: senders, and whether it was forwarded. */
import { type Answer, usePages } from '../../api.ts';
import { ListPage } from '../../parts/list-page.tsx';
import type { Column } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { postmaster } from '../../texts/operator.ts';
import { forOperators } from './for-operators.tsx';

type Mail = Answer<'listPostmasterMail'>[number];

export const PostmasterPage = forOperators(postmaster.title, PostmasterContent);

function PostmasterContent() {
  const list = usePages('listPostmasterMail', {}, { everyMs: 30_000 });
  return (
    <ListPage
      title={postmaster.title}
      lead={postmaster.lead}
      columns={COLUMNS}
      list={list}
      keyOf={({ inboundId }) => inboundId}
      empty={{ title: postmaster.none, hint: postmaster.noneHint }}
      csvName="postmaster-mail"
    />
  );
}

const COLUMNS: readonly Column<Mail>[] = [
  {
    name: postmaster.subject,
    phone: 'title',
    cell: ({ subject }) => visible(subject) || postmaster.noSubject,
    text: ({ subject }) => subject,
    width: '26%',
  },
  {
    name: postmaster.from,
    phone: 'detail',
    cell: ({ from, envelopeFrom }) => visible(from || envelopeFrom),
    text: ({ from }) => from,
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
    phone: 'time',
    cell: ({ receivedAt }) => <Time at={receivedAt} />,
    text: ({ receivedAt }) => receivedAt,
    width: '8rem',
    atEnd: true,
  },
];
