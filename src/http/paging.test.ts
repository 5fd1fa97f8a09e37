/** Pages: limits, cursors that continue exactly, and invalid cursors. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cursorOf, type Page, pageAnswer, readPage } from './paging.ts';

const ROWS = Array.from({ length: 60 }, (_, index) => ({ at: 1_000 - Math.floor(index / 7), id: `msg_${99 - index}` }));

/** Simulates a store: newest first, strictly after the key, with one row more than requested. */
function fetchRows({ limit, after }: Page): typeof ROWS {
  const start = after === undefined ? 0 : ROWS.findIndex((row) => row.id === after[1]) + 1;
  return ROWS.slice(start, start + limit + 1);
}

function ask(url: string, query: { limit?: number; cursor?: string }) {
  const read = readPage(query, ['number', 'string']);
  assert.ok(read.ok);
  return pageAnswer(
    { url },
    { page: read.value, rows: fetchRows(read.value), keyOf: (row) => [row.at, row.id], show: (row) => row.id },
  );
}

test('pages contain every row once, and the last page has no next link', () => {
  const seen: unknown[] = [];
  let cursor: string | undefined;
  let pages = 0;
  do {
    const page = ask('/messages?tag=a%20b', cursor === undefined ? { limit: 20 } : { limit: 20, cursor });
    seen.push(...(page.body as unknown[]));
    cursor = page.headers?.['X-Next-Cursor'] as string | undefined;
    assert.equal(page.headers?.Link, cursor && `</messages?tag=a+b&cursor=${cursor}>; rel="next"`);
    pages += 1;
  } while (cursor !== undefined);
  assert.equal(pages, 3);
  assert.deepEqual(
    seen,
    ROWS.map((row) => row.id),
  );
});

test('a page has 25 rows by default', () => {
  assert.equal((ask('/messages', {}).body as unknown[]).length, 25);
});

test('a followed log has a cursor at its end', () => {
  const read = readPage({ cursor: cursorOf([1, 'x']) }, ['number', 'string']);
  assert.ok(read.ok);
  const empty = pageAnswer(
    { url: '/events' },
    { page: read.value, rows: [], keyOf: () => [], show: String, follow: true },
  );
  assert.deepEqual(empty, { ok: true, body: [], headers: { 'X-Next-Cursor': cursorOf([1, 'x']) } });
});

test('a cursor of another list returns 400 and is named', () => {
  const foreign = [
    'x',
    '!!',
    'bm90IGpzb24',
    cursorOf([1]),
    cursorOf(['a', 'b']),
    cursorOf([1, 'a', 2]),
    cursorOf([1.5, 'a']),
    cursorOf([2 ** 53, 'a']),
    cursorOf([1e308, 'a']),
    Buffer.from('{"a":1}').toString('base64url'),
  ];
  for (const cursor of foreign) {
    const read = readPage({ cursor }, ['number', 'string']);
    assert.ok(!read.ok, cursor);
    assert.equal(read.failure.code, 'INVALID_REQUEST');
    assert.equal(read.failure.details[0]?.field, 'cursor');
  }
});

test('an ID in a sort key is recognized by its prefix', () => {
  assert.ok(readPage({ cursor: cursorOf(['msg_0VbXpTTM0000000000002']) }, ['msg_']).ok);
  for (const foreign of ['zzz', 'evt_0VbXpTTM0000000000002', 'msg_ü', `msg_${'x'.repeat(100)}`]) {
    assert.equal(readPage({ cursor: cursorOf([foreign]) }, ['msg_']).ok, false, foreign);
  }
});
