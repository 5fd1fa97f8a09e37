/** The request log: rows added (repeatedly without effect), listed in pages and by filters, counted, and removed by age and number. */
import assert from 'node:assert/strict';
import type { Owner } from '../../src/base/mode.ts';
import {
  addRequestsOperation,
  HOUR_MS,
  KEPT_SUCCEEDED,
  listRequestsOperation,
  omittedRequestsOperation,
  type RequestPage,
  type RequestRemoval,
  type RequestRow,
  removeRequestsOperation,
  searchRequestsOperation,
} from '../../src/request-log/store.ts';
import type { Scenario } from './stage.ts';

interface Removed {
  count: number;
  next: Owner | undefined;
}

/** A page without filters. */
export const EVERY_REQUEST = {
  failed: null,
  statuses: null,
  source: null,
  method: null,
  route: null,
  credentialId: null,
  messageId: null,
  code: null,
  sinceMs: 0,
  untilMs: null,
  before: null,
  limit: 10,
} as const satisfies Partial<RequestPage>;

export const requestLog: Scenario = async (stage) => {
  const [accountId, other] = [stage.id('acc'), stage.id('acc')];
  const row = (change: Partial<RequestRow> = {}): RequestRow => ({
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
  const succeeded = (change: Partial<RequestRow> = {}): RequestRow =>
    row({
      call: 'GET /messages/:id',
      path: '/messages/msg_1',
      status: 200,
      code: null,
      message: null,
      details: null,
      durationMs: 4,
      userAgent: 'curl/8.14.1',
      ...change,
    });
  const batch = stage.id('req');
  const rows = [
    row({ at: stage.nowMs - 5 }),
    row({ source: 'smtp', call: null, status: 550, code: '5.7.1', credentialId: null }),
    row({ requestId: batch, number: 1 }),
    row({ requestId: batch, number: 2 }),
    succeeded({ number: 3 }),
    succeeded({ number: 4, status: 202, call: 'POST /send', path: null, messageId: 'msg_1', credentialId: 'key_2' }),
    row({ mode: 'sandbox' }),
    row({ accountId: other }),
  ];
  const hour = stage.nowMs - (stage.nowMs % HOUR_MS);
  const counts = (change: object) => ({ accountId, mode: 'live', hour, recorded: 0, omitted: 0, ...change });
  const owner = { accountId, mode: 'live' } as const;
  await stage.act(addRequestsOperation, { rows, counts: [counts({ recorded: 2, omitted: 3 })], trim: [] });
  await stage.act(addRequestsOperation, { rows: rows.slice(1, 5), counts: [counts({ omitted: 4 })], trim: [owner] });

  const list = (change: Partial<RequestPage>) =>
    stage.act(listRequestsOperation, { ...EVERY_REQUEST, ...owner, ...change });
  const first = await list({ limit: 3 });
  assert.deepEqual(
    first.map(({ number }) => number),
    [4, 3, 2],
  );
  assert.equal((await list({ limit: 10, before: first[2]! })).length, 3);
  for (const [filter, count] of [
    [{ failed: true }, 4],
    [{ failed: false }, 2],
    [{ failed: true, source: 'smtp' }, 1],
    [{ failed: true, code: 'INVALID_REQUEST' }, 3],
    [{ failed: true, statuses: [500, 599] }, 1],
    [{ untilMs: stage.nowMs - 1 }, 1],
    [{ sinceMs: stage.nowMs }, 5],
  ] as const)
    assert.equal((await list(filter)).length, count, JSON.stringify(filter));

  const search = (change: Partial<RequestPage>, count = 10) =>
    stage.act(searchRequestsOperation, { page: { ...EVERY_REQUEST, ...owner, ...change }, rows: count });
  for (const [filter, count] of [
    [{ statuses: [202, 202] }, 1],
    [{ method: 'GET' }, 1],
    [{ method: 'POST' }, 4],
    [{ route: '/send' }, 4],
    [{ route: '/messages/:id', method: 'GET' }, 1],
    [{ route: '/messages/:id', method: 'PATCH' }, 0],
    [{ credentialId: 'key_2' }, 1],
    [{ messageId: 'msg_1' }, 1],
  ] as const) {
    const { found, end } = await search(filter);
    assert.equal(found.length, count, JSON.stringify(filter));
    assert.equal(end, null);
  }
  const part = await search({ credentialId: 'key_1' }, 2);
  assert.deepEqual([part.found.length, part.end?.number], [1, 3], 'a part ends at its last row');
  assert.equal((await search({ credentialId: 'key_1', before: part.end })).found.length, 3);

  const omitted = (sinceMs: number, untilMs: number | null) =>
    stage.act(omittedRequestsOperation, { ...owner, sinceMs, untilMs });
  assert.equal(await omitted(0, null), 7);
  assert.equal(await omitted(stage.nowMs, stage.nowMs), 7, 'an hour is counted in each of its periods');
  assert.equal(await omitted(hour + HOUR_MS, null), 0);
  assert.equal(await omitted(0, hour - 1), 0);

  // The hours before the one with which the account is over its limit.
  const early = hour - 2 * HOUR_MS;
  const older = [succeeded({ at: early, number: 5 }), row({ at: early, number: 6 })];
  const manyCounts = [counts({ hour: hour - HOUR_MS, recorded: KEPT_SUCCEEDED }), counts({ hour: early, recorded: 1 })];
  await stage.act(addRequestsOperation, { rows: older, counts: manyCounts, trim: [] });
  const surplus = await stage.act(removeRequestsOperation, { beforeMs: 1, limit: 10, after: null });
  assert.equal(surplus.count, 1);
  assert.deepEqual(
    (await list({ untilMs: early })).map(({ number }) => number),
    [6],
    'the failed request is kept',
  );

  const beforeMs = stage.nowMs + 1;
  const removals: number[] = [];
  for (let after: RequestRemoval['after'] | undefined = null; after !== undefined; ) {
    const removed: Removed = await stage.act(removeRequestsOperation, { beforeMs, limit: 3, after });
    removals.push(removed.count);
    after = removed.next;
  }
  assert.equal(removals[0], 3);
  assert.equal(
    removals.reduce((sum, count) => sum + count),
    9,
  );
  assert.equal(await omitted(0, null), 0, 'counts are removed with their hours');
};
