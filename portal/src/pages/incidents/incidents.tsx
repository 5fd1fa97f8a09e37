/** The current incidents, largest first, with what to do about each. */
import { usePages } from '../../api.ts';
import { useFresh } from '../../live.tsx';
import { AsCode } from '../../parts/as-code.tsx';
import { StatusBadge } from '../../parts/badge.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import type { Column } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { useScope } from '../../scope.ts';
import { incidents } from '../../texts/incidents.ts';
import classes from './incidents.module.css';
import { adviceOf, howMany, type Incident, whatFails } from './labels.ts';

/** Failures of webhooks and domains cause no events. */
const EVERY_MS = 15_000;
const REFRESH_MS = 1_000;

const replyOf = (one: Incident): string | undefined =>
  one.kind === 'delivery' && one.reply !== null ? visible(one.reply) : undefined;

const COLUMNS: readonly Column<Incident>[] = [
  {
    name: incidents.columns.what,
    phone: 'title',
    cell: (one) => whatFails(one),
    text: whatFails,
    width: '24%',
  },
  {
    name: incidents.columns.state,
    phone: 'badge',
    cell: ({ state }) => <StatusBadge status={state} />,
    text: ({ state }) => state,
  },
  { name: incidents.columns.many, phone: 'detail', cell: howMany, text: howMany, width: '8.5rem' },
  {
    name: incidents.columns.since,
    phone: 'time',
    cell: ({ since }) => <Time at={since} />,
    text: ({ since }) => since,
  },
  {
    name: incidents.columns.advice,
    cell: (one) => (
      <>
        {adviceOf(one)}
        {replyOf(one) !== undefined && <div className={classes.reply}>{replyOf(one)}</div>}
      </>
    ),
    text: adviceOf,
    width: '42%',
  },
];

export function IncidentsPage() {
  const { mode } = useScope();
  const list = usePages('listIncidents', {}, { everyMs: EVERY_MS });
  useFresh(['listIncidents'], undefined, REFRESH_MS);
  return (
    <ListPage
      title={incidents.title}
      lead={incidents.lead}
      code={<AsCode operation="listIncidents" />}
      columns={COLUMNS}
      list={list}
      keyOf={({ incidentId }) => incidentId}
      href={({ incidentId }) => `/app/${mode}/incidents/${incidentId}`}
      empty={{ title: incidents.none, hint: incidents.noneHint }}
      csvName="incidents"
    />
  );
}
