/** The focus of a dialog that is removed when it closes. */
import { useEffect, useState } from 'react';

interface Opener {
  element: HTMLElement | null;
  /** The opener of the dialog that was open then, and may be closed by now. */
  below: Opener | undefined;
}

/** The openers of the open dialogs, in the order in which they opened. */
const openers: Opener[] = [];

/** The element that had the focus last, or the button of its menu, whose items are removed when it closes. */
let lastFocused: HTMLElement | null = null;

/**
 * Follows the focus in the page. A dialog that loads slowly, or opens while its menu is closing, opens when nothing has the focus: the item
 * that was chosen is removed by then, and the button of the menu has not got the focus back.
 */
export function followFocus(): void {
  document.addEventListener('focusin', ({ target }) => {
    if (!(target instanceof HTMLElement)) return;
    const button = target.closest('[role="menu"]')?.getAttribute('aria-labelledby');
    lastFocused = button ? document.getElementById(button) : target;
  });
}

/** When the dialog is removed, the focus goes back to the element that had it before, or if that is removed too, to what opened its dialog. */
export function useFocusBack(): void {
  const [opener] = useState((): Opener => ({ element: lastFocused, below: openers.at(-1) }));
  useEffect(() => {
    openers.push(opener);
    return () => {
      openers.splice(openers.indexOf(opener), 1);
      let last: Opener | undefined = opener;
      while (last !== undefined && !last.element?.isConnected) last = last.below;
      last?.element?.focus({ preventScroll: true });
    };
  }, [opener]);
}
