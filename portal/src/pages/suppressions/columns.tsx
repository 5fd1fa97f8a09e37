/** The columns of the suppression list. */
import { Anchor, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { Answer } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import type { Column } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { reasons, suppressions } from '../../texts/suppressions.ts';

export type Suppression = Answer<'listSuppressions'>[number];

export const columnsOf = (mode: string): Column<Suppression>[] => [
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
