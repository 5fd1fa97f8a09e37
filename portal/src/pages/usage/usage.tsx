/** The plan of the account, what it has used, and its limits. */
import { Anchor, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type Answer, useCall } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { StatusBadge } from '../../parts/badge.tsx';
import { Facts, Page, Panel } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { count, size } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { usage } from '../../texts/usage.ts';
import { Limits } from './limits.tsx';
import classes from './usage.module.css';

export function UsagePage() {
  const account = useCall('getAccount');
  if (account.data === undefined)
    return (
      <Page title={usage.title} lead={usage.lead}>
        {account.error ? <ErrorState error={account.error} onRetry={account.refetch} /> : <Loading />}
      </Page>
    );
  return (
    <Page title={usage.title} lead={usage.lead} code={<AsCode operation="getAccount" />}>
      <Stack gap="md">
        <div className={classes.columns}>
          <Panel title={usage.account}>
            <AccountFacts of={account.data} />
          </Panel>
          <Panel title={usage.limits}>
            <Limits of={account.data.limits} />
          </Panel>
        </div>
      </Stack>
    </Page>
  );
}

/** The API counts up to this number (GET /account). */
const COUNTED_AT_MOST = 100_000;

function AccountFacts({ of: { plan, status, usage: used, limits } }: { of: Answer<'getAccount'> }) {
  const { mode } = useScope();
  return (
    <>
      <Facts
        of={[
          [usage.plan, usage.plans[plan]],
          [usage.status, <StatusBadge key="status" status={status} />],
          [usage.today, count(used.messagesToday)],
          [usage.last30, `${count(used.messagesLast30Days)}${used.messagesLast30Days >= COUNTED_AT_MOST ? '+' : ''}`],
          [usage.queued, count(used.queued)],
          [usage.approved, size(limits.approvedEmailBytes)],
        ]}
      />
      <Text c="dimmed" size="xs" mt="sm">
        {usage.approvedHint(size(limits.maximumEmailBytes), size(limits.maximumFinalMimeBytes))}{' '}
        <Anchor component={Link} to={`/app/${mode}/approvals`} size="xs" underline="always">
          {usage.approve}
        </Anchor>
      </Text>
    </>
  );
}
