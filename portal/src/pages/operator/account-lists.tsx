/** The lists on an operator's page of an account: queued messages by recipient domain, users, and the latest changes. */
import { Alert, Stack } from '@mantine/core';
import { type Answer, useCall, usePages } from '../../api.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { Panel } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { count, Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { audit } from '../../texts/audit.ts';
import { account as texts } from '../../texts/operator.ts';
import { roles, team } from '../../texts/team.ts';

type Domain = Answer<'getQueueOfAccount'>['domains'][number];
type Member = Answer<'listUsersOfAccount'>[number];
type Change = Answer<'listServiceAuditEntries'>[number];

const CHANGES_SHOWN = 10;

const DOMAINS: readonly Column<Domain>[] = [
  { name: texts.domain, cell: ({ domain }) => visible(domain), text: ({ domain }) => domain },
  {
    name: texts.queued,
    cell: ({ depth }) => count(depth),
    text: ({ depth }) => depth,
    width: '7rem',
    atEnd: true,
  },
  {
    name: texts.lastReply,
    cell: ({ lastReply }) => (lastReply === null ? texts.noReply : visible(lastReply)),
    text: ({ lastReply }) => lastReply,
  },
  {
    name: texts.nextAttempt,
    cell: ({ nextAttemptAt }) => (nextAttemptAt === null ? texts.delivering : <Time at={nextAttemptAt} />),
    text: ({ nextAttemptAt }) => nextAttemptAt,
    width: '9rem',
    atEnd: true,
  },
];

export function AccountQueue({ accountId }: { accountId: string }) {
  const { data, error, refetch } = useCall('getQueueOfAccount', { path: { id: accountId } });
  return (
    <Panel title={texts.queue}>
      <Stack gap="sm">
        {data?.isComplete === false && <Alert p="xs">{texts.queuePartial}</Alert>}
        <Rows
          label={texts.queue}
          columns={DOMAINS}
          rows={data?.domains}
          keyOf={({ domain }) => domain}
          error={error}
          onRetry={refetch}
          empty={{ title: texts.queueEmpty, hint: texts.queueEmptyHint }}
        />
      </Stack>
    </Panel>
  );
}

const MEMBERS: readonly Column<Member>[] = [
  { name: team.email, cell: ({ email }) => visible(email), text: ({ email }) => email },
  { name: team.role, cell: ({ role }) => roles[role].name, text: ({ role }) => role, width: '8rem' },
  {
    name: team.status,
    cell: ({ status }) => <StatusBadge status={status} />,
    text: ({ status }) => status,
    width: '7rem',
  },
  {
    name: team.lastSignIn,
    cell: ({ lastSignInAt }) => (lastSignInAt === null ? texts.never : <Time at={lastSignInAt} />),
    text: ({ lastSignInAt }) => lastSignInAt,
    width: '9rem',
    atEnd: true,
  },
];

export function AccountUsers({ accountId }: { accountId: string }) {
  const list = usePages('listUsersOfAccount', { path: { id: accountId } });
  return (
    <Panel title={texts.users}>
      <Rows
        label={texts.users}
        columns={MEMBERS}
        rows={list.items}
        keyOf={({ userId }) => userId}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        empty={{ title: texts.noUsers, hint: texts.noUsersHint }}
      />
    </Panel>
  );
}

const actorOf = ({ actor: { kind, id, name } }: Change): string => name ?? id ?? audit.kinds[kind];

const CHANGES: readonly Column<Change>[] = [
  { name: texts.change, cell: ({ action }) => <span className="mono">{action}</span>, text: ({ action }) => action },
  { name: texts.actor, cell: (change) => visible(actorOf(change)), text: actorOf },
  {
    name: texts.changedAt,
    cell: ({ time }) => <Time at={time} />,
    text: ({ time }) => time,
    width: '9rem',
    atEnd: true,
  },
];

export function AccountChanges({ accountId }: { accountId: string }) {
  const { data, error, refetch } = useCall('listServiceAuditEntries', { query: { accountId, limit: CHANGES_SHOWN } });
  return (
    <Panel title={texts.changes}>
      <Rows
        label={texts.changes}
        columns={CHANGES}
        rows={data}
        keyOf={({ auditId }) => auditId}
        error={error}
        onRetry={refetch}
        empty={{ title: texts.noChanges }}
      />
    </Panel>
  );
}
