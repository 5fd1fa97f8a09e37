/** Current figures, each with a link to its source. */
import { Skeleton } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { type Answer, useCall } from '../../api.ts';
import { dayOf, timeOfDay } from '../../parts/days.ts';
import { count, useNow } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { tiles } from '../../texts/overview.ts';
import { LISTED } from './failing.tsx';
import classes from './overview.module.css';

const COUNTED_AT_MOST = 100;

interface TileProps {
  name: string;
  to: string;
  search?: Record<string, string>;
  value: ReactNode | undefined;
  hint: string;
  isBad?: boolean;
}

function Tile({ name, to, search, value, hint, isBad }: TileProps) {
  const { mode } = useScope();
  return (
    <li>
      <Link to={`/app/${mode}${to}`} search={search as never} className={classes.tile}>
        <span>{name}</span>
        <b>{value ?? <Skeleton height={20} width={48} my={4} />}</b>
        <small data-bad={isBad || undefined}>{hint}</small>
      </Link>
    </li>
  );
}

/** Counts a list by its first page. */
const counted = (list: readonly unknown[] | undefined): string | undefined =>
  list && `${list.length}${list.length >= COUNTED_AT_MOST ? '+' : ''}`;

export function Tiles({ account }: { account: Answer<'getAccount'> | undefined }) {
  // The list of requests reads the day of its URL in the user's time zone.
  const today = dayOf(useNow());
  const since = timeOfDay(today, '00:00:00');
  const refused = useCall(
    'listRequests',
    { query: { status: 'failed', since, limit: COUNTED_AT_MOST } },
    { everyMs: 30_000 },
  ).data;
  const webhooks = useCall('listWebhooks', { query: { limit: COUNTED_AT_MOST } }, { everyMs: 60_000 }).data;
  const failing = useCall('listIncidents', LISTED).data?.filter(({ kind }) => kind === 'webhook').length ?? 0;
  const usage = account?.usage;
  const webhookHint = webhooks?.length === 0 ? tiles.webhooksNone : tiles.webhooksWell;
  return (
    <ul className={classes.tiles} aria-label={tiles.label}>
      <Tile name={tiles.today} to="/messages" value={usage && count(usage.messagesToday)} hint={tiles.todayHint} />
      <Tile
        name={tiles.waiting}
        to="/messages"
        search={{ status: 'queued' }}
        value={usage && count(usage.queued)}
        hint={tiles.waitingHint}
      />
      <Tile
        name={tiles.webhooks}
        to="/webhooks"
        value={counted(webhooks)}
        hint={failing > 0 ? tiles.webhooksFail(failing) : webhookHint}
        isBad={failing > 0}
      />
      <Tile
        name={tiles.refused}
        to="/requests"
        search={{ status: 'failed', since: today }}
        value={counted(refused)}
        hint={refused?.length === 0 ? tiles.refusedNone : tiles.refusedSome}
      />
    </ul>
  );
}
