/** The text of a filter while the user types: the URL stores it after a pause. */
import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useRef, useState } from 'react';
import { useSearchState } from '../search-state.ts';

const PAUSE_MS = 300;

/** Returns the typed text, `type` for the next one, and `apply`, which does not wait for a pause. `name` is the query parameter. */
export function useTypedFilter(name: string) {
  const [search, setSearch] = useSearchState();
  const stored = search[name] ?? '';
  const [typed, setTyped] = useState(stored);
  /** Texts of this field that the URL does not have yet, oldest first. */
  const applied = useRef<string[]>([]);
  const store = (text: string): void => {
    const value = text.trim();
    if (value !== stored || applied.current.length > 0) applied.current.push(value);
    setSearch({ [name]: value || undefined }, { typed: true });
  };
  const storeLater = useDebouncedCallback(store, PAUSE_MS);
  useEffect(() => {
    const own = applied.current.lastIndexOf(stored);
    // The field may have more text by now.
    if (own !== -1) {
      applied.current.splice(0, own + 1);
      return;
    }
    // Changed by the browser's back button, or by a button that clears all filters.
    applied.current = [];
    storeLater.cancel();
    setTyped((before) => (before.trim() === stored ? before : stored));
  }, [stored]);
  return {
    typed,
    type(text: string): void {
      setTyped(text);
      storeLater(text);
    },
    apply(text: string): void {
      storeLater.cancel();
      store(text);
    },
  };
}
