/** Name, type and layout of a template. */
import { Select, Stack, TextInput } from '@mantine/core';
import { usePages } from '../../api.ts';
import { Notice } from '../../parts/notice.tsx';
import { types, write } from '../../texts/templates.ts';
import { type Content, isLayout, type Template } from './content.ts';
import type { Draft } from './draft.ts';
import type { Mistakes } from './previewing.ts';

interface DetailsProps {
  template: Template;
  draft: Draft;
  isReadOnly: boolean;
  mistakes: Mistakes;
}

/** Returns all templates that can be layouts, and the selected one. */
function useLayouts(template: Template, chosen: string) {
  const templates = usePages('listTemplates', {}, { pageSize: 100 });
  if (templates.hasNextPage && !templates.isFetching) void templates.fetchNextPage();
  const others = (templates.items ?? []).filter((one) => one.templateId !== template.templateId && isLayout(one));
  const choices = others.map(({ templateId, name }) => ({ value: templateId, label: name }));
  const isKnown = chosen === '' || choices.some(({ value }) => value === chosen);
  return [{ value: '', label: write.noLayout }, ...choices, ...(isKnown ? [] : [{ value: chosen, label: chosen }])];
}

export function Details({ template, draft, isReadOnly, mistakes }: DetailsProps) {
  const { content, change } = draft;
  const layouts = useLayouts(template, content.layoutTemplateId);
  const wrong = (name: string): string | undefined => mistakes.find(({ field }) => field === name)?.message;
  return (
    <Stack gap="sm" maw="30rem">
      <TextInput
        label={write.name}
        value={content.name}
        readOnly={isReadOnly}
        maxLength={200}
        required={true}
        onChange={({ currentTarget }) => change({ name: currentTarget.value })}
      />
      <Select
        label={write.type}
        value={content.type}
        disabled={isReadOnly}
        data={Object.entries(types).map(([value, label]) => ({ value, label }))}
        onChange={(type) => change({ type: type as Content['type'] })}
      />
      <Select
        label={write.layout}
        description={write.layoutHint}
        data={layouts}
        disabled={isReadOnly}
        searchable={layouts.length > 8}
        value={content.layoutTemplateId}
        error={wrong('layoutTemplateId')}
        onChange={(layoutTemplateId) => change({ layoutTemplateId: layoutTemplateId ?? '' })}
      />
      {isLayout(content) && <Notice tone="note">{write.isLayout}</Notice>}
    </Stack>
  );
}
