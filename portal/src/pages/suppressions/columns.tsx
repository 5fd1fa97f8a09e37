/** The columns of the suppression list; users who may change it also get the one with the remove button. */
import { ActionIcon, Anchor, Text, Tooltip } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { Answer } from '../../api.ts';
import { IconTrash } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import type { Column } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { reasons, suppressions } from '../../texts/suppressions.ts';

type Suppression = Answer<'listSuppressions'>[number];

export function columnsOf(mode: string, lift: ((email: string) => void) | undefined): Column<Suppression>[] {
  const columns: Column<Suppression>[] = [
    { name: suppressions.email, cell: ({ email }) => email, phone: 'title' },
    { name: suppressions.reason, cell: ({ reason }) => <Why reason={reason} />, phone: 'detail' },
    { name: suppressions.since, width: '8rem', cell: ({ createdAt }) => <Time at={createdAt} exact />, phone: 'time' },
    {
      name: suppressions.until,
      width: '8rem',
      cell: ({ expiresAt }) => (expiresAt === null ? suppressions.forever : <Time at={expiresAt} exact />),
    },
    {
      name: suppressions.source,
      width: '6rem',
      cell: ({ sourceMessageId: id }) =>
        id !== null && (
          <Anchor component={Link} to={`/app/${mode}/messages/${id}`}>
            {suppressions.sourceLink}
          </Anchor>
        ),
    },
  ];
  if (lift === undefined) return columns;
  return [
    ...columns,
    {
      name: suppressions.actions,
      phone: 'badge',
      width: '3.5rem',
      atEnd: true,
      cell: ({ email }) => (
        <Tooltip label={suppressions.lift(email)}>
          <ActionIcon size="sm" aria-label={suppressions.lift(email)} onClick={() => lift(email)}>
            <IconTrash size={14} />
          </ActionIcon>
        </Tooltip>
      ),
    },
  ];
}

function Why({ reason }: { reason: Suppression['reason'] }) {
  const { name, short } = reasons[reason];
  return (
    <>
      <Badge tone={reason === 'manual' ? 'calm' : 'wait'}>{name}</Badge>{' '}
      <Text span c="dimmed" size="xs">
        {short}
      </Text>
    </>
  );
}
