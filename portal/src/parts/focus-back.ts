/** The focus of a dialog that is removed when it closes. */
import { useEffect, useState } from 'react';

/** When the dialog is removed, the focus goes back to the element that had it before. */
export function useFocusBack(): void {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    },
    [before],
  );
}
