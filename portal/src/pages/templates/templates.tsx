/** All templates of the account: search by name, create, and delete with an undo. */
import { Button, Group, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { pagesOf } from '../../../../clients/typescript/src/pages.ts';
import { usePages } from '../../api.ts';
import { IconPlus, IconShare, IconTrash } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { Badge } from '../../parts/badge.tsx';
import { Filters } from '../../parts/filters.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import { Notice } from '../../parts/notice.tsx';
import { RowAction } from '../../parts/row-action.tsx';
import type { Column } from '../../parts/rows.tsx';
import { SearchField } from '../../parts/search-field.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { list, shares, types } from '../../texts/templates.ts';
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

export function TemplatesPage() {
  const { mode, mayWrite, caller } = useScope();
  const [{ name = '' }] = useSearchState();
  const [isCreating, setCreating] = useState(false);
  const templates = usePages('listTemplates');
  const removed = useRemoved();
  const remove = useRemove();
  const liveIds = useLiveIds(templates.items);
  const isSandbox = mode === 'sandbox';
  const isShown = (one: Template): boolean =>
    !removed.has(one.templateId) && one.name.toLowerCase().includes(name.toLowerCase());
  const mayRemove = ({ templateId }: Template): boolean =>
    mayWrite && (!isSandbox || (liveIds !== undefined && !liveIds.has(templateId)));
  const createButton = mayWrite && (
    <Button leftSection={<IconPlus size={14} />} onClick={() => setCreating(true)}>
      {list.create}
    </Button>
  );
  return (
    <ListPage
      title={list.title}
      lead={list.lead}
      primary={createButton}
      actions={
        <Button
          component={Link}
          to={`/app/${mode}/template-shares`}
          variant="default"
          leftSection={<IconShare size={14} aria-hidden />}
        >
          {shares.title}
        </Button>
      }
      code={<AsCode operation="listTemplates" />}
      notice={isSandbox && <Notice tone="calm">{list.sandboxNote}</Notice>}
      filters={
        (templates.items?.length ?? 0) > 0 && (
          <Filters of={['name']}>
            <SearchField name="name" label={list.find} type="search" width="20rem" isMain />
          </Filters>
        )
      }
      label={list.label}
      columns={isSandbox ? [...COLUMNS, whereColumn(liveIds)] : COLUMNS}
      rowActions={
        mayWrite
          ? (template) =>
              mayRemove(template) && (
                <RowAction
                  label={list.remove(template.name)}
                  icon={<IconTrash size={15} />}
                  onClick={() => remove(template)}
                />
              )
          : undefined
      }
      list={templates}
      rows={templates.items?.filter(isShown)}
      keyOf={({ templateId }) => templateId}
      href={({ templateId }) => `/app/${mode}/templates/${templateId}`}
      csvName="templates"
      csvRows={() => pagesOf(caller, 'listTemplates', {}, undefined)}
      empty={name === '' ? { title: list.empty, hint: list.emptyHint, action: createButton } : { title: list.nothing }}
    >
      {isCreating && <CreateTemplate onClose={() => setCreating(false)} />}
    </ListPage>
  );
}
