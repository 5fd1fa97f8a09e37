/** Asserts that a list of the API accepts `limit` and `cursor`, and that its pages together have the rows of the list, each once. */
import assert from 'node:assert/strict';
import type { JsonObject } from './api.ts';

interface ListAnswer {
  status: number;
  headers: Headers | Record<string, string>;
  body: unknown;
}

export async function assertPaged(
  path: string,
  get: (path: string) => Promise<ListAnswer>,
  idOf: (row: JsonObject) => unknown,
): Promise<void> {
  const ids = ({ body }: ListAnswer): unknown[] => (body as JsonObject[]).map(idOf);
  const whole = ids(await get(path));
  assert.ok(whole.length > 0);
  const read: unknown[] = [];
  let cursor: string | null = null;
  do {
    const page = await get(`${path}?limit=1${cursor === null ? '' : `&cursor=${cursor}`}`);
    assert.equal(page.status, 200, JSON.stringify(page.body));
    assert.equal(ids(page).length, 1);
    read.push(...ids(page));
    const headers = new Headers(page.headers);
    cursor = headers.get('x-next-cursor');
    const next = cursor === null ? null : `<${path}?limit=1&cursor=${cursor}>; rel="next"`;
    assert.equal(headers.get('link'), next);
  } while (cursor !== null);
  assert.deepEqual(read, whole);
  for (const query of ['limit=0', 'limit=101', 'cursor=x', 'page=1'])
    assert.equal((await get(`${path}?${query}`)).status, 400, query);
}
