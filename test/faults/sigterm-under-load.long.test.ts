/** One planned stop under load; sigterm-under-load.slow.test.ts has several. */
import { test } from 'node:test';
import { stopTrial } from './stop-trial.ts';

test('a planned stop under load loses and duplicates nothing', { timeout: 170_000 }, (t) => stopTrial(t, { stops: 1 }));
