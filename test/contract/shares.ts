/** Links to messages: created up to a limit, listed while they are valid, revoked, and deleted with their message or once expired. */
import assert from 'node:assert/strict';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import { removeEmailsOperation } from '../../src/messages/retention-store.ts';
import {
  createShareOperation,
  isSharedOperation,
  listSharesOperation,
  removeSharesOperation,
  revokeShareOperation,
  type SharePage,
  type ShareRow,
} from '../../src/messages/share-store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { acceptance, claimRequest, idsOf, settlement } from './mail.ts';
import type { Scenario } from './stage.ts';

const DAY = 86_400_000;

export const shares: Scenario = async (stage) => {
  const { nowMs } = stage;
  const owner = { accountId: stage.id('acc'), mode: 'live' } as const;
  const mails = ['a@x.example', 'b@x.example'].map((to) =>
    acceptance(stage, { accountId: owner.accountId, to: [to], change: { contentUntilMs: nowMs } }),
  );
  for (const one of mails) await stage.act(acceptOperation, one);
  const [first, second] = mails.map((one) => idsOf(one)[0]!) as [string, string];
  let created = 0;
  const share = (messageId: string, change: Partial<ShareRow> = {}): ShareRow => {
    created += 1;
    return {
      ...owner,
      id: stage.id('shr', nowMs + created),
      messageId,
      hideSubject: 0,
      hideContent: 1,
      createdAt: nowMs,
      expiresAt: nowMs + DAY,
      createdByKind: 'user',
      createdById: 'usr_1',
      createdByName: 'ann@shop.example',
      ...change,
    };
  };
  const create = (row: ShareRow, most = 2) => stage.act(createShareOperation, { share: row, most });
  const [one, brief, other] = [
    share(first),
    share(first, { expiresAt: nowMs + 1_000, createdByKind: 'system', createdById: null, createdByName: null }),
    share(second),
  ];
  for (const row of [one, brief, other]) assert.equal(await create(row), 'created');
  assert.equal(await create(share(first)), 'limit');
  assert.equal(await create(share(second, { mode: 'sandbox' })), 'no-message');
  assert.equal(await create(share('msg_none')), 'no-message');

  const page = { ...owner, messageId: null, before: null, limit: 10, nowMs };
  const listed = async (change: Partial<SharePage> = {}) =>
    (await stage.act(listSharesOperation, { ...page, ...change })).map(({ id }) => id);
  assert.deepEqual(await stage.act(listSharesOperation, { ...page, messageId: first }), [brief, one]);
  assert.deepEqual(await listed(), [other.id, brief.id, one.id]);
  assert.deepEqual(await listed({ before: other.id, limit: 1 }), [brief.id]);
  assert.deepEqual(await listed({ nowMs: nowMs + 1_000 }), [other.id, one.id], 'without the expired one');
  assert.deepEqual(await listed({ accountId: stage.id('acc') }), []);
  assert.equal(await create(share(first, { createdAt: nowMs + 1_000 })), 'created', 'an expired one is not counted');

  const key = { ...owner, id: one.id, messageId: first };
  assert.equal(await stage.act(isSharedOperation, key), true);
  for (const wrong of [
    { id: 'shr_none' },
    { accountId: 'acc_other' },
    { mode: 'sandbox' as const },
    { messageId: second },
  ])
    assert.equal(await stage.act(isSharedOperation, { ...key, ...wrong }), false);
  const revocation = { ...owner, id: one.id, nowMs };
  for (const wrong of [
    { id: 'shr_none' },
    { accountId: 'acc_other' },
    { mode: 'sandbox' as const },
    { nowMs: nowMs + DAY },
  ])
    assert.equal(await stage.act(revokeShareOperation, { ...revocation, ...wrong }), undefined);
  assert.deepEqual(await stage.act(revokeShareOperation, revocation), one);
  assert.equal(await stage.act(revokeShareOperation, revocation), undefined);
  assert.equal(await stage.act(isSharedOperation, key), false);

  const expired = { nowMs: nowMs + 1_000, limit: 10 };
  assert.equal(await stage.act(removeSharesOperation, { ...expired, nowMs: nowMs + 999 }), 0);
  assert.equal(await stage.act(removeSharesOperation, expired), 1);
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const own = jobs.filter(({ messageId }) => messageId === second);
  await stage.act(
    settleOperation,
    own.map((job) => settlement(stage, job)),
  );
  await stage.act(removeEmailsOperation, { beforeMs: nowMs + DAY, limit: 1_000, afterSeq: 0 });
  assert.equal(await stage.act(isSharedOperation, { ...key, id: other.id, messageId: second }), false);
  assert.equal((await listed()).length, 1, 'the other message is still queued');
};
