/** Measures the sends of one account while another has many webhooks and streams, in three rounds (tenant-trial.ts). */
import { test } from 'node:test';
import { tenantTrial } from './tenant-trial.ts';

test('webhooks and streams of one account do not slow down sends of another', { timeout: 100_000 }, (t) =>
  tenantTrial(t, { rounds: 3 }),
);
