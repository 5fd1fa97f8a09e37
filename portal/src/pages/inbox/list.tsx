/** The captured messages, newest first, each with its outcome and its age by the sandbox clock. */
import { Button, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type Answer, type Query, usePages } from '../../api.ts';
import { Badge, StatusBadge } from '../../parts/badge.tsx';
import { EmptyState, ErrorState, Loading } from '../../parts/states.tsx';
import { ago, useNow } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { useScope } from '../../scope.ts';
import { inbox } from '../../texts/inbox.ts';
import classes from './inbox.module.css';

type Item = Answer<'listSandboxInbox'>[number];

export type InboxFilter = Pick<Query<'listSandboxInbox'>, 'to' | 'subject' | 'tag'>;

export function Outcome({ outcome }: Pick<Item, 'outcome'>) {
  return outcome === null ? <Badge tone="note">{inbox.onItsWay}</Badge> : <StatusBadge status={outcome} />;
}

interface MailListProps {
  filter: InboxFilter;
  chosen: string | undefined;
  /** The inbox is being emptied, which can still be undone. */
  isEmptied: boolean;
}

export function MailList({ filter, chosen, isEmptied }: MailListProps) {
  const pages = usePages('listSandboxInbox', { query: filter });
  const now = useNow();
  const items = isEmptied ? [] : pages.items;
  if (items === undefined && pages.isError) return <ErrorState error={pages.error} onRetry={pages.refetch} />;
  if (items === undefined) return <Loading />;
  if (items.length === 0) return <NoMail isFiltered={Object.values(filter).some((one) => one !== undefined)} />;
  const laterSeconds = Math.max(0, now - pages.dataUpdatedAt) / 1_000;
  return (
    <>
      <ul className={classes.items} aria-label={inbox.list}>
        {items.map((item) => (
          <MailItem key={item.messageId} item={item} laterSeconds={laterSeconds} isChosen={item.messageId === chosen} />
        ))}
      </ul>
      {pages.hasNextPage && (
        <Button variant="default" m="sm" loading={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
          {inbox.more}
        </Button>
      )}
    </>
  );
}

function MailItem({ item, laterSeconds, isChosen }: { item: Item; laterSeconds: number; isChosen: boolean }) {
  const ageSeconds = item.age + laterSeconds;
  return (
    <li>
      <Link
        to={`/app/sandbox/inbox/${item.messageId}`}
        search={true as never}
        className={classes.item}
        aria-current={isChosen ? 'true' : undefined}
      >
        <span className={classes.subject}>{visible(item.subject) || inbox.noSubject}</span>
        <Text span c="dimmed" size="xs">
          {ago(-ageSeconds * 1_000, 0)}
        </Text>
        <Text span c="dimmed" size="xs" className={classes.address}>
          {inbox.recipient(item.to)}
        </Text>
        <span>
          <Outcome outcome={item.outcome} />
        </span>
      </Link>
    </li>
  );
}

function NoMail({ isFiltered }: { isFiltered: boolean }) {
  const { mayWrite } = useScope();
  if (isFiltered) return <EmptyState title={inbox.noneFiltered}>{inbox.noneFilteredHint}</EmptyState>;
  const action = mayWrite && (
    <Button component={Link} to="/app/sandbox/start">
      {inbox.firstSteps}
    </Button>
  );
  return (
    <EmptyState title={inbox.none} action={action}>
      {inbox.noneHint}
    </EmptyState>
  );
}
