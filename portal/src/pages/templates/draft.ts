/**
 * The content being edited: the saved content until the user changes something, then the changed content, stored in this browser until it
 * is saved or discarded. It remembers its base version, to detect that another user has saved since.
 */
import { useCallback, useEffect, useRef, useState } from 'react';
import { useScope } from '../../scope.ts';
import { type Content, contentOf, isSame, type Template } from './content.ts';
import { keptIn } from './kept.ts';

interface Edited {
  content: Content;
  version: number;
  /** Unix ms. */
  at: number;
}

export interface Draft {
  content: Content;
  change(changes: Partial<Content>): void;
  isDirty: boolean;
  /** Another user has saved a later version. */
  isBehind: boolean;
  /** When the changes of an earlier visit were made, if the current ones continue them. */
  restoredAt: number | undefined;
  /** Whether the user can leave the page without losing changes. */
  isKept: boolean;
  discard(): void;
  bringBack(content: Content): void;
  /** Records that `sent` was saved; later changes are based on this version. */
  saved(sent: Content, version: number): void;
}

const KEEP_AFTER_MS = 300;

export function useDraft(template: Template): Draft {
  const scope = useScope();
  const [kept] = useState(() => keptIn<Edited>(scope, template.templateId, 'draft'));
  const [edited, setEdited] = useState(kept.read);
  const [isKept, setKept] = useState(true);
  const [restoredAt, setRestoredAt] = useState(() => edited?.at);
  const savedContent = contentOf(template);
  const isDirty = edited !== undefined && !isSame(edited.content, savedContent);

  useEffect(() => {
    if (!isDirty) setEdited(undefined);
  }, [isDirty]);

  const latest = useRef<Edited | undefined>(undefined);
  latest.current = isDirty ? edited : undefined;
  useEffect(() => {
    const keep = (): void => setKept(kept.write(latest.current));
    const timer = setTimeout(keep, KEEP_AFTER_MS);
    return () => clearTimeout(timer);
  }, [edited, isDirty]);
  useEffect(() => {
    const keepNow = (): void => void kept.write(latest.current);
    addEventListener('pagehide', keepNow);
    return () => {
      removeEventListener('pagehide', keepNow);
      keepNow();
    };
  }, []);

  const change = useCallback(
    (changes: Partial<Content>): void => {
      setEdited((before) => ({
        content: { ...(before?.content ?? contentOf(template)), ...changes },
        version: before?.version ?? template.version,
        at: Date.now(),
      }));
    },
    [template],
  );
  return {
    content: edited?.content ?? savedContent,
    change,
    isDirty,
    isBehind: isDirty && template.version > edited.version,
    restoredAt: isDirty ? restoredAt : undefined,
    isKept,
    discard() {
      setRestoredAt(undefined);
      setEdited(undefined);
    },
    bringBack: (content) => setEdited({ content, version: template.version, at: Date.now() }),
    saved(sent, version) {
      setRestoredAt(undefined);
      // Stays visible until the page receives the version that it became.
      setEdited((now) => ({ content: now?.content ?? sent, version, at: Date.now() }));
    },
  };
}
