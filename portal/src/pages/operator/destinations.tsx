/** The active destinations: connections, pauses, and the last replies of each. */
import { Text } from '@mantine/core';
import { type Answer, useChange, usePages } from '../../api.ts';
import { IconPlayerPlay } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import { Facts } from '../../parts/page.tsx';
import { RowAction } from '../../parts/row-action.tsx';
import { type Column, Rows, Second } from '../../parts/rows.tsx';
import { count, dayAndTime, Time } from '../../parts/time.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { visible } from '../../parts/visible.ts';
import { queue } from '../../texts/operator.ts';
import classes from './operator.module.css';

type Destination = Answer<'listDestinations'>[number];

export function Destinations({ everyMs }: { everyMs: number }) {
  const list = usePages('listDestinations', {}, { everyMs });
  return (
    <Rows
      label={queue.destinations}
      columns={COLUMNS}
      list={list}
      rowActions={(one) => one.pausedUntil !== null && <Resume of={one} />}
      keyOf={({ destinationId }) => destinationId}
      details={{
        title: ({ destinationId }) => destinationId,
        content: (one) => (
          <>
            <Text>{withTimes(one.explanation)}</Text>
            <Facts of={COLUMNS.slice(1).map(({ name, cell }) => [name, cell(one)])} />
          </>
        ),
      }}
      empty={{ title: queue.noDestinations, hint: queue.noDestinationsHint }}
      csvName="destinations"
    />
  );
}

/** Replaces the times in a text of the API by those of the user. */
function withTimes(text: string): string {
  return text.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (at) => dayAndTime(Date.parse(at), Date.now()));
}

const COLUMNS: readonly Column<Destination>[] = [
  {
    name: queue.destination,
    phone: 'title',
    cell: ({ destinationId }) => destinationId,
    text: ({ destinationId }) => destinationId,
    width: '14rem',
  },
  {
    name: queue.queued,
    phone: 'time',
    cell: ({ depth }) => count(depth),
    text: ({ depth }) => depth,
    width: '5rem',
    atEnd: true,
  },
  {
    name: queue.connections,
    cell: ({ connections, limit }) => queue.ofLimit(connections, limit),
    text: ({ connections, limit }) => queue.ofLimit(connections, limit),
    width: '7rem',
    atEnd: true,
  },
  {
    name: queue.state,
    phone: 'badge',
    cell: (destination) => <State of={destination} />,
    text: stateText,
    width: '14rem',
  },
  {
    name: queue.lastReply,
    phone: 'detail',
    cell: ({ lastReplies }) => <LastReply of={lastReplies[0]} />,
    text: ({ lastReplies }) => lastReplies[0]?.reply,
  },
];

/** No node has its mail in memory: all of it waits for its next attempt, which is the first one if there is no reply yet. */
function waitingState({ nodes, nextAttemptAt, lastReplies }: Destination): string | undefined {
  if (nodes.length > 0 || nextAttemptAt === null) return undefined;
  return lastReplies.length === 0 ? queue.scheduled : queue.retrying;
}

function stateText(destination: Destination): string {
  const { pausedUntil, blockedSince, fallback, nextAttemptAt } = destination;
  const waiting = waitingState(destination);
  if (waiting !== undefined) return `${waiting}; ${queue.nextAttempt} ${nextAttemptAt}`;
  const blocked = blockedSince === null ? [] : [`${queue.blocked} ${queue.since} ${blockedSince}`];
  const paused = pausedUntil === null ? [] : [`${queue.paused} ${queue.until} ${pausedUntil}`];
  const states = [...blocked, ...paused, ...(fallback ? [queue.byFallback] : [])];
  return states.join('; ') || queue.flowing;
}

function State({ of: destination }: { of: Destination }) {
  const { pausedUntil, blockedSince, fallback, nextAttemptAt } = destination;
  const waiting = waitingState(destination);
  if (waiting !== undefined)
    return (
      <>
        <Badge tone={waiting === queue.retrying ? 'wait' : 'note'}>{waiting}</Badge>
        <Second>
          {queue.nextAttempt} <Time at={nextAttemptAt!} exact />
        </Second>
      </>
    );
  if (pausedUntil === null && blockedSince === null) return <Badge tone="good">{queue.flowing}</Badge>;
  return (
    <>
      {blockedSince !== null && (
        <>
          <Badge tone="bad">{queue.blocked}</Badge>
          <Second>
            {queue.since} <Time at={blockedSince} exact /> {fallback && queue.byFallback}
          </Second>
        </>
      )}
      {pausedUntil !== null && (
        <>
          <Badge tone="wait">{queue.paused}</Badge>
          <Second>
            {queue.until} <Time at={pausedUntil} exact />
          </Second>
        </>
      )}
    </>
  );
}

function Resume({ of: { destinationId } }: { of: Destination }) {
  const resume = useChange('resumeDestination', ['listDestinations', 'getQueue']);
  return (
    <RowAction
      label={queue.resumeOf(destinationId)}
      icon={<IconPlayerPlay size={14} />}
      isBusy={resume.isPending}
      staysOpen
      onClick={() =>
        resume.mutate(
          { path: { id: destinationId } },
          { onSuccess: () => done(queue.resumed(destinationId)), onError: failed },
        )
      }
    />
  );
}

function LastReply({ of: last }: { of: Destination['lastReplies'][number] | undefined }) {
  if (last === undefined) return queue.noReply;
  return (
    <>
      <span className={`mono ${classes.reply}`} title={last.reply}>
        {visible(last.reply)}
      </span>
      <Second>
        {last.host} <Time at={last.time} />
      </Second>
    </>
  );
}
