/** The live feed of events: filtered by the page's URL, paused while the user reads, each event opens as JSON. */
import { Button, Group, Stack } from '@mantine/core';
import { useWindowScroll } from '@mantine/hooks';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Event } from '../../api.ts';
import { IconPlayerPause, IconPlayerPlay } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { StatusBadge } from '../../parts/badge.tsx';
import { Connection } from '../../parts/connection.tsx';
import { Code, CopyText } from '../../parts/copy.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import { pathOfMail } from '../../parts/mail-path.ts';
import type { Column } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { useScope } from '../../scope.ts';
import { eventTexts } from '../../texts/event-types.ts';
import { events } from '../../texts/events.ts';
import classes from './events.module.css';
import { useFeed } from './feed.ts';
import { EventFilters, useFilter } from './filters.tsx';

/** A user who has scrolled down is reading: new rows on top would move the text. */
const READING_FROM_PX = 160;

/** Another account or mode has another log. */
export function EventsPage() {
  const { name } = useScope();
  return <EventsOfScope key={name} />;
}

function EventsOfScope() {
  const { mode, mayWrite } = useScope();
  const [isPaused, setPaused] = useState(false);
  const [{ y }] = useWindowScroll();
  const filter = useFilter();
  const isHeld = isPaused || y > READING_FROM_PX;
  const feed = useFeed(filter, isHeld);
  const isFiltered = Object.values(filter).some((one) => one !== undefined);
  const show = (): void => {
    setPaused(false);
    feed.release();
    scrollTo({ top: 0 });
  };
  const firstSteps = mayWrite && (
    <Button component={Link} to={`/app/${mode}/start`}>
      {events.firstSteps}
    </Button>
  );
  return (
    <ListPage
      title={events.title}
      lead={events.lead}
      badge={<Connection state={feed.state} />}
      actions={
        <Button
          variant="default"
          leftSection={isPaused ? <IconPlayerPlay size={14} /> : <IconPlayerPause size={14} />}
          onClick={() => (isPaused ? show() : setPaused(true))}
        >
          {isPaused ? events.resume : events.pause}
        </Button>
      }
      code={<AsCode operation="listEvents" input={{ query: filter }} />}
      filters={
        <>
          <EventFilters />
          <div className={classes.fresh} role="status">
            {feed.unseenCount > 0 && <Button onClick={show}>{events.fresh(feed.unseenCount)}</Button>}
          </div>
        </>
      }
      columns={COLUMNS}
      list={feed}
      details={{ title: () => events.one, content: (event) => <OneEvent event={event} /> }}
      keyOf={({ eventId }) => eventId}
      empty={
        isFiltered
          ? { title: events.noneFiltered, hint: events.noneFilteredHint }
          : { title: events.none, hint: events.noneHint, action: firstSteps }
      }
      csvName="events"
    />
  );
}

const said = (event: Event): string => visible((event.bounce ?? event.deliveryDelay ?? event.delivery)?.reply ?? '');

const names = events.columns;
const COLUMNS: Column<Event>[] = [
  {
    name: names.event,
    phone: 'badge',
    width: '9rem',
    cell: ({ eventType }) => <StatusBadge status={eventType} tone={eventTexts[eventType].tone} />,
    text: ({ eventType }) => eventType,
  },
  {
    name: names.recipient,
    phone: 'title',
    width: '22%',
    cell: ({ recipient }) => <span className={classes.clipped}>{recipient}</span>,
    text: ({ recipient }) => recipient,
  },
  {
    name: names.subject,
    phone: 'detail',
    width: '22%',
    cell: ({ subject }) => <span className={classes.clipped}>{visible(subject) || events.noSubject}</span>,
    text: ({ subject }) => subject,
  },
  { name: names.said, cell: (event) => <span className={classes.clipped}>{said(event)}</span>, text: said },
  {
    name: names.time,
    phone: 'time',
    width: '8rem',
    atEnd: true,
    cell: ({ timestamp }) => <Time at={timestamp} />,
    text: ({ timestamp }) => timestamp,
  },
];

function OneEvent({ event }: { event: Event }) {
  const { mode } = useScope();
  const json = JSON.stringify(event, null, 2);
  return (
    <Stack gap="sm">
      <Group gap="xs">
        <StatusBadge status={event.eventType} tone={eventTexts[event.eventType].tone} />
        <Time at={event.timestamp} exact />
      </Group>
      <Group gap="xs">
        <Button component={Link} to={pathOfMail(mode, event.messageId)} variant="default">
          {events.toMessage}
        </Button>
        <CopyText value={json}>{events.copyJson}</CopyText>
      </Group>
      <Code code={json} label={events.json} />
    </Stack>
  );
}
