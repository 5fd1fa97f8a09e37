/** The searchable, live list of messages. */
import { Anchor, Button, Group, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { pagesOf } from '../../../../clients/typescript/src/pages.ts';
import { type Message, usePages } from '../../api.ts';
import { IconCalendarTime, IconChevronUp, IconMailForward, IconShare, IconX } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { StatusBadge } from '../../parts/badge.tsx';
import type { BulkAction } from '../../parts/bulk.tsx';
import { Connection } from '../../parts/connection.tsx';
import { Page } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { useScope } from '../../scope.ts';
import { actions, bulkActions, messageList, shareList } from '../../texts/messages.ts';
import { FilterBar } from './filter-bar.tsx';
import { type MessageQuery, useListQuery } from './list-query.ts';
import { useLiveList } from './live-list.ts';
import { CANCELLABLE, SETTLED } from './message-actions.tsx';
import classes from './messages.module.css';

/** A search continues automatically through this many parts without results. */
const EMPTY_PARTS_AT_MOST = 8;

const { columns: names } = messageList;
const COLUMNS: readonly Column<Message>[] = [
  {
    name: names.subject,
    phone: 'detail',
    cell: ({ subject }) => <span className={classes.subject}>{visible(subject) || messageList.noSubject}</span>,
    text: ({ subject }) => subject,
  },
  {
    name: names.to,
    cell: (message) => <Recipient message={message} />,
    text: ({ to }) => to,
    width: '28%',
    phone: 'title',
  },
  {
    name: names.status,
    phone: 'badge',
    cell: ({ status }) => <StatusBadge status={status} />,
    text: ({ status }) => status,
    width: '7rem',
  },
  { name: names.tags, cell: ({ tags }) => <Tags tags={tags} />, text: ({ tags }) => tags.join(' '), width: '16%' },
  {
    name: names.when,
    phone: 'time',
    width: '7.5rem',
    atEnd: true,
    cell: ({ createdAt }) => <Time at={createdAt} />,
    text: ({ createdAt }) => createdAt,
  },
];

const BULK: readonly BulkAction<Message>[] = [
  {
    name: actions.resend,
    icon: <IconMailForward size={14} aria-hidden />,
    confirm: bulkActions.resend,
    effect: bulkActions.resendEffect,
    finished: bulkActions.resent,
    appliesTo: ({ status }) => SETTLED.has(status),
    run: (caller, { messageId }) => caller.call('resendMessage', { path: { id: messageId } }),
    stale: ['listMessages'],
  },
  {
    name: actions.move,
    icon: <IconCalendarTime size={14} aria-hidden />,
    confirm: bulkActions.move,
    effect: bulkActions.moveEffect,
    finished: bulkActions.moved,
    appliesTo: ({ status }) => status === 'scheduled',
    timeLabel: actions.moveLabel,
    run: (caller, { messageId }, sendAt) =>
      caller.call('rescheduleMessage', { path: { id: messageId }, body: { sendAt } }),
    stale: ['listMessages'],
  },
  {
    name: actions.cancel,
    icon: <IconX size={14} aria-hidden />,
    confirm: bulkActions.cancel,
    effect: bulkActions.cancelEffect,
    finished: bulkActions.cancelled,
    appliesTo: ({ status }) => CANCELLABLE.has(status),
    run: (caller, { messageId }) => caller.call('cancelMessage', { path: { id: messageId } }),
    stale: ['listMessages'],
  },
];

function Recipient({ message: { to, role } }: { message: Message }) {
  return (
    <>
      <span className={classes.address} title={to}>
        {to}
      </span>{' '}
      {role !== 'to' && (
        <Text span size="xs" c="dimmed">
          {messageList.role[role]}
        </Text>
      )}
    </>
  );
}

function Tags({ tags }: { tags: readonly string[] }) {
  if (tags.length === 0) return null;
  return (
    <span className={classes.tags}>
      {tags.map((tag) => (
        <span key={tag} className={classes.tag}>
          {tag}
        </span>
      ))}
    </span>
  );
}

/** A large search returns parts, some of them empty: after some empty parts it waits for the user to continue. */
function useMessages(query: MessageQuery) {
  const pages = usePages('listMessages', { query });
  const [continuedAt, setContinuedAt] = useState(0);
  const filter = JSON.stringify(query);
  useEffect(() => setContinuedAt(0), [filter]);
  const parts = pages.data?.pages ?? [];
  const lastFound = parts.findLastIndex((page) => page.items.length > 0) + 1;
  const emptyParts = parts.length - Math.max(lastFound, continuedAt);
  const isPaused = pages.hasNextPage && emptyParts >= EMPTY_PARTS_AT_MOST;
  const searchOn = (): void => {
    setContinuedAt(parts.length);
    void pages.fetchNextPage();
  };
  return { pages, parts: parts.length, isPaused, searchOn, filter };
}

export function MessagesPage() {
  const scope = useScope();
  const list = useListQuery();
  const { pages, parts, isPaused, searchOn, filter } = useMessages(list.query);
  const { connection, missed, showMissed } = useLiveList(parts, filter);
  const base = `/app/${scope.mode}`;
  const isEmptySearch = isPaused && pages.items?.length === 0;
  return (
    <Page
      title={messageList.title}
      badge={<Connection state={connection} title={messageList.connected} />}
      actions={
        <Button
          component={Link}
          to={`${base}/shares`}
          variant="default"
          leftSection={<IconShare size={14} aria-hidden />}
        >
          {shareList.open}
        </Button>
      }
      code={<AsCode operation="listMessages" input={{ query: list.query }} />}
    >
      <FilterBar list={list} />
      {missed > 0 && (
        <div className={classes.fresh} role="status">
          <Button leftSection={<IconChevronUp size={14} aria-hidden />} onClick={showMissed}>
            {messageList.fresh(missed, Object.keys(list.query).length > 0)}
          </Button>
        </div>
      )}
      {!isEmptySearch && (
        <Rows
          label={messageList.label}
          columns={COLUMNS}
          list={{ ...pages, hasNextPage: pages.hasNextPage && !isPaused }}
          keyOf={({ messageId }) => messageId}
          href={({ messageId }) => `${base}/messages/${messageId}`}
          bulk={scope.mayWrite ? BULK : undefined}
          empty={list.isFiltered ? nothingFits(list.clear) : nothingYet(base, scope.mayWrite)}
          csvName={`messages-${scope.mode}`}
          csvRows={() => pagesOf(scope.caller, 'listMessages', { query: { limit: 100, ...list.query } }, undefined)}
        />
      )}
      {isPaused && <SearchOn isEmpty={isEmptySearch} searchOn={searchOn} />}
    </Page>
  );
}

function SearchOn({ isEmpty, searchOn }: { isEmpty: boolean; searchOn(): void }) {
  const button = <Button onClick={searchOn}>{messageList.searchOn}</Button>;
  if (isEmpty)
    return (
      <EmptyState title={messageList.nothing} action={button}>
        {messageList.paused}
      </EmptyState>
    );
  return (
    <Group justify="center" mt="sm">
      <Text c="dimmed">{messageList.paused}</Text>
      {button}
    </Group>
  );
}

function nothingFits(clear: () => void) {
  const action = (
    <Button variant="default" onClick={clear}>
      {messageList.clear}
    </Button>
  );
  return { title: messageList.nothing, hint: messageList.nothingHint, action };
}

function nothingYet(base: string, mayWrite: boolean) {
  const action = mayWrite ? (
    <Anchor component={Link} to={`${base}/start`}>
      {messageList.emptyLink}
    </Anchor>
  ) : undefined;
  return { title: messageList.empty, hint: messageList.emptyHint, action };
}
