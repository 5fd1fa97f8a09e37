/** The processes of the service, with the last report of each. */
import { Alert } from '@mantine/core';
import { type Answer, useCall } from '../../api.ts';
import { Page } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { nodes } from '../../texts/operator.ts';
import { forOperators } from './for-operators.tsx';

type Node = Answer<'listNodes'>[number];

export const NodesPage = forOperators(nodes.title, NodesContent);

function NodesContent() {
  const { data, error, refetch } = useCall('listNodes', {}, { everyMs: 5_000 });
  const versions = new Set(data?.map(({ version }) => version));
  return (
    <Page title={nodes.title} lead={nodes.lead}>
      {versions.size > 1 && (
        <Alert color="yellow" p="xs" mb="md">
          {nodes.mixed}
        </Alert>
      )}
      <Rows
        label={nodes.title}
        columns={COLUMNS}
        rows={data}
        keyOf={({ nodeId }) => nodeId}
        error={error}
        onRetry={refetch}
        empty={{ title: nodes.none }}
        csvName="nodes"
      />
    </Page>
  );
}

const COLUMNS: readonly Column<Node>[] = [
  { name: nodes.node, cell: ({ nodeId }) => <span className="mono">{nodeId}</span>, text: ({ nodeId }) => nodeId },
  { name: nodes.roles, cell: ({ roles }) => roles.join(', '), text: ({ roles }) => roles.join(' ') },
  { name: nodes.version, cell: ({ version }) => version, text: ({ version }) => version, width: '6rem' },
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
    cell: ({ lastSeenAt }) => <Time at={lastSeenAt} />,
    text: ({ lastSeenAt }) => lastSeenAt,
    width: '8rem',
    atEnd: true,
  },
];
