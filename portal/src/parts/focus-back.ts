/**
 * The focus of the page when its element is removed: it goes back to what opened a dialog, or else to the heading next to what was removed,
 * instead of to the start of the page.
 */
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

/** Its ancestors, from the inside to the outside. They are unknown once it is removed. */
let around: readonly HTMLElement[] = [];

/** Dialogs, lists, and menus have restored the focus by then, if they do. */
const LOST_AFTER_MS = 300;

function ancestorsOf(element: HTMLElement): HTMLElement[] {
  const found: HTMLElement[] = [];
  for (let one = element.parentElement; one !== null; one = one.parentElement) found.push(one);
  return found;
}

/** A button is disabled while its action runs, and loses the focus. */
let isLoading = false;

/** Whether the element that had the focus is removed, or disabled for another reason than its running action. */
function isGone(): boolean {
  return lastFocused !== null && (!lastFocused.isConnected || (lastFocused.matches(':disabled') && !isLoading));
}

/** Focuses the nearest heading of what is left around the element; a page that is loading has none yet. */
function focusHeading(): void {
  const place = around.find((one) => one.isConnected && one !== document.body && one.querySelector('h1, h2, h3'));
  const heading = (place ?? document.querySelector('main'))?.querySelector<HTMLElement>('h1, h2, h3');
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}

/**
 * Follows the focus in the page. A dialog that loads slowly, or opens while its menu is closing, opens when nothing has the focus: the item
 * that was chosen is removed by then, and the button of the menu has not got the focus back.
 */
export function followFocus(): void {
  document.addEventListener('focusin', ({ target }) => {
    if (!(target instanceof HTMLElement)) return;
    const button = target.closest('[role="menu"]')?.getAttribute('aria-labelledby');
    lastFocused = button ? document.getElementById(button) : target;
    around = lastFocused === null ? [] : ancestorsOf(lastFocused);
  });
  let timer: ReturnType<typeof setTimeout> | undefined;
  const settle = (): void => {
    timer = undefined;
    if (isGone() && document.activeElement === document.body) focusHeading();
  };
  const observer = new MutationObserver(() => {
    const wasLoading = isLoading;
    isLoading = lastFocused?.matches(':disabled[data-loading]') ?? false;
    if (wasLoading && !isLoading && document.activeElement === document.body)
      lastFocused?.focus({ preventScroll: true });
    if (timer === undefined && isGone()) timer = setTimeout(settle, LOST_AFTER_MS);
  });
  observer.observe(document.body, { childList: true, subtree: true, attributeFilter: ['disabled'] });
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
