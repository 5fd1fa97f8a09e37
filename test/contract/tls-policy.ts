/** MTA-STS policies: kept, replaced, found many at once, due for another look, and removed when they have expired. */
import assert from 'node:assert/strict';
import {
  findStsPolicyOperation,
  keepStsPolicyOperation,
  noteStsPolicyOperation,
  removeStsPoliciesOperation,
  type StsRow,
  staleStsPoliciesOperation,
} from '../../src/tls-policy/mta-sts-store.ts';
import type { Scenario } from './stage.ts';

const DAY_MS = 86_400_000;

export const stsPolicies: Scenario = async (stage) => {
  const { nowMs } = stage;
  const row = (domain: string, change: Partial<StsRow> = {}): StsRow => ({
    ...{ domain, policyId: '1', mode: 'enforce', mx: '["mx.example"]', maxAge: 604_800 },
    ...{ checkedAt: nowMs - 2 * DAY_MS, usedAt: nowMs, expiresAt: nowMs + DAY_MS },
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
