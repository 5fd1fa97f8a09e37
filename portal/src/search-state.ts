/** The query of the page's URL, in which pages keep filters, tabs, and open panels: as plain text, so links and the history keep them too. */
import { useNavigate, useSearch } from '@tanstack/react-router';

export type Search = Record<string, string | undefined>;

/**
 * Returns the query of the page's URL, and a setter that changes some of its fields; undefined and '' remove a field. Each change is a step
 * in the browser's history; a `typed` change replaces the current step, so that going back does not go through every letter.
 */
export function useSearchState(): [Search, (change: Search, options?: { typed: boolean }) => void] {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const change = (changed: Search, { typed } = { typed: false }): void => {
    void navigate({ to: '.', search: ((before: Search) => ({ ...before, ...changed })) as never, replace: typed });
  };
  return [search, change];
}
