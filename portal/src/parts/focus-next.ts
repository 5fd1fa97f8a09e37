/** The focus of a list whose row with the focus is removed: by a button in it, in its drawer, or in a dialog about it. */
import { type FocusEvent, useEffect, useRef } from 'react';

const ASKS_EVERY_MS = 100;

/** Returns what to focus: the row that has the place of the removed one, or the heading that says that there are none. */
function replacementOf(list: HTMLElement, index: number): HTMLElement | null {
  const rows = [...list.querySelectorAll<HTMLElement>('tr[data-index]')];
  const next = rows.find((row) => Number(row.dataset.index) >= index) ?? rows.at(-1);
  if (next !== undefined) return next.querySelector<HTMLElement>('a, button');
  const heading = list.querySelector<HTMLElement>('h1, h2');
  if (heading !== null) heading.tabIndex = -1;
  return heading;
}

/**
 * Keeps the focus in a list: if the row that had it is removed, it goes to the next one. If a dialog is open, it does so when that closes.
 * A user who has gone elsewhere in the page stays there. Returns attributes for the element around the list.
 */
export function useFocusNext<T>(rows: readonly T[] | undefined, keyOf: (row: T) => string) {
  const list = useRef<HTMLDivElement>(null);
  const last = useRef<{ key: string; index: number }>(undefined);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const settle = (): void => {
      const lost = last.current;
      if (lost === undefined || list.current === null || rows === undefined) return;
      if (rows.some((row) => keyOf(row) === lost.key)) return;
      const focused = document.activeElement;
      if (focused?.closest('[role="dialog"]')) {
        timer = setTimeout(settle, ASKS_EVERY_MS);
        return;
      }
      last.current = undefined;
      if (focused === null || focused === document.body)
        replacementOf(list.current, lost.index)?.focus({ preventScroll: true });
    };
    settle();
    return () => clearTimeout(timer);
  }, [rows, keyOf]);
  const onFocus = ({ target }: FocusEvent): void => {
    const row = target.closest<HTMLElement>('tr[data-index]');
    if (row === null || !list.current?.contains(row)) return;
    const index = Number(row.dataset.index);
    const shown = rows?.[index];
    if (shown !== undefined) last.current = { key: keyOf(shown), index };
  };
  return { ref: list, onFocus, style: { display: 'contents' } };
}
