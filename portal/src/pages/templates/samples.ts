/**
 * Sample sets: named sets of variable values for previews and tests. They are stored with the template, shortly after each change, and
 * merged with changes of other users. Changes by users who cannot change the template apply to this page only. The browser remembers the
 * selected set.
 */
import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useRef, useState } from 'react';
import type { Answer } from '../../api.ts';
import { done, failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { samples as texts } from '../../texts/templates.ts';
import type { Template } from './content.ts';
import { keptIn } from './kept.ts';
import { mergedSamples } from './samples-merge.ts';
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

/**
 * Returns a function that stores the sets after a pause, and at the latest when the page is left. Another user may have stored others since:
 * `onMerged` is called with the change from the sent sets to the stored ones.
 */
function useStore(
  { templateId, samples }: Template,
  onMerged: (sent: readonly Sample[], stored: readonly Sample[]) => void,
): (sets: readonly Sample[]) => void {
  const { caller } = useScope();
  const queries = useQueryClient();
  const known = useRef(samples as readonly Sample[]);
  const waiting = useRef<readonly Sample[] | undefined>(undefined);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const running = useRef<Promise<void>>(Promise.resolve());
  const merged = useRef(onMerged);
  merged.current = onMerged;
  const store = useCallback(
    async (sent: readonly Sample[]): Promise<void> => {
      const path = { id: templateId };
      const present = (await caller.call('getTemplate', { path })).samples as readonly Sample[];
      const stored = mergedSamples(known.current, sent, present);
      await caller.call('replaceTemplateSamples', { path, body: { samples: stored } });
      known.current = stored;
      if (JSON.stringify(stored) !== JSON.stringify(sent)) {
        if (waiting.current !== undefined) waiting.current = mergedSamples(sent, waiting.current, stored);
        merged.current(sent, stored);
      }
      await queries.invalidateQueries({ queryKey: ['getTemplate'] });
    },
    [caller, queries, templateId],
  );
  const storeNow = useCallback((): void => {
    clearTimeout(timer.current);
    const sent = waiting.current;
    waiting.current = undefined;
    if (sent !== undefined) running.current = running.current.then(() => store(sent)).catch(failed);
  }, [store]);
  useEffect(() => storeNow, [storeNow]);
  return (sets) => {
    waiting.current = sets;
    clearTimeout(timer.current);
    timer.current = setTimeout(storeNow, STORE_AFTER_MS);
  };
}

export function useSamples(template: Template, mayChange: boolean): Samples {
  const { templateId, samples } = template;
  const scope = useScope();
  const [kept] = useState(() => keptIn<string>(scope, templateId, 'sample'));
  const [sets, setSets] = useState<readonly Sample[]>(() => (samples.length === 0 ? FIRST : (samples as Sample[])));
  const [name, setName] = useState(kept.read);
  const chosen = sets.find((one) => one.name === name) ?? sets[0]!;
  const choose = (next: string): void => {
    kept.write(next);
    setName(next);
  };
  const latest = useRef({ sets, chosen });
  latest.current = { sets, chosen };
  const store = useStore(template, (sent, stored) => {
    const merged = mergedSamples(sent, latest.current.sets, stored);
    const next = merged.length === 0 ? FIRST : merged;
    // The user goes on with the same values, even if their set has another name now.
    const values = JSON.stringify(latest.current.chosen.values);
    const same = next.filter((one) => JSON.stringify(one.values) === values);
    const continued = same.find((one) => one.name === latest.current.chosen.name) ?? same[0];
    setSets(next);
    if (continued !== undefined) choose(continued.name);
    done(texts.merged);
  });
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
