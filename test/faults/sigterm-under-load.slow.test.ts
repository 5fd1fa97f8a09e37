/** Three planned stops under load (stop-trial.ts). */
import { test } from 'node:test';
import { stopTrial } from './stop-trial.ts';

test('three planned stops under load lose and duplicate nothing', { timeout: 170_000 }, (t) =>
  stopTrial(t, { stops: 3 }),
);
