/**
 * Returns the branches of the product that some processes reached, from V8's coverage of each (NODE_V8_COVERAGE). A branch is a block that
 * V8 counted separately in any of the processes; V8 does not list a block that ran as often as its parent.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

interface Range {
  startOffset: number;
  endOffset: number;
  count: number;
}

/** Coverage of one file in one process: the ranges of each function, the first of which is the entire function. */
export type Functions = readonly { ranges: readonly Range[] }[];

/** Coverage of one file in all processes. */
export interface FileBranches {
  branches: number;
  reached: number;
  /** Start offsets of branches that were not reached. */
  missedOffsets: number[];
}

export interface Reached {
  [folder: string]: {
    branches: number;
    reached: number;
    /** By file: the start lines of branches that were not reached. */
    missed: Record<string, number[]>;
  };
}

const keyOf = ({ startOffset, endOffset }: Range): string => `${startOffset}-${endOffset}`;

const contains = (outer: Range, inner: Range): boolean =>
  outer.startOffset <= inner.startOffset && outer.endOffset >= inner.endOffset;

const lengthOf = ({ startOffset, endOffset }: Range): number => endOffset - startOffset;

/** Returns the count of a block: that of the smallest range that contains it. */
function countOf(block: Range, ranges: readonly Range[]): number {
  let smallest: Range | undefined;
  for (const one of ranges) {
    if (contains(one, block) && (smallest === undefined || lengthOf(one) < lengthOf(smallest))) smallest = one;
  }
  return smallest?.count ?? 0;
}

export function branchesOf(processes: readonly Functions[]): FileBranches {
  const all = processes.map((functions) => functions.flatMap(({ ranges }) => ranges));
  const blocks = new Map(all.flat().map((range) => [keyOf(range), range]));
  const missed = [...blocks.values()].filter((block) => !all.some((ranges) => countOf(block, ranges) > 0));
  const missedOffsets = missed.map(({ startOffset }) => startOffset).sort((a, b) => a - b);
  return { branches: blocks.size, reached: blocks.size - missed.length, missedOffsets };
}

const lineAt = (source: string, offset: number): number => source.slice(0, offset).split('\n').length;

/** `counted`: folders in `sources`. */
export function readCoverage(from: { folder: string; sources: string; counted: readonly string[] }): Reached {
  const { folder, sources, counted } = from;
  const byFile = new Map<string, Functions[]>();
  const root = `${pathToFileURL(sources).href}/`;
  for (const name of readdirSync(folder)) {
    const { result } = JSON.parse(readFileSync(path.join(folder, name), 'utf8')) as {
      result: { url: string; functions: Functions }[];
    };
    for (const { url, functions } of result) {
      if (!url.startsWith(root)) continue;
      const file = url.slice(root.length).replace(/\?.*/, '');
      if (counted.includes(file.split('/')[0]!)) byFile.set(file, [...(byFile.get(file) ?? []), functions]);
    }
  }
  const reached: Reached = {};
  for (const [file, processes] of [...byFile].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const of = branchesOf(processes);
    reached[file.split('/')[0]!] ??= { branches: 0, reached: 0, missed: {} };
    const sums = reached[file.split('/')[0]!]!;
    sums.branches += of.branches;
    sums.reached += of.reached;
    if (of.missedOffsets.length === 0) continue;
    const source = readFileSync(path.join(sources, file), 'utf8');
    sums.missed[file] = [...new Set(of.missedOffsets.map((offset) => lineAt(source, offset)))];
  }
  return reached;
}

export function inWords(reached: Reached): string {
  return Object.entries(reached)
    .flatMap(([folder, { branches, reached: count, missed }]) => [
      `branches of src/${folder} that were reached: ${count} of ${branches}; not those at`,
      ...Object.entries(missed).map(([file, lines]) => `  src/${file}:${lines.join(',')}`),
    ])
    .join('\n');
}
