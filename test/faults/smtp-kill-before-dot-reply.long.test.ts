/** Three kills between the dot of messages and our 250 (smtp-kill-trial.ts). */
import { test } from 'node:test';
import { smtpKillTrial } from './smtp-kill-trial.ts';

test('acknowledged mail is present, other mail at most once, and all of it intact', { timeout: 170_000 }, (t) =>
  smtpKillTrial(t, { kills: 3 }),
);
