/** Runs the import part by part, so that it shows progress and can be stopped; rejected lines are collected for the end. */

import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { type Caller, PostriderError } from '../../api.ts';
import { useScope } from '../../scope.ts';
import { type FaultyLine, faultyOf, type ImportLine, type Part, partOf, partsOf } from './import-file.ts';

export interface ImportState {
  state: 'running' | 'done' | 'stopped' | 'broken';
  /** Processed lines, whatever their result. */
  finished: number;
  total: number;
  imported: number;
  skipped: number;
  faulty: readonly FaultyLine[];
  error?: Error;
}

type PartResult = Pick<ImportState, 'imported' | 'skipped' | 'faulty'>;

/** The API accepts all lines of a part or none: once the invalid ones are known, the others are sent again. */
async function sendPart(caller: Caller, whole: Part, signal: AbortSignal): Promise<PartResult> {
  const faulty: FaultyLine[] = [];
  for (let part = whole; part.lines.length > 0; ) {
    try {
      const sent = { body: part.body, contentType: 'text/csv' };
      const { imported, skipped } = await caller.call('importSuppressions', sent, { signal });
      return { imported, skipped, faulty };
    } catch (error) {
      const found = error instanceof PostriderError && error.status === 400 ? faultyOf(part, error.details) : [];
      if (found.length === 0) throw error;
      faulty.push(...found);
      const numbers = new Set(found.map(({ number }) => number));
      part = partOf(part.lines.filter(({ number }) => !numbers.has(number)));
    }
  }
  return { imported: 0, skipped: 0, faulty };
}

export function useImport() {
  const { caller } = useScope();
  const queries = useQueryClient();
  const [state, setState] = useState<ImportState>();
  const ended = useRef(new AbortController());
  // Stop the import when the page is left.
  useEffect(() => () => ended.current.abort(), []);

  async function run(lines: readonly ImportLine[]): Promise<void> {
    ended.current = new AbortController();
    const { signal } = ended.current;
    let now: ImportState = { state: 'running', finished: 0, total: lines.length, imported: 0, skipped: 0, faulty: [] };
    const show = (change: Partial<ImportState>): void => {
      now = { ...now, ...change };
      setState(now);
    };
    show({});
    try {
      for (const part of partsOf(lines)) {
        const { imported, skipped, faulty } = await sendPart(caller, part, signal);
        const counts = { imported: now.imported + imported, skipped: now.skipped + skipped };
        show({ ...counts, faulty: [...now.faulty, ...faulty], finished: now.finished + part.lines.length });
      }
      show({ state: 'done' });
    } catch (error) {
      show(signal.aborted ? { state: 'stopped' } : { state: 'broken', error: error as Error });
    }
    await queries.invalidateQueries({ queryKey: ['listSuppressions'] });
  }

  return {
    state,
    run,
    stop: () => ended.current.abort(),
    forget: () => setState(undefined),
  };
}
