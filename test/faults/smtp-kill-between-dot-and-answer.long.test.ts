/** Three kills while mails are between their dot and our 250 (smtp-kill-trial.ts). */
import { test } from 'node:test';
import { smtpKillTrial } from './smtp-kill-trial.ts';

test(
  'what was answered is there, what was not is there at most once, and all of it is whole',
  { timeout: 170_000 },
  (t) => smtpKillTrial(t, { kills: 3 }),
);
