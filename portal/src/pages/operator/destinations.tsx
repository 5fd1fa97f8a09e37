/** The active destinations: connections, pauses, and the last replies of each. */
import { Button, Group, Text } from '@mantine/core';
import { type Answer, useChange, usePages } from '../../api.ts';
import { IconPlayerPlay } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { count, Time } from '../../parts/time.tsx';
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
      rows={list.items}
      keyOf={({ destinationId }) => destinationId}
      error={list.error}
      onRetry={list.refetch}
      hasMore={list.hasNextPage}
      isLoadingMore={list.isFetchingNextPage}
      onMore={list.fetchNextPage}
      empty={{ title: queue.noDestinations, hint: queue.noDestinationsHint }}
      csvName="destinations"
    />
  );
}

const COLUMNS: readonly Column<Destination>[] = [
  {
    name: queue.destination,
    cell: ({ destinationId, explanation }) => (
      <>
        {destinationId}
        <Text size="xs" c="dimmed">
          {explanation}
        </Text>
      </>
    ),
    text: ({ destinationId }) => destinationId,
    width: '20rem',
  },
  { name: queue.queued, cell: ({ depth }) => count(depth), text: ({ depth }) => depth, width: '5rem', atEnd: true },
  {
    name: queue.connections,
    cell: ({ connections, limit }) => queue.ofLimit(connections, limit),
    text: ({ connections, limit }) => queue.ofLimit(connections, limit),
    width: '7rem',
    atEnd: true,
  },
  {
    name: queue.state,
    cell: (destination) => <State of={destination} />,
    text: stateText,
    width: '14rem',
  },
  {
    name: queue.lastReply,
    cell: ({ lastReplies }) => <LastReply of={lastReplies[0]} />,
    text: ({ lastReplies }) => lastReplies[0]?.reply,
  },
];

/** No node has its mail in memory: all of it waits for its next attempt. */
function isRetrying({ nodes, nextAttemptAt }: Destination): boolean {
  return nodes.length === 0 && nextAttemptAt !== null;
}

function stateText(destination: Destination): string {
  const { pausedUntil, blockedSince, fallback, nextAttemptAt } = destination;
  if (isRetrying(destination)) return `${queue.retrying}; ${queue.nextAttempt} ${nextAttemptAt}`;
  const blocked = blockedSince === null ? [] : [`${queue.blocked} ${queue.since} ${blockedSince}`];
  const paused = pausedUntil === null ? [] : [`${queue.paused} ${queue.until} ${pausedUntil}`];
  const states = [...blocked, ...paused, ...(fallback ? [queue.byFallback] : [])];
  return states.join('; ') || queue.flowing;
}

function State({ of: destination }: { of: Destination }) {
  const { pausedUntil, blockedSince, fallback, nextAttemptAt } = destination;
  if (isRetrying(destination)) {
    return (
      <Group gap="xs">
        <Badge tone="wait">{queue.retrying}</Badge>
        <span>
          {queue.nextAttempt} <Time at={nextAttemptAt!} exact />
        </span>
      </Group>
    );
  }
  if (pausedUntil === null && blockedSince === null) return <Badge tone="good">{queue.flowing}</Badge>;
  return (
    <Group gap="xs">
      {blockedSince !== null && (
        <>
          <Badge tone="bad">{queue.blocked}</Badge>
          <span>
            {queue.since} <Time at={blockedSince} exact />
          </span>
          {fallback && <span>{queue.byFallback}</span>}
        </>
      )}
      {pausedUntil !== null && <Paused of={destination} until={pausedUntil} />}
    </Group>
  );
}

function Paused({ of: { destinationId }, until }: { of: Destination; until: string }) {
  const resume = useChange('resumeDestination', ['listDestinations', 'getQueue']);
  return (
    <>
      <Badge tone="wait">{queue.paused}</Badge>
      <span>
        {queue.until} <Time at={until} exact />
      </span>
      <Button
        variant="default"
        size="compact-sm"
        leftSection={<IconPlayerPlay size={14} />}
        aria-label={queue.resumeOf(destinationId)}
        loading={resume.isPending}
        onClick={() =>
          resume.mutate(
            { path: { id: destinationId } },
            { onSuccess: () => done(queue.resumed(destinationId)), onError: failed },
          )
        }
      >
        {queue.resume}
      </Button>
    </>
  );
}

function LastReply({ of: last }: { of: Destination['lastReplies'][number] | undefined }) {
  if (last === undefined) return queue.noReply;
  return (
    <>
      <span className={`mono ${classes.reply}`} title={last.reply}>
        {visible(last.reply)}
      </span>
      <Text size="xs" c="dimmed">
        {last.host} <Time at={last.time} />
      </Text>
    </>
  );
}
