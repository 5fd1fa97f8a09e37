/** All templates of the account: search by name, create, and delete with an undo. */
import { ActionIcon, Button, Group, Text, TextInput, Tooltip } from '@mantine/core';
import { useState } from 'react';
import { pagesOf } from '../../../../clients/typescript/src/pages.ts';
import { usePages } from '../../api.ts';
import { IconPlus, IconSearch, IconTrash } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { Badge } from '../../parts/badge.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { list, types } from '../../texts/templates.ts';
import { isLayout, type Template } from './content.ts';
import { CreateTemplate } from './create.tsx';
import { useLiveIds } from './modes.ts';
import { useRemove, useRemoved } from './remove.ts';
import classes from './templates.module.css';

function Subject({ subject }: Template) {
  return (
    <Text span size="sm" className={classes.twoLines} c={subject === null ? 'dimmed' : undefined}>
      {subject ?? list.noSubject}
    </Text>
  );
}

const COLUMNS: readonly Column<Template>[] = [
  { name: list.name, phone: 'title', width: '15rem', cell: ({ name }) => name, text: ({ name }) => name },
  { name: list.subject, phone: 'detail', cell: Subject, text: ({ subject }) => subject },
  {
    name: list.type,
    phone: 'badge',
    width: '8.5rem',
    cell: (template) => (
      <Group gap={4} display="inline-flex">
        <Badge tone="calm">{types[template.type]}</Badge>
        {isLayout(template) && <Badge tone="note">{list.layout}</Badge>}
      </Group>
    ),
    text: ({ type }) => type,
  },
  { name: list.version, width: '4.5rem', atEnd: true, cell: ({ version }) => version, text: ({ version }) => version },
  {
    name: list.updated,
    phone: 'time',
    width: '7rem',
    cell: ({ updatedAt }) => <Time at={updatedAt} />,
    text: ({ updatedAt }) => updatedAt,
  },
];

function whereColumn(liveIds: ReadonlySet<string> | undefined): Column<Template> {
  const where = ({ templateId }: Template): string =>
    liveIds === undefined ? '' : liveIds.has(templateId) ? list.live : list.sandboxOnly;
  return {
    name: list.where,
    width: '8rem',
    text: where,
    cell: (template) =>
      liveIds !== undefined && (
        <Badge tone={liveIds.has(template.templateId) ? 'good' : 'wait'}>{where(template)}</Badge>
      ),
  };
}

function RemoveButton({ template }: { template: Template }) {
  const remove = useRemove();
  const label = list.remove(template.name);
  return (
    <Tooltip label={label}>
      <ActionIcon size="sm" aria-label={label} onClick={() => remove(template)}>
        <IconTrash size={15} />
      </ActionIcon>
    </Tooltip>
  );
}

interface ColumnsFor {
  isSandbox: boolean;
  mayWrite: boolean;
  liveIds: ReadonlySet<string> | undefined;
}

function columnsFor({ isSandbox, mayWrite, liveIds }: ColumnsFor): Column<Template>[] {
  const mayRemove = ({ templateId }: Template): boolean =>
    !isSandbox || (liveIds !== undefined && !liveIds.has(templateId));
  const actions: Column<Template> = {
    name: list.actions,
    width: '4.5rem',
    atEnd: true,
    cell: (template) => mayRemove(template) && <RemoveButton template={template} />,
  };
  return [...COLUMNS, ...(isSandbox ? [whereColumn(liveIds)] : []), ...(mayWrite ? [actions] : [])];
}

export function TemplatesPage() {
  const { mode, mayWrite, caller } = useScope();
  const [{ name = '' }, setSearch] = useSearchState();
  const [isCreating, setCreating] = useState(false);
  const templates = usePages('listTemplates');
  const removed = useRemoved();
  const liveIds = useLiveIds(templates.items);
  const isSandbox = mode === 'sandbox';
  const isShown = (one: Template): boolean =>
    !removed.has(one.templateId) && one.name.toLowerCase().includes(name.toLowerCase());
  const createButton = mayWrite && (
    <Button leftSection={<IconPlus size={14} />} onClick={() => setCreating(true)}>
      {list.create}
    </Button>
  );
  return (
    <Page
      title={list.title}
      lead={list.lead}
      actions={
        <>
          {createButton}
          <AsCode operation="listTemplates" />
        </>
      }
    >
      {isSandbox && <Notice tone="calm">{list.sandboxNote}</Notice>}
      {(templates.items?.length ?? 0) > 0 && (
        <TextInput
          maw={'20rem'}
          mb={'xs'}
          type={'search'}
          leftSection={<IconSearch size={14} />}
          value={name}
          aria-label={list.find}
          placeholder={list.find}
          onChange={({ currentTarget }) => setSearch({ name: currentTarget.value }, { typed: true })}
        />
      )}
      <Rows
        label={list.label}
        columns={columnsFor({ isSandbox, mayWrite, liveIds })}
        rows={templates.items?.filter(isShown)}
        keyOf={({ templateId }) => templateId}
        href={({ templateId }) => `/app/${mode}/templates/${templateId}`}
        error={templates.error}
        onRetry={templates.refetch}
        hasMore={templates.hasNextPage}
        isLoadingMore={templates.isFetchingNextPage}
        onMore={templates.fetchNextPage}
        csvName="templates"
        csvRows={() => pagesOf(caller, 'listTemplates', {}, undefined)}
        empty={
          name === '' ? { title: list.empty, hint: list.emptyHint, action: createButton } : { title: list.nothing }
        }
      />
      <CreateTemplate isOpen={isCreating} onClose={() => setCreating(false)} />
    </Page>
  );
}
