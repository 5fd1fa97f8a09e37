/** The fields of saved filters: those of the portal's pages are those that the API accepts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FILTER_FIELDS, filterOf, isSameFilter } from '../../portal/src/parts/filter-fields.ts';
import { FILTERED_LISTS } from '../../src/api/users-saved-filters.ts';

test('the portal and the API know the same lists and fields', () => {
  assert.deepEqual(FILTER_FIELDS, FILTERED_LISTS);
});

test('a filter consists of the fields of its list that are set', () => {
  const search = { status: 'bounced', q: '', range: undefined, account: 'acc_1', open: 'msg_1' };
  assert.deepEqual(filterOf('messages', search), { status: 'bounced' });
  assert.ok(isSameFilter('messages', { status: 'bounced' }, search));
  assert.ok(!isSameFilter('messages', { status: 'bounced', tags: 'receipt' }, search));
  assert.ok(!isSameFilter('messages', {}, search));
});
