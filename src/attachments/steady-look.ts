/**
 * A look at a submission and at its stored files, which are two places: an upload that is repeated in between takes the bytes
 * away that the row named a moment ago. Whatever seems missing is therefore looked for again, as long as the submission is
 * another one than it was.
 */
import type { Mode } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import { submissionOperation } from './store.ts';
import type { Submission } from './submission.ts';

/** Only a client that uploads the same file all the time is in the way longer. */
const LOOKS = 10;

export interface SubmissionKey {
  accountId: string;
  mode: Mode;
  id: string;
}

/** What `look` says of the submission as it is; undefined when there is none (any more). */
export async function lookSteadily<T extends { isComplete: boolean }>(
  database: Database,
  key: SubmissionKey,
  look: (submission: Submission) => T | Promise<T>,
): Promise<T | undefined> {
  let submission = await database.execute(submissionOperation, key);
  for (let looks = 1; submission !== null; looks += 1) {
    const seen = await look(submission);
    if (seen.isComplete || looks === LOOKS) return seen;
    const now: Submission | null = await database.execute(submissionOperation, key);
    if (now !== null && now.version === submission.version && now.usedAt === submission.usedAt) return seen;
    submission = now;
  }
  return undefined;
}
