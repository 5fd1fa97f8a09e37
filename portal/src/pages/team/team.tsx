/** The members of the account: roles, invitations, role changes, removals. */
import { Button, Stack } from '@mantine/core';
import { useState } from 'react';
import { usePages } from '../../api.ts';
import { IconPlus } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { LiveOnly, Notice } from '../../parts/notice.tsx';
import { Facts, Page, Panel } from '../../parts/page.tsx';
import { Rows } from '../../parts/rows.tsx';
import { useScope } from '../../scope.ts';
import { invitation, roles, team } from '../../texts/team.ts';
import { Invitation } from './invitation.tsx';
import { type Member, memberColumns, ROLES } from './member-columns.tsx';
import classes from './team.module.css';
import { TwoFactorPanel } from './two-factor.tsx';

export function TeamPage() {
  const { mayOwn, mode } = useScope();
  const [isInviting, setInviting] = useState(false);
  /** Members whose removal can still be undone. */
  const [removed, setRemoved] = useState<ReadonlySet<string>>(new Set());
  const list = usePages('listUsers');
  const rows = list.items?.filter(({ userId }) => !removed.has(userId));
  const mayChange = mayOwn && mode === 'live';
  const owners = list.hasNextPage ? undefined : list.items?.filter(({ role }) => role === 'owner').length;
  const mark = ({ userId }: Member, isRemoved: boolean): void =>
    setRemoved((before) => new Set(isRemoved ? [...before, userId] : [...before].filter((one) => one !== userId)));
  return (
    <Page
      title={team.title}
      lead={team.lead}
      actions={
        <>
          {mayChange && (
            <Button leftSection={<IconPlus size={14} />} onClick={() => setInviting(true)}>
              {invitation.open}
            </Button>
          )}
          <AsCode operation="listUsers" />
        </>
      }
    >
      <Stack gap="md">
        {mayOwn ? <LiveOnly>{team.onlyLive}</LiveOnly> : <Notice>{team.onlyOwners}</Notice>}
        <Rows
          label={team.title}
          columns={memberColumns({
            mayChange,
            isLastOwner: ({ role }) => role === 'owner' && owners === 1,
            onRemoved: mark,
          })}
          rows={rows}
          keyOf={({ userId }) => userId}
          error={list.error}
          onRetry={list.refetch}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          onMore={list.fetchNextPage}
          empty={{ title: team.none }}
          csvName="team"
        />
        <div className={classes.panels}>
          {list.items !== undefined && (
            <TwoFactorPanel
              members={list.items}
              hasMore={list.hasNextPage}
              onMore={list.fetchNextPage}
              mayChange={mayChange}
            />
          )}
          <Panel title={roles.title}>
            <Facts of={ROLES.map((role) => [roles[role].name, roles[role].may])} />
          </Panel>
        </div>
      </Stack>
      <Invitation isOpen={isInviting} onClose={() => setInviting(false)} />
    </Page>
  );
}
