/** The audit log of all accounts: filter, view entries, and export. */
import { Anchor } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type Answer, type Query, useCall, usePages } from '../../api.ts';
import { timeOfDay } from '../../parts/days.ts';
import { FilterDate, Filters } from '../../parts/filters.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import type { Column } from '../../parts/rows.tsx';
import { SearchField } from '../../parts/search-field.tsx';
import { Time } from '../../parts/time.tsx';
import { type Search, useSearchState } from '../../search-state.ts';
import { audit } from '../../texts/operator.ts';
import { ENTRY_DETAILS, Who } from './audit-entry.tsx';
import { AuditExport } from './audit-export.tsx';
import { forOperators } from './for-operators.tsx';

type AuditEntry = Answer<'listServiceAuditEntries'>[number];

const TEXTS = ['action', 'resource', 'resourceId', 'accountId', 'actorId'] as const;
const LABELS = {
  action: audit.action,
  resource: audit.resource,
  resourceId: audit.resourceId,
  accountId: audit.accountId,
  actorId: audit.actor,
};
const HINTS: Partial<Record<(typeof TEXTS)[number], string>> = {
  action: audit.actionHint,
  resource: audit.resourceHint,
};

export const OperatorAuditPage = forOperators(audit.title, AuditContent);

/** Converts the dates of the filter to times; both days are included completely. */
function queryOf(search: Search): Query<'exportServiceAuditAsCsv'> {
  return {
    ...Object.fromEntries(TEXTS.map((name) => [name, search[name]])),
    since: timeOfDay(search.since, '00:00:00'),
    until: timeOfDay(search.until, '23:59:59.999'),
  };
}

function AuditContent() {
  const [search] = useSearchState();
  const query = queryOf(search);
  const list = usePages('listServiceAuditEntries', { query });
  const names = useCall('listAccounts', { query: { limit: 100 } });
  const isFiltered = Object.values(query).some(Boolean);
  const nameOf = (accountId: string): string =>
    names.data?.find((one) => one.accountId === accountId)?.name ?? accountId;
  return (
    <ListPage
      title={audit.title}
      lead={audit.lead}
      actions={<AuditExport query={query} />}
      filters={
        <Filters of={[...TEXTS, 'since', 'until']} isLong>
          {TEXTS.map((name) => (
            <SearchField key={name} name={name} label={LABELS[name]} placeholder={HINTS[name]} width="7.75rem" />
          ))}
          <FilterDate name="since" width="8.5rem" label={audit.since} />
          <FilterDate name="until" width="8.5rem" label={audit.until} />
        </Filters>
      }
      columns={columnsOf(nameOf)}
      details={ENTRY_DETAILS}
      list={list}
      keyOf={({ auditId }) => auditId}
      empty={isFiltered ? { title: audit.noneFound, hint: audit.noneFoundHint } : { title: audit.none }}
    />
  );
}

/** For the creation of an account, the resource itself. */
function accountOf({ accountId, resource, resourceId }: AuditEntry): string | null {
  return accountId ?? (resource === 'account' ? resourceId : null);
}

const columnsOf = (nameOf: (accountId: string) => string): readonly Column<AuditEntry>[] => [
  { name: audit.what, phone: 'title', cell: ({ action }) => action, width: '10rem' },
  { name: audit.who, phone: 'detail', cell: ({ actor }) => <Who of={actor} />, width: '22%' },
  { name: audit.of, cell: ({ resourceId }) => <span className="mono">{resourceId}</span>, width: '13rem' },
  {
    name: audit.account,
    cell: (entry) => {
      const accountId = accountOf(entry);
      return accountId === null ? null : (
        <Anchor component={Link} to={`/app/operator/accounts/${accountId}`} inherit>
          {nameOf(accountId)}
        </Anchor>
      );
    },
  },
  { name: audit.from, cell: ({ address }) => address, width: '8rem' },
  { name: audit.time, phone: 'time', cell: ({ time }) => <Time at={time} exact />, width: '8rem', atEnd: true },
];
