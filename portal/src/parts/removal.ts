/**
 * Removal with undo: a removed item is hidden in every list and page until it is deleted. It is deleted in the account and mode of its
 * page, even if the user has switched since.
 */
import { useQueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import type { Input, OperationId } from '../api.ts';
import { useScope } from '../scope.ts';
import { withUndo } from './undo.tsx';

const listeners = new Set<() => void>();
let hidden: ReadonlySet<string> = new Set();

function hide(name: string, isHidden: boolean): void {
  const changed = new Set(hidden);
  if (isHidden) changed.add(name);
  else changed.delete(name);
  hidden = changed;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** `remove` calls the operation when the time for undo is over, then reloads the responses of `stale`. */
export function useRemoval<O extends OperationId>(operation: O, stale: readonly OperationId[]) {
  const { caller, name: scope } = useScope();
  const queries = useQueryClient();
  const removed = useSyncExternalStore(subscribe, () => hidden);
  const nameOf = (id: string): string => `${operation} ${scope} ${id}`;
  return {
    isRemoved: (id: string): boolean => removed.has(nameOf(id)),
    remove(id: string, input: Input<O>, message: string): void {
      const name = nameOf(id);
      hide(name, true);
      withUndo({
        message,
        onUndo: () => hide(name, false),
        async run() {
          await caller.call(operation, ...([input] as never));
          await Promise.all(stale.map((one) => queries.invalidateQueries({ queryKey: [one] })));
          hide(name, false);
        },
      });
    },
  };
}
