/** Reads the tables of docs/explanation/delivery-behavior.md, for tests that check them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { BEHAVIOURS, STAGES } from './faulty-server.ts';

const PAGE = path.resolve(import.meta.dirname, '../../docs/explanation/delivery-behavior.md');

/** Marks an impossible combination. */
export const NO_CELL = '–';

/** Returns the rows of the table under a heading, including its header and separator. */
export function rowsOf(heading: string): string[][] {
  const section = readFileSync(PAGE, 'utf8').split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  return [...section.matchAll(/^\| (.+) \|$/gm)].map(([, row]) => row!.split('|').map((one) => one.trim()));
}

/** The cells of a table of faulty servers, as `stage behaviour` → word. */
export function tableOf(heading: string): Map<string, string> {
  const [[, ...stages] = [], , ...lines] = rowsOf(heading);
  assert.deepEqual(stages, [...STAGES], `${heading}: the stages`);
  assert.deepEqual(
    lines.map(([behaviour]) => behaviour),
    [...BEHAVIOURS],
    `${heading}: the behaviours`,
  );
  return new Map(
    lines.flatMap(([behaviour, ...words]) => words.map((word, index) => [`${stages[index]} ${behaviour}`, word])),
  );
}
