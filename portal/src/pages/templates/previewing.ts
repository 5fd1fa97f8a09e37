/** The preview of what is typed: asked for a quarter of a second after the last key, and as it was while there is a mistake. */
import { useDebouncedValue } from '@mantine/hooks';
import { useRef } from 'react';
import { type Answer, type Body, PostriderError, useCall } from '../../api.ts';
import { useScope } from '../../scope.ts';
import { type Content, sourcesOf } from './content.ts';
import type { Values } from './values.ts';

const QUIET_MS = 250;
/** By field, with line and column where the service knows them. */
export type Mistakes = PostriderError['details'];

const NO_MISTAKES: Mistakes = [];
const NO_NAMES: readonly string[] = [];

export interface Preview {
  /** The last one that could be made. */
  shown: Answer<'renderTemplateSources'> | undefined;
  missing: readonly string[];
  error: unknown;
  mistakes: Mistakes;
}

export function usePreview(content: Content, values: Values): Preview {
  const { mayWrite } = useScope();
  const body: Body<'renderTemplateSources'> = { ...sourcesOf(content), templateVariables: { ...values } };
  // By its text: the same content is the same preview, no matter who made the object.
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
