/** Saved filters: private or shared, up to a limit, with unique names, and deleted with the membership of their user. */
import assert from 'node:assert/strict';
import { createAccountOperation } from '../../src/accounts/store.ts';
import { findTextsOperation } from '../../src/erasure/find-store.ts';
import { type Invitation, inviteOperation, removeMemberOperation } from '../../src/users/member-store.ts';
import {
  changeFilterOperation,
  type FilterKey,
  type FilterPage,
  removeFilterOperation,
  type SavedFilter,
  savedFilterOperation,
  savedFiltersOperation,
  saveFilterOperation,
} from '../../src/users/saved-filter-store.ts';
import { newAccount } from './accounts.ts';
import type { Scenario } from './stage.ts';

export const savedFilters: Scenario = async (stage) => {
  const { nowMs } = stage;
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const join = async (email: string): Promise<string> => {
    const id = stage.id('usr');
    const invitation: Invitation = {
      accountId: account.id,
      role: 'member',
      user: { id, email, emailVerified: 1, isOperator: 0, passwordHash: null, createdAt: nowMs },
      token: {
        tokenHash: Buffer.from(email.padEnd(32, '.')),
        userId: id,
        purpose: 'invitation',
        byMail: 1,
        createdAt: nowMs,
        expiresAt: nowMs + 1_000,
      },
      mayHaveAtMost: 5,
      byOperator: true,
      name: email,
      nowMs,
    };
    assert.equal((await stage.act(inviteOperation, invitation)).outcome, 'invited');
    return id;
  };
  const [ann, bob] = [await join('ann.filters@example.com'), await join('bob.filters@example.com')];
  const owner = { accountId: account.id, mode: 'live' } as const;
  let created = 0;
  const filter = (change: Partial<SavedFilter> = {}): SavedFilter => {
    created += 1;
    return {
      ...owner,
      id: stage.id('flt', nowMs + created),
      userId: ann,
      list: 'messages',
      name: `Filter ${created}`,
      query: JSON.stringify({ status: 'bounced' }),
      createdAt: nowMs,
      ...change,
    };
  };
  const save = (row: SavedFilter, most = 3) => stage.act(saveFilterOperation, { filter: row, most });
  const [own, events, shared, inSandbox] = [
    filter(),
    filter({ list: 'events', name: 'Filter 1' }),
    filter({ userId: null, name: 'Filter 1' }),
    filter({ mode: 'sandbox', name: 'Filter 1' }),
  ];
  for (const row of [own, events, shared, inSandbox]) assert.equal(await save(row), 'saved', row.id);
  assert.equal(await save(filter({ name: 'Filter 1' })), 'name-taken');
  assert.equal(await save(filter({ userId: null, name: 'Filter 1' })), 'name-taken');
  assert.equal(await save(filter({ userId: stage.id('usr') })), 'no-member');
  const last = filter({ query: JSON.stringify({ to: 'Eve@Example.com' }) });
  assert.equal(await save(last), 'saved');
  assert.equal(await save(filter()), 'limit');
  const ofBob = filter({ userId: bob });
  assert.equal(await save(ofBob), 'saved', 'the limit applies to each user');

  const page = { ...owner, userId: ann, list: null, before: null, limit: 10 };
  const listed = async (change: Partial<FilterPage> = {}) =>
    (await stage.act(savedFiltersOperation, { ...page, ...change })).map(({ id }) => id);
  assert.deepEqual(await stage.act(savedFiltersOperation, { ...page, list: 'events' }), [events]);
  assert.deepEqual(await listed(), [last.id, shared.id, events.id, own.id]);
  assert.deepEqual(await listed({ before: shared.id, limit: 1 }), [events.id]);
  assert.deepEqual(await listed({ userId: bob }), [ofBob.id, shared.id]);
  assert.deepEqual(await stage.act(savedFiltersOperation, { ...page, mode: 'sandbox' }), [inSandbox]);
  assert.deepEqual(await listed({ accountId: stage.id('acc') }), []);

  const key = (row: SavedFilter, change: Partial<FilterKey> = {}): FilterKey => ({
    ...owner,
    id: row.id,
    userId: ann,
    mayShare: true,
    ...change,
  });
  assert.deepEqual(await stage.act(savedFilterOperation, key(own)), own);
  for (const wrong of [{ userId: bob }, { mode: 'sandbox' as const }, { accountId: 'acc_other' }, { id: 'flt_none' }]) {
    assert.equal(await stage.act(savedFilterOperation, key(own, wrong)), undefined);
    assert.equal(await stage.act(changeFilterOperation, { ...key(own, wrong), name: 'Mine' }), 'unknown');
    assert.equal(await stage.act(removeFilterOperation, key(own, wrong)), 'unknown');
  }
  assert.equal(await stage.act(changeFilterOperation, { ...key(shared, { mayShare: false }), name: 'x' }), 'shared');
  assert.equal(await stage.act(removeFilterOperation, key(shared, { mayShare: false })), 'shared');
  assert.equal(await stage.act(changeFilterOperation, { ...key(last), name: 'Filter 1' }), 'name-taken');
  const renamed = { ...own, name: 'Mine' };
  assert.deepEqual(await stage.act(changeFilterOperation, { ...key(own), name: 'Mine' }), renamed);
  const query = JSON.stringify({ q: 'invoice' });
  assert.deepEqual(await stage.act(changeFilterOperation, { ...key(own), query }), { ...renamed, query });
  assert.deepEqual(await stage.act(removeFilterOperation, key(events)), events);
  assert.equal(await stage.act(removeFilterOperation, key(events)), 'unknown');

  const look = { ...owner, address: 'eve@example.com', after: null, rows: 10, limit: 10 };
  assert.deepEqual((await stage.act(findTextsOperation, { ...look, part: 'savedFilters' })).found, [[last.id]]);

  await stage.act(removeMemberOperation, { accountId: account.id, userId: bob });
  assert.equal(await stage.act(savedFilterOperation, key(ofBob, { userId: bob })), undefined);
  assert.deepEqual(await listed(), [last.id, shared.id, own.id], 'those of other users and shared ones remain');
};
