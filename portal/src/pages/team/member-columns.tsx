/** The columns of the list of members, with the actions of owners. */
import { Select, Text, Tooltip } from '@mantine/core';
import { type Answer, useChange } from '../../api.ts';
import { IconTrash } from '../../icons.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { RowAction } from '../../parts/row-action.tsx';
import type { Column } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { done, failed, withUndo } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { roles, team } from '../../texts/team.ts';
import classes from './team.module.css';

export type Member = Answer<'listUsers'>[number];

export function hasSecondFactor({ totp, passkeys }: Member): boolean {
  return totp || passkeys > 0;
}

function secondFactors({ totp, passkeys }: Member): string {
  return [totp && team.app, passkeys > 0 && team.passkey].filter(Boolean).join(', ');
}

export const ROLES = ['viewer', 'member', 'owner'] as const;

interface MemberColumns {
  mayChange: boolean;
  isLastOwner(member: Member): boolean;
}

export const memberColumns = ({ mayChange, isLastOwner }: MemberColumns): readonly Column<Member>[] => [
  { name: team.email, phone: 'title', cell: (member) => <Who member={member} />, text: ({ email }) => email },
  {
    name: team.role,
    phone: 'detail',
    cell: (member) => (
      <>
        <span className={mayChange ? classes.roleName : undefined}>{roles[member.role].name}</span>
        {mayChange && <RoleChoice member={member} isLastOwner={isLastOwner(member)} />}
      </>
    ),
    text: ({ role }) => role,
    width: '9rem',
  },
  {
    name: team.status,
    phone: 'badge',
    cell: ({ status }) => <StatusBadge status={status} />,
    text: ({ status }) => status,
    width: '7rem',
  },
  {
    name: team.twoFactor,
    cell: (member) =>
      hasSecondFactor(member) ? (
        secondFactors(member)
      ) : (
        <Text span inherit c="dimmed">
          {team.noFactor}
        </Text>
      ),
    text: (member) => secondFactors(member),
    width: '9rem',
  },
  {
    name: team.lastSignIn,
    phone: 'time',
    cell: ({ lastSignInAt }) => (lastSignInAt === null ? team.never : <Time at={lastSignInAt} />),
    text: ({ lastSignInAt }) => lastSignInAt,
    width: '7rem',
  },
  {
    name: team.joined,
    cell: ({ createdAt }) => <Time at={createdAt} />,
    text: ({ createdAt }) => createdAt,
    width: '7rem',
  },
];

function Who({ member: { userId, email } }: { member: Member }) {
  const { person } = useScope();
  return (
    <>
      {email}
      {userId === person.userId && (
        <Text span inherit c="dimmed">
          {' '}
          ({team.you})
        </Text>
      )}
    </>
  );
}

function RoleChoice({ member: { userId, email, role }, isLastOwner }: { member: Member; isLastOwner: boolean }) {
  const change = useChange('changeUserRole', ['listUsers', 'getSession']);
  return (
    <Tooltip label={team.lastOwner} disabled={!isLastOwner}>
      <Select
        size="xs"
        className={classes.roleChoice}
        aria-label={team.roleOf(email)}
        data={ROLES.map((value) => ({ value, label: roles[value].name }))}
        value={change.isPending ? change.variables.body!.role : role}
        disabled={isLastOwner || change.isPending}
        onChange={(chosen) =>
          chosen !== null &&
          chosen !== role &&
          change.mutate(
            { path: { id: userId }, body: { role: chosen } },
            { onSuccess: () => done(team.changed(email, roles[chosen].name.toLowerCase())), onError: failed },
          )
        }
      />
    </Tooltip>
  );
}

interface RemoveProps {
  member: Member;
  /** Called with false when the removal is undone. */
  onRemoved(member: Member, isRemoved: boolean): void;
}

export function RemoveMember({ member, onRemoved }: RemoveProps) {
  const remove = useChange('removeUser', ['listUsers', 'getSession']);
  return (
    <RowAction
      label={team.removeOf(member.email)}
      icon={<IconTrash size={15} />}
      onClick={() => {
        onRemoved(member, true);
        withUndo({
          message: team.removed(member.email),
          run: () => remove.mutateAsync({ path: { id: member.userId } }),
          onUndo: () => onRemoved(member, false),
        });
      }}
    />
  );
}
