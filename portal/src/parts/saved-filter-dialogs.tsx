/** The dialogs of saved filters: one saves the current filter, the other renames and deletes saved ones. */
import { ActionIcon, Button, Group, Modal, Radio, Stack, Text, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { useChange } from '../api.ts';
import { IconPencil, IconTrash } from '../icons.ts';
import { useScope } from '../scope.ts';
import { savingFilter, savedFilters as texts } from '../texts/saved-filters.ts';
import type { FilteredList, SavedFilter } from './filter-fields.ts';
import { useFocusBack } from './focus-back.ts';
import { FormModal } from './form-modal.tsx';
import { issuesOf } from './issues.ts';
import { Problem } from './problem.tsx';
import { done } from './undo.tsx';

const LONGEST_NAME = 60;

interface SavedFilterDialogsProps extends SaveFormProps, ManageProps {
  open: 'save' | 'manage';
}

export default function SavedFilterDialogs({ open, filters, onRemove, ...saving }: SavedFilterDialogsProps) {
  useFocusBack();
  if (open === 'save') return <SaveForm {...saving} />;
  return (
    <Modal opened onClose={saving.onClose} title={texts.manageTitle}>
      <Manage filters={filters} onRemove={onRemove} />
    </Modal>
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
  const submit = (): void =>
    save.mutate(
      { body: { list, name: name.trim(), query, shared: isShared } },
      {
        onSuccess(saved) {
          done(savingFilter.done(saved.name));
          onClose();
        },
      },
    );
  const issues = issuesOf(save.error, ['name']);
  return (
    <FormModal
      title={savingFilter.title}
      submit={savingFilter.submit}
      isBusy={save.isPending}
      isDisabled={name.trim() === ''}
      error={issues.general}
      onSubmit={submit}
      onClose={onClose}
    >
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
    </FormModal>
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
