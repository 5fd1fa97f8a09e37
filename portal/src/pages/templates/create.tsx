/** Creates a template with a name, a type and initial content, and opens its page. */
import { Select, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useChange } from '../../api.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { issuesOf } from '../../parts/issues.ts';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { create, starts, types } from '../../texts/templates.ts';
import { bodyOf, type Content } from './content.ts';
import type { Values } from './values.ts';

type Start = keyof typeof create.starts;
const EMPTY = { name: '', type: 'transactional', start: 'mail' } as const;

/** Returns the initial content, and sample values for the preview. */
async function startFrom(
  start: Start,
): Promise<Pick<Content, 'subject' | 'html' | 'variables'> & Partial<Pick<Content, 'mjml'>> & { sample: Values }> {
  if (start === 'layout' || start === 'empty') return { ...starts[start], variables: [], sample: {} };
  if (start === 'mail' || start === 'mjml') {
    const variables = [{ name: 'name', type: 'string', required: false, default: 'there' }] as const;
    return { ...starts[start], variables, sample: {} };
  }
  const { starters } = await import('./starters.ts');
  return starters[start];
}

export function CreateTemplate({ onClose }: { onClose(): void }) {
  const { mode } = useScope();
  const navigate = useNavigate();
  const [given, setGiven] = useState<{ name: string; type: Content['type']; start: Start }>(EMPTY);
  const make = useChange('createTemplate', ['listTemplates']);
  const store = useChange('replaceTemplateSamples');
  const submit = async (): Promise<void> => {
    const { sample, ...content } = await startFrom(given.start);
    const common = { name: given.name.trim(), type: given.type, text: '', layoutTemplateId: '', mjml: null };
    const body = bodyOf({ ...common, ...content });
    const made = await make.mutateAsync({ body }).catch(() => undefined);
    if (made === undefined) return;
    if (Object.keys(sample).length > 0)
      await store
        .mutateAsync({
          path: { id: made.templateId },
          body: { samples: [{ name: create.sampleValues, values: sample }] },
        })
        .catch(failed);
    void navigate({ to: `/app/${mode}/templates/${made.templateId}` as string });
  };
  const issues = issuesOf(make.error, ['name']);
  return (
    <FormModal
      title={create.title}
      submit={create.submit}
      isBusy={make.isPending}
      error={issues.general}
      onSubmit={() => void submit()}
      onClose={onClose}
    >
      <TextInput
        label={create.name}
        description={create.nameHint}
        maxLength={200}
        required
        data-autofocus
        value={given.name}
        error={issues.of('name')}
        onChange={({ currentTarget }) => setGiven({ ...given, name: currentTarget.value })}
      />
      <Select
        label={create.type}
        description={create.typeHint}
        value={given.type}
        allowDeselect={false}
        data={Object.entries(types).map(([value, label]) => ({ value, label }))}
        onChange={(type) => setGiven({ ...given, type: type as Content['type'] })}
      />
      <Select
        label={create.start}
        value={given.start}
        allowDeselect={false}
        data={Object.entries(create.starts).map(([value, label]) => ({ value, label }))}
        onChange={(start) => setGiven({ ...given, start: start as Start })}
      />
      {mode === 'sandbox' && (
        <Text size="xs" c="dimmed">
          {create.sandbox}
        </Text>
      )}
    </FormModal>
  );
}
