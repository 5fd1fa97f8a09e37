/** One account with many webhooks and streams beside another; the long form is one-tenant-many-webhooks.slow.test.ts. */
import { test } from 'node:test';
import { tenantTrial } from './tenant-trial.ts';

test('webhooks and streams of one account do not slow down the sends of another', { timeout: 100_000 }, (t) =>
  tenantTrial(t, { rounds: 1 }),
);
