/** The memory budget of attempts: many concurrent large messages within a limit, with capacity for others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeliveryJob } from '../../messages/messages.ts';
import { openMemoryBudget } from './slots.ts';

const options = { requireTls: false, smtpUtf8: false, eightBit: false, expiresAfterSeconds: 60 };
const files = [{ at: 0, blobKey: 'aa/x', sizeBytes: 29_000_000, sha256: '' }];

function job(changes: Partial<DeliveryJob>): DeliveryJob {
  return { blobKey: null, sizeBytes: 1000, options, ...changes } as DeliveryJob;
}

test('64 messages with files fit next to ordinary ones, and finishing one frees capacity', () => {
  const budget = openMemoryBudget();
  const large = job({ sizeBytes: 39_684_211 + 1000, options: { ...options, files } });
  const given = [];
  while (budget.fits(large)) given.push(budget.acquire(large)!);
  assert.equal(given.length, 64);
  const ordinary = job({ blobKey: 'bb/x', sizeBytes: 2_000_000 });
  const beside = [];
  while (budget.fits(ordinary)) beside.push(budget.acquire(ordinary)!);
  assert.ok(beside.length >= 25, `${beside.length} ordinary messages of 2 MB`);
  given.pop()!();
  assert.ok(budget.fits(large));
  for (const end of [...given, ...beside]) end();
});

test('content from the database uses no memory budget, and a single message always fits', () => {
  const budget = openMemoryBudget();
  assert.equal(budget.acquire(job({})), undefined);
  const huge = job({ blobKey: 'cc/x', sizeBytes: 500_000_000 });
  assert.ok(budget.fits(huge));
  const end = budget.acquire(huge)!;
  assert.ok(!budget.fits(job({ blobKey: 'dd/x', sizeBytes: 70_000 })));
  assert.ok(budget.fits(job({})));
  end();
  assert.ok(budget.fits(job({ blobKey: 'dd/x', sizeBytes: 70_000 })));
});
