/**
 * TLS requirements of recipients' domains, and reports about them. MTA-STS policies: stored, replaced, found in bulk, due for a refresh,
 * and removed when they have expired.
 */
import assert from 'node:assert/strict';
import {
  findStsPolicyOperation,
  keepStsPolicyOperation,
  noteStsPolicyOperation,
  removeStsPoliciesOperation,
  type StsRow,
  staleStsPoliciesOperation,
} from '../../src/tls-policy/mta-sts-store.ts';
import {
  addCountsOperation,
  type CountRow,
  claimReportsOperation,
  countsOperation,
  lastReportsOperation,
  planOperation,
  removeTlsReportsOperation,
  settleReportOperation,
  unplannedOperation,
} from '../../src/tls-reports/store.ts';
import type { Scenario } from './stage.ts';

const DAY_MS = 86_400_000;

export const stsPolicies: Scenario = async (stage) => {
  const { nowMs } = stage;
  const row = (domain: string, change: Partial<StsRow> = {}): StsRow => ({
    domain,
    policyId: '1',
    mode: 'enforce',
    mx: '["mx.example"]',
    maxAge: 604_800,
    checkedAt: nowMs - 2 * DAY_MS,
    usedAt: nowMs,
    expiresAt: nowMs + DAY_MS,
    ...change,
  });
  await stage.act(keepStsPolicyOperation, row('a.example'));
  await stage.act(keepStsPolicyOperation, row('a.example', { policyId: '2', mode: 'testing' }));
  await stage.act(keepStsPolicyOperation, row('b.example', { checkedAt: nowMs }));
  await stage.act(keepStsPolicyOperation, row('c.example', { usedAt: nowMs - 40 * DAY_MS }));
  await stage.act(keepStsPolicyOperation, row('d.example', { expiresAt: nowMs - 1 }));
  const found = await stage.act(findStsPolicyOperation, 'a.example');
  assert.deepEqual(found, row('a.example', { policyId: '2', mode: 'testing' }));
  assert.equal(await stage.act(findStsPolicyOperation, 'e.example'), null);
  const asked = { checkedBefore: nowMs - DAY_MS, usedAfter: nowMs - 30 * DAY_MS, nowMs, limit: 10 };
  const stale = await stage.act(staleStsPoliciesOperation, asked);
  assert.deepEqual(
    stale.map((one) => one.domain),
    ['a.example'],
  );
  await stage.act(noteStsPolicyOperation, { domain: 'a.example', checkedAt: nowMs });
  await stage.act(noteStsPolicyOperation, { domain: 'c.example', usedAt: nowMs });
  const then = await stage.act(staleStsPoliciesOperation, asked);
  assert.deepEqual(
    then.map((one) => one.domain),
    ['c.example'],
  );
  assert.equal(await stage.act(removeStsPoliciesOperation, { nowMs, limit: 10 }), 1);
  assert.equal(await stage.act(findStsPolicyOperation, 'd.example'), null);
};

/** TLS reports: counters that add up, reports that are planned once, claimed and settled under a fence, and removed. */
export const tlsReports: Scenario = async (stage) => {
  const day = stage.nowMs - (stage.nowMs % DAY_MS) - 2 * DAY_MS;
  const row = (id: string, change: Partial<CountRow> = {}): CountRow => ({
    id,
    day,
    domain: 'a.example',
    policy: '{"type":"sts"}',
    sessions: 1,
    ...change,
  });
  const failed = { failure: 'certificate-expired', host: 'mx.a.example', address: '192.0.2.1', reason: 'old' };
  await stage.act(addCountsOperation, [row('1'), row('2', failed), row('3', { domain: 'b.example' })]);
  await stage.act(addCountsOperation, [row('1', { sessions: 4 }), row('2', { ...failed, reason: 'older' })]);
  const counters = await stage.act(countsOperation, { day, domain: 'a.example', limit: 10 });
  assert.deepEqual(
    counters.map(({ sessions, reason }) => [sessions, reason]),
    [
      [5, null],
      [2, 'older'],
    ],
  );
  const asked = { fromDay: day, toDay: day, limit: 10 };
  const unplanned = await stage.act(unplannedOperation, asked);
  assert.deepEqual(
    unplanned.map(({ domain }) => domain),
    ['a.example', 'b.example'],
  );
  assert.equal(await stage.act(lastReportsOperation, null), null);
  const planned = unplanned.map((one, index) => ({ ...one, nextAt: day + index }));
  await stage.act(planOperation, planned);
  await stage.act(planOperation, planned);
  assert.deepEqual(await stage.act(unplannedOperation, asked), []);
  const claim = { nowMs: stage.nowMs, leaseMs: DAY_MS, limit: 1 };
  const [first] = await stage.act(claimReportsOperation, claim);
  const [second] = await stage.act(claimReportsOperation, claim);
  assert.deepEqual([first?.domain, second?.domain], ['a.example', 'b.example']);
  assert.deepEqual(await stage.act(claimReportsOperation, claim), [], 'both are leased');
  const settled = { day, served: ['mailto:x@a.example'], nowMs: stage.nowMs, againInMs: null };
  const sent = { ...settled, domain: 'a.example', outcome: 'sent' as const };
  assert.equal(await stage.act(settleReportOperation, { ...sent, attempts: 2 }), false, 'another claim');
  assert.equal(await stage.act(settleReportOperation, { ...sent, attempts: 1 }), true);
  assert.equal(await stage.act(settleReportOperation, { ...sent, attempts: 1 }), false, 'already settled');
  const later = { ...settled, domain: 'b.example', attempts: 1, againInMs: DAY_MS, outcome: null };
  assert.equal(await stage.act(settleReportOperation, later), true);
  assert.deepEqual(await stage.act(lastReportsOperation, null), { day, counts: { sent: 1, waiting: 1 } });
  assert.equal(await stage.act(removeTlsReportsOperation, { beforeDay: day, limit: 10 }), 0);
  assert.equal(await stage.act(removeTlsReportsOperation, { beforeDay: day + 1, limit: 4 }), 4);
  assert.equal(await stage.act(removeTlsReportsOperation, { beforeDay: day + 1, limit: 4 }), 1);
};
