/** Three kills while mails are between their dot and our 250 (smtp-kill-trial.ts). */
import { test } from 'node:test';
import { smtpKillTrial } from './smtp-kill-trial.ts';

test('the same of three kills: what was answered is there, and nothing twice', { timeout: 170_000 }, (t) =>
  smtpKillTrial(t, { kills: 3 }),
);
