/** One account for operators: usage, health, suspension, queue, users, changes, plan, limits, and support access. */
import { Button, Group, Stack, Tooltip } from '@mantine/core';
import { Link, useParams } from '@tanstack/react-router';
import type { Answer } from '../../api.ts';
import { useCall, useChange } from '../../api.ts';
import { IconEye, IconHistory, IconShield } from '../../icons.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { Confirmed } from '../../parts/confirmed.tsx';
import { Copyable } from '../../parts/copy.tsx';
import { Facts, Page, Panel } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { count, percent, Time } from '../../parts/time.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { account as texts } from '../../texts/operator.ts';
import { AccountChanges, AccountQueue, AccountUsers } from './account-lists.tsx';
import { AccountMessages, useOpenAccount } from './account-messages.tsx';
import { AccountPlan, isNearLimit } from './account-plan.tsx';
import { AccountStatus } from './account-status.tsx';
import { forOperators } from './for-operators.tsx';
import classes from './operator.module.css';
import { ProtectionNotice } from './sending-protection.tsx';
import { SuspensionPanel } from './suspension.tsx';

type Account = Answer<'getOperatorAccount'>;

export const AccountPage = forOperators(texts.overview, AccountContent);

function AccountContent() {
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  const { data: account, error, refetch } = useCall('getOperatorAccount', { path: { id } });
  const parent = { href: '/app/operator/accounts', name: texts.parent };
  if (account === undefined)
    return (
      <Page title={texts.overview} parent={parent}>
        {error === null ? <Loading /> : <ErrorState error={error} onRetry={refetch} />}
      </Page>
    );
  return (
    <Page
      title={account.name}
      parent={parent}
      badge={<AccountStatus account={account} />}
      primary={<Look account={account} />}
      actions={
        <Button
          variant="default"
          component={Link}
          to="/app/operator/audit"
          search={{ accountId: account.accountId } as never}
          leftSection={<IconHistory size={14} />}
        >
          {texts.audit}
        </Button>
      }
    >
      <Stack gap="md">
        <ProtectionNotice account={account} />
        <div className={classes.columns}>
          <Overview of={account} />
          <SuspensionPanel account={account} />
        </div>
        <AccountMessages account={account} />
        <AccountQueue accountId={account.accountId} />
        <AccountUsers accountId={account.accountId} />
        <AccountChanges accountId={account.accountId} />
        <AccountPlan key={account.accountId} account={account} />
      </Stack>
    </Page>
  );
}

const ofQuota = (used: number, quota: number | null): string =>
  quota === null ? count(used) : texts.ofQuota(count(used), count(quota));

function Overview({ of: account }: { of: Account }) {
  const { usage, limitUsage, limits, health } = account;
  const near = (Object.keys(limitUsage) as (keyof typeof limitUsage)[])
    .filter((name) => isNearLimit(account, name))
    .map((name) => `${texts.limitNames[name]} (${ofQuota(limitUsage[name]!, limits[name])})`);
  return (
    <Panel title={texts.overview}>
      <Facts
        of={[
          [texts.id, <Copyable key="id" value={account.accountId} />],
          [texts.made, <Time key="made" at={account.createdAt} exact />],
          [
            texts.lastActivity,
            account.lastActivityAt === null ? texts.never : <Time key="last" at={account.lastActivityAt} />,
          ],
          [texts.today, ofQuota(limitUsage.messagesPerDay ?? usage.messagesToday, limits.messagesPerDay)],
          [
            texts.thisMonth,
            limitUsage.messagesPerMonth === null
              ? undefined
              : ofQuota(limitUsage.messagesPerMonth, limits.messagesPerMonth),
          ],
          [texts.last30Days, count(usage.messagesLast30Days)],
          [texts.queued, count(usage.queued)],
          [texts.nearLimits, near.length === 0 ? undefined : near.join(', ')],
          [texts.twoFactor, <TwoFactor key="two-factor" account={account} />],
          [
            texts.health,
            <Group key="health" gap="xs">
              <StatusBadge status={health.status} />
              <span>
                {texts.bounces} {percent(health.bounceRate)}, {texts.complaints.toLowerCase()}{' '}
                {percent(health.complaintRate)}
              </span>
            </Group>,
          ],
        ]}
      />
    </Panel>
  );
}

/** Whether members need a second factor. An operator can only stop requiring it, for owners who are locked out. */
function TwoFactor({ account: { accountId, twoFactorRequired } }: { account: Account }) {
  const change = useChange('setAccount', ['getOperatorAccount', 'listAccounts', 'listServiceAuditEntries']);
  if (!twoFactorRequired) return texts.twoFactorOptional;
  return (
    <Group gap="xs">
      <span>{texts.twoFactorRequired}</span>
      <Confirmed
        label={texts.stopTwoFactor}
        icon={<IconShield size={14} />}
        effect={texts.stopTwoFactorEffect}
        confirm={texts.stopTwoFactorConfirm}
        isBusy={change.isPending}
        run={() =>
          change
            .mutateAsync({ path: { id: accountId }, body: { twoFactorRequired: false } })
            .then(() => done(texts.twoFactorStopped), failed)
        }
      />
    </Group>
  );
}

/** Opens the account: directly for members, for others after support access has started. */
function Look({ account }: { account: Account }) {
  const { isMember, isBusy, open } = useOpenAccount(account);
  if (isMember)
    return (
      <Button
        variant="default"
        component={Link}
        to="/app/live"
        // A new tab opens the account of the link.
        search={{ account: account.accountId } as never}
        onClick={(event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
          event.preventDefault();
          open('/app/live');
        }}
      >
        {texts.open}
      </Button>
    );
  return (
    <Tooltip label={texts.supportAccessHint}>
      <Button leftSection={<IconEye size={14} />} loading={isBusy} onClick={() => open('/app/live')}>
        {texts.supportAccess}
      </Button>
    </Tooltip>
  );
}
