/** Sample sets: named sets of variable values for previews and tests. They are stored in this browser, not by the API. */
import { useState } from 'react';
import { type Scope, useScope } from '../../scope.ts';
import { samples as texts } from '../../texts/templates.ts';
import { keptIn } from './kept.ts';
import type { Values } from './values.ts';

export interface Sample {
  name: string;
  values: Values;
}

interface Stored {
  sets: readonly Sample[];
  chosen: string;
}

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

const FIRST: Stored = { sets: [{ name: texts.first, values: {} }], chosen: texts.first };

/** Stores the first sample set of a new template. */
export function keepSample(scope: Scope, templateId: string, set: Sample): void {
  keptIn<Stored>(scope, templateId, 'samples').write({ sets: [set], chosen: set.name });
}

export function useSamples(templateId: string): Samples {
  const scope = useScope();
  const [kept] = useState(() => keptIn<Stored>(scope, templateId, 'samples'));
  const [stored, setStored] = useState<Stored>(() => kept.read() ?? FIRST);
  const store = (next: Stored): void => {
    kept.write(next);
    setStored(next);
  };
  const { sets } = stored;
  const chosen = sets.find(({ name }) => name === stored.chosen) ?? sets[0]!;
  return {
    sets,
    chosen,
    choose: (name) => store({ sets, chosen: name }),
    change: (values) =>
      store({ sets: sets.map((one) => (one === chosen ? { ...one, values } : one)), chosen: chosen.name }),
    add: (name) => store({ sets: [...sets, { name, values: chosen.values }], chosen: name }),
    remove() {
      const left = sets.filter((one) => one !== chosen);
      store(left.length === 0 ? FIRST : { sets: left, chosen: left[0]!.name });
    },
    putBack(set) {
      const now = kept.read() ?? FIRST;
      store({ sets: [...now.sets.filter(({ name }) => name !== set.name), set], chosen: set.name });
    },
  };
}
