/**
 * An editor for HTML, text and their {{ }} and {% %}, and a diff view. Their code is as large as the rest of the portal, and is loaded on
 * demand.
 */
import { Skeleton } from '@mantine/core';
import { lazy, Suspense } from 'react';
import type { DifferenceProps } from './code-mirror/difference.tsx';
import type { EditorProps } from './code-mirror/editor.tsx';

export type { Mark } from './code-mirror/editor.tsx';

const Editor = lazy(() => import('./code-mirror/editor.tsx'));
const DifferenceView = lazy(() => import('./code-mirror/difference.tsx'));

export function CodeEditor(props: EditorProps) {
  return (
    <Suspense fallback={<Skeleton height="50vh" />}>
      <Editor {...props} />
    </Suspense>
  );
}

export function Difference(props: DifferenceProps) {
  return (
    <Suspense fallback={<Skeleton height={320} />}>
      <DifferenceView {...props} />
    </Suspense>
  );
}
