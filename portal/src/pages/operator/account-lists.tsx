/** The lists on an operator's page of an account: queued messages by recipient domain, users, and the latest changes. */
import { Alert, Stack } from '@mantine/core';
import { type Answer, useCall, usePages } from '../../api.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { Panel } from '../../parts/page.tsx';
import { type Column, Rows, Second } from '../../parts/rows.tsx';
import { count, dayAndTime, Time, useNow } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { account as texts } from '../../texts/operator.ts';
import { roles, team } from '../../texts/team.ts';
import { actorOf } from '../audit/entry.ts';
import { ENTRY_DETAILS } from './audit-entry.tsx';

type Destination = Answer<'listDestinations'>[number];
/** A domain with queued messages, and the paused destination that they wait for. */
type Domain = Answer<'getQueueOfAccount'>['domains'][number] & { paused?: Destination | undefined };
type Member = Answer<'listUsersOfAccount'>[number];
type Change = Answer<'listServiceAuditEntries'>[number];

const CHANGES_SHOWN = 10;

const DOMAINS: readonly Column<Domain>[] = [
  { name: texts.domain, phone: 'title', cell: ({ domain }) => visible(domain), width: '24%' },
  {
    name: texts.queued,
    phone: 'badge',
    cell: ({ depth }) => count(depth),
    width: '7rem',
    atEnd: true,
  },
  {
    name: texts.lastReply,
    phone: 'detail',
    cell: ({ lastReply, paused }) => (lastReply === null ? <NoReply paused={paused} /> : visible(lastReply)),
  },
  {
    name: texts.nextAttempt,
    phone: 'time',
    cell: ({ nextAttemptAt }) => (nextAttemptAt === null ? texts.delivering : <Time at={nextAttemptAt} />),
    width: '9rem',
    atEnd: true,
  },
];

/** Messages that a pause holds were never tried, so the reply that paused their destination says why they wait. */
function NoReply({ paused }: { paused: Destination | undefined }) {
  const now = useNow();
  if (paused === undefined || paused.pausedUntil === null) return texts.noReply;
  const [last] = paused.lastReplies;
  return (
    <>
      {texts.pausedBy(paused.destinationId, dayAndTime(Date.parse(paused.pausedUntil), now))}
      {last !== undefined && <Second>{texts.pausedReply(visible(last.reply))}</Second>}
    </>
  );
}

export function AccountQueue({ accountId }: { accountId: string }) {
  const queue = useCall('getQueueOfAccount', { path: { id: accountId } });
  // Paused ones are listed first.
  const destinations = useCall('listDestinations', { query: { limit: 100 } });
  const paused = new Map(
    destinations.data
      ?.filter(({ pausedUntil }) => pausedUntil !== null)
      .flatMap((one) => one.domains.map((domain) => [domain, one])),
  );
  return (
    <Panel title={texts.queue}>
      <Stack gap="sm">
        {queue.data?.isComplete === false && <Alert p="xs">{texts.queuePartial}</Alert>}
        <Rows
          label={texts.queue}
          columns={DOMAINS}
          list={{ ...queue, items: queue.data?.domains.map((one) => ({ ...one, paused: paused.get(one.domain) })) }}
          keyOf={({ domain }) => domain}
          empty={
            queue.data?.isComplete === false
              ? { title: texts.queuePartlyEmpty, hint: texts.queuePartlyEmptyHint }
              : { title: texts.queueEmpty, hint: texts.queueEmptyHint }
          }
        />
      </Stack>
    </Panel>
  );
}

const MEMBERS: readonly Column<Member>[] = [
  { name: team.email, phone: 'title', cell: ({ email }) => visible(email) },
  { name: team.role, phone: 'detail', cell: ({ role }) => roles[role].name, width: '8rem' },
  {
    name: team.status,
    phone: 'badge',
    cell: ({ status }) => <StatusBadge status={status} />,
    width: '7rem',
  },
  {
    name: team.lastSignIn,
    phone: 'time',
    cell: ({ lastSignInAt }) => (lastSignInAt === null ? texts.never : <Time at={lastSignInAt} />),
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
        list={list}
        keyOf={({ userId }) => userId}
        empty={{ title: texts.noUsers, hint: texts.noUsersHint }}
      />
    </Panel>
  );
}

const CHANGES: readonly Column<Change>[] = [
  {
    name: texts.change,
    phone: 'title',
    cell: ({ action }) => <span className="mono">{action}</span>,
  },
  { name: texts.actor, phone: 'detail', cell: (change) => visible(actorOf(change)) },
  {
    name: texts.changedAt,
    phone: 'time',
    cell: ({ time }) => <Time at={time} />,
    width: '9rem',
    atEnd: true,
  },
];

export function AccountChanges({ accountId }: { accountId: string }) {
  const latest = useCall('listServiceAuditEntries', { query: { accountId, limit: CHANGES_SHOWN } });
  return (
    <Panel title={texts.changes}>
      <Rows
        label={texts.changes}
        columns={CHANGES}
        list={{ ...latest, items: latest.data }}
        keyOf={({ auditId }) => auditId}
        details={ENTRY_DETAILS}
        empty={{ title: texts.noChanges }}
      />
    </Panel>
  );
}
