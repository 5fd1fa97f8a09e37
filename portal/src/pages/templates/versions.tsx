/** The versions of a template: their changes, comparison of any two, and restoring an earlier one, which creates a new version. */
import { Button, Group, Text } from '@mantine/core';
import { useContext, useRef, useState } from 'react';
import { useChange, usePages } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import { Panel } from '../../parts/page.tsx';
import { InDetails } from '../../parts/row-action.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { versions as texts } from '../../texts/templates.ts';
import { Compare } from './compare.tsx';
import { changesOf, contentOf, type Template, type TemplateVersion } from './content.ts';
import type { Draft } from './draft.ts';
import { STALE } from './save.tsx';

interface VersionsProps {
  template: Template;
  draft: Draft;
  mayChange: boolean;
}

const beforeIn = (all: readonly TemplateVersion[], { version }: TemplateVersion): TemplateVersion | undefined =>
  all.find((one) => one.version === version - 1);

function changed(version: TemplateVersion, before: TemplateVersion | undefined): string {
  if (version.version === 1) return texts.first;
  if (before === undefined) return '';
  const names = changesOf(contentOf(before), contentOf(version)).map((field) => texts.fields[field]);
  return names.join(', ') || texts.nothing;
}

interface RowActionsProps {
  version: number;
  hasBefore: boolean;
  mayRestore: boolean;
  templateId: string;
  onCompare(): void;
}

function RowActions({ version, hasBefore, mayRestore, templateId, onCompare }: RowActionsProps) {
  const restore = useChange('restoreTemplateVersion', STALE);
  const restoreIt = (): void =>
    restore.mutate(
      { path: { id: templateId, version: String(version) } },
      { onSuccess: (made) => done(texts.restored(made.version, version)), onError: failed },
    );
  const close = useContext(InDetails);
  const compareIt = (): void => {
    close?.();
    onCompare();
  };
  const shared = close === undefined ? { variant: 'subtle', size: 'compact-xs' } : { variant: 'default' };
  return (
    <>
      {hasBefore && (
        <Button {...shared} aria-label={texts.compareWith(version)} onClick={compareIt}>
          {texts.compareShort}
        </Button>
      )}
      {mayRestore && (
        <Button {...shared} aria-label={texts.restore(version)} loading={restore.isPending} onClick={restoreIt}>
          {texts.restoreShort}
        </Button>
      )}
    </>
  );
}

function columnsOf(present: number, all: readonly TemplateVersion[]): Column<TemplateVersion>[] {
  const changedIn = (one: TemplateVersion): string => changed(one, beforeIn(all, one));
  return [
    {
      name: texts.version,
      phone: 'title',
      width: '9rem',
      text: ({ version }) => version,
      cell: ({ version }) => (
        <Group gap="xs" display="inline-flex">
          {version}
          {version === present && <Badge tone="good">{texts.present}</Badge>}
        </Group>
      ),
    },
    {
      name: texts.saved,
      phone: 'time',
      width: '9rem',
      text: ({ createdAt }) => createdAt,
      cell: ({ createdAt }) => <Time at={createdAt} exact />,
    },
    { name: texts.changed, phone: 'detail', text: changedIn, cell: changedIn },
  ];
}

export function VersionsView({ template: { templateId, version: present, name }, draft, mayChange }: VersionsProps) {
  const query = usePages('listTemplateVersions', { path: { id: templateId } });
  const all = query.items ?? [];
  const [pair, setPair] = useState<readonly [string, string]>();
  const compare = useRef<HTMLDivElement>(null);
  return (
    <>
      <Panel>
        <Rows
          label={texts.label}
          columns={columnsOf(present, all)}
          rowActions={(one) => (
            <RowActions
              templateId={templateId}
              version={one.version}
              hasBefore={beforeIn(all, one) !== undefined}
              mayRestore={mayChange && one.version !== present}
              onCompare={() => {
                setPair([String(one.version - 1), String(one.version)]);
                compare.current?.scrollIntoView({ block: 'start' });
              }}
            />
          )}
          list={query}
          keyOf={({ version }) => String(version)}
          csvName={`versions-of-${name}`}
          empty={{ title: texts.nothing }}
        />
      </Panel>
      <div ref={compare}>
        {all.length > 1 || draft.isDirty ? (
          <Compare versions={all} draft={draft} pair={pair} onPair={setPair} />
        ) : (
          <Text c="dimmed" mt="md">
            {texts.only}
          </Text>
        )}
      </div>
    </>
  );
}
