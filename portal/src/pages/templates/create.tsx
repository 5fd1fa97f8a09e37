/** Creates a template with a name, a type and initial content, and opens its page. */
import { Button, Group, Modal, Select, Stack, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { PostriderError, useChange } from '../../api.ts';
import { Notice } from '../../parts/notice.tsx';
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

export function CreateTemplate({ isOpen, onClose }: { isOpen: boolean; onClose(): void }) {
  return (
    <Modal opened={isOpen} onClose={onClose} title={create.title}>
      <CreateForm />
    </Modal>
  );
}

function CreateForm() {
  const { mode } = useScope();
  const navigate = useNavigate();
  const [given, setGiven] = useState<{ name: string; type: Content['type']; start: Start }>(EMPTY);
  const make = useChange('createTemplate', ['listTemplates']);
  const store = useChange('replaceTemplateSamples');
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
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
  const known = make.error instanceof PostriderError ? make.error : undefined;
  const ofName = known?.details.find(({ field }) => field === 'name');
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Stack gap="sm">
        {make.error !== null && ofName === undefined && (
          <Notice tone="bad" role="alert">
            {make.error.message}
          </Notice>
        )}
        <TextInput
          label={create.name}
          description={create.nameHint}
          maxLength={200}
          required={true}
          data-autofocus
          value={given.name}
          error={ofName && known?.message}
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
        <Group justify="space-between">
          <Text size="xs" c="dimmed">
            {mode === 'sandbox' && create.sandbox}
          </Text>
          <Button type="submit" loading={make.isPending}>
            {create.submit}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
