/**
 * The menu of saved filters next to the filters of a list: applies one, saves the current one for the user or for the account, and opens the
 * dialog to rename and delete them.
 */
import { ActionIcon, Button, Group, Menu, Modal, Radio, Stack, Text, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { type Answer, useCall, useChange } from '../api.ts';
import { IconBookmark, IconCheck, IconPencil, IconTrash } from '../icons.ts';
import { useSearchState } from '../router.tsx';
import { useScope } from '../scope.ts';
import { savingFilter, savedFilters as texts } from '../texts/saved-filters.ts';
import { FILTER_FIELDS, type FilteredList, filterOf, isSameFilter } from './filter-fields.ts';
import { issuesOf } from './issues.ts';
import { Problem } from './problem.tsx';
import { useRemoval } from './removal.ts';
import { done } from './undo.tsx';

type SavedFilter = Answer<'listSavedFilters'>[number];

/** All of them: a user and an account have at most 50 each. */
const ALL_FILTERS = { query: { limit: 100 } };
const LONGEST_NAME = 60;

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

interface SavedFiltersProps {
  list: FilteredList;
  /** As the other fields of the filter bar. */
  size: 'xs' | 'sm';
}

export function SavedFilters({ list, size }: SavedFiltersProps) {
  const [search, setSearch] = useSearchState();
  const [open, setOpen] = useState<'save' | 'manage'>();
  const { filters, remove } = useSavedFilters();
  const own = filters.filter((one) => one.list === list);
  const current = filterOf(list, search);
  const applied = own.find(({ query }) => isSameFilter(list, query, current));
  const isFiltered = Object.keys(current).length > 0;
  const close = (): void => setOpen(undefined);
  const apply = ({ query }: SavedFilter): void =>
    setSearch({ ...Object.fromEntries(FILTER_FIELDS[list].map((field) => [field, undefined])), ...query });
  return (
    <>
      <Menu position="bottom-start" width={260}>
        <Menu.Target>
          <Button variant="default" size={size} maw="16rem" leftSection={<IconBookmark size={14} aria-hidden />}>
            {applied?.name ?? texts.title}
          </Button>
        </Menu.Target>
        <Menu.Dropdown mah="24rem" style={{ overflowY: 'auto' }}>
          <Choices of={own.filter(({ shared }) => !shared)} name={texts.private} applied={applied} onApply={apply} />
          <Choices of={own.filter(({ shared }) => shared)} name={texts.shared} applied={applied} onApply={apply} />
          {own.length === 0 ? <Menu.Label>{texts.none}</Menu.Label> : <Menu.Divider />}
          <Menu.Item disabled={!isFiltered || applied !== undefined} onClick={() => setOpen('save')}>
            {texts.save}
          </Menu.Item>
          {own.length > 0 && <Menu.Item onClick={() => setOpen('manage')}>{texts.manage}</Menu.Item>}
        </Menu.Dropdown>
      </Menu>
      <Modal opened={open === 'save'} onClose={close} title={savingFilter.title}>
        <SaveForm list={list} query={current} onClose={close} />
      </Modal>
      <Modal opened={open === 'manage'} onClose={close} title={texts.manageTitle}>
        <Manage filters={own} onRemove={remove} />
      </Modal>
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
        <Menu.Item
          key={filter.savedFilterId}
          onClick={() => onApply(filter)}
          rightSection={filter === applied && <IconCheck size={14} aria-label={texts.current} />}
        >
          {filter.name}
        </Menu.Item>
      ))}
    </>
  );
}

interface SaveFormProps {
  list: FilteredList;
  query: Record<string, string>;
  onClose(): void;
}

function SaveForm({ list, query, onClose }: SaveFormProps) {
  const { mayWrite } = useScope();
  const [name, setName] = useState('');
  const [isShared, setShared] = useState(false);
  const save = useChange('saveFilter', ['listSavedFilters']);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate(
      { body: { list, name: name.trim(), query, shared: isShared } },
      {
        onSuccess(saved) {
          done(savingFilter.done(saved.name));
          onClose();
        },
      },
    );
  };
  const issues = issuesOf(save.error, ['name']);
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <Problem error={issues.general} />
        <TextInput
          label={savingFilter.name}
          required
          maxLength={LONGEST_NAME}
          autoComplete="off"
          data-autofocus
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
          error={issues.of('name')}
        />
        {mayWrite && (
          <Radio.Group
            label={savingFilter.visibleTo}
            value={isShared ? 'shared' : 'private'}
            onChange={(value) => setShared(value === 'shared')}
          >
            <Stack gap="xs" mt="xs">
              <Radio value="private" label={texts.private} />
              <Radio value="shared" label={texts.shared} />
            </Stack>
          </Radio.Group>
        )}
        <Button type="submit" loading={save.isPending} disabled={name.trim() === ''}>
          {savingFilter.submit}
        </Button>
      </Stack>
    </form>
  );
}

interface ManageProps {
  filters: readonly SavedFilter[];
  onRemove(filter: SavedFilter): void;
}

function Manage({ filters, onRemove }: ManageProps) {
  const { mayWrite } = useScope();
  const [renamed, setRenamed] = useState<string>();
  if (filters.length === 0) return <Text c="dimmed">{texts.noneToManage}</Text>;
  return (
    <Stack gap="sm">
      {filters.map((filter) =>
        filter.savedFilterId === renamed ? (
          <RenameForm key={filter.savedFilterId} filter={filter} onClose={() => setRenamed(undefined)} />
        ) : (
          <Group key={filter.savedFilterId} justify="space-between" wrap="nowrap" gap="xs">
            <div style={{ minWidth: 0 }}>
              <div>{filter.name}</div>
              <Text size="xs" c="dimmed">
                {filter.shared ? texts.shared : texts.private}
              </Text>
            </div>
            {(mayWrite || !filter.shared) && (
              <Group gap={4} wrap="nowrap">
                <ActionIcon aria-label={texts.rename(filter.name)} onClick={() => setRenamed(filter.savedFilterId)}>
                  <IconPencil size={16} />
                </ActionIcon>
                <ActionIcon aria-label={texts.delete(filter.name)} onClick={() => onRemove(filter)}>
                  <IconTrash size={16} />
                </ActionIcon>
              </Group>
            )}
          </Group>
        ),
      )}
    </Stack>
  );
}

function RenameForm({ filter, onClose }: { filter: SavedFilter; onClose(): void }) {
  const [name, setName] = useState(filter.name);
  const change = useChange('changeSavedFilter', ['listSavedFilters']);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const input = { path: { id: filter.savedFilterId }, body: { name: name.trim() } };
    change.mutate(input, { onSuccess: onClose });
  };
  return (
    <form onSubmit={submit}>
      <Group gap="xs" align="end" wrap="nowrap">
        <TextInput
          label={texts.newName}
          flex={1}
          maxLength={LONGEST_NAME}
          autoComplete="off"
          autoFocus
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <Button type="submit" size="sm" loading={change.isPending} disabled={name.trim() === ''}>
          {texts.submitName}
        </Button>
        <Button variant="default" size="sm" onClick={onClose}>
          {texts.cancel}
        </Button>
      </Group>
      <Problem error={change.error} />
    </form>
  );
}
