/**
 * What was taken away and can still be brought back: hidden in every list and page until it is gone. It goes in the account and mode that it was
 * taken from, wherever the person is by then.
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

/** `remove` calls the operation once nobody has undone it; then the answers of `stale` are asked for again. */
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
