/** The suppression list: added, replaced, imported, found, searched and removed. */
import assert from 'node:assert/strict';
import {
  findSuppressionOperation,
  importOperation,
  type Suppression,
  type SuppressionPage,
  searchSuppressionsOperation,
  suppressedAmongOperation,
  suppressionsByEmailOperation,
  suppressionsOperation,
  suppressOperation,
  unsuppressOperation,
} from '../../src/suppressions/store.ts';
import type { Scenario } from './stage.ts';

export const suppressions: Scenario = async (stage) => {
  const list = { accountId: stage.id('acc'), mode: 'live' } as const;
  const { nowMs } = stage;
  const entry = (email: string, at: number, expiresAt: number | null = null) =>
    ({ email, reason: 'manual', sourceMessageId: null, expiresAt, createdAt: at }) as const;
  const hashed = (email: string) => ({ ...list, email, addressHash: `hash of ${email}` });
  const add = (suppression: Suppression) =>
    stage.act(suppressOperation, { ...list, suppression, addressHash: `hash of ${suppression.email}` });
  await add(entry('b@x.example', nowMs, nowMs + 10));
  await add({ ...entry('B@x.example', nowMs), reason: 'bounce', sourceMessageId: 'msg_1' });
  await add(entry('b@x.example', nowMs + 1, nowMs + 20));
  await add(entry('ünï@x.example', nowMs + 1));
  const many = ['a@x.example', 'b@x.example', 'z@x.example', 'a@x.example', '_@x.example'].map((email) =>
    entry(email, nowMs + 2),
  );
  await stage.act(importOperation, { ...list, nowMs, suppressions: many });
  await stage.act(importOperation, { ...list, nowMs: nowMs + 30, suppressions: many });
  const page = { ...list, nowMs, limit: 2 };
  const first = await stage.act(suppressionsOperation, { ...page, after: null });
  await stage.act(suppressionsOperation, { ...page, after: first[1]! });
  await stage.act(suppressionsOperation, { ...page, limit: 10, after: null });
  const find = (change: object) => stage.act(suppressionsOperation, { ...page, limit: 10, after: null, ...change });
  for (const [change, found] of [
    [{ email: 'x.example' }, 6],
    [{ email: 'ünï@' }, 1],
    [{ email: '_' }, 1],
    [{ email: '%' }, 0],
    [{ reason: 'bounce' }, 1],
    [{ reason: 'bounce', email: 'a@' }, 0],
    [{ reason: 'complaint' }, 0],
  ] as const)
    assert.equal((await find(change)).length, found, JSON.stringify(change));
  const search = (after: SuppressionPage['after'], rows: number) =>
    stage.act(searchSuppressionsOperation, { page: { ...page, limit: 10, after }, rows });
  const { end: through, found: firstThree } = await search(null, 3);
  assert.equal(firstThree.length, 3);
  assert.deepEqual((await find({ through })).length, 3);
  assert.equal((await search(through, 4)).end, null);
  assert.equal((await find({ after: through })).length, 3);
  assert.equal((await stage.act(findSuppressionOperation, { ...list, nowMs, email: 'B@x.example' }))?.reason, 'bounce');
  assert.equal(await stage.act(findSuppressionOperation, { ...list, nowMs, email: 'none@x.example' }), undefined);
  await stage.act(suppressionsByEmailOperation, { ...list, nowMs, after: '', limit: 3 });
  await stage.act(suppressionsByEmailOperation, { ...list, nowMs, after: 'a@x.example', limit: 9 });
  await stage.act(suppressedAmongOperation, {
    nowMs,
    addresses: ['b@x.example', 'B@x.example', 'c@x.example'].map(hashed),
  });
  await stage.act(suppressedAmongOperation, { nowMs: nowMs + 50, addresses: [hashed('b@x.example')] });
  await stage.act(unsuppressOperation, { ...hashed('a@x.example'), nowMs });
  await stage.act(unsuppressOperation, { ...hashed('a@x.example'), nowMs });
};
