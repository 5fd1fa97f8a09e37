/** The processes of the service, with the last report of each. */
import { Alert } from '@mantine/core';
import { type Answer, usePages } from '../../api.ts';
import { ListPage } from '../../parts/list-page.tsx';
import type { Column } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { nodes } from '../../texts/operator.ts';
import { forOperators } from './for-operators.tsx';

type Node = Answer<'listNodes'>[number];

export const NodesPage = forOperators(nodes.title, NodesContent);

function NodesContent() {
  const list = usePages('listNodes', {}, { everyMs: 5_000, pageSize: 100 });
  const versions = new Set(list.items?.map(({ version }) => version));
  return (
    <ListPage
      title={nodes.title}
      lead={nodes.lead}
      notice={
        versions.size > 1 && (
          <Alert color="yellow" p="xs" mb="md">
            {nodes.mixed}
          </Alert>
        )
      }
      columns={COLUMNS}
      list={list}
      keyOf={({ nodeId }) => nodeId}
      empty={{ title: nodes.none }}
      csvName="nodes"
    />
  );
}

const COLUMNS: readonly Column<Node>[] = [
  {
    name: nodes.node,
    phone: 'title',
    cell: ({ nodeId }) => <span className="mono">{nodeId}</span>,
    text: ({ nodeId }) => nodeId,
  },
  { name: nodes.roles, phone: 'detail', cell: ({ roles }) => roles.join(', '), text: ({ roles }) => roles.join(' ') },
  {
    name: nodes.version,
    phone: 'badge',
    cell: ({ version }) => version,
    text: ({ version }) => version,
    width: '6rem',
  },
  {
    name: nodes.leases,
    cell: ({ leases }) => nodes.leasesOf(leases.delivery ?? 0, leases.webhooks ?? 0),
    text: ({ leases }) => (leases.delivery ?? 0) + (leases.webhooks ?? 0),
  },
  {
    name: nodes.started,
    cell: ({ startedAt }) => <Time at={startedAt} />,
    text: ({ startedAt }) => startedAt,
    width: '8rem',
    atEnd: true,
  },
  {
    name: nodes.seen,
    phone: 'time',
    cell: ({ lastSeenAt }) => <Time at={lastSeenAt} />,
    text: ({ lastSeenAt }) => lastSeenAt,
    width: '8rem',
    atEnd: true,
  },
];
