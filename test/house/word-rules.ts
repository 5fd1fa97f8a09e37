/**
 * Private words, for which the field has its own: how often they stand in names, comments and texts. Identifiers are taken apart, so
 * that `isSuspect` holds the word too.
 */
import type { SourceFile } from './source-tree.ts';

/** The word, its forms, and what to say instead. */
const PRIVATE: [word: string, forms: RegExp, instead: string][] = [
  ['judge', /^(judge[ds]?|judging|judg(e)?ments?|verdicts?)$/, 'validate, classify, check'],
  ['whoever', /^(whoever|whomever|whosoever)$/, 'the one who, anyone who, a client that'],
  ['anew', /^anew$/, 'again'],
  ['mend', /^(mend|mends|mended|mending)$/, 'fix, repair'],
  ['told', /^(told|untold|tellable)$/, 'reported, notified, recorded'],
  ['stretch', /^stretch(es|ed)?$/, 'segment, time index'],
  ['blame', /^(blame[ds]?|guilty|innocent)$/, 'poison detection'],
  ['seat', /^seats?$/, 'permit'],
  ['unrest', /^unrest$/, 'outstanding work'],
  ['reaction', /^reactions?$/, 'engagement'],
  ['crowd', /^(crowd|crowded|crowding|uncrowded)$/, 'over quota'],
  ['unhold', /^(unhold|unheld)$/, 'resume'],
  ['flying', /^(flying|landed)$/, 'in flight, done'],
  ['standing', /^standing$/, 'endpoint health'],
  ['inflow', /^inflow$/, 'upload reader'],
];

/** Words of a text in lower case, those within identifiers among them. */
function wordsOf(text: string): string[] {
  return (text.replace(/([a-z0-9])([A-Z])/g, '$1 $2').match(/[A-Za-z]+/g) ?? []).map((word) => word.toLowerCase());
}

export const insteadOf = (word: string): string => PRIVATE.find(([name]) => name === word)![2];

/** How often each private word stands in the files and their names. */
export function privateWords(files: SourceFile[]): Record<string, number> {
  const counts = Object.fromEntries(PRIVATE.map(([word]) => [word, 0]));
  const known = new Map<string, string | undefined>();
  for (const file of files) {
    for (const found of wordsOf(`${file.path} ${file.text}`)) {
      if (!known.has(found)) known.set(found, PRIVATE.find(([, forms]) => forms.test(found))?.[0]);
      const word = known.get(found);
      if (word !== undefined) counts[word]! += 1;
    }
  }
  return counts;
}
