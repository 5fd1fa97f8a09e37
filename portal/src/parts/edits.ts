/**
 * Tracks what a user has changed in a form. Other users may change the same values in the meantime: the form shows their changes in the
 * fields that its user has not changed, keeps what its user has typed, and never sends a field that its user has not changed.
 */
import { useState } from 'react';

/** Returns the fields of `given` whose values differ from those of `base`. */
export function differing<T extends object>(base: Partial<T>, given: Partial<T>): Partial<T> {
  const isChanged = (name: string): boolean =>
    JSON.stringify(given[name as keyof T]) !== JSON.stringify(base[name as keyof T]);
  return Object.fromEntries(Object.entries(given).filter(([name]) => isChanged(name))) as Partial<T>;
}

/** The fields of a form whose stored values can be reloaded while the user edits them. */
export function useEdits<T extends object>(stored: T) {
  const [edits, setEdits] = useState<Partial<T>>({});
  return {
    values: { ...stored, ...edits },
    edit: (changes: Partial<T>): void => setEdits((before) => differing<T>(stored, { ...before, ...changes })),
    /** Forgets the edits of this rendering, which are stored now. Later ones stay. */
    saved: (): void => setEdits((now) => differing<T>(edits, now)),
  };
}
