/** Refused requests: added (repeatedly without effect), listed in pages and by filters, and removed by age and number. */
import assert from 'node:assert/strict';
import {
  addRefusedOperation,
  listRefusedOperation,
  type RefusedRow,
  removeRefusedOperation,
} from '../../src/refused-requests/store.ts';
import type { Scenario } from './stage.ts';

export const refusedRequests: Scenario = async (stage) => {
  const [accountId, other] = [stage.id('acc'), stage.id('acc')];
  const row = (change: Partial<RefusedRow> = {}): RefusedRow => ({
    accountId,
    mode: 'live',
    at: stage.nowMs,
    requestId: stage.id('req'),
    number: 0,
    source: 'api',
    call: 'POST /send',
    status: 400,
    code: 'INVALID_REQUEST',
    message: 'Größe',
    details: '[]',
    credentialId: 'key_1',
    address: '192.0.2.1',
    ...change,
  });
  const batch = stage.id('req');
  const rows = [
    row({ at: stage.nowMs - 5 }),
    row({ source: 'smtp', call: null, status: 550, code: '5.7.1', credentialId: null }),
    row({ requestId: batch, number: 1 }),
    row({ requestId: batch, number: 2 }),
    row({ mode: 'sandbox' }),
    row({ accountId: other }),
  ];
  await stage.act(addRefusedOperation, { rows, trim: [] });
  await stage.act(addRefusedOperation, { rows: rows.slice(1, 3), trim: [{ accountId, mode: 'live' }] });
  const page = { accountId, mode: 'live', source: null, code: null, sinceMs: 0, untilMs: null, limit: 3 } as const;
  const first = await stage.act(listRefusedOperation, { ...page, before: null });
  assert.equal(first.length, 3);
  assert.equal((await stage.act(listRefusedOperation, { ...page, before: first[2]! })).length, 1);
  const all = { ...page, limit: 10, before: null };
  assert.equal((await stage.act(listRefusedOperation, { ...all, source: 'smtp' })).length, 1);
  assert.equal((await stage.act(listRefusedOperation, { ...all, code: 'INVALID_REQUEST' })).length, 3);
  assert.equal((await stage.act(listRefusedOperation, { ...all, untilMs: stage.nowMs - 1 })).length, 1);
  assert.equal((await stage.act(listRefusedOperation, { ...all, sinceMs: stage.nowMs })).length, 3);
  await stage.act(removeRefusedOperation, { beforeMs: stage.nowMs, limit: 10, after: null });
  const beforeMs = stage.nowMs + 1;
  const some = await stage.act(removeRefusedOperation, { beforeMs, limit: 2, after: null });
  assert.equal(some.count, 2);
  const rest = await stage.act(removeRefusedOperation, { beforeMs, limit: 2, after: some.next! });
  assert.equal(rest.count, 3);
  assert.equal(rest.next, undefined);
};
