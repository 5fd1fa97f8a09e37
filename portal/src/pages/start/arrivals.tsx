/** The newest sandbox messages, which appear live and update with their outcome. */
import { Anchor, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type Answer, useCall } from '../../api.ts';
import { IconMail } from '../../icons.ts';
import { useFresh } from '../../live.tsx';
import { Badge, StatusBadge } from '../../parts/badge.tsx';
import { Panel } from '../../parts/page.tsx';
import { EmptyState, ErrorState, Loading } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { start } from '../../texts/start.ts';
import classes from './start.module.css';

const SHOWN = 5;

export function Arrivals() {
  const inbox = useCall('listSandboxInbox', { query: { limit: SHOWN } });
  useFresh(['listSandboxInbox']);
  return (
    <Panel
      title={start.arrived}
      actions={
        <Anchor component={Link} to="/app/sandbox/inbox">
          {start.toInbox}
        </Anchor>
      }
    >
      <div aria-live="polite">
        {inbox.isPending && <Loading />}
        {inbox.isError && inbox.data === undefined && <ErrorState error={inbox.error} onRetry={inbox.refetch} />}
        {inbox.data?.length === 0 && (
          <EmptyState icon={<IconMail size={28} aria-hidden className={classes.waiting} />} title={start.waiting}>
            {start.waitingHint}
          </EmptyState>
        )}
        <Stack gap="xs">
          {inbox.data?.map((mail) => (
            <Arrival key={mail.messageId} mail={mail} />
          ))}
        </Stack>
      </div>
    </Panel>
  );
}

function Arrival({ mail }: { mail: Answer<'listSandboxInbox'>[number] }) {
  return (
    <Link to={`/app/sandbox/inbox/${mail.messageId}`} className={classes.arrival}>
      <b className={classes.clipped}>{visible(mail.subject) || start.noSubject}</b>
      <Text span size="xs" c="dimmed">
        <Time at={mail.createdAt} />
      </Text>
      <Text span c="dimmed" className={classes.clipped}>
        {start.to(mail.to)}
      </Text>
      {mail.outcome === null ? <Badge tone="note">{start.onItsWay}</Badge> : <StatusBadge status={mail.outcome} />}
    </Link>
  );
}
