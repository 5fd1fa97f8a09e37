/** One incident: what happened, who has to act, what to do, and a button that retries all its messages. */
import { Anchor, Stack } from '@mantine/core';
import { Link, useParams } from '@tanstack/react-router';
import { PostriderError } from '../../api.ts';
import { IconCircleCheck } from '../../icons.ts';
import { useFresh } from '../../live.tsx';
import { AsCode } from '../../parts/as-code.tsx';
import { StatusBadge } from '../../parts/badge.tsx';
import { Copyable } from '../../parts/copy.tsx';
import { Facts, Page, Panel } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { EmptyState, ErrorState, Loading } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { incidents, incident as texts } from '../../texts/incidents.ts';
import classes from './incidents.module.css';
import { categoryName, howMany, type Incident, whatFails, whoseTurn } from './labels.ts';
import { Todo } from './todo.tsx';
import { type Affected, useIncident } from './use-incident.ts';

const REFRESH_MS = 1_000;

export function IncidentPage() {
  const { id = '' }: { id?: string } = useParams({ strict: false });
  const { mode } = useScope();
  const asked = useIncident(id);
  const { incident, error } = asked;
  useFresh(['getIncident'], () => error === null, REFRESH_MS);
  const parent = { href: `/app/${mode}/incidents`, name: incidents.title };
  // A resolved incident is 404, whether it was shown before or not.
  if (error instanceof PostriderError && error.status === 404)
    return (
      <Page title={texts.title} parent={parent}>
        <EmptyState
          icon={<IconCircleCheck size={28} aria-hidden />}
          title={texts.over}
          action={
            <Anchor component={Link} to={parent.href}>
              {texts.toList}
            </Anchor>
          }
        >
          {texts.overHint}
        </EmptyState>
      </Page>
    );
  if (incident === undefined) return error ? <ErrorState error={error} onRetry={asked.refetch} isPage /> : <Loading />;
  return (
    <Page
      title={whatFails(incident)}
      badge={<StatusBadge status={incident.state} />}
      parent={parent}
      code={<AsCode operation="getIncident" input={{ path: { id } }} />}
    >
      <Stack gap="md">
        <Todo incident={incident} />
        <Panel title={texts.facts}>
          <Facts of={factsOf(incident)} />
        </Panel>
        {incident.kind === 'delivery' && <AffectedMessages {...asked} />}
      </Stack>
    </Page>
  );
}

type FactList = Parameters<typeof Facts>[0]['of'];

function factsOf(one: Incident): FactList {
  const common: FactList = [
    [texts.whoseTurn, whoseTurn(one)],
    [texts.affected, howMany(one)],
    [texts.since, <Time key="since" at={one.since} exact />],
    [texts.lastAt, <Time key="last" at={one.lastAt} exact />],
  ];
  if (one.kind === 'webhook')
    return [
      ...common,
      [texts.lastStatus, one.lastError ?? one.lastStatus ?? undefined],
      [texts.disabledReason, one.disabledReason],
    ];
  if (one.kind === 'domain')
    return [...common, [texts.record, <Copyable key="record" value={`${one.record.type} ${one.record.name}`} />]];
  if (one.kind === 'reputation') return [...common, [texts.reason, one.reason ?? undefined]];
  const codes = [one.smtpCode, one.enhancedCode].filter((code) => code !== null).join(' ');
  return [
    ...common,
    [texts.next, one.nextAttemptAt && <Time key="next" at={one.nextAttemptAt} exact />],
    [texts.category, categoryName(one.category)],
    [texts.code, codes === '' ? undefined : codes],
    [texts.reply, one.reply === null ? undefined : <Quote key="reply" of={one.reply} />],
  ];
}

function Quote({ of }: { of: string }) {
  return <blockquote className={classes.quote}>{of}</blockquote>;
}

const COLUMNS: readonly Column<Affected>[] = [
  { name: texts.columns.to, phone: 'title', cell: ({ to }) => to, text: ({ to }) => to },
  {
    name: texts.columns.status,
    phone: 'badge',
    cell: ({ status }) => <StatusBadge status={status} />,
    text: ({ status }) => status,
  },
  {
    name: texts.columns.failed,
    phone: 'time',
    cell: ({ failedAt }) => <Time at={failedAt} />,
    text: ({ failedAt }) => failedAt,
  },
  {
    name: texts.columns.next,
    phone: 'detail',
    cell: ({ nextAttemptAt }) =>
      nextAttemptAt && (
        <>
          <span className="phone-only">{texts.columns.next} </span>
          <Time at={nextAttemptAt} />
        </>
      ),
    text: ({ nextAttemptAt }) => nextAttemptAt,
  },
  {
    name: texts.columns.id,
    cell: ({ messageId }) => <span className="mono">{messageId}</span>,
    text: ({ messageId }) => messageId,
  },
];

function AffectedMessages(asked: ReturnType<typeof useIncident>) {
  const { mode } = useScope();
  return (
    <Panel title={texts.messages}>
      <Rows
        label={texts.messages}
        columns={COLUMNS}
        list={asked}
        keyOf={({ messageId }) => messageId}
        href={({ messageId }) => `/app/${mode}/messages/${messageId}`}
        empty={{ title: texts.noMessages }}
        csvName="incident-messages"
      />
    </Panel>
  );
}
