/** The audit log: who changed what, when and from where; an entry opens to show its fields before and after. */
import { Drawer } from '@mantine/core';
import { useState } from 'react';
import { type Query, usePages } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { Page } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { audit } from '../../texts/audit.ts';
import { AuditDetail } from './detail.tsx';
import { type AuditEntry, actorOf } from './entry.ts';
import { ExportButtons } from './export.tsx';
import { AuditFilters } from './filters.tsx';

const COLUMNS: readonly Column<AuditEntry>[] = [
  { name: audit.columns.what, cell: ({ action }) => action, text: ({ action }) => action },
  {
    name: audit.columns.resource,
    cell: ({ resourceId, resource }) => <span className="mono">{resourceId ?? resource}</span>,
    text: ({ resourceId, resource }) => resourceId ?? resource,
  },
  {
    name: audit.columns.who,
    cell: (one) =>
      (actorOf(one) === audit.kinds[one.actor.kind] ? '' : `${audit.kinds[one.actor.kind]} `) + actorOf(one),
    text: actorOf,
  },
  { name: audit.columns.from, cell: ({ address }) => address, text: ({ address }) => address },
  { name: audit.columns.when, cell: ({ time }) => <Time at={time} />, text: ({ time }) => time, width: '8rem' },
];

/** Dates of date fields are in the user's time zone. */
function timeOf(day: string | undefined, clock: string): string | undefined {
  const at = new Date(`${day}T${clock}`);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

/** Returns the filters of the page's URL as API parameters. */
function useFilters(): Query<'exportAuditAsCsv'> {
  const [{ action, resource, resourceId, actorId, since, until }] = useSearchState();
  const times = { since: timeOf(since, '00:00:00'), until: timeOf(until, '23:59:59.999') };
  return { action, resource, resourceId, actorId, ...times };
}

export function AuditPage() {
  const { mode } = useScope();
  const [, setSearch] = useSearchState();
  const [opened, open] = useState<AuditEntry>();
  const query = useFilters();
  const list = usePages('listAuditEntries', { query }, { everyMs: 20_000 });
  const isFiltered = Object.values(query).some(Boolean);
  return (
    <Page
      title={audit.title}
      lead={mode === 'sandbox' ? audit.sandboxLead : audit.lead}
      actions={
        <>
          <ExportButtons query={query} />
          <AsCode operation="listAuditEntries" input={{ query }} />
        </>
      }
    >
      <AuditFilters entries={list.items ?? []} isFiltered={isFiltered} />
      <Rows
        label={audit.title}
        columns={COLUMNS}
        rows={list.items}
        keyOf={({ auditId }) => auditId}
        onOpen={(one) => open(one)}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        empty={{ title: audit.none, hint: isFiltered ? audit.noneFiltered : audit.noneHint }}
      />
      <Drawer
        opened={opened !== undefined}
        onClose={() => open(undefined)}
        position="right"
        size="xl"
        title={opened?.action}
      >
        {opened !== undefined && (
          <AuditDetail
            of={opened}
            onFilter={(filter) => {
              setSearch(filter);
              open(undefined);
            }}
          />
        )}
      </Drawer>
    </Page>
  );
}
