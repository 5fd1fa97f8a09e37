/** The suppressed addresses: search by address and reason, add, remove, export and import. */
import { Button, Select } from '@mantine/core';
import { useState } from 'react';
import { type Answer, type Input, usePages } from '../../api.ts';
import { IconDownload, IconPlus, IconTrash, IconUpload } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import type { BulkAction } from '../../parts/bulk.tsx';
import { saveFile } from '../../parts/csv.ts';
import { FilterField } from '../../parts/filter-field.tsx';
import { Facts, Page } from '../../parts/page.tsx';
import { useRemoval } from '../../parts/removal.ts';
import { Rows } from '../../parts/rows.tsx';
import { SavedFilters } from '../../parts/saved-filters.tsx';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { REASONS, reasons, suppressions } from '../../texts/suppressions.ts';
import { AddAddress, REASON_CHOICES } from './add-address.tsx';
import { columnsOf } from './columns.tsx';
import { ImportAddresses } from './import-addresses.tsx';
import classes from './suppressions.module.css';

type Reason = Answer<'listSuppressions'>[number]['reason'];

const BULK: readonly BulkAction<Answer<'listSuppressions'>[number]>[] = [
  {
    name: suppressions.remove,
    icon: <IconTrash size={14} aria-hidden />,
    confirm: suppressions.removeConfirm,
    effect: suppressions.removeEffect,
    finished: suppressions.removed,
    appliesTo: () => true,
    run: (caller, { email }) => caller.call('deleteSuppression', { path: { email } }),
    stale: ['listSuppressions'],
  },
];

export function SuppressionsPage() {
  const { mayWrite, mode } = useScope();
  const [search, setSearch] = useSearchState();
  const [open, setOpen] = useState<'add' | 'import'>();
  const reason = REASONS.find((one) => one === search.reason);
  const query = { email: search.email || undefined, reason };
  const list = usePages('listSuppressions', { query });
  const { isRemoved, remove } = useRemoval('deleteSuppression', ['listSuppressions']);
  const isFiltered = query.email !== undefined || reason !== undefined;
  const clear = (): void => setSearch({ email: undefined, reason: undefined });
  const lift = (email: string): void => remove(email, { path: { email } }, suppressions.lifted(email));
  return (
    <Page
      title={suppressions.title}
      lead={suppressions.lead}
      actions={<Actions query={query} onOpen={setOpen} mayWrite={mayWrite} />}
    >
      <Filters reason={reason} onChange={setSearch} />
      <Meanings />
      <Rows
        label={suppressions.list}
        columns={columnsOf(mode, mayWrite ? lift : undefined)}
        rows={list.items?.filter(({ email }) => !isRemoved(email))}
        keyOf={({ email }) => email}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        bulk={mayWrite ? BULK : undefined}
        empty={
          isFiltered
            ? {
                title: suppressions.noneTitle,
                hint: suppressions.noneHint,
                action: (
                  <Button variant="default" onClick={clear}>
                    {suppressions.clear}
                  </Button>
                ),
              }
            : { title: suppressions.emptyTitle, hint: suppressions.emptyHint }
        }
      />
      <AddAddress isOpen={open === 'add'} onClose={() => setOpen(undefined)} />
      <ImportAddresses isOpen={open === 'import'} onClose={() => setOpen(undefined)} />
    </Page>
  );
}

interface ActionsProps {
  query: Input<'listSuppressions'>['query'];
  onOpen(what: 'add' | 'import'): void;
  mayWrite: boolean;
}

function Actions({ query, onOpen, mayWrite }: ActionsProps) {
  const { caller } = useScope();
  const [isBusy, setBusy] = useState(false);
  const save = async (): Promise<void> => {
    setBusy(true);
    try {
      saveFile('suppressions.csv', await (await caller.call('exportSuppressions')).blob());
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button variant="default" leftSection={<IconDownload size={14} />} loading={isBusy} onClick={() => void save()}>
        {suppressions.export}
      </Button>
      {mayWrite && (
        <>
          <Button variant="default" leftSection={<IconUpload size={14} />} onClick={() => onOpen('import')}>
            {suppressions.import}
          </Button>
          <Button leftSection={<IconPlus size={14} />} onClick={() => onOpen('add')}>
            {suppressions.add}
          </Button>
        </>
      )}
      <AsCode operation="listSuppressions" input={{ query }} />
    </>
  );
}

interface FiltersProps {
  reason: Reason | undefined;
  onChange(change: Record<string, string | undefined>): void;
}

function Filters({ reason, onChange }: FiltersProps) {
  return (
    <search className={classes.filters}>
      <FilterField
        name="email"
        label={suppressions.emailFilter}
        size="sm"
        type="search"
        autoComplete="off"
        style={{}}
      />
      <Select
        label={suppressions.reason}
        data={[{ value: '', label: suppressions.anyReason }, ...REASON_CHOICES]}
        value={reason ?? ''}
        onChange={(value) => onChange({ reason: value ?? undefined })}
      />
      <SavedFilters list="suppressions" size="sm" />
    </search>
  );
}

function Meanings() {
  return (
    <details className={classes.meanings}>
      <summary>{suppressions.whatReasons}</summary>
      <Facts of={REASONS.map((reason) => [reasons[reason].name, reasons[reason].meaning])} />
    </details>
  );
}
