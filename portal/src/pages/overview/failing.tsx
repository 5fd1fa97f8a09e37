/** The largest incidents, each with what to do about it; empty if there are none. */
import { Anchor } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useCall } from '../../api.ts';
import { IconAlertTriangle } from '../../icons.ts';
import { Panel } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { overview } from '../../texts/overview.ts';
import { adviceOf, howMany, whatFails } from '../incidents/labels.ts';
import classes from './overview.module.css';

/** The tiles count webhooks from the same response. */
export const LISTED = { query: { limit: 100 } };
const SHOWN = 3;

export function Failing() {
  const { mode } = useScope();
  const list = useCall('listIncidents', LISTED, { everyMs: 20_000 }).data ?? [];
  if (list.length === 0) return null;
  const base = `/app/${mode}/incidents`;
  return (
    <Panel
      title={overview.failing}
      actions={
        list.length > SHOWN && (
          <Anchor component={Link} to={base} size="sm">
            {overview.allIncidents(list.length, list.length === LISTED.query.limit)}
          </Anchor>
        )
      }
    >
      <ul className={classes.failing}>
        {list.slice(0, SHOWN).map((one) => (
          <li key={one.incidentId}>
            <IconAlertTriangle size={16} aria-hidden />
            <div>
              <Anchor component={Link} to={`${base}/${one.incidentId}`} inherit fw={550}>
                {whatFails(one)}
              </Anchor>{' '}
              <span className={classes.dimmed}>
                {howMany(one)}, {overview.since} <Time at={one.since} exact={mode === 'sandbox'} />
              </span>
              <div>{adviceOf(one)}</div>
            </div>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
