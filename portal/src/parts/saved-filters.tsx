/**
 * The menu of saved filters next to the filters of a list: applies one, saves the current one for the user or for the account, and opens the
 * dialog to rename and delete them.
 */
import { Button, Menu } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import { useCall } from '../api.ts';
import { IconBookmark, IconCheck } from '../icons.ts';
import { useSearchState } from '../search-state.ts';
import { savedFilters as texts } from '../texts/saved-filters.ts';
import { ActionMenu, MenuAction } from './action-menu.tsx';
import { FILTER_FIELDS, type FilteredList, filterOf, isSameFilter, type SavedFilter } from './filter-fields.ts';
import { useRemoval } from './removal.ts';

/** Loaded when one is opened. */
const Dialogs = lazy(() => import('./saved-filter-dialogs.tsx'));

/** All of them: a user and an account have at most 50 each. */
const ALL_FILTERS = { query: { limit: 100 } };

/** Returns the saved filters that the user sees and has not just deleted, of all lists. */
export function useSavedFilters(isEnabled = true) {
  const { data } = useCall('listSavedFilters', ALL_FILTERS, { enabled: isEnabled });
  const { isRemoved, remove } = useRemoval('deleteSavedFilter', ['listSavedFilters']);
  const filters = (data ?? []).filter(({ savedFilterId }) => !isRemoved(savedFilterId));
  return {
    filters,
    remove: ({ savedFilterId: id, name }: SavedFilter) => remove(id, { path: { id } }, texts.deleted(name)),
  };
}

export function SavedFilters({ list }: { list: FilteredList }) {
  const [search, setSearch] = useSearchState();
  const [open, setOpen] = useState<'save' | 'manage'>();
  const { filters, remove } = useSavedFilters();
  const own = filters.filter((one) => one.list === list);
  const current = filterOf(list, search);
  const applied = own.find(({ query }) => isSameFilter(list, query, current));
  const canSave = Object.keys(current).length > 0 && applied === undefined;
  const close = (): void => setOpen(undefined);
  const apply = ({ query }: SavedFilter): void =>
    setSearch({ ...Object.fromEntries(FILTER_FIELDS[list].map((field) => [field, undefined])), ...query });
  return (
    <>
      <ActionMenu
        position="bottom-start"
        width={260}
        button={
          <Button variant="default" size="sm" maw="16rem" leftSection={<IconBookmark size={14} aria-hidden />}>
            {applied?.name ?? texts.title}
          </Button>
        }
      >
        <Choices of={own.filter(({ shared }) => !shared)} name={texts.private} applied={applied} onApply={apply} />
        <Choices of={own.filter(({ shared }) => shared)} name={texts.shared} applied={applied} onApply={apply} />
        {own.length === 0 ? <Menu.Label>{texts.none}</Menu.Label> : <Menu.Divider />}
        <MenuAction isDisabled={!canSave} onClick={() => setOpen('save')}>
          {texts.save}
        </MenuAction>
        {own.length > 0 && <MenuAction onClick={() => setOpen('manage')}>{texts.manage}</MenuAction>}
      </ActionMenu>
      {open !== undefined && (
        <Suspense>
          <Dialogs open={open} list={list} query={current} filters={own} onRemove={remove} onClose={close} />
        </Suspense>
      )}
    </>
  );
}

interface ChoicesProps {
  of: readonly SavedFilter[];
  name: string;
  applied: SavedFilter | undefined;
  onApply(filter: SavedFilter): void;
}

function Choices({ of, name, applied, onApply }: ChoicesProps) {
  if (of.length === 0) return null;
  return (
    <>
      <Menu.Label>{name}</Menu.Label>
      {of.map((filter) => (
        <MenuAction
          key={filter.savedFilterId}
          onClick={() => onApply(filter)}
          mark={filter === applied && <IconCheck size={14} aria-label={texts.current} />}
        >
          {filter.name}
        </MenuAction>
      ))}
    </>
  );
}
