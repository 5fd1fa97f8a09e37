/** The preview of unsaved content: requested 250 ms after the last keystroke; while there is an error, the last valid one. */
import { useDebouncedValue } from '@mantine/hooks';
import { useRef } from 'react';
import { type Answer, type Body, PostriderError, useCall } from '../../api.ts';
import { useScope } from '../../scope.ts';
import { type Content, sourcesOf } from './content.ts';
import type { Values } from './values.ts';

const QUIET_MS = 250;
/** By field, with line and column if the service knows them. */
export type Mistakes = PostriderError['details'];

const NO_MISTAKES: Mistakes = [];
const NO_NAMES: readonly string[] = [];

export interface Preview {
  /** The last valid preview. */
  shown: Answer<'renderTemplateSources'> | undefined;
  missing: readonly string[];
  error: unknown;
  mistakes: Mistakes;
}

export function usePreview(content: Content, values: Values): Preview {
  const { mayWrite } = useScope();
  const body: Body<'renderTemplateSources'> = { ...sourcesOf(content), templateVariables: { ...values } };
  // Compared as text: equal content has the same preview, whatever the object.
  const [asked] = useDebouncedValue(JSON.stringify(body), QUIET_MS);
  const answer = useCall('renderTemplateSources', { body: JSON.parse(asked) }, { enabled: mayWrite, keepsLast: true });
  const last = useRef(answer.data);
  if (answer.data !== undefined) last.current = answer.data;
  const { error } = answer;
  return {
    shown: last.current,
    missing: last.current?.missingVariables ?? NO_NAMES,
    error,
    mistakes: error instanceof PostriderError ? error.details : NO_MISTAKES,
  };
}
