/** Deletes a template with an undo. In the meantime no list shows it, whichever page it was deleted on. */
import { useQueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { withUndo } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { list } from '../../texts/templates.ts';
import type { Template } from './content.ts';

let removed: ReadonlySet<string> = new Set();
const listeners = new Set<() => void>();

function setRemoved(next: ReadonlySet<string>): void {
  removed = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Ids of templates that were deleted in this tab, or are about to be. */
export const useRemoved = (): ReadonlySet<string> => useSyncExternalStore(subscribe, () => removed);

export function useRemove(): (template: Pick<Template, 'templateId' | 'name'>) => void {
  const { caller } = useScope();
  const queries = useQueryClient();
  return ({ templateId, name }) => {
    setRemoved(new Set([...removed, templateId]));
    withUndo({
      message: list.removed(name),
      onUndo: () => setRemoved(new Set([...removed].filter((id) => id !== templateId))),
      async run() {
        await caller.call('deleteTemplate', { path: { id: templateId } });
        await queries.invalidateQueries({ queryKey: ['listTemplates'] });
      },
    });
  };
}
