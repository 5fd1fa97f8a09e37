/** The audit log of all accounts: filter, view entries, and export. */
import { Anchor, Button, Modal, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { type Answer, type Query, useCall, usePages } from '../../api.ts';
import { Page } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { useSearchState } from '../../search-state.ts';
import { audit } from '../../texts/operator.ts';
import { Entry, Who } from './audit-entry.tsx';
import { AuditExport } from './audit-export.tsx';
import { forOperators } from './for-operators.tsx';
import classes from './operator.module.css';

type AuditEntry = Answer<'listServiceAuditEntries'>[number];

const TEXTS = ['action', 'resource', 'resourceId', 'actorId'] as const;
const LABELS = {
  action: audit.action,
  resource: audit.resource,
  resourceId: audit.resourceId,
  actorId: audit.actor,
};
const HINTS: Partial<Record<(typeof TEXTS)[number], string>> = {
  action: audit.actionHint,
  resource: audit.resourceHint,
};

export const OperatorAuditPage = forOperators(audit.title, AuditContent);

/** Converts the dates of the filter to times; both days are included completely. */
function queryOf(search: Record<string, string | undefined>): Query<'exportServiceAuditAsCsv'> {
  const { since, until } = search;
  const day = (text: string | undefined, time: string): string | undefined =>
    text && !Number.isNaN(Date.parse(text)) ? new Date(`${text}T${time}`).toISOString() : undefined;
  return {
    ...Object.fromEntries(TEXTS.map((name) => [name, search[name]])),
    since: day(since, '00:00:00'),
    until: day(until, '23:59:59.999'),
  };
}

function AuditContent() {
  const [search, change] = useSearchState();
  const [shown, setShown] = useState<AuditEntry>();
  const query = queryOf(search);
  const list = usePages('listServiceAuditEntries', { query });
  const names = useCall('listAccounts', { query: { limit: 100 } });
  const isFiltered = Object.values(query).some(Boolean);
  const nameOf = (accountId: string): string =>
    names.data?.find((one) => one.accountId === accountId)?.name ?? accountId;
  const clear = (): void => change(Object.fromEntries([...TEXTS, 'since', 'until'].map((name) => [name, ''])));
  return (
    <Page title={audit.title} lead={audit.lead} actions={<AuditExport query={query} />}>
      <Filters key={isFiltered ? 'filtered' : 'all'} onClear={isFiltered ? clear : undefined} />
      <Rows
        label={audit.title}
        columns={columnsOf(nameOf, setShown)}
        rows={list.items}
        keyOf={({ auditId }) => auditId}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        empty={isFiltered ? { title: audit.noneFound, hint: audit.noneFoundHint } : { title: audit.none }}
      />
      <Modal
        opened={shown !== undefined}
        onClose={() => setShown(undefined)}
        title={shown && audit.details(shown.action)}
        size="xl"
      >
        {shown !== undefined && <Entry of={shown} />}
      </Modal>
    </Page>
  );
}

function Filters({ onClear }: { onClear: (() => void) | undefined }) {
  const [search, change] = useSearchState();
  const [typed, setTyped] = useState(search);
  const find = useDebouncedCallback(change, 300);
  const field = (name: string) => ({
    value: typed[name] ?? '',
    onChange({ currentTarget: { value } }: { currentTarget: { value: string } }) {
      const next = { ...typed, [name]: value };
      setTyped(next);
      find({ ...next, [name]: value.trim() }, { typed: true });
    },
  });
  return (
    <search className={classes.filters}>
      {TEXTS.map((name) => (
        <TextInput key={name} label={LABELS[name]} placeholder={HINTS[name]} {...field(name)} />
      ))}
      <TextInput type="date" label={audit.since} {...field('since')} />
      <TextInput type="date" label={audit.until} {...field('until')} />
      {onClear !== undefined && (
        <Button variant="default" onClick={onClear}>
          {audit.clear}
        </Button>
      )}
    </search>
  );
}

/** For the creation of an account, the resource itself. */
function accountOf({ accountId, resource, resourceId }: AuditEntry): string | null {
  return accountId ?? (resource === 'account' ? resourceId : null);
}

function columnsOf(
  nameOf: (accountId: string) => string,
  onShow: (entry: AuditEntry) => void,
): readonly Column<AuditEntry>[] {
  return [
    { name: audit.time, cell: ({ time }) => <Time at={time} exact />, width: '8rem' },
    { name: audit.who, cell: ({ actor }) => <Who of={actor} /> },
    {
      name: audit.what,
      cell: (entry) => (
        <Anchor component="button" inherit onClick={() => onShow(entry)} aria-label={audit.showOf(entry.action)}>
          {entry.action}
        </Anchor>
      ),
      width: '10rem',
    },
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
  ];
}
