/** The focus of a dialog that is removed when it closes. */
import { useEffect, useState } from 'react';

interface Opener {
  element: HTMLElement | null;
  /** The opener of the dialog that was open then, and may be closed by now. */
  below: Opener | undefined;
}

/** The openers of the open dialogs, in the order in which they opened. */
const openers: Opener[] = [];

/** Returns the element with the focus, or the button of its menu, whose items are removed when it closes. */
function focusedNow(): HTMLElement | null {
  const focused = document.activeElement;
  const button = focused?.closest('[role="menu"]')?.getAttribute('aria-labelledby');
  const found = button ? document.getElementById(button) : focused;
  return found instanceof HTMLElement ? found : null;
}

/** When the dialog is removed, the focus goes back to the element that had it before, or if that is removed too, to what opened its dialog. */
export function useFocusBack(): void {
  const [opener] = useState((): Opener => ({ element: focusedNow(), below: openers.at(-1) }));
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
