/** One kill while mails are between their dot and our 250; the long form is smtp-kill-between-dot-and-answer.slow.test.ts. */
import { test } from 'node:test';
import { smtpKillTrial } from './smtp-kill-trial.ts';

test(
  'what was answered is there, what was not is there at most once, and all of it is whole',
  { timeout: 170_000 },
  (t) => smtpKillTrial(t, { kills: 1 }),
);
