/** The editor next to the preview. The parts of the template are tabs; a tab with an error is marked. */
import { Button, Group, Tabs, Text, TextInput } from '@mantine/core';
import { useMemo } from 'react';
import { useCall } from '../../api.ts';
import { IconAlertCircle } from '../../icons.ts';
import { CodeEditor, type Mark } from '../../parts/code-editor.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Panel } from '../../parts/page.tsx';
import { useSearchState } from '../../search-state.ts';
import { parts as partNames, previewing, variables as variableTexts, write } from '../../texts/templates.ts';
import type { Part, Template } from './content.ts';
import { Details } from './details.tsx';
import type { Draft } from './draft.ts';
import { pathsFound } from './found.ts';
import { PreviewPanel } from './preview.tsx';
import { type Mistakes, usePreview } from './previewing.ts';
import { Values } from './sample-values.tsx';
import type { Samples } from './samples.ts';
import classes from './templates.module.css';
import { Variables } from './variables.tsx';

type Tab = keyof typeof write.tabs;
const TAB_OF: Record<Part, Tab> = { subject: 'html', mjml: 'html', html: 'html', text: 'text' };

function tabOf(field: string): Tab | undefined {
  if (field in TAB_OF) return TAB_OF[field as Part];
  if (field.startsWith('variables')) return 'variables';
  return field.startsWith('layoutTemplateId') ? 'details' : undefined;
}

const marksOf = (details: Mistakes, part: Part): Mark[] =>
  details.flatMap(({ field, message, line, column }) =>
    field === part && line !== undefined
      ? [{ line, column: column ?? 1, message: `${partNames[part]} ${message}` }]
      : [],
  );

interface WriteProps {
  template: Template;
  draft: Draft;
  samples: Samples;
  mayChange: boolean;
}

export function WriteView({ template, draft, samples, mayChange }: WriteProps) {
  const { content } = draft;
  const account = useCall('getAccount');
  const preview = usePreview(content, samples.chosen.values);
  const given = Object.keys(account.data?.settings.variables ?? {});
  const found = useMemo(
    () => pathsFound(content, given),
    [content.subject, content.mjml, content.html, content.text, given.join(' ')],
  );
  const { missing } = preview;
  return (
    <div className={classes.halves}>
      <Panel title={previewing.editor}>
        <Parts
          template={template}
          draft={draft}
          mayChange={mayChange}
          found={found}
          missing={missing}
          mistakes={preview.mistakes}
        />
      </Panel>
      <div className={classes.looking}>
        <PreviewPanel preview={preview} content={content} />
      </div>
      <Values
        samples={samples}
        found={found}
        missing={missing}
        declared={content.variables}
        mistakes={preview.mistakes}
        mayChange={mayChange}
      />
    </div>
  );
}

interface PartsProps extends Pick<WriteProps, 'template' | 'draft' | 'mayChange'> {
  found: ReturnType<typeof pathsFound>;
  missing: readonly string[];
  mistakes: Mistakes;
}

function Parts({ template, draft, mayChange, found, missing, mistakes }: PartsProps) {
  const [search, setSearch] = useSearchState();
  const { content, change } = draft;
  const tab: Tab = search.part !== undefined && search.part in write.tabs ? (search.part as Tab) : 'html';
  const wrong = new Set(mistakes.map(({ field }) => tabOf(field)));
  const [mjml, html, text] = useMemo(
    () => [marksOf(mistakes, 'mjml'), marksOf(mistakes, 'html'), marksOf(mistakes, 'text')],
    [mistakes],
  );
  const isReadOnly = !mayChange;
  const source = content.mjml === null ? 'html' : 'mjml';
  return (
    <Tabs
      value={tab}
      keepMounted={false}
      onChange={(next) => setSearch({ part: next === 'html' ? undefined : (next ?? undefined) })}
    >
      <Tabs.List mb="sm" aria-label={write.tab}>
        {Object.entries(write.tabs).map(([value, label]) => (
          <Tabs.Tab key={value} value={value} {...(wrong.has(value as Tab) && mistakeMark(label))}>
            {label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value="html">
        <SubjectField draft={draft} isReadOnly={isReadOnly} mistakes={mistakes} />
        <CodeEditor
          key={source}
          label={write[source]}
          language={'html'}
          value={content[source] ?? ''}
          marks={source === 'mjml' ? mjml : html}
          isReadOnly={isReadOnly}
          onChange={(value) => change({ [source]: value })}
        />
        <Unplaced mistakes={mistakes} part="html" />
        <Unplaced mistakes={mistakes} part="mjml" />
        {content.mjml !== null && <ToHtml draft={draft} isReadOnly={isReadOnly} />}
      </Tabs.Panel>
      <Tabs.Panel value="text">
        <Text size="xs" c="dimmed" mb="xs">
          {write.textHint}
        </Text>
        <CodeEditor
          label={write.text}
          language={'text'}
          value={content.text}
          marks={text}
          isReadOnly={isReadOnly}
          onChange={(value) => change({ text: value })}
        />
        <Unplaced mistakes={mistakes} part="text" />
      </Tabs.Panel>
      <Tabs.Panel value="variables">
        <Text c="dimmed" size="xs" mb="sm">
          {variableTexts.lead}
        </Text>
        <Variables draft={draft} isReadOnly={isReadOnly} found={found} missing={missing} mistakes={mistakes} />
      </Tabs.Panel>
      <Tabs.Panel value="details">
        <Details template={template} draft={draft} isReadOnly={isReadOnly} mistakes={mistakes} />
      </Tabs.Panel>
    </Tabs>
  );
}

/** Explains where the HTML comes from. Saved MJML can be replaced with the HTML that it generated. */
function ToHtml({ draft, isReadOnly }: Pick<WriteProps, 'draft'> & { isReadOnly: boolean }) {
  return (
    <Group justify="space-between" mt="xs">
      <Text size="xs" c="dimmed">
        {write.mjmlHint}
      </Text>
      {!isReadOnly && (
        <Button
          variant="subtle"
          size="compact-xs"
          disabled={draft.isDirty}
          title={draft.isDirty ? write.toHtmlUnsaved : undefined}
          onClick={() => draft.change({ mjml: null })}
        >
          {write.toHtml}
        </Button>
      )}
    </Group>
  );
}

const mistakeMark = (label: string) => ({
  rightSection: <IconAlertCircle size={14} color="var(--bad)" aria-hidden />,
  'aria-label': `${label}, ${write.mistakes}`,
});

function SubjectField({ draft, isReadOnly, mistakes }: { draft: Draft; isReadOnly: boolean; mistakes: Mistakes }) {
  const wrong = mistakes.filter(({ field }) => field === 'subject').map(({ message }) => message);
  return (
    <TextInput
      label={write.subject}
      description={write.subjectHint}
      readOnly={isReadOnly}
      mb={'sm'}
      value={draft.content.subject}
      error={wrong.length > 0 && wrong.join(' ')}
      onChange={({ currentTarget }) => draft.change({ subject: currentTarget.value })}
    />
  );
}

/** Errors of a part without a position, such as a limit. */
function Unplaced({ mistakes, part }: { mistakes: Mistakes; part: Part }) {
  const wrong = mistakes.filter(({ field, line }) => field === part && line === undefined);
  if (wrong.length === 0) return null;
  return (
    <Notice tone="bad" role="alert">
      {wrong.map(({ message }) => message).join(' ')}
    </Notice>
  );
}
