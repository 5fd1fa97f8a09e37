/**
 * Failing seeds, kept in the tree permanently: a file for each, with the parts of its scenario that the failure needed. The fast tests run
 * them again, and all must succeed.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Failed } from './sums.ts';

export const KEPT_FOLDER = path.join(import.meta.dirname, 'kept');

export interface Kept {
  seed: string;
  /** The remaining parts of the scenario; see choices.ts. */
  only: readonly string[];
  fault: string;
  /** A scenario of several nodes. */
  nodes?: boolean;
  /** A scenario whose transactions overlap. */
  overlapping?: boolean;
  /** The bug that was planted. */
  planted?: string;
  /** Hash of the steps, with the code at that time. */
  trace: string;
  date: string;
}

/** Reads the seeds of one kind of scenarios. */
export function readKept({ nodes, overlapping = false, folder = KEPT_FOLDER }: Omit<Keeping, 'planted'>): Kept[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.json'));
  const all = names.sort().map((name) => JSON.parse(readFileSync(path.join(folder, name), 'utf8')) as Kept);
  return all.filter((one) => (one.nodes ?? false) === nodes && (one.overlapping ?? false) === overlapping);
}

export interface Keeping {
  planted?: string | undefined;
  nodes: boolean;
  overlapping?: boolean;
  folder?: string | undefined;
}

/** Returns the name of the file. */
export function keep(
  { seed, parts, faults, trace }: Failed,
  { planted, nodes, overlapping = false, folder = KEPT_FOLDER }: Keeping,
): string {
  const kept: Kept = {
    seed,
    only: parts,
    fault: faults[0]!,
    ...(nodes && { nodes }),
    ...(overlapping && { overlapping }),
    ...(planted !== undefined && { planted }),
    trace,
    date: new Date().toISOString().slice(0, 10),
  };
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, `${seed}${overlapping ? '-overlapping' : nodes ? '-nodes' : ''}.json`);
  writeFileSync(file, `${JSON.stringify(kept, undefined, 2)}\n`);
  return file;
}

/** Returns the value for `--only`; without parts, a name that no part has. */
export const onlyOf = (parts: readonly string[]): string => (parts.length === 0 ? 'nothing' : parts.join(','));
