/** A diff of two texts: side by side, or unified. */
import { MergeView, unifiedMergeView } from '@codemirror/merge';
import { EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { useEffect, useRef } from 'react';
import classes from './code.module.css';
import { look } from './theme.ts';

export interface DifferenceProps {
  before: { name: string; value: string };
  after: { name: string; value: string };
  language: 'html' | 'text';
  isSideBySide: boolean;
}

const COLLAPSED = { margin: 3, minSize: 6 };
/** More than enough for two templates, and still fast. */
const EFFORT = { scanLimit: 2_000, timeout: 300 };

function readOnly(language: 'html' | 'text', label: string) {
  return [
    look(language),
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    // Scrollable content must be accessible by keyboard (WCAG 2.1.1).
    EditorView.contentAttributes.of({ 'aria-label': label, 'aria-readonly': 'true', tabindex: '0' }),
  ];
}

export default function DifferenceView({ before, after, language, isSideBySide }: DifferenceProps) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const parent = place.current!;
    const shared = { collapseUnchanged: COLLAPSED, diffConfig: EFFORT, gutter: true };
    const view = isSideBySide
      ? new MergeView({
          ...shared,
          parent,
          a: { doc: before.value, extensions: readOnly(language, before.name) },
          b: { doc: after.value, extensions: readOnly(language, after.name) },
        })
      : new EditorView({
          parent,
          doc: after.value,
          extensions: [
            readOnly(language, `${before.name} → ${after.name}`),
            unifiedMergeView({ ...shared, original: before.value, mergeControls: false }),
          ],
        });
    return () => view.destroy();
  }, [before.name, before.value, after.name, after.value, language, isSideBySide]);
  return <div ref={place} className={classes.difference} />;
}
