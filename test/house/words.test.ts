/** The field's words: private ones become fewer, and those that are gone do not come back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { productFiles, readFiles } from './source-tree.ts';
import { insteadOf, privateWords } from './word-rules.ts';

/** How often each word still stands in src without tests. A number may only go down; a word that is not here is gone. */
const IN_CODE: Record<string, number> = {
  // The table event_stretch is called as its migration calls it.
  stretch: 4,
  // A word of servers, in the rules for their replies.
};
/** The same in README, ARCHITECTURE, CONTRIBUTING and docs without the record of decisions. */
const IN_DOCUMENTS: Record<string, number> = {
  // The name of a test.
  blame: 2,
};

function tooMany(counts: Record<string, number>, allowed: Record<string, number>): string[] {
  return Object.entries(counts)
    .filter(([word, count]) => count > (allowed[word] ?? 0))
    .map(([word, count]) => `${word}: ${count} times, ${allowed[word] ?? 0} at most; say ${insteadOf(word)}`);
}

test('private words become fewer', () => {
  assert.deepEqual(tooMany(privateWords(productFiles()), IN_CODE), []);
  assert.deepEqual(tooMany(privateWords(readFiles(['portal/src/**/*.ts', 'portal/src/**/*.tsx'])), {}), []);
  const documents = readFiles(['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/*.md']);
  assert.ok(documents.length > 10);
  assert.deepEqual(tooMany(privateWords(documents), IN_DOCUMENTS), []);
});

test('control: words are found in names, comments and names of files', () => {
  const counts = privateWords([
    { path: 'src/delivery/judge.ts', text: 'const isSuspect = judged(MOST_SEATS); // whoever it is told, anew' },
    { path: 'src/a.ts', text: 'outstanding, golden seating, amend, unsuspecting' },
  ]);
  const found = Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
  assert.deepEqual(found, { judge: 2, seat: 1, whoever: 1, told: 1, anew: 1 });
  assert.deepEqual(tooMany({ judge: 3, told: 1 }, { judge: 3 }), [
    'told: 1 times, 0 at most; say reported, notified, recorded',
  ]);
});
