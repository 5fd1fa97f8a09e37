/** The suppressed addresses: search by address and reason, add, remove, export and import. */
import { Button } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { usePages } from '../../api.ts';
import { IconDownload, IconPlus, IconTrash, IconUpload } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import type { BulkAction } from '../../parts/bulk.tsx';
import { saveFile } from '../../parts/csv.ts';
import { FilterChoice, Filters } from '../../parts/filters.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import { Facts } from '../../parts/page.tsx';
import { useRemoval } from '../../parts/removal.ts';
import { RowAction } from '../../parts/row-action.tsx';
import { SearchField } from '../../parts/search-field.tsx';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { REASONS, reasons, suppressions } from '../../texts/suppressions.ts';
import { AddAddress, REASON_CHOICES } from './add-address.tsx';
import { columnsOf, type Suppression } from './columns.tsx';
import { ImportAddresses } from './import-addresses.tsx';
import classes from './suppressions.module.css';

const BULK: readonly BulkAction<Suppression>[] = [
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
  const [search] = useSearchState();
  const [open, setOpen] = useState<'add' | 'import'>();
  const reason = REASONS.find((one) => one === search.reason);
  const query = { email: search.email || undefined, reason };
  const list = usePages('listSuppressions', { query });
  const { isRemoved, remove } = useRemoval('deleteSuppression', ['listSuppressions']);
  const isFiltered = query.email !== undefined || reason !== undefined;
  const lift = ({ email }: Suppression) => (
    <RowAction
      label={suppressions.lift(email)}
      icon={<IconTrash size={14} />}
      onClick={() => remove(email, { path: { email } }, suppressions.lifted(email))}
    />
  );
  return (
    <ListPage
      title={suppressions.title}
      lead={suppressions.lead}
      primary={
        mayWrite && (
          <Button leftSection={<IconPlus size={14} />} onClick={() => setOpen('add')}>
            {suppressions.add}
          </Button>
        )
      }
      actions={
        <>
          {mayWrite && (
            <Button variant="default" leftSection={<IconUpload size={14} />} onClick={() => setOpen('import')}>
              {suppressions.import}
            </Button>
          )}
          <ExportButton />
        </>
      }
      code={<AsCode operation="listSuppressions" input={{ query }} />}
      filters={
        <>
          <Filters of="suppressions">
            <SearchField name="email" label={suppressions.emailFilter} width="15rem" type="search" autoComplete="off" />
            <FilterChoice
              name="reason"
              label={suppressions.reason}
              width="15rem"
              any={suppressions.anyReason}
              data={REASON_CHOICES}
            />
          </Filters>
          <Meanings />
        </>
      }
      label={suppressions.list}
      columns={columnsOf(mode)}
      rowActions={mayWrite ? lift : undefined}
      list={list}
      rows={list.items?.filter(({ email }) => !isRemoved(email))}
      keyOf={({ email }) => email}
      bulk={mayWrite ? BULK : undefined}
      empty={
        isFiltered
          ? { title: suppressions.noneTitle, hint: suppressions.noneHint }
          : { title: suppressions.emptyTitle, hint: suppressions.emptyHint }
      }
    >
      {open === 'add' && <AddAddress onClose={() => setOpen(undefined)} />}
      <ImportAddresses isOpen={open === 'import'} onClose={() => setOpen(undefined)} />
    </ListPage>
  );
}

function ExportButton() {
  const { caller } = useScope();
  const save = useMutation({
    mutationFn: async () => saveFile('suppressions.csv', await (await caller.call('exportSuppressions')).blob()),
    onError: failed,
  });
  return (
    <Button
      variant="default"
      leftSection={<IconDownload size={14} />}
      loading={save.isPending}
      onClick={() => save.mutate()}
    >
      {suppressions.export}
    </Button>
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
