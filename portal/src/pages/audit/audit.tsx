/** The audit log: who changed what, when and from where; an entry opens to show its fields before and after. */
import { type Query, usePages } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { timeOfDay } from '../../parts/days.ts';
import { ListPage } from '../../parts/list-page.tsx';
import type { Column } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { audit } from '../../texts/audit.ts';
import { AuditDetail } from './detail.tsx';
import { type AuditEntry, actorOf } from './entry.ts';
import { ExportButtons } from './export.tsx';
import { AuditFilters } from './filters.tsx';

const COLUMNS: readonly Column<AuditEntry>[] = [
  { name: audit.columns.what, phone: 'title', cell: ({ action }) => action, text: ({ action }) => action },
  {
    name: audit.columns.resource,
    cell: ({ resourceId, resource }) => <span className="mono">{resourceId ?? resource}</span>,
    text: ({ resourceId, resource }) => resourceId ?? resource,
  },
  {
    name: audit.columns.who,
    phone: 'detail',
    cell: (one) =>
      (actorOf(one) === audit.kinds[one.actor.kind] ? '' : `${audit.kinds[one.actor.kind]} `) + actorOf(one),
    text: actorOf,
  },
  { name: audit.columns.from, cell: ({ address }) => address, text: ({ address }) => address },
  {
    name: audit.columns.when,
    phone: 'time',
    cell: ({ time }) => <Time at={time} />,
    text: ({ time }) => time,
    width: '8rem',
    atEnd: true,
  },
];

/** Returns the filters of the page's URL as API parameters. */
function useFilters(): Query<'exportAuditAsCsv'> {
  const [{ action, resource, resourceId, actorId, since, until }] = useSearchState();
  return {
    action,
    resource,
    resourceId,
    actorId,
    since: timeOfDay(since, '00:00:00'),
    until: timeOfDay(until, '23:59:59.999'),
  };
}

export function AuditPage() {
  const { mode } = useScope();
  const [, setSearch] = useSearchState();
  const query = useFilters();
  const list = usePages('listAuditEntries', { query }, { everyMs: 20_000 });
  const isFiltered = Object.values(query).some(Boolean);
  return (
    <ListPage
      title={audit.title}
      lead={mode === 'sandbox' ? audit.sandboxLead : audit.lead}
      actions={<ExportButtons query={query} />}
      code={<AsCode operation="listAuditEntries" input={{ query }} />}
      filters={<AuditFilters entries={list.items ?? []} />}
      columns={COLUMNS}
      list={list}
      keyOf={({ auditId }) => auditId}
      details={{
        title: ({ action }) => action,
        size: 'xl',
        content: (one, close) => (
          <AuditDetail
            of={one}
            onFilter={(filter) => {
              setSearch(filter);
              close();
            }}
          />
        ),
      }}
      empty={{ title: audit.none, hint: isFiltered ? audit.noneFiltered : audit.noneHint }}
    />
  );
}
