/**
 * Seeds that found a fault, in the tree for good: a file for each, with the parts of its world that the fault needed. They are run again
 * by the fast tests, and all have to be well.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Failed } from './sums.ts';

export const KEPT_FOLDER = path.join(import.meta.dirname, 'kept');

export interface Kept {
  seed: string;
  /** All that of the world is left; see choices.ts. */
  only: readonly string[];
  fault: string;
  /** A world of several nodes. */
  nodes?: boolean;
  /** The bug that was planted then. */
  planted?: string;
  /** Of the steps, with the code of that day. */
  trace: string;
  date: string;
}

/** Those of one node, or of several. */
export function readKept({ nodes, folder = KEPT_FOLDER }: Omit<Keeping, 'planted'>): Kept[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.json'));
  const all = names.sort().map((name) => JSON.parse(readFileSync(path.join(folder, name), 'utf8')) as Kept);
  return all.filter((one) => (one.nodes ?? false) === nodes);
}

export interface Keeping {
  planted?: string | undefined;
  nodes: boolean;
  folder?: string | undefined;
}

/** Answers the name of the file. */
export function keep(
  { seed, parts, faults, trace }: Failed,
  { planted, nodes, folder = KEPT_FOLDER }: Keeping,
): string {
  const kept: Kept = {
    ...{ seed, only: parts, fault: faults[0]! },
    ...(nodes && { nodes }),
    ...(planted !== undefined && { planted }),
    ...{ trace, date: new Date().toISOString().slice(0, 10) },
  };
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, `${seed}${nodes ? '-nodes' : ''}.json`);
  writeFileSync(file, `${JSON.stringify(kept, undefined, 2)}\n`);
  return file;
}

/** What `--only` takes; a name that no part has, where none is left. */
export const onlyOf = (parts: readonly string[]): string => (parts.length === 0 ? 'nothing' : parts.join(','));
