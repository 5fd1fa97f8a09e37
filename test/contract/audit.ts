/** Scenarios of the audit log: entries of changes, lists, and removal. */
import assert from 'node:assert/strict';
import { newAccount } from '../../src/accounts/create.ts';
import { createAccountOperation, setAccountOperation } from '../../src/accounts/store.ts';
import { type Origin, systemOrigin } from '../../src/audit/audit.ts';
import { changeOperation, recordChangeOperation } from '../../src/audit/change.ts';
import { type AuditPage, auditOperation, removeAuditOperation } from '../../src/audit/store.ts';
import type { Operation } from '../../src/storage/operation.ts';
import type { Scenario, Stage } from './stage.ts';

const DAY = 86_400_000;
const everything: AuditPage = {
  accountId: null,
  mode: null,
  action: null,
  resource: null,
  resourceIds: null,
  actorId: null,
  fromId: '',
  belowId: 'aud_~',
  limit: 10,
};

/** Executes the change on behalf of `by`. */
function changeBy<A, R>(stage: Stage, by: Origin, op: Operation<A, R>, args: NoInfer<A>): Promise<unknown> {
  return stage.act(changeOperation, { name: op.name, args, by, id: stage.id('aud', by.atMs) });
}

export const audit: Scenario = async (stage) => {
  const account = { ...newAccount('Shop', 'paid', stage.nowMs), id: stage.id('acc') };
  const { id } = account;
  const actor = { kind: 'user', id: 'usr_1', name: 'ada@example.com' } as const;
  const by: Origin = { ...systemOrigin(stage.nowMs, id), actor, address: '192.0.2.1', requestId: 'req_1' };
  const set = { id, plan: null, status: null, approvedEmailBytes: null, nowMs: stage.nowMs };
  await changeBy(stage, by, createAccountOperation, { account, keys: [] });
  await changeBy(stage, by, setAccountOperation, { ...set, status: 'suspended' });
  await changeBy(stage, by, setAccountOperation, { ...set, status: 'suspended' });
  await changeBy(stage, { ...by, mode: 'sandbox' }, recordChangeOperation, {
    action: 'webhook.replay',
    resourceId: 'whk_1',
    requested: { since: 'then' },
  });
  // Without an author there is no entry.
  await stage.act(recordChangeOperation, { action: 'webhook.replay', resourceId: null, requested: {} });
  const rows = await stage.act(auditOperation, { ...everything, accountId: id });
  assert.deepEqual(
    rows.map((row) => row.action),
    ['webhook.replay', 'account.set', 'account.create'],
    'a call without changes leaves no entry',
  );
  assert.equal(JSON.parse(rows[1]!.beforeChange!).status, 'active');
  assert.equal(JSON.parse(rows[1]!.afterChange!).status, 'suspended');
  const read = (narrow: Partial<AuditPage>) => stage.act(auditOperation, { ...everything, accountId: id, ...narrow });
  assert.equal((await read({ mode: 'sandbox' })).length, 1);
  assert.equal(
    (await read({ action: 'account.set', resource: 'account', resourceIds: [id, 'other'], actorId: 'usr_1' })).length,
    1,
  );
  assert.equal((await read({ belowId: rows[0]!.id, limit: 1 })).length, 1);
  assert.equal((await read({ fromId: rows[0]!.id })).length, 1);

  const oldId = stage.id('aud', stage.nowMs - 500 * DAY);
  const old = { ...systemOrigin(stage.nowMs - 500 * DAY, id), actor };
  await stage.act(changeOperation, {
    name: setAccountOperation.name,
    args: { ...set, plan: 'free' },
    by: old,
    id: oldId,
  });
  assert.equal(await stage.act(removeAuditOperation, { beforeMs: stage.nowMs - 401 * DAY, limit: 10 }), 1);
  assert.equal((await read({})).length, 3);
};
