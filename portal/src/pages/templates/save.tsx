/** Saves the changes as a new version. If another user has saved in the meantime, the user is asked first, and neither version is lost. */
import { Button } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { IconDeviceFloppy } from '../../icons.ts';
import { done, failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { page } from '../../texts/templates.ts';
import { bodyOf, type Template } from './content.ts';
import type { Draft } from './draft.ts';

/** Responses to reload after a change. */
export const STALE = ['getTemplate', 'listTemplates', 'listTemplateVersions'] as const;

export function SaveButton({ template, draft }: { template: Template; draft: Draft }) {
  const { caller } = useScope();
  const queries = useQueryClient();
  const stale = (): Promise<unknown> =>
    Promise.all(STALE.map((operation) => queries.invalidateQueries({ queryKey: [operation] })));
  const save = useMutation({
    async mutationFn() {
      const path = { id: template.templateId };
      const { version } = await caller.call('getTemplate', { path });
      // The page shows this, and the user has confirmed the save.
      if (version !== template.version) return stale();
      const sent = draft.content;
      const saved = await caller.call('replaceTemplate', { path, body: bodyOf(sent) });
      await stale();
      draft.saved(sent, saved.version);
      done(page.saved(saved.version));
    },
    onError: failed,
  });
  const isReady = draft.isDirty && !save.isPending;
  const latest = useRef(() => {});
  latest.current = () => isReady && save.mutate();
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (event.key !== 's' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      latest.current();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
  return (
    <Button
      leftSection={<IconDeviceFloppy size={14} />}
      loading={save.isPending}
      disabled={!draft.isDirty}
      onClick={() => save.mutate()}
    >
      {draft.isDirty ? page.saveAs(template.version + 1) : page.save}
    </Button>
  );
}
