/** What an operator reads across accounts, and pauses that are ended: put-off mail comes back, and no other. */
import assert from 'node:assert/strict';
import { askApprovalOperation, createAccountOperation, decideApprovalOperation } from '../../src/accounts/store.ts';
import {
  askedResumesOperation,
  bringForwardOperation,
  resumeDestinationOperation,
} from '../../src/delivery/resume-store.ts';
import {
  accountPageOperation,
  approvalPageOperation,
  credentialCountsOperation,
  lastMessageOperation,
  queueByAccountOperation,
  queueByDomainOperation,
} from '../../src/operator/store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { acceptance } from '../kit/seed-mail.ts';
import { newAccount } from './accounts.ts';
import type { Scenario } from './stage.ts';

export const operatorReads: Scenario = async (stage) => {
  const first = { ...newAccount(stage), name: '100% Mail_Shop' };
  const second = { ...newAccount(stage, 'free'), name: '100 Mails' };
  for (const account of [first, second]) await stage.act(createAccountOperation, { account, keys: [] });
  const all = { name: null, status: null, plan: null, before: null, limit: 2 };
  const page = await stage.act(accountPageOperation, all);
  assert.deepEqual([page[0]!.id, page[1]!.id], [second.id, first.id], 'newest first');
  assert.equal((await stage.act(accountPageOperation, { ...all, name: '0% mail_' })).length, 1);
  assert.equal((await stage.act(accountPageOperation, { ...all, name: '100', plan: 'free' })).length, 1);
  const before = { ...all, name: '100', status: 'active' as const, before: second.id };
  assert.deepEqual(
    (await stage.act(accountPageOperation, before)).map(({ id }) => id),
    [first.id],
  );
  const ask = { accountId: first.id, requestedEmailBytes: 30_000_000, reason: 'Kataloge', nowMs: stage.nowMs };
  const [one, two] = [stage.id('apr'), stage.id('apr')];
  for (const id of [one, two]) await stage.act(askApprovalOperation, { ...ask, id, maximumPending: 9 });
  await stage.act(decideApprovalOperation, { id: one, status: 'rejected', reason: 'no', nowMs: stage.nowMs });
  const requests = { id: null, status: 'pending' as const, before: null, limit: 5, sinceMs: 0 };
  const [pending] = await stage.act(approvalPageOperation, requests);
  assert.deepEqual([pending!.id, pending!.rejectedBefore, pending!.mail.accepted], [two, 1, 0]);
  assert.equal((await stage.act(approvalPageOperation, { ...requests, status: null, before: two })).length, 1);
  await stage.act(credentialCountsOperation, { accountId: first.id, nowMs: stage.nowMs });
  assert.equal(await stage.act(lastMessageOperation, first.id), null);
};

export const endingPauses: Scenario = async (stage) => {
  const { nowMs } = stage;
  const accountId = stage.id('acc');
  const mail = (domain: string, sendAtMs: number, mode: 'live' | 'sandbox' = 'live') => {
    const made = acceptance({ accountId, mode, nowMs, sendAtMs, recipients: [`a@${domain}`] });
    const [email] = made.emails;
    const [recipient] = email!.recipients;
    const ids = { messageId: stage.id('msg'), sendEventId: stage.id('evt'), rejectEventId: stage.id('evt') };
    const lane = `${accountId}/${mode === 'sandbox' ? 'sandbox' : domain}`;
    return {
      ...made,
      emails: [{ ...email!, headerMessageId: '<x@y>', recipients: [{ ...recipient!, ...ids, lane }] }],
    };
  };
  const untilMs = nowMs + 60_000;
  await stage.act(acceptOperation, mail('paused.example', untilMs + 1_000));
  await stage.act(acceptOperation, mail('paused.example', untilMs + 90_000));
  await stage.act(acceptOperation, mail('unpaused.example', untilMs));
  await stage.act(acceptOperation, mail('paused.example', untilMs, 'sandbox'));
  await stage.act(lastMessageOperation, accountId);
  const queue = await stage.act(queueByAccountOperation, { nowMs, rows: 1_000 });
  const own = queue.find((row) => row.accountId === accountId);
  assert.deepEqual([own?.depth, own?.due, own?.name], [4, 0, null]);
  await stage.act(resumeDestinationOperation, { destination: 'paused.example', nowMs: nowMs - 8_000_000 });
  await stage.act(resumeDestinationOperation, { destination: 'other.example', nowMs: nowMs - 5 });
  await stage.act(resumeDestinationOperation, { destination: 'paused.example', nowMs });
  const asked = await stage.act(askedResumesOperation, nowMs - 1);
  assert.deepEqual(asked, [{ destination: 'paused.example', askedAt: nowMs }]);
  await stage.act(askedResumesOperation, 0);
  const span = {
    domains: ['none.example', 'paused.example'],
    fromMs: untilMs,
    untilMs: untilMs + 6_000,
    nowMs,
    limit: 10,
  };
  assert.equal(
    await stage.act(bringForwardOperation, span),
    1,
    'neither other domains nor other times nor the sandbox',
  );
  assert.equal(await stage.act(bringForwardOperation, span), 0);
  assert.equal(await stage.act(bringForwardOperation, { ...span, domains: null }), 1, 'behind a relay any domain');
  const domains = await stage.act(queueByDomainOperation, { rows: 1_000 });
  assert.deepEqual(domains.find(({ domain }) => domain === 'paused.example')?.depth, 2);
};
