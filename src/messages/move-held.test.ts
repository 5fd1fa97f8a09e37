/** Rescheduling a message that is held for a full lane: it waits for its new time, whenever the lane has capacity. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { acceptance } from '../../test/kit/seed-mail.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { claimOperation } from '../delivery/queue/claim.ts';
import { acceptOperation } from '../send/acceptance.ts';
import { putBackOperation, resumeOperation } from '../work/work.ts';
import { moveMessageOperation } from './api-store.ts';
import { DELIVERY_WORK } from './messages.ts';

const DAY = 86_400_000;

test('a parked message moved to tomorrow is not sent when its lane has capacity', async (t) => {
  const { database, close } = await tempDatabase();
  t.after(close);
  const nowMs = Date.now();
  const claim = { leaseMs: 60_000, limit: 10, quarantined: false };
  const mail = acceptance({
    accountId: 'acc_1',
    nowMs: nowMs - 10_000,
    sendAtMs: nowMs - 1_000,
    recipients: ['moved@x.example', 'stays@x.example'],
  });
  const { recipients } = await database.execute(acceptOperation, mail);
  const { jobs } = await database.execute(claimOperation, { ...claim, nowMs });
  assert.equal(jobs.length, 2);
  const leases = jobs.map(({ seq, fence }) => ({ seq, fence }));
  await database.execute(putBackOperation, { park: leases, nowMs });
  const key = { accountId: 'acc_1', mode: 'live', messageId: recipients[0]!.messageId } as const;
  const moved = await database.execute(moveMessageOperation, { ...key, sendAtMs: nowMs + DAY, nowMs });
  assert.equal(moved.changed, true);
  await database.execute(resumeOperation, { kind: DELIVERY_WORK, nowMs, lanes: [{ lane: jobs[0]!.lane, limit: 100 }] });
  const { jobs: next } = await database.execute(claimOperation, { ...claim, nowMs });
  assert.deepEqual(
    next.map((job) => job.messageId),
    [recipients[1]!.messageId],
    'the other message resumes',
  );
  const { jobs: later } = await database.execute(claimOperation, { ...claim, nowMs: nowMs + DAY });
  assert.ok(later.some((job) => job.messageId === key.messageId));
});
