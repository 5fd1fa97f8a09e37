/** The members of the account: roles, invitations, role changes, removals. */
import { Button } from '@mantine/core';
import { useState } from 'react';
import { usePages } from '../../api.ts';
import { IconPlus } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import { LiveOnly, Notice } from '../../parts/notice.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import { useScope } from '../../scope.ts';
import { invitation, roles, team } from '../../texts/team.ts';
import { Invitation } from './invitation.tsx';
import { type Member, memberColumns, RemoveMember, ROLES } from './member-columns.tsx';
import classes from './team.module.css';
import { TwoFactorPanel } from './two-factor.tsx';

export function TeamPage() {
  const { mayOwn, mode } = useScope();
  const [isInviting, setInviting] = useState(false);
  /** Members whose removal can still be undone. */
  const [removed, setRemoved] = useState<ReadonlySet<string>>(new Set());
  const list = usePages('listUsers');
  const mayChange = mayOwn && mode === 'live';
  const owners = list.hasNextPage ? undefined : list.items?.filter(({ role }) => role === 'owner').length;
  const isLastOwner = ({ role }: Member): boolean => role === 'owner' && owners === 1;
  const mark = ({ userId }: Member, isRemoved: boolean): void =>
    setRemoved((before) => new Set(isRemoved ? [...before, userId] : [...before].filter((one) => one !== userId)));
  return (
    <ListPage
      title={team.title}
      lead={team.lead}
      primary={
        mayChange && (
          <Button leftSection={<IconPlus size={14} />} onClick={() => setInviting(true)}>
            {invitation.open}
          </Button>
        )
      }
      code={<AsCode operation="listUsers" />}
      notice={mayOwn ? <LiveOnly>{team.onlyLive}</LiveOnly> : <Notice>{team.onlyOwners}</Notice>}
      columns={memberColumns({ mayChange, isLastOwner })}
      rowActions={
        mayChange ? (member) => !isLastOwner(member) && <RemoveMember member={member} onRemoved={mark} /> : undefined
      }
      list={list}
      rows={list.items?.filter(({ userId }) => !removed.has(userId))}
      keyOf={({ userId }) => userId}
      empty={{ title: team.none }}
      csvName="team"
    >
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
      {isInviting && <Invitation onClose={() => setInviting(false)} />}
    </ListPage>
  );
}
