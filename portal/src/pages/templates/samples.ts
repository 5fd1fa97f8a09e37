/**
 * Sample sets: named sets of variable values for previews and tests. They are stored with the template, shortly after each change. Changes
 * by users who cannot change the template apply to this page only. The browser remembers the selected set.
 */
import { useCallback, useEffect, useRef, useState } from 'react';
import { type Answer, useChange } from '../../api.ts';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { samples as texts } from '../../texts/templates.ts';
import type { Template } from './content.ts';
import { keptIn } from './kept.ts';
import type { Values } from './values.ts';

export type Sample = Answer<'getTemplate'>['samples'][number] & { values: Values };

export interface Samples {
  sets: readonly Sample[];
  chosen: Sample;
  choose(name: string): void;
  /** Replaces the values of the selected set. */
  change(values: Values): void;
  /** Adds a set with the values of the selected one, and selects it. */
  add(name: string): void;
  remove(): void;
  putBack(set: Sample): void;
}

const FIRST: readonly Sample[] = [{ name: texts.first, values: {} }];
const STORE_AFTER_MS = 3_000;

/** Returns a function that stores the sets after a pause, and at the latest when the page is left. */
function useStore(templateId: string): (sets: readonly Sample[]) => void {
  const { mutate } = useChange('replaceTemplateSamples', ['getTemplate']);
  const waiting = useRef<readonly Sample[] | undefined>(undefined);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const storeNow = useCallback((): void => {
    clearTimeout(timer.current);
    const samples = waiting.current;
    waiting.current = undefined;
    if (samples !== undefined)
      mutate({ path: { id: templateId }, body: { samples: [...samples] } }, { onError: failed });
  }, [mutate, templateId]);
  useEffect(() => storeNow, [storeNow]);
  return (sets) => {
    waiting.current = sets;
    clearTimeout(timer.current);
    timer.current = setTimeout(storeNow, STORE_AFTER_MS);
  };
}

export function useSamples({ templateId, samples }: Template, mayChange: boolean): Samples {
  const scope = useScope();
  const [kept] = useState(() => keptIn<string>(scope, templateId, 'sample'));
  const [sets, setSets] = useState<readonly Sample[]>(() => (samples.length === 0 ? FIRST : (samples as Sample[])));
  const [name, setName] = useState(kept.read);
  const store = useStore(templateId);
  const chosen = sets.find((one) => one.name === name) ?? sets[0]!;
  const choose = (next: string): void => {
    kept.write(next);
    setName(next);
  };
  const become = (next: readonly Sample[], selected: string): void => {
    setSets(next);
    choose(selected);
    if (mayChange) store(next);
  };
  return {
    sets,
    chosen,
    choose,
    change: (values) =>
      become(
        sets.map((one) => (one === chosen ? { ...one, values } : one)),
        chosen.name,
      ),
    add: (added) => become([...sets, { name: added, values: chosen.values }], added),
    remove() {
      const left = sets.filter((one) => one !== chosen);
      const next = left.length === 0 ? FIRST : left;
      become(next, next[0]!.name);
    },
    putBack: (set) => become([...sets.filter((one) => one.name !== set.name), set], set.name),
  };
}
